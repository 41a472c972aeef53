"""Markdown: one Section with its headings, so that a chunk knows the path of titles above it."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ...documents import Heading, Section
from ..headings import Headings
from .plain import DecodingParser, one_section

_MARK = re.compile(
    r"^ {0,3}(?:(?P<atx>#{1,6})(?:[ \t]+(?P<title>[^\n]*))?"
    r"|(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)|(?P<under>=+|-+))[ \t]*$",
    re.M,
)
_CLOSING_HASHES = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
_NOT_A_TITLE = re.compile(r"\s*(?:$|>|[-+*]\s|\d+[.)]\s|\||#{1,6}\s|={3,}|(?:-\s*){3,}$| {4}|\t)")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|$)", re.S)
_FIELD = re.compile(r"([A-Za-z_][\w .-]*?)[ \t]*:(?:[ \t]+(.*))?$")
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[*_`~]{1,3}(?=\S)|(?<=\S)[*_`~]{1,3}")
_MAX_FIELDS = 32


class MarkdownParser(DecodingParser):
    """One Section per file, metadata ``{"format": "markdown"}``, headings with their offsets.

    YAML front matter of plain ``key: value`` lines moves into the metadata (``title`` becomes the document's title);
    any other front matter stays in the text, so nothing is lost.
    """

    format_name = "Markdown"
    supported_media_types: ClassVar[list[str]] = ["text/markdown", "text/x-markdown"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".markdown", ".md", ".mdown", ".mdx", ".mkd"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        fields, text = split_front_matter(text)
        return one_section(text, filename, markdown_headings(text), **{**fields, "format": "markdown"})


def markdown_headings(text: str) -> list[Heading]:
    """ATX and setext headings outside fenced code, by offset."""
    headings = Headings()
    fence = ""
    last = -1  # where the line of the last heading starts: no heading is underlined again
    for mark in _MARK.finditer(text):
        if fence:
            if mark["fence"] and mark["fence"].startswith(fence) and not mark["info"].strip(" `~\t"):
                fence = ""
        elif mark["fence"]:
            fence = "" if mark["fence"][0] == "`" and "`" in mark["info"] else mark["fence"]
        elif mark["atx"]:
            last = mark.start()
            if title := plain_title(_CLOSING_HASHES.sub("", mark["title"] or "")):
                headings.add(len(mark["atx"]), title, last)
        else:
            start = text.rfind("\n", 0, max(0, mark.start() - 1)) + 1
            above = text[start : mark.start()].rstrip("\n")
            if mark.start() and start != last and not _NOT_A_TITLE.match(above):
                last = start
                if title := plain_title(above):
                    headings.add(1 if mark["under"][0] == "=" else 2, title, start)
    return headings.found


def plain_title(markup: str) -> str:
    """A heading without emphasis marks, link targets and anchors."""
    text = re.sub(r"\s*\{#[\w-]+\}\s*$", "", markup)
    return " ".join(_MARKUP.sub(lambda m: m[1] or "", text).split())


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The fields of YAML front matter and the text below it; no fields and the whole text where a line is no
    plain ``key: value``, ``key: [a, b]`` or list item."""
    block = _FRONT_MATTER.match(text)
    fields = _fields(block[1] or "") if block else None
    if block is None or not fields:
        return {}, text
    return fields, text[block.end() :].lstrip("\n")


def _fields(block: str) -> dict[str, Any] | None:
    fields: dict[str, Any] = {}
    key = ""
    for line in block.split("\n"):
        item = re.match(r"\s*-\s+(.*)$", line)
        field = _FIELD.match(line)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if item and key and (fields[key] is None or isinstance(fields[key], list)):
            fields[key] = [*(fields[key] or []), _scalar(item[1])]
        elif field and (field[2] or "")[:1] not in ("{", "|", ">", "&", "*", "!"):
            key = field[1].strip()
            fields[key] = _value(field[2] or "")
        else:
            return None
    return fields if len(fields) <= _MAX_FIELDS else None


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part) for part in text[1:-1].split(",") if part.strip()]
    return _scalar(text) if text else None


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return re.sub(r"\s+#.*$", "", text)
