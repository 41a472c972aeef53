"""Office Open XML packages: the zip, its parts, their relationships, and the safety checks before any of it.

The libraries' own readers load every part at once and lose the whole document to one dangling relationship
(python-docx and python-pptx: KeyError), to a macro-enabled content type or to the Strict namespaces. This one reads
what is asked for.
"""

from __future__ import annotations

import base64
import io
import logging
import mimetypes
import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple
from urllib.parse import unquote

from ...content import Base64Source, DataBlock
from ...documents import Section
from ...errors import EncryptedFileError, ParseError, ParseLimitError, UnsupportedFormatError
from .. import sniff
from .xml import xml_root, xml_stream

logger = logging.getLogger(__name__)

Element = Any
"""An lxml element; lxml ships no types."""

DEFAULT_MAX_INFLATED_BYTES = 256 * 1024 * 1024
"""Largest honest package among 1,100 public ones: 15.8 MiB (notes/PARSERS.md, part 7)."""

_OOXML = "http://schemas.openxmlformats.org/"
W = f"{{{_OOXML}wordprocessingml/2006/main}}"
P = f"{{{_OOXML}presentationml/2006/main}}"
S = f"{{{_OOXML}spreadsheetml/2006/main}}"
A = f"{{{_OOXML}drawingml/2006/main}}"
C = f"{{{_OOXML}drawingml/2006/chart}}"
DGM = f"{{{_OOXML}drawingml/2006/diagram}}"
PIC = f"{{{_OOXML}drawingml/2006/picture}}"
WP = f"{{{_OOXML}drawingml/2006/wordprocessingDrawing}}"
XDR = f"{{{_OOXML}drawingml/2006/spreadsheetDrawing}}"
M = f"{{{_OOXML}officeDocument/2006/math}}"
R = f"{{{_OOXML}officeDocument/2006/relationships}}"
MC = f"{{{_OOXML}markup-compatibility/2006}}"
V = "{urn:schemas-microsoft-com:vml}"
CX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"

_RELATIONSHIP = f"{{{_OOXML}package/2006/relationships}}Relationship"
_STRICT_MARK = b"http://purl.oclc.org/ooxml/"
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CONTROL = re.compile(r"[\x00-\x08\x0c\x0e-\x1f]")
_MAIN_PARTS = ("word/document.xml", "ppt/presentation.xml", "xl/workbook.xml")


class Relationship(NamedTuple):
    """A link from one part to another part or to a URL."""

    kind: str
    """Last segment of its type, for example ``image``; the same in Strict and Transitional files."""
    target: str
    """Name of a part of the package, or a URL."""
    external: bool


