"""Markdown: one Section with its headings, so that a chunk knows the path of titles above it."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ..._util.markdown import Markdown, front_matter, headings_in
from ...documents import Heading, Section
from ...places import PLACE_FIELDS, LineNumbers
from ..headings import Headings, heading
from .plain import DecodingParser, one_section

_FIELD = re.compile(r"([A-Za-z_][^:\n]*+):(?:[ \t]+(.*))?$")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")
_COMMENT = re.compile(r"(?<!\s)\s+#.*$")
_MAX_FIELDS = 32
MARKDOWN_IN_THREAD = 64 * 1024
"""1 MB of list items is 1.5 million tokens while it is read; one collection of garbage takes 600 ms then."""
_PROSE_WORDS = 3
"""A value of so many words is text that a search should find."""
_OURS = frozenset(PLACE_FIELDS)
"""A field of such a name is kept under ``front_matter_<name>``: it is no place of the text."""


class MarkdownParser(DecodingParser):
    """One Section per file, metadata ``{"format": "markdown"}``, headings with their offsets.

    YAML front matter of plain ``key: value`` lines moves into the metadata (``title`` becomes the document's title);
    of these, values of three words and more stay in the text too, so that a search finds them. Any other front matter
    stays in the text as it is. A field that is called as a place is (``page``) becomes ``front_matter_page``.
    """

    format_name = "Markdown"
    largest_in_thread: ClassVar[int] = MARKDOWN_IN_THREAD
    supported_media_types: ClassVar[list[str]] = ["text/markdown", "text/x-markdown"]

    @classmethod
    def supported_extensions(cls) -> list[str]:
        return [".markdown", ".md", ".mdown", ".mdx", ".mkd"]

    def read_text(self, text: str, filename: str) -> list[Section]:
        fields, text, runs = split_front_matter(text)
        (section,) = one_section(text, filename, markdown_headings(text), format="markdown")
        section.metadata = {**fields, **section.metadata}
        section.places = LineNumbers(unit="lines", runs=runs)
        return [section]


def markdown_headings(text: str) -> list[Heading]:
    """The headings that CommonMark finds, those in lists and quotes too, by offset."""
    source = Markdown(text)
    found = Headings()
    for block in source.top_blocks():
        for item in headings_in([block]):
            found.add(item.level, item.title, item.start)
    # Now that all link definitions are known.
    titled = ((item, source.title(item.title)) for item in found.found)
    return [heading(item.level, title, item.offset) for item, title in titled if title]


def split_front_matter(text: str) -> tuple[dict[str, Any], str, list[tuple[int, int]]]:
    """The fields of YAML front matter, the text without it, and the runs of its lines in the file.

    No fields and the whole text where a line is no plain ``key: value``, ``key: [a, b]`` or list item.
    """
    block = front_matter(text)
    read = _fields(block[1].split("\n")) if block else None
    if block is None or read is None:
        return {}, text, [(0, 1)]
    fields, prose = read
    body = text[block.end() :].lstrip("\n")
    first_line = text.count("\n", 0, len(text) - len(body)) + 1
    runs = [(index, number) for index, (number, _) in enumerate(prose)]
    above = "".join(f"{line}\n" for _, line in prose)
    if prose and body:
        above, runs = above + "\n", [*runs, (len(prose), 0)]
    return fields, above + body, [*runs, (len(runs), first_line)]


def _fields(lines: list[str]) -> tuple[dict[str, Any], list[tuple[int, str]]] | None:
    """The fields, and the lines that are prose with their numbers in the file. None for YAML beyond plain lines."""
    fields: dict[str, Any] = {}
    prose: list[tuple[int, str]] = []
    key = ""
    for number, line in enumerate(lines, start=2):
        item, field = _ITEM.match(line), _FIELD.match(line)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if item and key and (fields[key] is None or isinstance(fields[key], list)):
            fields[key] = [*(fields[key] or []), _scalar(item[1])]
        elif field and (field[2] or "")[:1] not in ("{", "|", ">", "&", "*", "!"):
            key = field[1].strip()
            key = f"front_matter_{key}" if key in _OURS else key
            fields[key] = value = _value(field[2] or "")
            if key != "title" and isinstance(value, str) and len(value.split()) >= _PROSE_WORDS:
                prose.append((number, line))
        else:
            return None
    return (fields, prose) if 0 < len(fields) <= _MAX_FIELDS else None


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part) for part in text[1:-1].split(",") if part.strip()]
    return _scalar(text) if text else None


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return _COMMENT.sub("", text)
