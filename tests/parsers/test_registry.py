"""`parser_for` decides by content, then media type, then name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_rag import DirectorySource, ParserBase, Section, TextBlock
from agent_rag.errors import EncryptedFileError, MissingExtraError, ParseError, UnsupportedFormatError
from agent_rag.parsers import (
    ExcelParser,
    PDFParser,
    TesseractOCR,
    TextParser,
    parser_for,
    register_parser,
    registry,
    supported_extensions,
)
from agent_rag.parsers.sniff import detect

from .samples import SAMPLES, docx_sample, pdf_sample, xlsx_sample

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 1000


def _ole(stream: str) -> bytes:
    return _OLE + stream.encode("utf-16-le") + b"\0" * 1000


@pytest.fixture
def clean_registry() -> Iterator[None]:
    before = list(registry._custom)
    yield
    registry._custom[:] = before


@pytest.mark.parametrize("name", SAMPLES)
def test_content_alone_finds_the_parser_of_every_binary_format(name: str) -> None:
    """Without name and media type a signature decides; text without one is plain text, HTML, XML, JSON or e-mail."""
    by_name = type(parser_for(name)).__name__
    data = SAMPLES[name]()
    guessed = {"CSVParser", "YAMLParser", "MarkdownParser", "RSTParser", "CodeParser"}

    found = type(parser_for("", data=data)).__name__

    assert found == ("TextParser" if by_name in guessed else by_name)


@pytest.mark.parametrize("name", ["x.bin", "x.pdf", "x", "x.txt", "X.XLSX"])
async def test_a_docx_under_another_name_is_read_as_docx(name: str) -> None:
    """P49: neither "zip" nor the wrong ending decides."""
    sections = await parser_for(name, data=docx_sample()).parse(docx_sample(), name)

    assert "It rains in Bergen." in sections[0].text


async def test_a_pdf_called_docx_is_read_as_pdf() -> None:
    """The PDF header may stand anywhere in the first kilobyte."""
    data = b"\n\n" + pdf_sample()

    sections = await parser_for("report.docx", "application/msword", data).parse(data, "report.docx")

    assert [section.metadata["page"] for section in sections] == [1, 2]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"City\tRain\nOslo\t4\n", "| Oslo | 4 |"),
        (b"<html><table><tr><td>City<td>Rain<tr><td>Oslo<td>4</table>", "| Oslo | 4 |"),
    ],
    ids=["tab-separated", "html"],
)
async def test_a_workbook_that_is_text_is_read_as_what_it_is(data: bytes, expected: str) -> None:
    """P23: web applications export text and call it .xls."""
    sections = await parser_for("report.xls", "application/vnd.ms-excel", data).parse(data, "report.xls")

    assert expected in sections[0].text


def test_the_media_type_counts_more_than_the_name_for_text() -> None:
    """A server's text/markdown beats .txt; its text/plain or octet-stream says nothing and the name decides."""
    data = b"# Rain\n"

    assert type(parser_for("a.txt", "text/markdown; charset=utf-8", data)).__name__ == "MarkdownParser"
    assert type(parser_for("a.md", "text/plain", data)).__name__ == "MarkdownParser"
    assert type(parser_for("A.MD", "application/octet-stream", data)).__name__ == "MarkdownParser"


