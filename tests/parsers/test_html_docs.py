"""Pages as documentation generators write them: each kind found on 618 public pages of 43 sets."""

from __future__ import annotations

import pytest

from agent_rag.chunkers import AutoChunker
from agent_rag.parsers import HTMLParser

Headings = list[tuple[int, str]]


async def _read(page: str) -> tuple[str, Headings]:
    (section,) = await HTMLParser().parse(page.encode(), "a.html")
    for item in section.headings:
        assert section.text[item.offset :].startswith("#" * item.level + " " + item.title)
    return section.text, [(item.level, item.title) for item in section.headings]


@pytest.mark.parametrize(
    ("page", "text", "headings"),
    [
        (
            "<ul><li><section><h3>one</h3><p>t</p></section></li></ul>",
            "### one\n\nt",
            [(3, "one")],
        ),
        (
            "<ul><li>plain</li><li><ul><li><h4>deep</h4><pre>f()</pre></li></ul></li></ul>",
            "- plain\n\n#### deep\n\n```\nf()\n```",
            [(4, "deep")],
        ),
        (
            "<details><summary><section><h4>pub fn <a href=x>f</a>()</h4></section></summary><p>does</p></details>",
            "#### pub fn f()\n\ndoes",
            [(4, "pub fn f()")],
        ),
    ],
    ids=["Javadoc", "nested lists", "rustdoc"],
)
async def test_headings_in_lists_and_summaries_are_headings(page: str, text: str, headings: Headings) -> None:
    """The list around parts of a page is dropped."""
    assert await _read(page) == (text, headings)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "<table><tr><td colspan=2><h2>Functions</h2></td></tr><tr><td>int</td><td>size (int n)</td></tr></table>",
            "## Functions\n\n|  |  |\n| --- | --- |\n| int | size (int n) |",
        ),
        (
            "<table><tr><th>k<th>v</tr><tr><td>a</td><td><ul><li>one<li>two</ul></td></tr><tr><td>b<td>c</tr></table>",
            "| k | v |\n| --- | --- |\n| a | - one<br>- two |\n| b | c |",
        ),
        (
            "<table><tr><th>k<th>v</tr><tr><td>a</td><td><pre>x = 1\ny = 2</pre></td></tr></table>",
            "| k | v |\n| --- | --- |\n| a | x = 1<br>y = 2 |",
        ),
    ],
    ids=["Doxygen members", "a list in a cell", "code in a cell"],
)
async def test_one_structured_cell_leaves_the_other_rows_alone(page: str, expected: str) -> None:
    """A heading stands between two tables; a list or code becomes lines of its cell."""
    assert (await _read(page))[0] == expected


@pytest.mark.parametrize(
    ("page", "first_line"),
    [
        ("<table><tr><td>a<td>b<tr><td>1<td>2</table>", "|  |  |"),
        ("<table><tr><th>Key<td>value<tr><th>Key 2<td>value 2</table>", "|  |  |"),
        ("<table><tr><td><th>x<th>y<tr><th>r<td>1<td>2</table>", "|  | x | y |"),
        ("<table><thead><tr><td>a<td>b</thead><tr><td>1<td>2</table>", "| a | b |"),
    ],
    ids=["no th", "row th", "empty corner", "thead"],
)
async def test_only_what_the_page_calls_a_header_is_one(page: str, first_line: str) -> None:
    """`thead`, or a row of `th`; else the header is empty."""
    assert (await _read(page))[0].splitlines()[:1] == [first_line]


async def test_a_data_row_is_not_repeated_in_every_chunk() -> None:
    """A long table without `th`."""
    rows = "".join(f"<tr><td>name{i}<td>value of the thing {i}" for i in range(200))
    sections = await HTMLParser().parse(f"<table>{rows}</table>".encode(), "a.html")

    chunks = await AutoChunker().chunk(sections)

    assert len(chunks) > 3
    assert sum("name0 " in chunk.text for chunk in chunks) == 1


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            '<div class="fragment"><div class="line"><span class="lineno">  1</span>int f() {</div>\n'
            '<div class="line">  return 1;</div>\n<div class="line"></div>\n<div class="line">}</div></div>',
            "```\nint f() {\n  return 1;\n\n}\n```",
        ),
        ('<div style="white-space: pre">a\n  b</div>', "```\na\n  b\n```"),
        ("<pre>struct G<div>where T: Copy</div>;</pre>", "```\nstruct G\nwhere T: Copy\n;\n```"),
        ("<code><pre>a\n b</pre></code>", "```\na\n b\n```"),
        ("<code>a<br>b</code>", "```\na\nb\n```"),
    ],
    ids=["Doxygen lines", "style", "block in pre", "pre in code", "br in code"],
)
async def test_code_keeps_its_lines(page: str, expected: str) -> None:
    """Whatever makes them."""
    assert (await _read(page))[0] == expected


