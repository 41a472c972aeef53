"""The Word parser."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from io import BytesIO

import docx as python_docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_rag.documents import Section
from agent_rag.errors import EncryptedFileError, ParseError, ParseLimitError, UnsupportedFormatError
from agent_rag.parsers import WordParser

from ..shared import needs_shared
from .ooxml import case_file, docx, paragraph, part, saved, strict
from .samples import docx_sample, png_sample, pptx_sample, zip_of

_BOX = "<w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent>"


def sections(data: bytes, **options: object) -> list[Section]:
    return WordParser(**options).parse_here(data, "a.docx")  # type: ignore[arg-type]


def text(body: str, **options: object) -> str:
    return "\n---\n".join(section.text for section in sections(docx(body), **options))


def run(content: str) -> str:
    return f"<w:r>{content}</w:r>"


def picture(relationship: str, alt: str = "") -> str:
    blip = f'<pic:pic><pic:blipFill><a:blip r:embed="{relationship}"/></pic:blipFill></pic:pic>'
    return run(
        f'<w:drawing><wp:inline><wp:docPr id="1" name="p" descr="{alt}"/><a:graphic><a:graphicData>{blip}'
        "</a:graphicData></a:graphic></wp:inline></w:drawing>"
    )


@needs_shared
class TestCases:
    """The behaviour cases that name Word files."""

    async def test_a_text_box_is_read_once(self) -> None:
        """P01: the file holds it as a modern and as a fallback copy."""
        (section,) = await WordParser().parse(case_file("P01"), "a.docx")

        assert section.text == "Intro line.\nBOX-ALPHA"

    async def test_content_controls_are_read(self) -> None:
        """P03: around a block, inside a line, around a row."""
        (section,) = await WordParser().parse(case_file("P03"), "a.docx")

        assert section.text == "Before.\nBLOCK-CTRL\nOwner: INLINE-CTRL\n| plain row |\n| --- |\n| ROW-CTRL |"

    async def test_tables_keep_their_place(self) -> None:
        """P05."""
        (section,) = await WordParser().parse(case_file("P05"), "a.docx")

        assert section.text == "PARA-1\n| CELL-1 |\n| --- |\n\nPARA-2\n| CELL-2 |\n| --- |"

    async def test_merged_cells_shift_no_column(self) -> None:
        """P07: the text in the first cell of a merge, the others empty."""
        (section,) = await WordParser().parse(case_file("P07"), "a.docx")

        assert section.text.splitlines()[2:] == ["| WIDE |  | TALL |", "| r2c0 | r2c1 |  |"]

    async def test_a_blank_paragraph_is_a_blank_line(self) -> None:
        """P09."""
        (section,) = await WordParser().parse(case_file("P09"), "a.docx")

        assert section.text == "First.\n\nSecond."


def test_tabs_breaks_and_hyphens_separate_words() -> None:
    """A soft hyphen is no character of the word."""
    body = paragraph(
        "<w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t><w:cr/><w:t>a</w:t><w:noBreakHyphen/>"
        "<w:t>b</w:t><w:softHyphen/><w:t>c\u00add</w:t></w:r>"
    )

    assert text(body) == "one\ttwo\nthree\na-bcd"


def test_tracked_changes_are_read_as_accepted() -> None:
    """Insertions and move targets stay, deletions and move sources go, with a deleted row and an emptied paragraph."""
    body = (
        paragraph(
            "<w:r><w:t>Keep </w:t></w:r><w:ins><w:r><w:t>new</w:t></w:r></w:ins>"
            "<w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:moveFrom><w:r><w:t>from</w:t></w:r></w:moveFrom>"
            "<w:moveTo><w:r><w:t> to</w:t></w:r></w:moveTo>"
        )
        + paragraph("<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>", "<w:rPr><w:del/></w:rPr>")
        + "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>row</w:t></w:r></w:p></w:tc></w:tr>"
        "<w:tr><w:trPr><w:del/></w:trPr><w:tc><w:p><w:r><w:t>lost</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
        + paragraph("end")
    )

    assert text(body) == "Keep new to\n| row |\n| --- |\n\nend"


class TestHeadings:
    """Heading levels, in the text and as offsets."""

    _STYLES = part(
        "w:styles",
        '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Base"><w:name w:val="x"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr>'
        "</w:style>"
        '<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="y"/><w:basedOn w:val="Base"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="Loop"><w:name w:val="z"/><w:basedOn w:val="Loop"/></w:style>',
    )

    def _document(self, *styled: tuple[str, str], more: str = "") -> Section:
        body = "".join(paragraph(words, f'<w:pStyle w:val="{style}"/>{more}') for style, words in styled)
        (section,) = sections(docx(body, {"s": ("styles", "styles.xml")}, styles_xml=self._STYLES))
        return section

    def test_a_localised_style_is_known_by_its_built_in_name(self) -> None:
        """The style id is German, the name is always English."""
        section = self._document(("berschrift1", "Regen"), ("None", "Viel."))

        assert section.text == "# Regen\nViel."
        assert [(h.level, h.title, h.offset) for h in section.headings] == [(1, "Regen", 0)]

    def test_a_style_inherits_its_outline_level(self) -> None:
        """A style based on itself ends the search."""
        section = self._document(("Own", "Inherited"), ("Loop", "Body"))

        assert section.text == "## Inherited\nBody"

    def test_the_paragraphs_own_outline_level_wins(self) -> None:
        """Level 9 means body text."""
        section = self._document(("berschrift1", "No heading"), more='<w:outlineLvl w:val="9"/>')

        assert section.text == "No heading"
        assert section.headings == []

    def test_offsets_point_at_the_line_of_the_heading(self) -> None:
        """Also after tables and blank lines; the path follows the levels."""
        document = python_docx.Document()
        document.add_heading("Guide", 1)
        document.add_paragraph("")
        document.add_table(1, 1).cell(0, 0).text = "cell"
        document.add_heading("Rain\tin Oslo", 2)
        document.add_paragraph("763 mm")

        (section,) = sections(saved(document))

        found = [section.text[h.offset :].splitlines()[0] for h in section.headings]
        assert found == ["# Guide", "## Rain in Oslo"]
        assert section.heading_path_at(section.text.index("763")) == ["Guide", "Rain in Oslo"]

    def test_the_path_goes_on_below_an_image(self) -> None:
        """A heading that ends one of the inherited ones starts the next Section."""
        document = python_docx.Document()
        document.add_heading("A", 1)
        document.add_heading("B", 2)
        document.add_picture(BytesIO(png_sample()))
        document.add_paragraph("still B")
        document.add_heading("C", 3)
        document.add_paragraph("in C")
        document.add_heading("D", 2)
        document.add_paragraph("in D")

        found = sections(saved(document))

        assert [section.text for section in found] == ["# A\n## B", "", "still B\n### C\nin C", "## D\nin D"]
        assert [section.heading_path for section in found] == [[], ["A", "B"], ["A", "B"], ["A"]]
        assert found[2].heading_path_at(10) == ["A", "B", "C"]
        assert found[3].heading_path_at(0) == ["A", "D"]


class TestLists:
    """List markers and heading numbers."""

    _NUMBERING = part(
        "w:numbering",
        '<w:abstractNum w:abstractNumId="0">'
        '<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>'
        '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl>'
        '<w:lvl w:ilvl="2"><w:numFmt w:val="bullet"/><w:lvlText w:val="x"/></w:lvl></w:abstractNum>'
        '<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="4"/><w:numFmt w:val="upperRoman"/>'
        '<w:lvlText w:val="%1"/><w:pStyle w:val="H"/></w:lvl></w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="0"/>'
        '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num>'
        '<w:num w:numId="3"><w:abstractNumId w:val="1"/></w:num>',
    )
    _STYLES = part(
        "w:styles",
        '<w:style w:type="paragraph" w:styleId="H"><w:name w:val="heading 1"/><w:pPr><w:numPr><w:numId w:val="3"/>'
        "</w:numPr></w:pPr></w:style>",
    )

    def _text(self, *items: tuple[int, int, str], body: str = "") -> str:
        lines = "".join(
            paragraph(words, f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')
            for number, level, words in items
        )
        links = {"n": ("numbering", "numbering.xml"), "s": ("styles", "styles.xml")}
        (section,) = sections(docx(lines + body, links, numbering_xml=self._NUMBERING, styles_xml=self._STYLES))
        return section.text

    def test_levels_count_and_restart(self) -> None:
        """A deeper level starts anew below each item; bullets are dashes."""
        found = self._text((1, 0, "a"), (1, 1, "b"), (1, 1, "c"), (1, 2, "d"), (1, 0, "e"), (1, 1, "f"))

        assert found == "1. a\n  1.a) b\n  1.b) c\n    - d\n2. e\n  2.a) f"

    def test_a_list_can_restart_at_a_number(self) -> None:
        """Once, at its first item."""
        assert self._text((1, 0, "a"), (2, 0, "b"), (2, 0, "c")) == "1. a\n7. b\n8. c"

    def test_a_numbered_heading_shows_its_number(self) -> None:
        """From the list of its style."""
        assert self._text(body=paragraph("Scope", '<w:pStyle w:val="H"/>')) == "# IV Scope"

    def test_list_number_zero_is_no_list(self) -> None:
        """So a paragraph leaves the list of its style."""
        found = self._text(body=paragraph("Scope", '<w:pStyle w:val="H"/><w:numPr><w:numId w:val="0"/></w:numPr>'))

        assert found == "# Scope"


class TestLinksAndFields:
    """Hyperlinks keep their address without breaking the sentence; fields show their result."""

    def _text(self, body: str) -> str:
        (section,) = sections(docx(body, {"u": ("hyperlink", "https://example.org/x")}))
        return section.text

    def test_the_address_stands_after_the_paragraph(self) -> None:
        """The sentence can be found as it is written."""
        body = paragraph(f'<w:r><w:t>See </w:t></w:r><w:hyperlink r:id="u">{run("<w:t>the list</w:t>")}</w:hyperlink>'
                         f"{run('<w:t>.</w:t>')}")  # fmt: skip

        assert self._text(body) == "See the list. (the list: https://example.org/x)"

    def test_an_address_that_is_the_text_is_not_repeated(self) -> None:
        """Nor one inside the document."""
        own = f'<w:hyperlink r:id="u">{run("<w:t>https://example.org/x</w:t>")}</w:hyperlink>'
        inner = f'<w:hyperlink w:anchor="top">{run("<w:t> up</w:t>")}</w:hyperlink>'

        assert self._text(paragraph(own + inner)) == "https://example.org/x up"

    def test_a_complex_field_shows_its_result(self) -> None:
        """Its instruction is no text, a nested one neither; the address of a HYPERLINK field is kept."""

        def char(kind: str) -> str:
            return run(f'<w:fldChar w:fldCharType="{kind}"/>')

        body = paragraph(
            run("<w:t>Page </w:t>") + char("begin") + run("<w:instrText>IF </w:instrText>")
            + char("begin") + run("<w:instrText>PAGE</w:instrText>") + char("separate") + run("<w:t>hidden</w:t>")
            + char("end") + char("separate") + run("<w:t>7</w:t>") + char("end")
        ) + paragraph(
            run("<w:t>Go </w:t>") + char("begin") + run('<w:instrText> HYPERLINK "https://a.example/" </w:instrText>')
            + char("separate") + run("<w:t>there</w:t>") + char("end") + run("<w:t> now</w:t>")
        ) + paragraph(char("begin") + run("<w:instrText>TOC</w:instrText>")) + paragraph("still here")  # fmt: skip

        assert self._text(body) == "Page 7\nGo there now (there: https://a.example/)\n\nstill here"

    def test_legacy_form_fields_show_their_value(self) -> None:
        """A check box and a list have no result run."""
        box = '<w:ffData><w:checkBox><w:checked w:val="1"/></w:checkBox></w:ffData>'
        entries = '<w:listEntry w:val="a"/><w:listEntry w:val="b"/>'
        choices = f'<w:ffData><w:ddList><w:result w:val="1"/>{entries}</w:ddList></w:ffData>'
        end = run('<w:fldChar w:fldCharType="end"/>')
        fields = [run(f'<w:fldChar w:fldCharType="begin">{data}</w:fldChar>') + end for data in (box, choices)]

        assert self._text(paragraph(run("<w:t> </w:t>").join(fields))) == "☒ b"


class TestNotes:
    """Foot- and endnotes, comments, headers and footers."""

    _BODY = paragraph(
        '<w:r><w:t>Rain</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
        '<w:r><w:endnoteReference w:id="3"/></w:r><w:r><w:commentReference w:id="4"/></w:r>'
    ) + paragraph("More.")
    _FILE = docx(
        _BODY,
        {"f": ("footnotes", "footnotes.xml"), "e": ("endnotes", "endnotes.xml"), "c": ("comments", "comments.xml"),
         "h": ("header", "header1.xml"), "h2": ("header", "header2.xml"), "b": ("footer", "footer1.xml")},
        footnotes_xml=part("w:footnotes", f'<w:footnote w:id="2">{paragraph("In mm.")}</w:footnote>'),
        endnotes_xml=part("w:endnotes", f'<w:endnote w:id="3">{paragraph("See Oslo.")}</w:endnote>'),
        comments_xml=part("w:comments", f'<w:comment w:id="4" w:author="Kim">{paragraph("True?")}</w:comment>'),
        header1_xml=part("w:hdr", paragraph("Top")),
        header2_xml=part("w:hdr", paragraph("Top")),
        footer1_xml=part("w:ftr", paragraph("Bottom")),
    )  # fmt: skip

    def test_notes_stand_below_their_paragraph(self) -> None:
        """Comments, headers and footers are left out, and the report says so."""
        (section,) = sections(self._FILE)

        assert section.text == "Rain[^1][^e1]\n[^1]: In mm.\n[^e1]: See Oslo.\nMore."
        assert section.warnings == [
            "page headers and footers are not read; pass WordParser(include_headers_footers=True)",
            "comments are not read; pass WordParser(include_comments=True)",
        ]

    def test_notes_can_be_left_out(self) -> None:
        """With their marks."""
        (section,) = sections(self._FILE, include_footnotes=False)

        assert section.text == "Rain\nMore."

    def test_comments_headers_and_footers_are_options(self) -> None:
        """Equal headers are given once, marked as such."""
        found = sections(self._FILE, include_footnotes=False, include_comments=True, include_headers_footers=True)

        assert [(section.text, section.metadata) for section in found] == [
            ("Top", {"part": "header"}),
            ("Rain\n[Comment by Kim]: True?\nMore.", {}),
            ("Bottom", {"part": "footer"}),
        ]


class TestTables:
    """Nested and irregular tables."""

    def test_a_nested_table_is_read_inside_its_cell(self) -> None:
        """With tabs between its cells."""
        cells = "".join(f"<w:tc><w:p><w:r><w:t>{words}</w:t></w:r></w:p></w:tc>" for words in "xy")
        inner = f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
        body = f"<w:tbl><w:tr><w:tc>{paragraph('before')}{inner}{paragraph('after')}</w:tc></w:tr></w:tbl>"

        assert text(body) == "| before<br>x\ty<br>after |\n| --- |"

    def test_skipped_grid_columns_are_empty_cells(self) -> None:
        """gridBefore, gridAfter and gridSpan."""
        cell = "<w:tc>{}<w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
        wide = cell.format('<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>', "wide")
        body = (
            f"<w:tbl><w:tr>{''.join(cell.format('', c) for c in 'abcd')}</w:tr><w:tr><w:trPr><w:gridBefore w:val='1'/>"
            f"<w:gridAfter w:val='1'/></w:trPr>{wide}</w:tr></w:tbl>"
        )

        assert text(body).splitlines()[2] == "|  | wide |  |  |"

    def test_a_table_can_be_a_section_of_its_own(self) -> None:
        """In JSON too."""
        document = python_docx.Document()
        document.add_paragraph("before")
        document.add_table(1, 2).cell(0, 1).text = "x"
        document.add_paragraph("after")

        found = sections(saved(document), separate_table=True, table_format="json")

        assert [section.text.splitlines()[-1] for section in found] == ["before", '[["", "x"]]', "after"]


class TestDrawings:
    """Images, text boxes, charts, diagrams, equations, symbols."""

    def test_an_image_follows_the_text_of_its_paragraph(self) -> None:
        """As a DataBlock with its media type, file name and alternative text."""
        body = paragraph(run("<w:t>Look:</w:t>") + picture("i", "Rain gauge")) + paragraph("End.")
        data = docx(body, {"i": ("image", "media/one.png")}, media__one_png=png_sample())

        found = sections(data)

        assert [section.text for section in found] == ["Look:", "Rain gauge", "End."]
        assert found[1].content.type == "data"
        assert (found[1].content.name, found[1].metadata) == ("one.png", {"media_type": "image/png"})

    def test_without_images_their_description_stays(self) -> None:
        """In the text, in place."""
        data = docx(paragraph(picture("i", "Rain gauge")), {"i": ("image", "one.png")}, one_png=png_sample())

        assert [section.text for section in sections(data, include_image=False)] == ["[Image: Rain gauge]"]

    def test_a_linked_image_is_never_fetched(self) -> None:
        """Its address stays a line of text."""
        data = docx(paragraph(picture("i", "Gauge")), {"i": ("image", "https://example.org/a.png")})

        assert [section.text for section in sections(data)] == ["[Image: Gauge https://example.org/a.png]"]

    def test_an_image_in_a_table_follows_the_table(self) -> None:
        """Its cell keeps its text."""
        cell = f"<w:tc>{paragraph(run('<w:t>cell</w:t>') + picture('i'))}</w:tc>"
        data = docx(f"<w:tbl><w:tr>{cell}</w:tr></w:tbl>", {"i": ("image", "one.png")}, one_png=png_sample())

        assert [section.content.type for section in sections(data)] == ["text", "data"]

    def test_a_fallback_is_read_when_the_choice_says_nothing(self) -> None:
        """One branch of an mc:AlternateContent, the first that has something."""
        choice = '<mc:Choice Requires="new"><w:drawing/></mc:Choice>'
        fallback = f"<mc:Fallback><w:pict><v:shape><v:textbox>{_BOX}</v:textbox></v:shape></w:pict></mc:Fallback>"

        assert text(paragraph(run(f"<mc:AlternateContent>{choice}{fallback}</mc:AlternateContent>"))) == "box"

    def test_a_text_box_inside_a_field_or_cell_is_read(self) -> None:
        """Below the text beside which it is anchored."""
        box = run(f"<w:drawing><wps:wsp><wps:txbx>{_BOX}</wps:txbx></wps:wsp></w:drawing>")
        body = f"<w:tbl><w:tr><w:tc>{paragraph(run('<w:t>cell</w:t>') + box)}</w:tc></w:tr></w:tbl>"

        assert text(body) == "| cell<br>box |\n| --- |"

    def test_charts_and_diagrams_are_read(self) -> None:
        """Title, categories and series as a table; SmartArt as a list by its links, not by its storage order."""
        number = "<c:numCache><c:pt idx='0'><c:v>4.2999999999999998</c:v></c:pt></c:numCache>"
        chart = part(
            "c:chartSpace",
            "<c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Rain</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea>"
            "<c:barChart><c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>mm</c:v></c:pt></c:strCache></c:strRef>"
            "</c:tx><c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>May</c:v></c:pt></c:strCache></c:strRef></c:cat>"
            f"<c:val><c:numRef>{number}</c:numRef></c:val></c:ser></c:barChart></c:plotArea></c:chart>",
        )

        def point(key: str, words: str) -> str:
            return f'<dgm:pt modelId="{key}"><dgm:t><a:p><a:r><a:t>{words}</a:t></a:r></a:p></dgm:t></dgm:pt>'

        links = "".join(
            f'<dgm:cxn srcId="{a}" destId="{b}" srcOrd="{n}"/>'
            for a, b, n in [("0", "2", 0), ("0", "1", 1), ("2", "3", 0)]
        )
        diagram = part(
            "dgm:dataModel",
            f'<dgm:ptLst><dgm:pt modelId="0" type="doc"/>{point("1", "last")}{point("2", "first")}{point("3", "below")}'
            f"</dgm:ptLst><dgm:cxnLst>{links}</dgm:cxnLst>",
        )
        drawn = '<w:drawing><c:chart r:id="c"/></w:drawing>', '<w:drawing><dgm:relIds r:dm="d"/></w:drawing>'
        data = docx(
            "".join(paragraph(run(item)) for item in drawn),
            {"c": ("chart", "charts/chart1.xml"), "d": ("diagramData", "diagrams/data1.xml")},
            charts__chart1_xml=chart,
            diagrams__data1_xml=diagram,
        )

        (section,) = sections(data)

        assert section.text == "Chart: Rain\n|  | mm |\n| --- | --- |\n| May | 4.3 |\n- first\n  - below\n- last"

    def test_equations_symbols_and_rubies_are_read(self) -> None:
        """In one line; the reading of a ruby stands after the paragraph."""
        fraction = (
            "<m:oMath><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num><m:den><m:r><m:t>2</m:t></m:r></m:den></m:f>"
            "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>n</m:t></m:r></m:sup></m:sSup></m:oMath>"
        )
        symbol = run('<w:sym w:font="Symbol" w:char="F061"/>') + run('<w:sym w:font="Wingdings" w:char="F0FC"/>')
        ruby = run(
            f"<w:ruby><w:rt>{run('<w:t>とう</w:t>')}</w:rt><w:rubyBase>{run('<w:t>東</w:t>')}</w:rubyBase></w:ruby>"
        )

        assert text(paragraph(fraction + symbol + ruby + run("<w:t>京</w:t>"))) == "(a+b)/2x^nα✓東京 (東: とう)"


class TestFiles:
    """What kinds of files are read, and what damaged ones cost."""

    async def test_the_same_bytes_give_equal_sections(self) -> None:
        """From bytes and from a path."""
        data = docx_sample()

        assert await WordParser().parse(data, "a.docx") == await WordParser().parse(data, "a.docx")

    def test_a_strict_document_reads_like_a_transitional_one(self) -> None:
        """ISO 29500 Strict has other namespaces; python-docx refuses it."""
        data = docx_sample()

        assert sections(strict(data)) == sections(data)
        assert b"purl.oclc.org" in zipfile.ZipFile(BytesIO(strict(data))).read("word/document.xml")

    def test_a_dangling_relationship_costs_nothing_else(self) -> None:
        """python-docx loses the whole document."""
        data = docx(paragraph("text") + paragraph(picture("i", "alt")), {"i": ("image", "media/gone.png")})

        assert [section.text for section in sections(data)] == ["text\n[Image: alt]"]

    def test_a_macro_enabled_document_is_read(self) -> None:
        """Its content type is another one."""
        files = {name: zipfile.ZipFile(BytesIO(docx_sample())).read(name) for name in _names(docx_sample())}
        types = files["[Content_Types].xml"].replace(
            b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
            b"application/vnd.ms-word.document.macroEnabled.main+xml",
        )

        assert sections(zip_of({**files, "[Content_Types].xml": types})) == sections(docx_sample())

    def test_an_empty_document_gives_nothing(self) -> None:
        """No Section without content."""
        assert sections(docx("<w:p/><w:p/>")) == []

    def test_another_type_is_an_error_that_names_both(self) -> None:
        """A presentation is no document, an old .doc neither."""
        with pytest.raises(UnsupportedFormatError, match=r"a\.docx: the content is .*presentationml.*wordprocessingml"):
            sections(pptx_sample())
        with pytest.raises(UnsupportedFormatError, match=r"a\.docx: the content is application/msword"):
            sections(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "WordDocument".encode("utf-16-le"))

    def test_an_encrypted_document_says_so(self) -> None:
        """It is an OLE file with the stream EncryptedPackage."""
        with pytest.raises(EncryptedFileError, match=r"a\.docx.*encrypted"):
            sections(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"))

    def test_an_inflated_size_over_the_limit_is_refused_unread(self) -> None:
        """By the sum that the zip declares."""
        with pytest.raises(ParseLimitError, match="max_inflated_bytes=1,000"):
            sections(docx_sample(), max_inflated_bytes=1000)

    def test_a_truncated_document_is_a_parse_error_with_its_cause(self) -> None:
        """The library's exception is chained."""
        data = docx_sample()
        with pytest.raises(ParseError, match=r"a\.docx") as caught:
            sections(data[: len(data) // 2])

        assert isinstance(caught.value.__cause__, zipfile.BadZipFile)

    def test_the_fingerprint_covers_the_options(self) -> None:
        """Another option, another fingerprint."""
        prints = {WordParser().fingerprint, WordParser(include_footnotes=False).fingerprint}

        assert len(prints | {WordParser(table_format="json").fingerprint}) == 3

    def test_small_files_cannot_ask_for_much(self) -> None:
        """20,000 cells that span 1,000 columns each, and one image shown 2,000 times."""
        cell = '<w:tc><w:tcPr><w:gridSpan w:val="1000"/></w:tcPr><w:p><w:r><w:t>c</w:t></w:r></w:p></w:tc>'
        wide = docx(f"<w:tbl>{f'<w:tr>{cell * 10}</w:tr>' * 2_000}</w:tbl>")
        image = docx(paragraph(picture("i")) * 2_000, {"i": ("image", "one.png")}, one_png=png_sample((900, 900)))

        assert sum(section.text.count("c") for section in sections(wide)) == 20_000
        assert len({id(section.content.source.data) for section in sections(image)}) == 1  # type: ignore[union-attr]

    def test_a_large_document_is_read_block_by_block(self) -> None:
        """Peak memory stays below 5 times the inflated size, here also without the allowed 100 MB."""
        row = "<w:tr>" + "<w:tc><w:p><w:r><w:t>cell</w:t></w:r></w:p></w:tc>" * 10 + "</w:tr>"
        data = docx(f"<w:tbl>{row * 20_000}</w:tbl>{paragraph('word ' * 20) * 50_000}")
        inflated = sum(entry.file_size for entry in zipfile.ZipFile(BytesIO(data)).infolist())
        script = (
            "import resource, sys; from agent_rag.parsers import WordParser; from pathlib import Path;"
            "data = sys.stdin.buffer.read(); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
            "WordParser().parse_here(data, 'a.docx');"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
        )

        grown = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True).stdout

        assert int(grown) * 1024 < 5 * inflated


_WORD = st.text(alphabet="abcdefgäß漢字", min_size=1, max_size=8)
_BLOCK = st.one_of(
    st.tuples(st.just("paragraph"), st.lists(_WORD, max_size=4)),
    st.tuples(st.just("heading"), st.lists(_WORD, min_size=1, max_size=3)),
    st.tuples(st.just("table"), st.lists(_WORD, min_size=1, max_size=4)),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(_BLOCK, min_size=1, max_size=8))
def test_every_word_of_a_document_is_read_once_and_in_order(blocks: list[tuple[str, list[str]]]) -> None:
    """Random documents written with python-docx; heading offsets are exact."""
    document = python_docx.Document()
    expected: list[str] = []
    for number, (kind, words) in enumerate(blocks):
        words = [f"{word}{number}q{index}" for index, word in enumerate(words)]
        expected += words
        if kind == "table":
            cells = document.add_table(1, len(words)).rows[0].cells
            for cell, word in zip(cells, words, strict=True):
                cell.text = word
        elif kind == "heading":
            document.add_heading(" ".join(words), 1 + number % 3)
        else:
            document.add_paragraph(" ".join(words))

    found = sections(saved(document))

    assert [word for section in found for word in section.text.split() if word.strip("|-#")] == expected
    for section in found:
        for heading in section.headings:
            assert section.text[heading.offset :].splitlines()[0] == f"{'#' * heading.level} {heading.title}"


def _names(data: bytes) -> list[str]:
    return zipfile.ZipFile(BytesIO(data)).namelist()


class TestEmbeddedDocuments:
    """altChunk: another file that Word shows as a part of the document."""

    @staticmethod
    def _texts(content: bytes | str, target: str = "chunk.htm", **options: object) -> list[Section]:
        name = target.replace(".", "_")
        body = paragraph("before") + '<w:altChunk r:id="c"/>' + paragraph("after")
        return sections(docx(body, {"c": ("aFChunk", target)}, **{name: content}), **options)

    def test_html_is_read_with_its_structure(self) -> None:
        """Its headings count in the document."""
        page = "<html><body><p>in</p><h2>Rain</h2><table><tr><td>a<td>b<tr><td>1<td>2</table></body></html>"

        (section,) = self._texts(page)

        assert section.text == "before\nin\n## Rain\n|  |  |\n| --- | --- |\n| a | b |\n| 1 | 2 |\nafter"
        assert [(h.level, h.title, section.text[h.offset :][:7]) for h in section.headings] == [(2, "Rain", "## Rain")]

    @pytest.mark.parametrize(
        ("target", "content"),
        [
            ("chunk.txt", "Größe".encode("cp1252")),
            ("chunk.mht", b"MIME-Version: 1.0\r\nSubject: x\r\nContent-Type: text/html; charset=utf-8\r\n"
             b"Content-Transfer-Encoding: quoted-printable\r\n\r\n<html><p>Gr=C3=B6=C3=9Fe</p></html>"),
            ("chunk.rtf", rb"{\rtf1\ansi Gr\'f6\'dfe\par}"),
        ],
        ids=["text", "web archive", "rtf"],
    )  # fmt: skip
    def test_other_kinds_are_read(self, target: str, content: bytes) -> None:
        """By content, whatever the package calls them."""
        (section,) = self._texts(content, target)

        assert section.text == "before\nGröße\nafter"

    def test_a_word_file_is_read_with_its_images(self) -> None:
        """Its own styles, and its images even where the outer file has one of that name."""
        (before, image, after) = self._texts(docx_sample(), "chunk.docx")

        assert before.text.startswith("before\n# Rain\nIt rains in Bergen.")
        assert image.metadata == {"media_type": "image/png"}
        assert after.text == "after"

    def test_documents_in_documents_end(self) -> None:
        """Three levels are read."""
        inner: bytes = docx(paragraph("level 0"))
        for level in range(1, 6):
            body = paragraph(f"level {level}") + '<w:altChunk r:id="c"/>'
            inner = docx(body, {"c": ("aFChunk", "c.docx")}, c_docx=inner)

        (section,) = sections(inner)

        assert section.text == "level 5\nlevel 4\nlevel 3\nlevel 2"

    def test_one_that_is_damaged_costs_only_itself(self, caplog: pytest.LogCaptureFixture) -> None:
        """The log says so; the bound on the unpacked size counts all of them together."""
        (section,) = self._texts(docx_sample()[:900], "chunk.docx")

        assert section.text == "before\nafter"
        assert "word/chunk.docx" in caplog.text

    def test_an_image_in_a_table_cell_follows_the_table(self) -> None:
        """In the order of the cells, with its alternative text."""
        cells = "".join(f"<w:tc>{paragraph(picture('i', name))}</w:tc>" for name in ("first", "second"))
        data = docx(f"<w:tbl><w:tr><w:tc>{paragraph('x')}</w:tc>{cells}</w:tr></w:tbl>{paragraph('end')}",
                    {"i": ("image", "media/i.png")}, media__i_png=png_sample())  # fmt: skip

        table, first, second, end = sections(data)

        assert (table.text, first.text, second.text, end.text) == (
            "| x |  |  |\n| --- | --- | --- |",
            "first",
            "second",
            "end",
        )


class TestStyleParts:
    """Only styles in use are parsed; parts that cannot be cut are parsed whole."""

    _STYLE = '<w:style w:type="paragraph" w:styleId="{}"><w:name w:val="heading 2"/></w:style>'

    @pytest.mark.parametrize(
        "content",
        [
            _STYLE.format("H&amp;1"),
            f"<!-- {_STYLE.format('X')} -->" + _STYLE.format("H&amp;1"),
            '<w:style w:type="paragraph" w:styleId="Empty"/>' + _STYLE.format("H&amp;1"),
            '<w:style w:type="character" w:styleId="H&amp;1"><w:name w:val="x"/></w:style>' + _STYLE.format("H&amp;1"),
            _STYLE.format("H&amp;1").replace("'", '"').replace("w:type=", "w:x='a>b' w:type="),
        ],
        ids=["escaped id", "comment", "empty style", "same id of another type", "sign in an attribute"],
    )
    def test_a_style_is_found(self, content: str) -> None:
        """Whatever stands around it."""
        data = docx(
            paragraph("Rain", '<w:pStyle w:val="H&amp;1"/>'),
            {"s": ("styles", "styles.xml")},
            styles_xml=part("w:styles", content),
        )

        assert sections(data)[0].text == "## Rain"

    def test_a_part_in_another_encoding_is_read(self) -> None:
        """UTF-16 has no tags to look for in its bytes."""
        styles = part("w:styles", self._STYLE.format("H")).replace("UTF-8", "UTF-16").encode("utf-16")
        data = docx(paragraph("Rain", '<w:pStyle w:val="H"/>'), {"s": ("styles", "styles.xml")}, styles_xml=styles)

        assert sections(data)[0].text == "## Rain"
