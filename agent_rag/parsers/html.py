"""HTML: its main text as Markdown."""

from __future__ import annotations

import html
import re
from typing import ClassVar

from ..documents import Heading, Section
from ._html_walk import MarkdownTarget
from .text import DecodingParser, one_section

_CHARSET = re.compile(
    rb"""<meta\b[^>]*?charset\s*=\s*["']?\s*([\w:.-]+)|<\?xml[^>]*?encoding\s*=\s*["']([\w:.-]+)""", re.I
)
_BREAKING = re.compile(
    r"</?(?:p|div|br|li|ul|ol|tr|td|th|table|h[1-6]|section|article|blockquote|pre|dd|dt|hr|body|html|title)\b", re.I
)
_PIECE = 64 * 1024
_RAW = re.compile(r"<(script|style|noscript|template)\b", re.I)


class HTMLParser(DecodingParser):
    """The page's text as Markdown, one Section: headings, lists, tables, links, code, alternative texts of images.

    Out are scripts, styles, navigation, page header and footer, hidden elements and templates; when nothing else is
    there, header and footer stay. Metadata ``{"format": "markdown"}`` and ``title``. Nothing is fetched.
    """

    format_name = "HTML"
    supported_media_types: ClassVar[list[str]] = ["text/html", "application/xhtml+xml"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".htm", ".html", ".xhtml"]

    def declared_charset(self, data: bytes) -> str | None:
        found = _CHARSET.search(data[:4096])
        return (found[1] or found[2]).decode("ascii") if found else None

    def read_text(self, text: str, filename: str) -> list[Section]:
        title, markdown, headings = html_to_markdown(text)
        metadata = {"format": "markdown", **({"title": title} if title else {})}
        return one_section(markdown, filename, headings, **metadata)


def html_to_markdown(text: str) -> tuple[str, str, list[Heading]]:
    """Title, Markdown and headings of an HTML page or fragment."""
    found = _written(text, keep_boilerplate=False)
    if found is not None and not found[1]:
        found = _written(text, keep_boilerplate=True)
    return found if found is not None else ("", strip_tags(text), [])


def _written(text: str, *, keep_boilerplate: bool) -> tuple[str, str, list[Heading]] | None:
    """None where libxml2 gives up (nesting beyond 2,048) and would lose text silently."""
    from lxml import etree

    if not text.strip():
        return "", "", []
    target = MarkdownTarget(keep_boilerplate=keep_boilerplate)
    parser = etree.HTMLParser(target=target, encoding="utf-8", huge_tree=True, no_network=True)
    for start in range(0, len(text), _PIECE):
        parser.feed(text[start : start + _PIECE].encode("utf-8", "replace"))
    markdown, headings = parser.close()
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.feed_error_log):
        return None
    return target.title, markdown, headings


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