async def test_numbers_above_and_below_the_line_stay_apart() -> None:
    """Powers, indices, notes; ordinals, marks and formulas of chemistry are written as one reads them."""
    page = (
        "<p>2<sup>32</sup>, 10<sup>-6</sup>, x<sub>1</sub>, see<sup>3</sup></p><p>km<sup>2</sup> 1<sup>st</sup> "
        "H<sub>2</sub>O V<sub>in</sub> end.<sup><a href='#n1'>1</a></sup> x<sup>n+1</sup> Tool<sup>TM</sup></p>"
    )

    assert (await _read(page))[0] == ("2^32, 10^-6, x_1, see[3]\n\nkm^2 1st H2O V_in end.[1] x^(n+1) ToolTM")


@pytest.mark.parametrize("main", ["<main>{}</main>", "<div role=main>{}</div>"])
async def test_a_main_that_is_not_empty_is_the_page(main: str) -> None:
    """mdBook's menus, themes and keyboard shortcuts stand outside; a title above it is kept."""
    around = "<div>Keyboard shortcuts</div><ul><li>Auto<li>Light<li>Rust</ul>{}<footer>about</footer>"

    assert (await _read(around.format(main.format("<h1>Real</h1><p>x</p>")))) == ("# Real\n\nx", [(1, "Real")])
    assert (await _read("<h1>Title</h1>" + around.format(main.format("<p>x</p>"))))[0] == "# Title\n\nx"
    assert "Light" in (await _read(around.format(main.format(" "))))[0]


@pytest.mark.parametrize(
    "page",
    [
        "<pre><a href=#1 id=1 data-nosnippet>1</a>use x;\n<a href=#2 id=2 data-nosnippet>2</a>fn f() {}</pre>",
        '<pre><span class="linenos">1</span>use x;\n<span class="lineno">2</span>fn f() {}</pre>',
        '<table><tr><td class="linenos"><pre>1\n2</pre></td><td class="code"><pre>use x;\nfn f() {}</pre></td></table>',
        '<pre><span class="source-line-no">001</span>use x;\n<span class="source-line-no">002</span>fn f() {}</pre>',
        '<table><tr><td class="listing_lines"><pre>1\n2</pre></td><td><pre>use x;\nfn f() {}</pre></td></tr></table>',
    ],
    ids=["rustdoc", "Pygments", "Pygments table", "Javadoc", "gtk-doc"],
)
async def test_line_numbers_are_no_code(page: str) -> None:
    """They would stand inside of words."""
    assert (await _read(page))[0] == "```\nuse x;\nfn f() {}\n```"


async def test_every_tab_is_read() -> None:
    """A click shows it."""
    page = "<div role=tabpanel>npm install</div><div role=tabpanel hidden>yarn add</div><div hidden>gone</div>"

    assert (await _read(page))[0] == "npm install\n\nyarn add"


@pytest.mark.parametrize(
    ("page", "text", "headings"),
    [
        ('<h2>Basic Usage<a class="headerlink" href="#b">¶</a></h2>', "## Basic Usage", "Basic Usage"),
        ('<h2><a href="#x" class="doc-anchor">§</a>Examples</h2>', "## Examples", "Examples"),
        ('<h2>Setup<a class="hash-link" href="#s">\u200b</a></h2>', "## Setup", "Setup"),
        ("<h2><span>Use</span><button>Copy link</button></h2>", "## Use", "Use"),
        (
            '<h1>Struct <span class="struct">Vec</span> <button id="copy-path">Copy item path</button></h1>',
            "# Struct Vec",
            "Struct Vec",
        ),
        ("<h2><button>When does it open?</button></h2>", "## When does it open?", "When does it open?"),
        ("<h2>C# and §3 ¶ 4</h2>", "## C# and §3 ¶ 4", "C# and §3 ¶ 4"),
        ('<h3>impl <a href="t.html">T</a> for <code>Vec</code></h3>', "### impl T for Vec", "impl T for Vec"),
        ('<h3>impl !<a href="t.html">Sync</a></h3>', "### impl !Sync", "impl !Sync"),
    ],
)  # fmt: skip
async def test_a_heading_reads_as_its_author_wrote_it(page: str, text: str, headings: str) -> None:
    """Without permalinks, buttons and targets; an author's own signs stay. (PA06)"""
    assert await _read(page) == (text, [(int(page[2]), headings)])


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<dt>json.dump(obj)<a class="headerlink">¶</a></dt>', "json.dump(obj)"),
        ('<pre>import json<button class="copybtn">Copy</button></pre>', "```\nimport json\n```"),
        ('<p>Run it.</p><button class="copy-button">Copy</button>', "Run it."),
        ('<p>x</p><div class="cookie-banner">We use cookies</div>', "x"),
        ("<p>Press <button>Save</button>.</p>", "Press Save ."),
        ("<button>All Methods</button><button>Instance Methods</button>", "All Methods Instance Methods"),
        ('<p>impl !<a href="t.html">Sync</a></p>', "impl !Sync"),
    ],
)
async def test_controls_of_the_page_are_no_text(page: str, expected: str) -> None:
    """Permalinks, copy buttons, cookie banners; other buttons have a label that a text may speak of."""
    assert (await _read(page))[0] == expected


