"""HTML: its main text as Markdown."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from ...content import Base64Source, DataBlock
from ...documents import Heading, Section
from ..file import DEFAULT_MAX_FILE_BYTES, FileIsolation
from ..text.plain import DecodingParser, one_section
from .phrases import EmbeddedImage
from .walk import MarkdownTarget

_CHARSET = re.compile(
    rb"""<meta\b[^>]*?charset\s*=\s*["']?\s*([\w:.-]+)|<\?xml[^>]*?encoding\s*=\s*["']([\w:.-]+)""", re.I
)
_BREAKING = re.compile(
    r"</?(?:p|div|br|li|ul|ol|tr|td|th|table|h[1-6]|section|article|blockquote|pre|dd|dt|hr|body|html|title)\b", re.I
)
_PIECE = 64 * 1024
_RAW = re.compile(r"<(script|style|noscript|template)\b", re.I)


class HTMLParser(DecodingParser):
    """The page's text as Markdown, one Section: headings, lists, tables, links, code, alternative texts of images,
    labels in drawings.

    Out are scripts, styles, navigation, hidden elements and templates, and of the page's header and footer the lines
    that are links only; a page of nothing but navigation keeps it. Metadata ``{"format": "markdown"}`` and ``title``.
    Nothing is fetched.

    Args:
        include_image: Give images that stand in the page itself (``data:`` addresses) as Sections
            ``{"media_type": ...}`` behind the text, in their order.
    """

    format_name = "HTML"
    supported_media_types: ClassVar[list[str]] = ["text/html", "application/xhtml+xml"]

    def __init__(
        self,
        *,
        include_image: bool = False,
        encoding: str | None = None,
        max_file_bytes: int = DEFAULT_MAX_FILE_BYTES,
        isolation: FileIsolation = "auto",
    ) -> None:
        super().__init__(encoding=encoding, max_file_bytes=max_file_bytes, isolation=isolation)
        self.include_image = include_image

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".htm", ".html", ".xhtml"]

    def declared_charset(self, data: bytes) -> str | None:
        found = _CHARSET.search(data[:4096])
        return (found[1] or found[2]).decode("ascii") if found else None

    def read_text(self, text: str, filename: str) -> list[Section]:
        page = html_page(text)
        metadata = {"format": "markdown", **({"title": page.title} if page.title else {})}
        sections = one_section(page.markdown, filename, page.headings, **metadata)
        return [*sections, *embedded_images(page.images, filename)] if self.include_image else sections


class Page(NamedTuple):
    """What an HTML page says."""

    title: str
    markdown: str
    headings: list[Heading]
    images: list[EmbeddedImage]


def html_to_markdown(text: str) -> tuple[str, str, list[Heading]]:
    """Title, Markdown and headings of an HTML page or fragment."""
    return html_page(text)[:3]


def html_page(text: str) -> Page:
    """An HTML page or fragment."""
    found = _written(text, keep_boilerplate=False)
    if found is not None and not found.markdown:
        found = _written(text, keep_boilerplate=True)
    return found if found is not None else Page("", strip_tags(text), [], [])


def embedded_images(images: Iterable[EmbeddedImage], filename: str, **metadata: Any) -> list[Section]:
    """A Section for each image; what is no base64 is left out."""
    sections: list[Section] = []
    for media_type, data, alt in images:
        try:
            plain = base64.b64encode(base64.b64decode("".join(data.split()), validate=True)).decode("ascii")
        except ValueError:
            continue
        block = DataBlock(source=Base64Source(data=plain, media_type=media_type), caption=alt or None)
        sections.append(Section(content=block, source=filename, metadata={**metadata, "media_type": media_type}))
    return sections


def _written(text: str, *, keep_boilerplate: bool) -> Page | None:
    """None where libxml2 gives up (nesting beyond 2,048) and would lose text silently."""
    from lxml import etree

    if not text.strip():
        return Page("", "", [], [])
    target = MarkdownTarget(keep_boilerplate=keep_boilerplate)
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True, no_network=True)
    for start in range(0, len(text), _PIECE):
        parser.feed(text[start : start + _PIECE].encode("utf-8", "replace"))
    markdown, headings = parser.close()
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.feed_error_log):
        return None
    return Page(target.title, markdown, headings, target.images)


def strip_tags(text: str) -> str:
    """The text between the tags, a line per block; scripts and styles are left out. Linear in the input."""
    pieces: list[str] = []
    position = 0
    while (start := text.find("<", position)) >= 0:
        pieces.append(html.unescape(" ".join(text[position:start].split("\n"))))
        if raw := _RAW.match(text, start):
            closing = re.compile(f"</{raw[1]}", re.I).search(text, raw.end())
            start = closing.start() if closing else len(text)
        if text.startswith("<!--", start):
            end = text.find("-->", start + 4)
            end = end + 2 if end >= 0 else -1
        else:
            end = text.find(">", start)
        if _BREAKING.match(text, start):
            pieces.append("\n")
        if end < 0:
            position = len(text)
            break
        position = end + 1
    pieces.append(html.unescape(text[position:]))
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)
