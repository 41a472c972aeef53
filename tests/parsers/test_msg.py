"""Outlook messages are read as e-mail is."""

from __future__ import annotations

import struct

import pytest

from agent_rag import Section
from agent_rag.errors import ParseError
from agent_rag.parsers import EmailParser, MSGParser, parser_for
from agent_rag.parsers.mail.outlook import uncompressed_rtf

from .mutations import mutations
from .outlook import attached_message, message, narrow


async def test_headers_body_and_attachments_are_read() -> None:
    """The attachment by the parser of its own type."""
    data = message("Regn – målt", "It rains.\r\nOften.", attachments={"rain.csv": b"City,Rain\nOslo,763\n"})

    first, attachment = await MSGParser().parse(data, "a.msg")

    assert first.text == "From: Ola <ola@x.no>\nTo: Kari <kari@x.no>\nSubject: Regn – målt\n\nIt rains.\nOften."
    assert first.metadata == {"title": "Regn – målt"}
    assert attachment.text == "| City | Rain |\n| --- | --- |\n| Oslo | 763 |\n"
    assert (attachment.source, attachment.metadata["attachment"]) == ("a.msg", "rain.csv")


async def test_html_is_read_where_there_is_no_plain_text() -> None:
    """As Markdown; an attachment without content of its own is reported."""
    data = message("x", html=b"<p>It <b>rains</b>.</p><ul><li>a</ul>", attachments={"inner": b""})

    (section,) = await MSGParser().parse(data, "a.msg")

    assert section.text.endswith("\n\nIt rains.\n\n- a")
    assert section.metadata["skipped_attachments"][0].startswith("inner: ")


async def test_damaged_messages_give_sections_or_a_parse_error() -> None:
    """20 seeded mutations."""
    data = message("Rain", "It rains. " * 100, attachments={"rain.csv": b"City,Rain\nOslo,763\n"})

    for damaged in mutations(data, seed=7, cuts=2, flips=18):
        outcome = await _outcome(damaged)

        assert isinstance(outcome, list) or "a.msg" in str(outcome)


async def _outcome(data: bytes) -> list[Section] | ParseError:
    try:
        return await MSGParser().parse(data, "a.msg")
    except ParseError as error:
        return error


def test_it_is_known_by_content() -> None:
    """Whatever it is called."""
    assert isinstance(parser_for("upload.bin", data=message("x", "y")), MSGParser)


async def test_a_message_of_the_internet_that_is_called_msg_is_read_as_such() -> None:
    """By the registry, and by MSGParser itself."""
    data = b"From: a@x.no\r\nTo: b@x.no\r\nDate: Mon, 1 Jan 2024 08:00:00 +0100\r\nSubject: s\r\n\r\nIt rains.\r\n"

    parser = parser_for("a.msg", data=data)
    (section,) = await MSGParser().parse(data, "a.msg")

    assert type(parser) is EmailParser
    assert section.text.endswith("Subject: s\n\nIt rains.")


@pytest.mark.parametrize(
    ("text", "codec", "code_pages"),
    [
        ("Größe", "cp1252", {0x3FDE: 65001, 0x3FFD: 1252}),
        ("Grün öäü fertig", "cp1252", {0x3FDE: 950, 0x3FF1: 1031}),
        ("會議記錄", "cp950", {0x3FDE: 950}),
        ("รายงาน", "cp874", {0x3FFD: 874}),
        ("会议记录", "gb18030", {0x3FDE: 20936, 0x3FF1: 0x0804}),
        ("Отчёт", "cp1251", {0x3FF1: 1049}),
        ("Größe", "utf-8", {0x3FFD: 1252}),
    ],
)
async def test_eight_bit_text_is_read_in_the_code_page_that_fits(
    text: str, codec: str, code_pages: dict[int, int]
) -> None:
    """Messages name up to three, and often the wrong one."""
    data = narrow({0x0037: text.encode(codec), 0x1000: text.encode(codec)}, code_pages)

    (section,) = await MSGParser().parse(data, "a.msg")

    assert section.text == f"Subject: {text}\n\n{text}"


async def test_a_message_inside_a_message_is_read_with_its_attachments() -> None:
    """To a depth."""
    data = attached_message("Outer", "See below.", "Inner", "It rains.", {"rain.csv": b"City,Rain\nOslo,763\n"})

    sections = await MSGParser().parse(data, "a.msg")
    shallow = await MSGParser(max_depth=0).parse(data, "a.msg")

    assert [s.metadata.get("attachment") for s in sections] == [None, "Inner", "rain.csv"]
    assert "Subject: Inner" in sections[1].text
    assert "It rains." in sections[1].text
    assert len(shallow) == 1
    assert shallow[0].metadata["skipped_attachments"] == ["Inner: messages inside messages go deeper than max_depth=0"]


def test_rtf_is_uncompressed_as_the_specification_shows() -> None:
    """[MS-OXRTFCP] 4.1.1: a literal run and references into the dictionary."""
    data = bytes.fromhex(
        "2d 00 00 00 2b 00 00 00 4c 5a 46 75 f1 c5 c7 a7 03 00 0a 00 72 63 70 67 31 32 35 42 32 0a f3 20"
        "68 65 6c 09 00 20 62 77 05 b0 6c 64 7d 0a 80 0f a0"
    )

    assert uncompressed_rtf(data) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    assert uncompressed_rtf(struct.pack("<4I", 0, 6, 0x414C454D, 0) + b"{\\rtf}") == b"{\\rtf}"