def test_a_path_is_sniffed_without_reading_it_whole(tmp_path: Path) -> None:
    """`data` may be a Path."""
    path = tmp_path / "report"
    path.write_bytes(xlsx_sample())

    parser = parser_for("report", data=path)

    assert isinstance(parser, ExcelParser)
    assert parser.separate_sheet


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.vsd", _ole("VisioDocument"), "application/x-ole-storage"),
        ("a.mp4", b"\0\0\0\x18ftypisom" + b"\0" * 100, "video/mp4"),
        ("a.zip", b"PK\x05\x06" + b"\0" * 18, "application/zip"),
        ("a.exe", bytes(range(256)) * 4, "application/octet-stream"),
        ("a.xyz", None, ".xyz"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_can(name: str, data: bytes | None, kind: str) -> None:
    """The error says the file, the detected type and the supported endings."""
    with pytest.raises(UnsupportedFormatError) as caught:
        parser_for(name, data=data)

    assert f"{name}: no parser for {kind}" in str(caught.value)
    assert ".docx" in str(caught.value)


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.bin"])
async def test_an_encrypted_office_file_is_said_to_be_encrypted(name: str) -> None:
    """A password turns an Office file into an OLE container, whatever its ending."""
    data = _ole("EncryptedPackage")

    with pytest.raises(EncryptedFileError, match=f"{name}.*encrypted"):
        await parser_for(name, data=data).parse(data, name)


def test_text_of_no_known_ending_is_plain_text() -> None:
    """Licences and logs carry no ending."""
    assert type(parser_for("LICENSE", data="Größe\n".encode("cp1252"))) is TextParser
    assert type(parser_for("boot.messages", data=b"one\ntwo\n")) is TextParser


async def test_plain_text_called_pdf_is_an_error_that_says_so() -> None:
    """No garbage and no empty success."""
    data = b"just words\n"

    with pytest.raises(ParseError, match=r"x\.pdf: this is no PDF"):
        await parser_for("x.pdf", data=data).parse(data, "x.pdf")


class LoudParser(ParserBase):
    supported_media_types = ["text/markdown", "application/x-loud"]

    async def parse(self, file: bytes | str | Path, filename: str) -> list[Section]:
        assert isinstance(file, bytes)
        return [Section(content=TextBlock(text=file.decode().upper()), source=filename)]


@pytest.mark.usefixtures("clean_registry")
def test_the_parser_registered_last_wins() -> None:
    """Also against the shipped ones, by media type and by ending."""
    register_parser(LoudParser, extensions=[".LOUD", ".md"])

    assert isinstance(parser_for("a.md", data=b"# x"), LoudParser)
    assert isinstance(parser_for("a.loud", data=b"x"), LoudParser)
    assert isinstance(parser_for("a", "application/x-loud"), LoudParser)
    assert ".loud" in supported_extensions()


@pytest.mark.usefixtures("clean_registry")
def test_a_factory_registers_with_options() -> None:
    """A function that makes the parser, with explicit types."""
    register_parser(lambda: TextParser("cp1252"), extensions=[".dat"])

    parser = parser_for("a.dat", data=b"x\xe9")

    assert isinstance(parser, TextParser)
    assert parser.encoding == "cp1252"
    with pytest.raises(ValueError, match="no media type and no extension"):
        register_parser(lambda: TextParser())


def test_supported_extensions_are_sorted_and_lower_case() -> None:
    """Directory ingestion takes files with these endings."""
    endings = supported_extensions()

    assert endings == sorted(endings)
    assert {".pdf", ".docx", ".pptx", ".xlsx", ".xls", ".csv", ".eml", ".epub", ".png", ".py"} <= set(endings)


def test_every_shipped_entry_agrees_with_its_class() -> None:
    """The registry's table, written down so that nothing is imported, says what the classes say."""
    for entry in registry._SHIPPED:
        parser = entry.make()
        assert set(parser.supported_extensions()) >= set(entry.extensions), type(parser).__name__
        assert parser.supported_media_types[0] in entry.media_types, type(parser).__name__


def test_importing_the_package_loads_no_library() -> None:
    """Also choosing a parser loads none."""
    code = (
        "import sys, agent_rag.parsers as p; p.parser_for('a.pdf'); p.parser_for('a.xlsx'); p.parser_for('a.html');"
        "print([m for m in ('pypdf','pypdfium2','docx','pptx','openpyxl','lxml','PIL','python_calamine',"
        "'charset_normalizer') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ("<!-- x -->\n<!DOCTYPE html><p>a".encode("utf-16"), "text/html"),
        (b'\xef\xbb\xbf[{"a": 1}]', "application/json"),
        (b"[section]\nname = x\n", "text/plain"),
        (b"<?xml version='1.0'?><a/>", "application/xml"),
        (b"From: a@b.c\nTo: d@e.f\nSubject: x\n\nhi", "message/rfc822"),
        (b"Note: this: is: text\nand more\n", "text/plain"),
        ("日本語のテキスト".encode("utf-16-le"), "text/plain"),
    ],
)
def test_text_is_told_apart_by_how_it_starts(data: bytes, kind: str) -> None:
    """Only where the name says nothing better."""
    assert detect(data).media_type == kind


async def test_a_missing_library_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of the default install, which somebody left out."""
    monkeypatch.setitem(sys.modules, "lxml", None)

    with pytest.raises(
        MissingExtraError, match=r"a\.html: reading HTML needs .*'lxml'.*pip install 'agent-rag-middleware'"
    ):
        await parser_for("a.html").parse(b"<p>x", "a.html")


def test_a_fingerprint_changes_with_the_options_that_count() -> None:
    """Not with a password, nor with where the work is done."""
    first = PDFParser(password="s3cret", isolation="none").fingerprint

    assert first == PDFParser().fingerprint
    assert "s3cret" not in first
    assert first != PDFParser(engine="pypdf").fingerprint
    german = PDFParser(ocr=TesseractOCR("deu")).fingerprint
    assert german == PDFParser(ocr=TesseractOCR("deu")).fingerprint != PDFParser(ocr=TesseractOCR()).fingerprint


@pytest.mark.parametrize(
    ("name", "data", "parser"),
    [
        ("README", b"Title\n=====\n\ntext\n", "MarkdownParser"),
        ("LICENSE", b"Permission is granted\n", "TextParser"),
        ("table", b"a;b;c\n1;2;3\n4;5;6\n", "CSVParser"),
        ("nginx.conf", b"[a]\nx=1\n", "CodeParser"),
        ("de.po", b'msgid "a"\nmsgstr "b"\n', "TextParser"),
        ("talk.vtt", b"WEBVTT\n", "TranscriptParser"),
    ],
)
def test_everyday_files_without_a_format_of_their_own_are_read(name: str, data: bytes, parser: str) -> None:
    """By name where there is no ending, and as a table where lines are rows."""
    assert type(parser_for(name, data=data)).__name__ == parser


async def test_a_folder_takes_files_that_are_known_by_name(tmp_path: Path) -> None:
    """README and LICENSE, but no unknown ones."""
    for name in ("README", "LICENSE", "blob"):
        (tmp_path / name).write_text("words of text")

    listing = await DirectorySource(tmp_path).list()

    assert sorted(item.filename for item in listing.items) == ["LICENSE", "README"]
    assert [path for path, _ in listing.skipped] == ["blob"]
