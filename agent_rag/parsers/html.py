"""HTML: its main text as Markdown."""

from __future__ import annotations

import html
import re
from typing import Any, ClassVar

from ..documents import Heading, Section
from ._html_walk import MarkdownWriter
from .text import DecodingParser, one_section

_CHARSET = re.compile(
    rb"""<meta\b[^>]*?charset\s*=\s*["']?\s*([\w:.-]+)|<\?xml[^>]*?encoding\s*=\s*["']([\w:.-]+)""", re.I
)
_BREAKING = re.compile(
    r"</?(?:p|div|br|li|ul|ol|tr|td|th|table|h[1-6]|section|article|blockquote|pre|dd|dt|hr|body|html|title)\b", re.I
)
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
    root = _tree(text)
    if root is None:
        return "", strip_tags(text), []
    title = " ".join((root.findtext(".//title") or "").split())
    markdown, headings = _written(root)
    if not markdown.strip():
        markdown, headings = _written(root, keep_boilerplate=True)
    return title, markdown, headings


def _written(root: Any, *, keep_boilerplate: bool = False) -> tuple[str, list[Heading]]:
    writer = MarkdownWriter(keep_boilerplate=keep_boilerplate)
    writer.walk(root)
    return writer.result()


def _tree(text: str) -> Any:
    """The parsed page, or None where libxml2 gives up (nesting beyond 2,048) and would lose text silently."""
    from lxml import etree

    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True, no_network=True)
    root = etree.fromstring(text.encode("utf-8", "replace"), parser) if text.strip() else None
    lost = any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log)
    return None if lost else root


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
