"""Which parser reads a file: by its content first, then its media type, then its name."""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from .._util.languages import LANGUAGE_BY_EXTENSION, language_of
from ..errors import UnsupportedFormatError
from . import sniff
from .base import ParserBase

logger = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "agent_rag.parsers"

ParserFactory = Callable[[], ParserBase]


class _Entry(NamedTuple):
    make: Callable[..., ParserBase]
    media_types: tuple[str, ...]
    extensions: tuple[str, ...]
    custom: bool


def _shipped(module: str, name: str, media_types: str, extensions: str, **options: object) -> _Entry:
    def make(given: Mapping[str, Any] | None = None) -> ParserBase:
        cls = getattr(importlib.import_module(f".{module}", __package__), name)
        takes = inspect.signature(cls).parameters if given else ()
        parser: ParserBase = cls(**options, **{key: value for key, value in (given or {}).items() if key in takes})
        return parser

    return _Entry(make, tuple(media_types.split()), tuple(extensions.split()), custom=False)


_SHIPPED = [
    _shipped("text.plain", "TextParser", "text/plain", ".txt .text .log .po .pot .ics .vcf .types"),
    _shipped("text.markdown", "MarkdownParser", "text/markdown text/x-markdown", ".md .markdown .mdown .mkd .mdx"),
    _shipped("web.html", "HTMLParser", "text/html application/xhtml+xml", ".html .htm .xhtml"),
    _shipped("text.csv", "CSVParser", "text/csv text/tab-separated-values application/csv", ".csv .tsv .tab"),
    _shipped("text.json", "JSONParser", "application/json application/x-ndjson application/jsonl application/jsonlines"
             " application/geo+json application/ld+json text/json", ".json .jsonl .ndjson .geojson .jsonld"),
    _shipped("text.notebook", "NotebookParser", sniff.NOTEBOOK, ".ipynb"),
    _shipped("text.xml", "XMLParser", "application/xml text/xml application/rss+xml application/atom+xml image/svg+xml",
             ".xml .rss .atom .svg .xsd .xsl .kml .gpx .csproj .plist .wsdl .xliff .xlf"),
    _shipped("text.transcript", "TranscriptParser", "text/vtt application/x-subrip text/srt", ".vtt .srt"),
    _shipped("text.yaml", "YAMLParser", "application/yaml application/x-yaml text/yaml text/x-yaml", ".yaml .yml"),
    _shipped("text.rst", "RSTParser", "text/x-rst text/prs.fallenstein.rst", ".rst .rest"),
    _shipped("text.markup", "AsciiDocParser", "text/asciidoc text/x-asciidoc", ".adoc .asciidoc .asc"),
    _shipped("text.markup", "OrgParser", "text/org text/x-org", ".org"),
    _shipped("text.markup", "LaTeXParser", "application/x-tex text/x-tex application/x-latex", ".tex .latex"),
    _shipped("text.code", "CodeParser", "text/x-python text/x-script.python application/javascript text/javascript"
             " text/x-c text/x-java-source text/x-go text/x-rust application/x-sh application/sql application/toml",
             " ".join(LANGUAGE_BY_EXTENSION)),
    _shipped("mail.email", "EmailParser", "message/rfc822", ".eml"),
    _shipped("mail.msg", "MSGParser", sniff.MSG, ".msg"),
    _shipped("web.epub", "EPUBParser", sniff.EPUB, ".epub"),
    _shipped("pdf.pdf", "PDFParser", "application/pdf application/x-pdf", ".pdf"),
    _shipped("office.word", "WordParser", f"{sniff.DOCX} application/vnd.ms-word.document.macroenabled.12"
             " application/vnd.openxmlformats-officedocument.wordprocessingml.template", ".docx .docm .dotx"),
    _shipped("office.powerpoint", "PPTParser", sniff.PPTX +
             " application/vnd.ms-powerpoint.presentation.macroenabled.12"
             " application/vnd.openxmlformats-officedocument.presentationml.slideshow", ".pptx .pptm .ppsx"),
    _shipped("office.sheets.excel", "ExcelParser", f"{sniff.XLSX} {sniff.XLS} {sniff.XLSB} {sniff.ODS}"
             " application/vnd.ms-excel.sheet.macroenabled.12",
             ".xlsx .xlsm .xltx .xls .xlsb .ods", separate_sheet=True),
    _shipped("office.opendocument", "ODTParser", f"{sniff.ODT} {sniff.ODT}-template", ".odt .ott"),
    _shipped("office.opendocument", "ODPParser", f"{sniff.ODP} {sniff.ODP}-template", ".odp .otp"),
    _shipped("office.legacy", "LegacyOfficeParser", "application/msword application/vnd.ms-powerpoint",
             ".doc .dot .ppt .pps .pot"),
    _shipped("office.rtf", "RTFParser", f"{sniff.RTF} text/rtf", ".rtf"),
    _shipped("images.image", "ImageParser", "image/png image/jpeg image/gif image/bmp image/webp image/tiff",
             ".png .jpg .jpeg .gif .bmp .webp .tif .tiff"),
]  # fmt: skip

