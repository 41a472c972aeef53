"""Steps between parsing and chunking: Sections in, Sections out, with headings and lines kept where they belong."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..content import Base64Source, DataBlock, TextBlock
from ..documents import Section, storable_text
from ..errors import ConfigurationError

_DATA_URI = re.compile(r"data:([\w.+-]{1,60}/[\w.+-]{1,60})(?:;[\w.=-]{1,60}){0,4};base64,([A-Za-z0-9+/=_-]{200,})")
_BLOB = re.compile(r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{60,}\r?\n)*[A-Za-z0-9+/]{400,}={0,2}|"
                   r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{60,100}\r?\n){8,}[A-Za-z0-9+/]{0,100}={0,2}")  # fmt: skip
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PAGE_NUMBER = re.compile(
    r"(?:page|seite|p[aá]gina|pagina|p\.|s\.|第)?\s*[-\u2013\u2014|]?\s*\d{1,5}\s*(?:(?:of|von|de|sur|di|/)\s*\d{1,5})?"
    r"\s*[-\u2013\u2014|页頁]?",
    re.IGNORECASE,
)
_EDGE_LINES = 2
_LEAST_PAGES = 3
_REPEATED_SHARE = 0.6


class Edit(NamedTuple):
    """Replace ``text[start:end]``."""

    start: int
    end: int
    text: str = ""


class TransformBase(ABC):
    """Changes the Sections of one file. It must survive pickling: it runs in a worker process.

    Implement `apply`; `edited` keeps headings right where text is removed or replaced.
    """

    @property
    def fingerprint(self) -> str:
        """Changes when the same Sections would come out otherwise; ingestion reads the files anew then."""
        return f"{type(self).__name__}:{sorted(vars(self).items())}"

    @abstractmethod
    def apply(self, sections: list[Section]) -> list[Section]:
        """New Sections; those given are not changed."""


def edited(section: Section, edits: Iterable[Edit]) -> Section:
    """A copy of a text Section with edits that do not overlap, in order; headings move with their text.

    Where the lines of a Section stand for lines of the file, those that an edit removes are left empty.
    """
    text, pieces, moves, position, shift = section.text, [], [(0, 0)], 0, 0
    for edit in edits:
        replacement = edit.text
        if section.places is not None:
            missing = text.count("\n", edit.start, edit.end) - replacement.count("\n")
            replacement += "\n" * max(0, missing)
        pieces += [text[position : edit.start], replacement]
        position = edit.end
        shift += len(replacement) - (edit.end - edit.start)
        moves.append((edit.end, shift))
    if len(moves) == 1:
        return section
    pieces.append(text[position:])
    new = "".join(pieces)
    ends = [end for end, _ in moves]
    headings = []
    for heading in section.headings:
        moved = heading.offset + moves[bisect_right(ends, heading.offset) - 1][1]
        headings.append(heading.model_copy(update={"offset": max(0, min(moved, len(new)))}))
    return section.model_copy(update={"content": TextBlock(text=new), "headings": headings})


class CharFilter(TransformBase):
    """Deletes every occurrence of some strings."""

    def __init__(self, *strings: str) -> None:
        self.strings = _given(strings)

    def apply(self, sections: list[Section]) -> list[Section]:
        pattern = re.compile("|".join(map(re.escape, self.strings)))
        return [_replaced(section, pattern, "") for section in sections]


class CharDedup(TransformBase):
    """Makes one of two or more occurrences of a string that follow each other."""

    def __init__(self, *strings: str) -> None:
        self.strings = _given(strings)

    def apply(self, sections: list[Section]) -> list[Section]:
        for string in self.strings:
            pattern = re.compile(f"(?:{re.escape(string)}){{2,}}")
            sections = [_replaced(section, pattern, string) for section in sections]
        return sections


class RemoveBoilerplate(TransformBase):
    """Deletes headers and footers: lines at the edge of a page that at least 3 pages and 60 % of them have.

    The numbers of pages count as equal ("Page 3 of 9", "- 3 -"); those in other lines ("Chapter 3") do not.
    """

    def apply(self, sections: list[Section]) -> list[Section]:
        pages = [
            section for section in sections if isinstance(section.content, TextBlock) and "page" in section.metadata
        ]
        counts = Counter(line for page in pages for line in {_shape(text) for _, _, text in _edges(page.text)})
        needed = max(_LEAST_PAGES, _REPEATED_SHARE * len(pages))
        repeated = {line for line, count in counts.items() if count >= needed}
        if not repeated:
            return sections
        return [
            edited(section, [Edit(start, end) for start, end, text in _edges(section.text) if _shape(text) in repeated])
            if isinstance(section.content, TextBlock) and "page" in section.metadata
            else section
            for section in sections
        ]


class CleanText(TransformBase):
    """Deletes what is no text: NUL characters, lone surrogates, pictures and other data written as base64.

    Args:
        images: Make an image of a picture in a ``data:`` URI, for a model that embeds images.
    """

    def __init__(self, *, images: bool = False) -> None:
        self.images = images

    def apply(self, sections: list[Section]) -> list[Section]:
        cleaned: list[Section] = []
        for section in sections:
            if not isinstance(section.content, TextBlock):
                cleaned.append(section)
                continue
            pictures = list(_DATA_URI.finditer(section.text))
            size = sum(len(found[2]) for found in pictures)
            section_without = edited(section, [Edit(*found.span(), f"data:{found[1]}") for found in pictures])
            blobs = list(_BLOB.finditer(section_without.text))
            size += sum(found.end() - found.start() for found in blobs)
            done = edited(section_without, [Edit(*found.span()) for found in blobs])
            done = _replaced(done, _UNSTORABLE, "")
            if size:
                told = f"{size:,} characters of data in base64 left out of the text"
                done = done.model_copy(update={"warnings": [*done.warnings, told]})
            cleaned.append(done)
            cleaned += [_image(section, found) for found in pictures if self.images and found[1].startswith("image/")]
        return cleaned


def fingerprint_of_all(transforms: Sequence[TransformBase]) -> str:
    """Of a list of steps; empty for none."""
    return "|".join(transform.fingerprint for transform in transforms)


def _replaced(section: Section, pattern: re.Pattern[str], text: str) -> Section:
    if not isinstance(section.content, TextBlock):
        return section
    return edited(section, [Edit(*found.span(), text) for found in pattern.finditer(section.text)])


def _image(section: Section, found: re.Match[str]) -> Section:
    before = section.text[max(0, found.start() - 300) : found.start()]
    label = re.search(r"!\[([^\]\n]*)\]\($", before)
    block = DataBlock(
        source=Base64Source(data=found[2], media_type=found[1]),
        caption=storable_text(label[1]) or None if label else None,
    )
    return Section(
        content=block,
        source=section.source,
        metadata=dict(section.metadata),
        heading_path=section.heading_path_at(found.start()),
    )


def _edges(text: str) -> list[tuple[int, int, str]]:
    """(start, end with its line break, text) of the first and last lines that are not blank."""
    lines = [
        (found.start(), found.end(), found[0].strip()) for found in re.finditer(r"[^\n]*\n?", text) if found[0].strip()
    ]
    return lines if len(lines) <= 2 * _EDGE_LINES else [*lines[:_EDGE_LINES], *lines[-_EDGE_LINES:]]


def _shape(line: str) -> str:
    return "#" if _PAGE_NUMBER.fullmatch(line) else line


def _given(strings: Sequence[str]) -> tuple[str, ...]:
    if not strings or not all(strings):
        raise ConfigurationError(f"got the strings {strings!r}; pass at least one, none of them empty")
    return tuple(strings)
