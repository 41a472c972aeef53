"""AsciiDoc, Org, LaTeX: headings with their ranks, none inside of code; code and tables stay whole in chunks."""

from __future__ import annotations

import pytest

from agent_rag.chunkers import AutoChunker
from agent_rag.parsers import AsciiDocParser, LaTeXParser, OrgParser, ParserBase, RSTParser, parser_for
from agent_rag.testing import ParserContract

ADOC = "= Guide\n\nIntro.\n\n== Install\n\n----\n== not a title\nmake\n----\n\n=== Linux ===\n\nText.\n"
ORG = "#+TITLE: Guide\n* Guide\n** TODO Install [[x]] :tag:\n#+BEGIN_SRC sh\n* no title\n#+END_SRC\n* Use\n"
LATEX = "\\section{A \\emph{b}}\n% \\section{no}\n\\begin{verbatim}\n\\section{no}\n\\end{verbatim}\n\\subsection*{C}\n"


@pytest.mark.parametrize(
    ("name", "text", "headings"),
    [
        ("a.adoc", ADOC, [(1, "Guide"), (2, "Install"), (3, "Linux")]),
        ("a.org", ORG, [(1, "Guide"), (2, "Install [[x]]"), (1, "Use")]),
        ("a.tex", LATEX, [(3, "A b"), (4, "C")]),
    ],
)
async def test_headings_are_found_outside_of_code(name: str, text: str, headings: list[tuple[int, str]]) -> None:
    """With their level and where they stand."""
    (section,) = await parser_for(name).parse(text.encode(), name)

    assert [(heading.level, heading.title) for heading in section.headings] == headings
    assert all(heading.title.split()[0] in text[heading.offset : heading.offset + 40] for heading in section.headings)


CODE = "".join(f"line {number};\n\n" for number in range(12))
INDENTED = "".join(f"   line {number};\n\n" for number in range(12))


@pytest.mark.parametrize(
    ("parser", "name", "block"),
    [
        (AsciiDocParser(), "a.adoc", f"----\n{CODE}----"),
        (OrgParser(), "a.org", f"#+BEGIN_SRC c\n{CODE}#+END_SRC"),
        (LaTeXParser(), "a.tex", f"\\begin{{verbatim}}\n{CODE}\\end{{verbatim}}"),
        (RSTParser(), "a.rst", f".. code-block:: c\n\n{INDENTED.rstrip()}"),
        (RSTParser(), "a.rst", f"Do this::\n\n{INDENTED.rstrip()}"),
    ],
)
async def test_code_is_not_torn(parser: ParserBase, name: str, block: str) -> None:
    """A block that fits is whole in one chunk, wherever it stands."""
    prose = "Words that fill the page, and more of them. " * 4
    for before in range(1, 6):
        text = prose * before + f"\n\n{block}\n\n" + prose * 3
        sections = await parser.parse(text.encode(), name)

        chunks = await AutoChunker(chunk_size=300, overlap=40).chunk(sections)

        assert any(block in chunk.text for chunk in chunks), before
        assert all(len(chunk.text) <= 300 for chunk in chunks)


class TestAsciiDoc(ParserContract):
    refuses_garbage = False

    @pytest.fixture
    def parser(self) -> ParserBase:
        return AsciiDocParser()

    @pytest.fixture
    def sample(self) -> tuple[bytes, str]:
        return ADOC.encode(), "a.adoc"


class TestOrg(ParserContract):
    refuses_garbage = False

    @pytest.fixture
    def parser(self) -> ParserBase:
        return OrgParser()

    @pytest.fixture
    def sample(self) -> tuple[bytes, str]:
        return ORG.encode(), "a.org"


class TestLaTeX(ParserContract):
    refuses_garbage = False

    @pytest.fixture
    def parser(self) -> ParserBase:
        return LaTeXParser()

    @pytest.fixture
    def sample(self) -> tuple[bytes, str]:
        return LATEX.encode(), "a.tex"