@pytest.mark.parametrize(
    ("page", "language"),
    [
        ('<div class="highlight-python3 notranslate"><div class="highlight"><pre>x</pre></div></div>', "python3"),
        ('<pre class="rust rust-example-rendered"><code>x</code></pre>', "rust"),
        ('<pre class="sourceCode python"><code class="sourceCode python">x</code></pre>', "python"),
        ('<pre class="brush: java">x</pre>', "java"),
        ('<pre><code class="hljs python">x</code></pre>', "python"),
        ('<pre data-lang="go">x</pre>', "go"),
        ('<div class="highlight-default"><pre>x</pre></div>', ""),
        ('<pre class="programlisting">x</pre>', ""),
    ],
)
async def test_the_language_of_code_is_read(page: str, language: str) -> None:
    """From where each generator puts it."""
    assert (await _read(page))[0] == f"```{language}\nx\n```"


@pytest.mark.parametrize(
    "navigation",
    [
        '<div class="navheader"><table summary="Navigation header"><tr><td>Prev<td>Chapter 1<td>Next</table></div>',
        '<div class="nav-panel"><p>Next: <a href="b">B</a>, Up: <a href="u">Top</a> [<a href="i">Index</a>]</p></div>',
        '<p>Next: <a href="b.html">B</a>, Previous: <a href="a.html">A</a>, Up: <a href="u.html">U</a></p>',
        "<!--Navigation Panel--><a href=n><img alt=next src=n></a> Up: <a href=u>T</a><!--End of Navigation Panel-->",
        '<table class="navigation" role="navigation"><tr><td><a href="i">Home</a><td>GTK</table>',
    ],
    ids=["DocBook", "Texinfo", "Texinfo 4", "LaTeX2HTML", "gtk-doc"],
)  # fmt: skip
async def test_navigation_without_nav_is_no_text(navigation: str) -> None:
    """What leads to the next page is no part of this one."""
    assert (await _read(f"{navigation}<h1>Page</h1><p>first</p><p>second</p>"))[0] == "# Page\n\nfirst\n\nsecond"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "<p>is <math><semantics><msup><mi>x</mi><mn>2</mn></msup>"
            '<annotation encoding="application/x-tex">x^2</annotation></semantics></math>.</p>',
            "is $x^2$.",
        ),
        (
            '<p><span class="katex"><span class="katex-mathml"><math><semantics><mrow><mi>x</mi></mrow>'
            '<annotation encoding="application/x-tex">x^2</annotation></semantics></math></span>'
            '<span class="katex-html" aria-hidden="true">x2</span></span></p>',
            "$x^2$",
        ),
        ('<p>so <script type="math/tex">a_1</script> holds</p>', "so $a_1$ holds"),
        ('<script type="math/tex; mode=display">a_1</script>', "$$a_1$$"),
        ("<math><msup><mi>x</mi><mn>2</mn></msup><mo>+</mo><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "x^2+1/2"),
    ],
    ids=["MathML", "KaTeX", "MathJax", "MathJax display", "no annotation"],
)
async def test_a_formula_is_read_once(page: str, expected: str) -> None:
    """As its TeX where the page has it."""
    assert (await _read(page))[0] == expected


async def test_text_that_looks_like_markdown_stays_text() -> None:
    """A fence or a hash in a paragraph does not mislead the chunker about what stands below."""
    page = "<h1>T</h1><p># x</p><p>```</p><h2>U</h2><p>below</p>"
    (section,) = await HTMLParser().parse(page.encode(), "a.html")

    chunks = await AutoChunker().chunk([section])

    assert section.text == "# T\n\n\\# x\n\n\\```\n\n## U\n\nbelow"
    assert [(chunk.heading_path, chunk.text.strip()) for chunk in chunks] == [
        (["T"], "# T\n\n\\# x\n\n\\```"),
        (["T", "U"], "## U\n\nbelow"),
    ]


async def test_code_that_is_cut_keeps_its_fence_and_language() -> None:
    """In each of its chunks."""
    lines = "\n".join(f"value_{i} = compute({i})" for i in range(100))
    sections = await HTMLParser().parse(f'<pre data-lang="python">{lines}</pre>'.encode(), "a.html")

    chunks = await AutoChunker().chunk(sections)

    assert len(chunks) > 2
    assert all(chunk.text.startswith("```python\n") and chunk.text.endswith("\n```") for chunk in chunks)
    assert all(len(chunk.text) <= 1000 for chunk in chunks)
    assert [line for chunk in chunks for line in chunk.text.split("\n") if "value" in line] == lines.split("\n")


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>Use<code> foo </code>now</p>", "Use `foo` now"),
        ("<p><code>a.</code><code>b</code> and <code>x`y</code></p>", "`a.b` and ``x`y``"),
        ("<table><tr><th>p<th>q<tr><td>C:\\dir\\x<td>a|b</table>", "| p | q |\n| --- | --- |\n| C:\\dir\\x | a\\|b |"),
    ],
    ids=["spaces", "neighbours", "backslashes"],
)
async def test_inline_code_and_cells_read_as_written(page: str, expected: str) -> None:
    """Spaces stand outside of code, neighbours are one, backslashes are not doubled."""
    assert (await _read(page))[0] == expected
