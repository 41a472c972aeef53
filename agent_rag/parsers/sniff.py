"""What a file is, judged by its bytes."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from pathlib import Path
from typing import Literal, NamedTuple

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
XLSB = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
XLS = "application/vnd.ms-excel"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
EPUB = "application/epub+zip"
RTF = "application/rtf"
ODT = "application/vnd.oasis.opendocument.text"
ODP = "application/vnd.oasis.opendocument.presentation"
MSG = "application/vnd.ms-outlook"
NOTEBOOK = "application/x-ipynb+json"
ENCRYPTED_OFFICE = "application/x-ole-encrypted"

_HEAD = 4096
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_DAMAGED_ZIP = (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, RuntimeError, zlib.error)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

_MAGIC: list[tuple[bytes, str]] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"{\\rtf", RTF),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"\x7fELF", "application/x-executable"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"PAR1", "application/vnd.apache.parquet"),
]
_OLE_STREAMS: list[tuple[str, str]] = [
    ("EncryptedPackage", ENCRYPTED_OFFICE),
    ("__substg1.0_", MSG),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
    ("WordDocument", "application/msword"),
    ("Workbook", XLS),
    ("Book", XLS),
]
_OOXML_PARTS: list[tuple[str, str]] = [
    ("xl/workbook.bin", XLSB),
    ("xl/workbook.xml", XLSX),
    ("word/document.xml", DOCX),
    ("ppt/presentation.xml", PPTX),
]
_OOXML_FOLDERS: list[tuple[str, str]] = [("word/", DOCX), ("ppt/", PPTX), ("xl/", XLSX)]
_MAIN_PART = re.compile(rb'ContentType="[^"]*?(wordprocessingml|presentationml|spreadsheetml)[^"]*?main\+xml"')
_MAIN_KIND = {b"wordprocessingml": DOCX, b"presentationml": PPTX, b"spreadsheetml": XLSX}

# Atomic: a comment ends at its first "-->"; trying its other ends too doubles the time with every comment.
_HTML = re.compile(
    rb"\s*+(?>(?:<!--.*?-->\s*+|<\?xml[^>]*+>\s*+)*)<(?:!doctype\s+html|html|head|body|table|meta)\b", re.I | re.S
)
_NOTEBOOK = re.compile(rb'\{\s*"(?:cells|metadata|worksheets)"\s*:')
_EMAIL = re.compile(
    rb"(?:[A-Za-z][A-Za-z0-9-]*:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*)*?"
    rb"(?:received|message-id|mime-version|return-path|from|date|subject):",
    re.I,
)


class Detected(NamedTuple):
    """A judgement about bytes."""

    media_type: str
    certain: Literal["magic", "text", "none"]
    """"magic": a signature says so. "text": readable text of this likely kind. "none": nothing is known."""


def detect(data: bytes | Path) -> Detected:
    """Media type of a file's content; reads the central directory of a zip, else the first 4 KB."""
    head = head_of(data)
    found = _by_signature(head, data)
    if found:
        return Detected(found, "magic")
    if looks_like_text(head):
        return Detected(text_kind(head), "text")
    return Detected("application/octet-stream", "none")


def looks_like_text(head: bytes) -> bool:
    """Whether the bytes can be text: a BOM, UTF-16/32 without one, or hardly any control character."""
    if not head or head.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return True
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b\x08" for byte in head)
    nuls = head.count(0)
    if nuls:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        return controls == nuls and min(even, odd) <= 0.05 * len(head) < 0.2 * len(head) < max(even, odd) + nuls // 2
    return controls <= len(head) // 100


def text_kind(head: bytes) -> str:
    """HTML, XML, JSON, e-mail or plain text, by how the text starts."""
    plain = head.replace(b"\x00", b"").removeprefix(b"\xef\xbb\xbf").lstrip(b"\xff\xfe").lstrip()
    if _HTML.match(plain):
        return "text/html"
    if re.match(rb"<svg[\s>]", plain):
        return "image/svg+xml"
    if plain.startswith((b"<?xml", b"<!DOCTYPE")):
        return "application/xml"
    if _NOTEBOOK.match(plain) and b'"cell_type"' in plain:
        return NOTEBOOK
    if re.match(rb'(?:\{\s*["}]|\[\s*(?:[\[{"\]\-\d]|true|false|null))', plain):
        return "application/json"
    if _EMAIL.match(plain) and len(re.findall(rb"^[A-Za-z][A-Za-z0-9-]*: ", plain, re.M)) >= 3:
        return "message/rfc822"
    return "text/plain"


def is_delimited(data: bytes | Path) -> bool:
    """Whether the first lines have the same number of tabs, semicolons or commas, in three columns and more."""
    lines = [line for line in head_of(data).split(b"\n")[:-1][:20] if line.strip()]
    counts = ([line.count(mark) for line in lines] for mark in (b"\t", b";", b","))
    return len(lines) >= 3 and any(min(found) == max(found) >= 2 for found in counts)


def head_of(data: bytes | Path) -> bytes:
    """The first 4 KB."""
    if isinstance(data, Path):
        with data.open("rb") as file:
            return file.read(_HEAD)
    return data[:_HEAD]


def _by_signature(head: bytes, data: bytes | Path) -> str | None:
    if head.startswith(_ZIP):
        return _zip_kind(data)
    if head.startswith(_OLE):
        return _ole_kind(data)
    if b"%PDF-" in head[:1024]:
        return "application/pdf"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[:2] == b"BM" and len(head) >= 26 and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    if head[4:8] == b"ftyp":
        return "image/heic" if head[8:11] in (b"hei", b"mif", b"avi") else "video/mp4"
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def _zip_kind(data: bytes | Path) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data) as archive:
            return _archive_kind(archive)
    except _DAMAGED_ZIP:
        return _damaged_zip_kind(data if isinstance(data, bytes) else data.read_bytes())


def archive_kind(archive: zipfile.ZipFile) -> str:
    """Media type of a zip that is open already; "application/zip" where nothing tells it."""
    try:
        return _archive_kind(archive)
    except _DAMAGED_ZIP:
        return "application/zip"


def _archive_kind(archive: zipfile.ZipFile) -> str:
    names = archive.NameToInfo
    if "mimetype" in names and archive.getinfo("mimetype").file_size < 200:
        return archive.read("mimetype").decode("ascii", "replace").strip().lower()
    for part, kind in _OOXML_PARTS:
        if part in names:
            return kind
    if "[Content_Types].xml" in names and archive.getinfo("[Content_Types].xml").file_size < 10_000_000:
        main = _MAIN_PART.search(archive.read("[Content_Types].xml"))
        if main:
            return _MAIN_KIND[main[1]]
    return next(
        (kind for folder, kind in _OOXML_FOLDERS if any(n.startswith(folder) for n in names)), "application/zip"
    )


def _damaged_zip_kind(data: bytes) -> str:
    """Local file headers hold the names in clear, so a zip that lost its directory still tells what it was."""
    for kind in (EPUB, ODT, ODP, ODS):
        if kind.encode() in data[:200]:
            return kind
    for part, kind in [*_OOXML_PARTS, *_OOXML_FOLDERS]:
        if part.encode() in data:
            return kind
    return "application/zip"


def _ole_kind(data: bytes | Path) -> str:
    content = data if isinstance(data, bytes) else data.read_bytes()
    for stream, kind in _OLE_STREAMS:
        if stream.encode("utf-16-le") in content:
            return kind
    return "application/x-ole-storage"