class Package:
    """An Office Open XML file, read part by part.

    Args:
        data: The file.
        filename: Named in errors.
        expected: Media type of `_sniff` that the content must have.
        max_inflated_bytes: Bound on the sum of the sizes that the zip directory declares; zipfile never reads past
            them. The compression ratio is no measure: honest parts reach 667:1, bombs 133:1.

    Raises: EncryptedFileError, UnsupportedFormatError, ParseLimitError; zipfile.BadZipFile.
    """

    def __init__(self, data: bytes, filename: str, *, expected: str, max_inflated_bytes: int) -> None:
        self.filename = filename
        self._max_inflated_bytes = max_inflated_bytes
        self._label = ""
        self._nested = 0
        self._zip = _open_checked(data, filename, expected, max_inflated_bytes)
        self._entries = {_key(info.filename): info for info in self._zip.infolist()}
        self._relationships: dict[str, dict[str, Relationship]] = {}
        self._content_types: tuple[dict[str, str], dict[str, str]] | None = None
        self._images: dict[str, Base64Source] = {}  # a file may show one image a million times
        self.strict = False
        self.strict = "_rels/.rels" in self and _STRICT_MARK in self.read("_rels/.rels")
        """Whether its parts are in the namespaces of ISO 29500 Strict."""
        self.main_part = self._find_main_part()

    def __contains__(self, part: str) -> bool:
        return _key(part) in self._entries

    def read(self, part: str) -> bytes:
        """Raises: KeyError: there is no such part."""
        return self._zip.read(self._entries[_key(part)])

    def _open(self, part: str) -> IO[bytes]:
        if self.strict:
            return io.BytesIO(self.transitional(part))
        return self._zip.open(self._entries[_key(part)])

    def transitional(self, part: str) -> bytes:
        """The XML of a part, in the namespaces of the Transitional standard."""
        data = self.read(part)
        return _transitional(data) if self.strict else data

    def xml(self, part: str) -> Element:
        """The root element of a part."""
        return self.parsed(self.transitional(part))

    def parsed(self, data: bytes) -> Element:
        """The root element of XML that belongs to the package."""
        return xml_root(data)

    def xml_or_none(self, part: str | None) -> Element | None:
        """The root element, or None when the package lacks the part."""
        return self.xml(part) if part is not None and part in self else None

    def stream(self, part: str, *tags: str) -> Iterator[Element]:
        """The elements with these tags as they end, in document order, without holding the whole tree.

        The caller calls `forget` on those that it has read.
        """
        with self._open(part) as stream:
            yield from xml_stream(stream, *tags)

    def relationships(self, part: str) -> dict[str, Relationship]:
        """Relationships of a part by id; those to parts that are missing are left out."""
        if part not in self._relationships:
            self._relationships[part] = dict(self._read_relationships(part))
        return self._relationships[part]

    def related(self, part: str, kind: str) -> list[str]:
        """Names of the parts that `part` links to by relationships of this kind."""
        found = self.relationships(part).values()
        return [item.target for item in found if item.kind == kind and not item.external]

    def content_type(self, part: str) -> str:
        """Media type as the package declares it; "" when it does not."""
        if self._content_types is None:
            self._content_types = self._read_content_types()
        by_name, by_extension = self._content_types
        return by_name.get(_key(part)) or by_extension.get(posixpath.splitext(part)[1].lstrip(".").lower(), "")

    def image(self, part: str, *, alt: str, **metadata: Any) -> Section:
        """An image part as a Section of its own."""
        if part not in self._images:
            data = self.read(part)
            media_type = image_type(data, self.content_type(part), part)
            self._images[part] = Base64Source(data=base64.b64encode(data).decode("ascii"), media_type=media_type)
        source = self._images[part]
        block = DataBlock(source=source, name=posixpath.basename(part), caption=alt or None)
        return Section(content=block, source=self.filename, metadata={**metadata, "media_type": source.media_type})

    def nested(self, data: bytes, *, expected: str) -> Package:
        """A package inside this one; both count against the same bound."""
        used = sum(info.file_size for info in self._zip.infolist())
        inner = Package(data, self.filename, expected=expected, max_inflated_bytes=self._max_inflated_bytes - used)
        self._nested += 1
        inner._label = f"{self._label}embedded{self._nested}/"
        self._max_inflated_bytes -= sum(info.file_size for info in inner._zip.infolist())
        return inner

    def adopt_image(self, inner: Package, part: str) -> str:
        """Make an image of a package inside this one known here. Returns: its name here."""
        name = f"{inner._label}{part}"
        if name not in self._images:
            inner.image(part, alt="")
            self._images[name] = inner._images[part]
        return name

    def _find_main_part(self) -> str:
        named = [*self.related("", "officeDocument"), *_MAIN_PARTS]
        part = next((name for name in named if name in self), None)
        if part is None:
            raise ParseError(f"{self.filename}: the package has no main part such as {_MAIN_PARTS[0]}; is it damaged?")
        return part

    def _read_relationships(self, part: str) -> Iterator[tuple[str, Relationship]]:
        folder, name = posixpath.split(part)
        source = posixpath.join(folder, "_rels", f"{name}.rels")
        if source not in self:
            return
        for item in self.xml(source).iter(_RELATIONSHIP):
            kind = posixpath.basename(item.get("Type", ""))
            target = item.get("Target", "")
            if item.get("TargetMode") == "External":
                yield item.get("Id"), Relationship(kind, target, True)
                continue
            path = unquote(target.partition("#")[0]).replace("\\", "/")
            path = posixpath.normpath(posixpath.join("/", folder, path)).lstrip("/")
            if path in self:
                yield item.get("Id"), Relationship(kind, path, False)
            elif path != "NULL":
                logger.warning("%s: %s refers to the missing part %s", self.filename, part or "package", path)

    def _read_content_types(self) -> tuple[dict[str, str], dict[str, str]]:
        by_name: dict[str, str] = {}
        by_extension: dict[str, str] = {}
        if "[Content_Types].xml" in self:
            for item in self.xml("[Content_Types].xml"):
                if item.get("PartName"):
                    by_name[_key(item.get("PartName"))] = item.get("ContentType", "")
                elif item.get("Extension"):
                    by_extension[item.get("Extension").lower()] = item.get("ContentType", "")
        return by_name, by_extension


