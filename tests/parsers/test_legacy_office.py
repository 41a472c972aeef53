"""Word and PowerPoint files of before 2007, by LibreOffice or with advice."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from agent_rag.errors import ConfigurationError, ParseError, ParseTimeoutError, UnsupportedFormatError
from agent_rag.parsers import HTMLParser, LegacyOfficeParser, parser_for

from .outlook import compound_file
from .samples import docx_sample, pptx_sample

needs_libreoffice = pytest.mark.skipif(
    shutil.which("soffice") is None, reason="apt-get install libreoffice-writer libreoffice-impress to run this"
)

_DOC = compound_file({"WordDocument": b"x" * 5000})


def _old(tmp_path: Path, data: bytes, new: str, old: str) -> bytes:
    source = tmp_path / f"a.{new}"
    source.write_bytes(data)
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = ["soffice", "--headless", profile, "--convert-to", old, "--outdir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return (tmp_path / f"a.{old}").read_bytes()


@needs_libreoffice
@pytest.mark.slow
async def test_a_doc_is_read_as_word_is(tmp_path: Path) -> None:
    """Headings, tables and pictures."""
    data = _old(tmp_path, docx_sample(), "docx", "doc")

    sections = await parser_for("a.doc", data=data).parse(data, "a.doc")

    assert sections[0].text.startswith("# Rain\nIt rains in Bergen.\n| City | Rain mm |")
    assert [section.content.type for section in sections] == ["text", "data"]
    assert {section.source for section in sections} == {"a.doc"}


@needs_libreoffice
@pytest.mark.slow
async def test_a_ppt_is_read_as_powerpoint_is(tmp_path: Path) -> None:
    """Slide by slide, whatever it is called."""
    data = _old(tmp_path, pptx_sample(), "pptx", "ppt")

    sections = await parser_for("upload.bin", data=data).parse(data, "a.ppt")

    assert sections[0].metadata["slide"] == 1
    assert "Rain in Norway" in sections[0].text


async def test_without_libreoffice_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program to install, and the format to save in."""
    monkeypatch.setenv("PATH", "")

    with pytest.raises(
        UnsupportedFormatError, match=r"a\.doc: .*LibreOffice.*apt-get install .*save the file as \.docx"
    ):
        LegacyOfficeParser(isolation="none").parse_here(_DOC, "a.doc")


def test_a_program_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """With all that it started."""
    program = tmp_path / "soffice"
    program.write_text("#!/bin/sh\nsleep 60 & sleep 60\n")
    program.chmod(0o755)

    with pytest.raises(ParseTimeoutError, match=r"a\.doc: .*timeout_s=0.5"):
        LegacyOfficeParser(program=str(program), timeout_s=0.5).read(_DOC, "a.doc")


def test_a_file_that_cannot_be_converted_is_an_error_with_the_words_of_the_program(tmp_path: Path) -> None:
    """It exits with 0 all the same."""
    program = tmp_path / "soffice"
    program.write_text("#!/bin/sh\necho Error: source file could not be loaded\n")
    program.chmod(0o755)

    with pytest.raises(ParseError, match=r"a\.doc: LibreOffice cannot convert it.*could not be loaded"):
        LegacyOfficeParser(program=str(program)).read(_DOC, "a.doc")


async def test_text_and_html_that_are_called_doc_are_read_as_such() -> None:
    """Programs export HTML, and people write text, under that name."""
    page = b"<html><body><h1>Rain</h1></body></html>"

    assert isinstance(parser_for("a.doc", data=page), HTMLParser)
    assert LegacyOfficeParser().read(b"It rains.", "a.doc")[0].text == "It rains."


def test_the_time_limit_is_checked() -> None:
    """Above 0."""
    with pytest.raises(ConfigurationError, match="timeout_s is 0"):
        LegacyOfficeParser(timeout_s=0)
