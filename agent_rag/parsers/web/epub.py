"""EPUB: one Section per chapter file, in reading order."""

from __future__ import annotations

import io
import posixpath
import zipfile
from typing import Any, ClassVar
from urllib.parse import unquote

from ...documents import Section, text_section
from ...errors import EncryptedFileError, ParseError, ParseLimitError
from ..file import MIB, FileIsolation, FileParser
from ..text.encoding import decode
from .html import HTMLParser, html_to_markdown

_CONTAINER = "META-INF/container.xml"
_FONT_OBFUSCATION = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


class EPUBParser(FileParser):
    """The chapters as Markdown in the order of the spine, each a Section with its headings.

    Metadata ``{"format": "markdown", "chapter": n, "title": title of the book}``, n from 1.

    Args:
        max_inflated_bytes: Sum of the sizes in the zip directory; more raises ParseLimitError before unpacking.
    """

    format_name = "EPUB"
    supported_media_types: ClassVar[list[str]] = ["application/epub+zip"]

    def __init__(
        self,
        *,
        max_inflated_bytes: int = 256 * MIB,
        max_file_bytes: int = 256 * MIB,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(max_file_bytes=max_file_bytes, isolation=isolation)
        self.max_inflated_bytes = max_inflated_bytes

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".epub"]

    def read(self, data: bytes, filename: str) -> list[Section]:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
            if size > self.max_inflated_bytes:
                raise ParseLimitError(
                    f"{filename}: {size:,} bytes unpacked is over the limit max_inflated_bytes="
                    f"{self.max_inflated_bytes:,}; pass EPUBParser(max_inflated_bytes=...)"
                )
            return self._chapters(_Book(archive, filename), filename)

    def _chapters(self, book: _Book, filename: str) -> list[Section]:
        sections: list[Section] = []
        for name in book.spine():
            markup = book.read(name)
            declared = HTMLParser().declared_charset(markup)
            _, markdown, headings = html_to_markdown(decode(markup, f"{filename}/{name}", declared=declared))
            if not markdown.strip():
                continue
            metadata: dict[str, Any] = {"format": "markdown", "chapter": len(sections) + 1}
            if book.title:
                metadata["title"] = book.title
            section = text_section(markdown, filename, **metadata)
            section.headings = headings
            sections.append(section)
        if not sections:
            raise ParseError(f"{filename}: the EPUB has no chapter with text")
        return sections


class _Book:
    """The zip with its package document."""

    def __init__(self, archive: zipfile.ZipFile, filename: str) -> None:
        self._archive = archive
        self._names = set(archive.namelist())
        self._refuse_encrypted(filename)
        self._package_name = self._package(filename)
        self._root = _xml(self.read(self._package_name))
        self._folder = posixpath.dirname(self._package_name)
        self.title = " ".join((self._root.findtext(".//{*}metadata/{*}title") or "").split())

    def read(self, name: str) -> bytes:
        return self._archive.read(name)

    def spine(self) -> list[str]:
        """Names of the chapter files in reading order, those that exist."""
        files = {item.get("id"): item.get("href") or "" for item in self._root.findall(".//{*}manifest/{*}item")}
        order = [files.get(ref.get("idref"), "") for ref in self._root.findall(".//{*}spine/{*}itemref")]
        paths = [posixpath.normpath(posixpath.join(self._folder, unquote(href))) for href in order if href]
        return [path for path in paths if path in self._names]

    def _package(self, filename: str) -> str:
        if _CONTAINER in self._names:
            root = _xml(self.read(_CONTAINER))
            for entry in root.findall(".//{*}rootfile"):
                if entry.get("full-path") in self._names:
                    return str(entry.get("full-path"))
        found = next((name for name in sorted(self._names) if name.endswith(".opf")), None)
        if found is None:
            raise ParseError(f"{filename}: the EPUB has no package document (.opf); is it damaged?")
        return found

    def _refuse_encrypted(self, filename: str) -> None:
        name = "META-INF/encryption.xml"
        if name not in self._names:
            return
        methods = [e.get("Algorithm") or "" for e in _xml(self.read(name)).findall(".//{*}EncryptionMethod")]
        if any(not method.startswith(_FONT_OBFUSCATION) for method in methods):
            raise EncryptedFileError(f"{filename}: the EPUB is encrypted (DRM); remove the protection first")


def _xml(content: bytes) -> Any:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    root = etree.fromstring(content, parser)
    if root is None:
        raise ValueError("its package document is no XML")
    return root