def _open_checked(data: bytes, filename: str, expected: str, max_inflated_bytes: int) -> zipfile.ZipFile:
    """`check_archive` and a look at what is inside; reads the zip's directory once."""
    try:
        archive = check_archive(data, filename, max_inflated_bytes)
    except zipfile.BadZipFile:
        check_kind(sniff.detect(data).media_type, filename, expected)
        raise
    check_kind(sniff.archive_kind(archive), filename, expected)
    return archive


def check_kind(detected: str, filename: str, expected: str) -> None:
    """Raises: EncryptedFileError; UnsupportedFormatError: the content is known to be something else."""
    if detected == sniff.ENCRYPTED_OFFICE:
        raise EncryptedFileError(f"{filename}: the file is encrypted with a password; save a copy without one")
    if detected not in (expected, "application/zip"):
        raise UnsupportedFormatError(
            f"{filename}: the content is {detected}, not {expected}; "
            "let parser_for(filename, data=...) choose the parser, or convert the file"
        )


def check_archive(data: bytes, filename: str, max_inflated_bytes: int) -> zipfile.ZipFile:
    """Open a zip, if its directory declares at most `max_inflated_bytes`.

    Raises: ParseLimitError; EncryptedFileError: an entry is locked; zipfile.BadZipFile.
    """
    archive = zipfile.ZipFile(io.BytesIO(data))
    inflated = sum(info.file_size for info in archive.infolist())
    if inflated > max_inflated_bytes:
        raise ParseLimitError(
            f"{filename}: the file unpacks to {inflated:,} bytes, over the limit "
            f"max_inflated_bytes={max_inflated_bytes:,}; raise max_inflated_bytes of its parser if you trust the file"
        )
    if any(info.flag_bits & 1 for info in archive.infolist()):
        raise EncryptedFileError(f"{filename}: the zip entries are encrypted with a password; save a copy without one")
    return archive


def forget(element: Element) -> None:
    """Free an element of a stream and what stands before it."""
    element.clear()
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]


def decode_escapes(text: str) -> str:
    """Undo ``_x000D_``, the escape of characters that XML cannot hold; control characters are dropped."""
    if "_x" not in text:
        return text
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _key(part: str) -> str:
    return part.replace("\\", "/").lstrip("/").lower()


def _transitional(xml: bytes) -> bytes:
    """Strict namespaces and relationship types by their Transitional names (ECMA-376 part 4 against part 1)."""
    return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006", xml) if _STRICT_MARK in xml else xml


def image_type(data: bytes, declared: str, part: str) -> str:
    detected = sniff.detect(data)
    if detected.certain == "magic":
        return detected.media_type
    if declared.startswith("image/"):
        return declared
    return mimetypes.guess_type(part)[0] or "application/octet-stream"
