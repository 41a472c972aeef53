"""Outlook messages are read as e-mail is."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from agent_rag import Section
from agent_rag.errors import MissingExtraError, ParseError
from agent_rag.parsers import MSGParser, parser_for

from .mutations import mutations
from .outlook import message

needs_oxmsg = pytest.mark.skipif(
    importlib.util.find_spec("oxmsg") is None, reason="needs the extra msg: pip install python-oxmsg"
)


@needs_oxmsg
async def test_headers_body_and_attachments_are_read() -> None:
    """The attachment by the parser of its own type."""
    data = message("Regn – målt", "It rains.\r\nOften.", attachments={"rain.csv": b"City,Rain\nOslo,763\n"})

    first, attachment = await MSGParser().parse(data, "a.msg")

    assert first.text == 'From: "Ola" <ola@x.no>\nTo: Kari <kari@x.no>\nSubject: Regn – målt\n\nIt rains.\nOften.'
    assert first.metadata == {"title": "Regn – målt"}
    assert attachment.text == "| City | Rain |\n| --- | --- |\n| Oslo | 763 |\n"
    assert (attachment.source, attachment.metadata["attachment"]) == ("a.msg", "rain.csv")


@needs_oxmsg
async def test_html_is_read_where_there_is_no_plain_text() -> None:
    """As Markdown; an attachment without content of its own is reported."""
    data = message("x", html=b"<p>It <b>rains</b>.</p><ul><li>a</ul>", attachments={"inner": b""})

    (section,) = await MSGParser().parse(data, "a.msg")

    assert section.text.endswith("\n\nIt rains.\n\n- a")
    assert section.metadata["skipped_attachments"][0].startswith("inner: ")


@needs_oxmsg
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


async def test_it_is_known_by_content_and_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error names the command."""
    data = message("x", "y")
    monkeypatch.setitem(sys.modules, "oxmsg", None)

    parser = parser_for("upload.bin", data=data)

    assert isinstance(parser, MSGParser)
    with pytest.raises(MissingExtraError, match=r"a\.msg.*agent-rag-middleware\[msg\]"):
        await parser.parse(data, "a.msg")
