"""OpenDocument text and presentations are read as their Microsoft sisters are."""

from __future__ import annotations

import pytest

from agent_rag.errors import EncryptedFileError, ParseError, ParseLimitError, UnsupportedFormatError
from agent_rag.parsers import ODPParser, ODTParser, parser_for

from .samples import decoded, docx_sample, odp_sample, odt_sample, opendocument, png_sample


async def _text(body: str, *, styles: str = "") -> str:
    sections = await ODTParser().parse(opendocument("text", body, styles=styles), "a.odt")
    return "\n--\n".join(section.text for section in sections)


async def test_text_is_read_in_its_order() -> None:
    """Headings, tables as Markdown, images as own Sections under their heading."""
    text, image = await ODTParser().parse(odt_sample(), "a.odt")

    assert text.text == (
        "# Rain\nIt rains in Bergen.\n| City | Rain mm |\n| --- | --- |\n| Oslo | 763 |\n| Bergen | 2250 |"
    )
    assert [(h.level, h.title, h.offset) for h in text.headings] == [(1, "Rain", 0)]
    assert (decoded(image.content), image.heading_path) == (png_sample(), ["Rain"])
    assert image.metadata == {"media_type": "image/png"}


async def test_white_space_and_breaks_separate_words() -> None:
    """A run of white space is one space; text:s, tabs and breaks count."""
    body = "<text:p>a\n  b<text:s text:c='3'/>c<text:tab/>d<text:line-break/>e<text:span> f</text:span></text:p>"

    assert await _text(body) == "a b   c\td\ne f"


async def test_lists_have_their_markers() -> None:
    """Numbers where the list's style counts on that level; a second paragraph of an item has none."""
    styles = (
        '<text:list-style style:name="L"><text:list-level-style-number text:level="1"/>'
        '<text:list-level-style-bullet text:level="2"/></text:list-style>'
    )
    inner = "<text:list><text:list-item><text:p>deep</text:p></text:list-item></text:list>"
    body = (
        f'<text:list text:style-name="L"><text:list-item><text:p>one</text:p><text:p>more</text:p>{inner}'
        "</text:list-item><text:list-item><text:p>two</text:p></text:list-item></text:list>"
    )

    assert await _text(body, styles=styles) == "1. one\nmore\n  - deep\n2. two"


async def test_notes_links_and_boxes_are_kept_and_deletions_are_not() -> None:
    """A note below its paragraph, an address behind its words, a text box behind its paragraph; no comments."""
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes><text:section><text:p>See <text:a xlink:href='http://x.y'>it"
        "</text:a><text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Note.</text:p>"
        "</text:note-body></text:note><office:annotation><text:p>comment</text:p></office:annotation>"
        "<draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame></text:p></text:section>"
    )

    assert await _text(body) == "See it[^1] (it: http://x.y)\nboxed\n[^1]: Note."


async def test_tables_keep_merged_repeated_and_nested_cells() -> None:
    """A merged cell once, a repeated one as often as it is, an inner table with tabs, an image after the table."""
    inner = (
        "<table:table><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>"
        "<table:table-cell><text:p>y</text:p></table:table-cell></table:table-row></table:table>"
    )
    body = (
        "<table:table><table:table-header-rows><table:table-row><table:table-cell table:number-columns-spanned='2'>"
        "<text:p>H</text:p></table:table-cell><table:covered-table-cell/></table:table-row></table:table-header-rows>"
        "<table:table-row><table:table-cell table:number-columns-repeated='2'><text:p>r</text:p></table:table-cell>"
        f"</table:table-row><table:table-row><table:table-cell>{inner}</table:table-cell><table:table-cell><text:p>"
        "<draw:frame><draw:image xlink:href='Pictures/red.png'/><svg:desc>red</svg:desc></draw:frame></text:p>"
        "</table:table-cell></table:table-row></table:table><text:p>end</text:p>"
    )

    assert await _text(body) == "| H |  |\n| --- | --- |\n| r | r |\n| x\ty |  |\n--\nred\n--\nend"