_GENERIC = {
    "text/plain",
    "application/octet-stream",
    "binary/octet-stream",
    "application/zip",
    "application/x-zip-compressed",
    "",
}
_TABULAR = (".xls", ".xlsx", ".xlsm", ".xlsb", ".ods")
_WORKBOOK_AS_TEXT = "text/csv"
_OFFICE = (".docx", ".docm", ".dotx", ".pptx", ".pptm", ".ppsx", ".xlsx", ".xlsm", ".xltx", ".xls", ".xlsb")

_BINARY = (
    "application/pdf",
    "application/msword",
    sniff.DOCX,
    sniff.PPTX,
    sniff.XLSX,
    sniff.ODT,
    sniff.ODP,
    sniff.EPUB,
    sniff.MSG,
    "image/png",
)

_READ_AS_MARKDOWN = frozenset({"readme", "changelog", "changes", "contributing", "history", "news", "install", "todo"})
_NAMED_FILES = _READ_AS_MARKDOWN | {
    "license", "licence", "copying", "notice", "authors", "contributors", "maintainers", "copyright", "procfile",
    "codeowners",
}  # fmt: skip
"""Files that are text and have no ending."""

_custom: list[_Entry] = []
_lock = threading.Lock()
_entry_points_loaded = False


def parser_for(
    filename: str | PurePath,
    media_type: str | None = None,
    data: bytes | Path | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> ParserBase:
    """The parser for a file: what its bytes say counts more than `media_type`, and that more than its name.

    Text is the exception, since bytes hardly tell Markdown from YAML: there the media type and the name decide, and
    the content only where they say nothing. A type claimed by several parsers goes to the one registered last.

    Args:
        filename: Name or path; only its ending is used.
        media_type: As declared by a server or an upload; parameters such as ``; charset=...`` are ignored.
        data: The content, or a Path to read it from; None decides by type and name alone.
        options: Given to a shipped parser that takes them, such as ``{"ocr": TesseractOCR()}``; others ignore them.

    Raises: UnsupportedFormatError: names the file, what it seems to be and what can be read.
    """
    extension = PurePath(filename).suffix.lower()
    if _by_extension(extension) is None:
        extension = _extension_of_code(filename, data) or extension
    declared = (media_type or "").split(";")[0].strip().lower()
    detected = sniff.detect(data) if data is not None else sniff.Detected("", "none")
    if not extension and detected == sniff.Detected("text/plain", "text") and declared in _GENERIC:
        detected = sniff.Detected(_bare_kind(PurePath(filename).name, data), "text")
    entry = _choose(detected, declared, extension)
    if entry is None:
        raise _unsupported(filename, detected.media_type or declared or extension or "unknown")
    return entry.make() if entry.custom else entry.make(options)


def text_parser_for(filename: str | PurePath) -> ParserBase:
    """The parser for text in memory: what the name says if that is a text format, else `TextParser`."""
    named = _by_extension(PurePath(filename).suffix.lower())
    entry = named if named is not None and not _is_binary(named) else _by_type("text/plain")
    assert entry is not None  # text/plain is always registered
    return entry.make()


def register_parser(
    parser: type[ParserBase] | ParserFactory,
    *,
    media_types: Sequence[str] | None = None,
    extensions: Sequence[str] | None = None,
) -> None:
    """Make `parser_for` use a parser; the one registered last wins, also against the shipped ones.

    Args:
        parser: A ParserBase subclass (called without arguments) or a function that makes one.
        media_types: Defaults to the class's `supported_media_types`.
        extensions: With the dot, any case; defaults to the class's `supported_extensions()`.

    Raises: ValueError: neither a media type nor an extension is known.
    """
    is_class = isinstance(parser, type)
    kinds = media_types if media_types is not None else (parser.supported_media_types if is_class else ())  # type: ignore[union-attr]
    endings = extensions if extensions is not None else (parser.supported_extensions() if is_class else ())  # type: ignore[union-attr]
    if not kinds and not endings:
        raise ValueError(f"{parser!r} names no media type and no extension; pass media_types= or extensions=")
    entry = _Entry(parser, tuple(k.lower() for k in kinds), tuple(e.lower() for e in endings), custom=True)
    with _lock:
        _custom.append(entry)


def is_known_without_ending(path: Path) -> bool:
    """Whether a file is text by its usual name (README, Makefile), or code by its shebang or modeline."""
    return path.name.lower() in _NAMED_FILES or bool(_extension_of_code(path, path))


def supported_extensions() -> list[str]:
    """Every file name ending that has a parser, with the dot, lower case, sorted."""
    return sorted({extension for entry in _entries() for extension in entry.extensions})


def _extension_of_code(filename: str | PurePath, data: bytes | Path | None) -> str:
    """The ending that a Makefile or a script without an ending would have; "" when it is no code."""
    try:
        head = sniff.head_of(data) if data is not None else b""
    except OSError:
        return ""
    if not sniff.looks_like_text(head):
        return ""
    language = language_of(str(filename), head.decode("latin-1"))
    return next((ending for ending, named in LANGUAGE_BY_EXTENSION.items() if named == language), "")


def _bare_kind(name: str, data: bytes | Path | None) -> str:
    """Media type of text in a file without an ending: by its usual name, or as a table."""
    if name.lower() in _READ_AS_MARKDOWN:
        return "text/markdown"
    return "text/csv" if data is not None and sniff.is_delimited(data) else "text/plain"


def _choose(detected: sniff.Detected, declared: str, extension: str) -> _Entry | None:
    if detected.certain == "magic":
        return _by_signature(detected.media_type, declared, extension)
    if detected.certain == "text" and extension in _TABULAR:
        kind = detected.media_type
        return _by_type(_WORKBOOK_AS_TEXT if kind == "text/plain" else kind)
    named = _by_name(declared, extension)
    if detected.certain == "text" and (named is None or (_is_binary(named) and detected.media_type != "text/plain")):
        return _by_type(detected.media_type) or _by_type("text/plain")
    return named


def _by_signature(kind: str, declared: str, extension: str) -> _Entry | None:
    if kind == sniff.ENCRYPTED_OFFICE:
        return _by_extension(extension if extension in _OFFICE else ".xlsx")
    return _by_type(kind) or next((e for e in (_by_type(declared), _by_extension(extension)) if e and e.custom), None)


def _by_name(declared: str, extension: str) -> _Entry | None:
    if declared not in _GENERIC and (entry := _by_type(declared)):
        return entry
    return _by_extension(extension) or (_by_type(declared) if declared in _GENERIC else None)


def _by_type(media_type: str) -> _Entry | None:
    return next((e for e in reversed(_entries()) if media_type and media_type in e.media_types), None)


def _by_extension(extension: str) -> _Entry | None:
    return next((e for e in reversed(_entries()) if extension and extension in e.extensions), None)


def _is_binary(entry: _Entry) -> bool:
    return not entry.custom and any(kind in _BINARY for kind in entry.media_types)


def _entries() -> list[_Entry]:
    _load_entry_points()
    return [*_SHIPPED, *_custom]


def _load_entry_points() -> None:
    """Register what installed packages offer; one that fails to load is logged and left out."""
    global _entry_points_loaded
    if _entry_points_loaded:
        return
    _entry_points_loaded = True
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            register_parser(point.load())
        except Exception as error:
            logger.warning("parser entry point %r cannot be loaded: %s", point.name, error)


def _unsupported(filename: str | PurePath, kind: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{filename}: no parser for {kind}; supported endings: {' '.join(supported_extensions())}. "
        "Convert the file, or register a parser with register_parser()"
    )
