"""HTML becomes Markdown of its main text."""

from __future__ import annotations

import base64

import pytest

from agent_rag.parsers import HTMLParser

from .samples import decoded, png_sample


async def _markdown(page: str) -> str:
    return (await HTMLParser().parse(page.encode(), "a.html"))[0].text


async def test_a_page_keeps_its_structure() -> None:
    """Headings with offsets, lists, links, code, images; boilerplate, scripts and what is hidden are out."""
    page = """<!doctype html><html><head><title> Rain
      book </title><style>b{}</style></head><body><nav>NAV</nav><header><button>SITE</button></header>
    <main><header><h1>Rain <em>here</em></h1></header><p>See <a href="http://x.y/a b">the list</a>, <code>a|b</code>
    and<br>more.</p><ul><li>one<ul><li>nested</li></ul></li><li><p>two</p></li></ul><ol start=3><li>three<li>four</ol>
    <pre><code class="language-python">def f():
    return 1 &lt; 2</code></pre><h2>Wind</h2><img src="a.png" alt="An  arrow"><div hidden>HID</div>
    <p style="display:none">HID</p><template>HID</template><noscript>HID</noscript><script>HID()</script>
    <dl><dt>Term<dd>Meaning</dl></main><footer><a href="/i">FOOT</a></footer></body></html>"""

    section = (await HTMLParser().parse(page.encode(), "a.html"))[0]

    assert section.text == (
        "# Rain here\n\nSee [the list](http://x.y/a%20b), `a|b` and\nmore.\n\n- one\n  - nested\n- two\n\n"
        "3. three\n4. four\n\n```python\ndef f():\n    return 1 < 2\n```\n\n## Wind\n\n"
        "![An arrow](a.png)\n\nTerm\n\nMeaning"
    )
    assert section.metadata == {"format": "markdown", "title": "Rain book"}
    assert [(h.level, h.title, section.text[h.offset :][:6]) for h in section.headings] == [
        (1, "Rain here", "# Rain"),
        (2, "Wind", "## Win"),
    ]


async def test_text_outside_paragraphs_is_read_once_and_in_order() -> None:
    """P33: div, span and section hold text too."""
    page = (
        "<body><div>Loose one</div><section><span>Loose two</span><div>Lead <b>bold</b> tail</div></section>"
        "bare<center>old</center></body>"
    )

    assert await _markdown(page) == "Loose one\n\nLoose two\n\nLead bold tail\n\nbare\n\nold"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("<p>Доброе утро, Größe 早间</p>".encode(), "Доброе утро, Größe 早间"),
        ("<meta charset=gb2312><p>早间新闻</p>".encode("gb2312"), "早间新闻"),
        ('<meta http-equiv=Content-Type content="text/html; charset=shift_jis"><p>日本</p>'.encode("cp932"), "日本"),
        ("<p>Größe</p>".encode("cp1252"), "Größe"),
        ("<html><body><p>Größe, 早间</p></body></html>".encode("utf-16"), "Größe, 早间"),
        ("<meta charset=iso-8859-1><p>Größe 早间</p>".encode(), "Größe 早间"),
    ],
    ids=["utf-8 unnamed", "gb2312 named", "shift_jis in http-equiv", "cp1252 unnamed", "utf-16", "utf-8 misnamed"],
)
async def test_the_charset_is_found(data: bytes, expected: str) -> None:
    """P31: no mojibake with, without or against a declaration."""
    assert (await HTMLParser().parse(data, "a.html"))[0].text == expected


async def test_merged_cells_stand_once_in_their_columns() -> None:
    """colspan and rowspan pad with empty cells; a caption stands above, a bar is escaped, no row is cut."""
    page = (
        "<table><caption>Rain</caption><tr><th>City<th colspan=2>mm</tr><tr><td rowspan=2>Oslo|W<td>1<td>2</tr>"
        "<tr><td>3<td>4</tr><tr><td>Bergen<td>5<td>6<td>7</table>"
    )

    assert await _markdown(page) == (
        "Rain\n\n| City | mm |  |  |\n| --- | --- | --- | --- |\n| Oslo\\|W | 1 | 2 |  |\n|  | 3 | 4 |  |\n"
        "| Bergen | 5 | 6 | 7 |"
    )


async def test_a_table_for_layout_is_read_as_blocks() -> None:
    """One that holds headings, lists or another table."""
    page = "<table><tr><td><h2>Left</h2>text<td><table><tr><td>a<td>b<tr><td>1<td>2</table></table>"

    assert await _markdown(page) == "## Left\n\ntext\n\n|  |  |\n| --- | --- |\n| a | b |\n| 1 | 2 |"