async def test_the_title_is_that_of_the_document() -> None:
    """From its meta data."""
    meta = '<m xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title> Rain  book</dc:title></m>'
    data = opendocument("text", "<text:p>x</text:p>", meta_xml=meta)

    assert (await ODTParser().parse(data, "a.odt"))[0].metadata == {"title": "Rain book"}


async def test_slides_are_read_in_reading_order() -> None:
    """Title first, shapes by position, then the notes; a hidden slide is flagged; images follow."""
    hidden = (
        '<style:style style:name="H"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>'
    )
    size = "svg:width='4cm' svg:height='1cm'"
    shape = f"<draw:custom-shape svg:x='{{}}cm' svg:y='{{}}cm' {size}><text:p>{{}}</text:p></draw:custom-shape>"
    body = (
        f"<draw:page>{shape.format(1, 9, 'low')}<draw:g>{shape.format(1, 2, 'high')}</draw:g>"
        "<draw:frame svg:y='12cm'><draw:image xlink:href='Pictures/red.png'/></draw:frame></draw:page>"
        f'<draw:page draw:style-name="H">{shape.format(1, 1, "secret")}</draw:page>'
    )

    (titled,) = await ODPParser().parse(odp_sample(), "a.odp")
    first, image, second = await ODPParser(slide_prefix=None, slide_suffix=None).parse(
        opendocument("presentation", body, styles=hidden), "a.odp"
    )

    assert titled.text == "<slide index=1>\n# Rain in Norway\nIt rains.\nNotes:\nMention Bergen.\n</slide>"
    assert (first.text, first.metadata) == ("high\nlow", {"slide": 1})
    assert image.metadata == {"slide": 1, "media_type": "image/png"}
    assert (second.text, second.metadata) == ("secret", {"slide": 2, "hidden": True})
    assert len(await ODPParser(include_hidden=False).parse(opendocument("presentation", body, styles=hidden), "a")) == 2


async def test_what_cannot_be_read_says_why() -> None:
    """A password, another format, a bomb, a part that is missing."""
    manifest = (
        '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"><m:file-entry>'
        "<m:encryption-data/></m:file-entry></m:manifest>"
    )
    locked = opendocument("text", "", **{"META-INF/manifest.xml": manifest})

    with pytest.raises(EncryptedFileError, match=r"a\.odt.*password"):
        await ODTParser().parse(locked, "a.odt")
    with pytest.raises(UnsupportedFormatError):
        await ODTParser().parse(docx_sample(), "a.odt")
    with pytest.raises(ParseLimitError, match="max_inflated_bytes"):
        await ODTParser(max_inflated_bytes=100).parse(odt_sample(), "a.odt")
    with pytest.raises(ParseError, match=r"a\.odt"):
        await ODTParser().parse(odt_sample()[:300], "a.odt")


def test_they_are_known_by_content() -> None:
    """Whatever the name."""
    assert isinstance(parser_for("a.bin", data=odt_sample()), ODTParser)
    assert isinstance(parser_for("a.docx", data=odp_sample()), ODPParser)
    assert isinstance(parser_for("a.ott"), ODTParser)


async def test_repeated_cells_are_bounded_and_the_report_says_so() -> None:
    """A file of 1 kB can ask for a million copies of a cell; comments are counted."""
    cell = '<table:table-cell table:number-columns-repeated="1000"><text:p>rain</text:p></table:table-cell>'
    body = (
        "<text:p>A<office:annotation><text:p>why?</text:p></office:annotation></text:p>"
        f'<table:table><table:table-row table:number-rows-repeated="1000">{cell}</table:table-row></table:table>'
    )

    (section,) = await ODTParser().parse(opendocument("text", body), "a.odt")

    assert section.text.count("rain") == 1_000
    assert section.warnings == [
        "999,000 copies of repeated table cells are left out",
        "1 comment(s) are not read",
    ]


async def test_an_id_that_stands_twice_is_no_damage() -> None:
    """As the ODF Toolkit writes lists."""
    item = '<text:list xml:id="l"><text:list-item><text:p>rain</text:p></text:list-item></text:list>'

    assert await _text(item * 2) == "- rain\n- rain"