async def test_header_and_footer_keep_what_is_no_navigation() -> None:
    """A validity note or an address stands nowhere else; lists of links and buttons are navigation."""
    page = (
        "<header><a href=/>Home</a> | <a href=/m>Menu</a><form>Search</form><button>Log in</button></header><p>x</p>"
        "<footer><p>Printed copies are not valid.</p><ul><li><a href=/c>Cookies</a><li>Call 4411</ul></footer>"
    )

    assert await _markdown(page) == "x\n\nPrinted copies are not valid.\n\n- Call 4411"


async def test_navigation_stays_when_there_is_nothing_else() -> None:
    """A page is never empty because of what was taken for navigation; nor does its title get lost."""
    assert await _markdown("<header><a href=/>Only this</a></header>") == "[Only this](/)"
    assert await _markdown("<header>logo<h1>Title</h1></header><p>x</p>") == "logo\n\n# Title\n\nx"


async def test_labels_of_a_drawing_are_read() -> None:
    """An inline SVG diagram; an icon without text divides no paragraph and its tooltip is no text."""
    icon = "<svg><title>icon</title><path d=''/></svg>"
    page = f"<p>Press {icon} now.</p><svg><g><text>Pump</text><text>Tank</text></g></svg>"

    assert await _markdown(page) == "Press now.\n\nPump\n\nTank"


async def test_text_that_a_browser_finds_is_read() -> None:
    """hidden="until-found" hides what a search opens."""
    assert await _markdown("<div hidden='until-found'>folded</div><div hidden>gone</div>") == "folded"


async def test_images_in_the_page_itself_are_given_on_request() -> None:
    """In their order, with the alternative text; also those in table cells. A linked image stays a link."""
    cell = f'<img alt="red" src="data:image/png;base64,{base64.b64encode(png_sample()).decode()}">'
    page = f"<table><tr><td>a<td>{cell}</table><img alt=far src=http://x.y/z.png><img src='data:image/png;base64,?'>"

    text, image = await HTMLParser(include_image=True).parse(page.encode(), "a.html")

    assert text.text == "|  |  |\n| --- | --- |\n| a | ![red]() |\n\n![far](http://x.y/z.png)"
    assert (decoded(image.content), image.text, image.metadata) == (png_sample(), "red", {"media_type": "image/png"})


async def test_a_text_of_many_blocks_keeps_its_headings_in_place() -> None:
    """Blocks are joined by the thousand on the way."""
    page = "".join(f"<h2>H{i}</h2><p>p{i}</p><ul><li>i{i}</ul>" for i in range(9_000))

    section = (await HTMLParser().parse(page.encode(), "a.html"))[0]

    assert section.text == "\n\n".join(f"## H{i}\n\np{i}\n\n- i{i}" for i in range(9_000))
    assert [section.text[h.offset :].split("\n")[0] for h in section.headings] == [f"## H{i}" for i in range(9_000)]


@pytest.mark.parametrize("depth", [300, 1_500, 100_000])
async def test_deep_text_is_not_lost(depth: int) -> None:
    """libxml2 drops text below its limits without a word."""
    assert await _markdown("<div>" * depth + "deep" + "</div>" * depth + "<p>after</p>") in (
        "deep\n\nafter",
        "deep\nafter",
    )


async def test_links_are_only_written_down() -> None:
    """Anchors, scripts and data are text only; a link around blocks keeps its text."""
    page = "<a href='#x'>a</a> <a href='javascript:f()'>b</a> <a href='/c'><div>c</div></a> <a href=/d><h2>d</h2>e</a>"

    assert await _markdown(page) == "a b [c](/c)\n\n## d\n\ne"


async def test_a_fragment_and_an_empty_page_are_pages() -> None:
    """Text without any tag, and nothing."""
    assert await _markdown("plain &amp; simple") == "plain & simple"
    assert await _markdown("<!-- nothing -->") == ""


@pytest.mark.parametrize("tag", ["list", "cell", "block", "main_", "heading", "heading_button", "index", "margin"])
async def test_an_unknown_element_is_its_text(tag: str) -> None:
    """Elements of XML that stand in a page are read through, also those whose names this package uses itself."""
    assert await _markdown(f"<p>one</p><{tag} a=b><p>two</p></{tag}><p>three</p>") == "one\n\ntwo\n\nthree"
