"""What is done to the text of a PDF page whichever engine read it."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import NamedTuple

from ...documents import Heading
from .rtl import is_right_to_left, with_spaced_scripts

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ufdd0-\ufdef]")
_LINE_END_HYPHEN = re.compile("[\ufffe\xad\x02](?<=\\w.)\\s*\n\\s*(?=\\w)")
_HYPHEN = re.compile("-(?<=[a-zß-öø-ÿ].)\n(?=[a-zß-öø-ÿ])")
# Latin ligatures and Arabic presentation forms: shapes of letters, not letters anyone searches for.
_PRESENTATION_FORMS = re.compile("[\ufb00-\ufb06\ufb50-\ufdcf\ufdf0-\ufdfb\ufe70-\ufefc]")
_ACCENTS = {"´": "\u0301", "¨": "\u0308", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327", "ˇ": "\u030c", "˚": "\u030a"}
_LOOSE_ACCENT = re.compile("([´¨ˆ˜¸ˇ˚])([A-Za-zı])")
_TO_REPAIR = re.compile("[´¨ˆ˜¸ˇ˚\u0590-\u08ff\ud800-\udfff\ufb00-\ufb06\ufb50-\ufdfb\ufe70-\ufefc]")
_LATIN_WORD = re.compile("[A-Za-zÀ-ɏ]")
_NO_WORD = re.compile("[/@\\\\_=|{}<>\\[\\]\\d\u0e00-\u109f\u1780-\u17ff\u2e80-\uffef]|\\.\\w+\\.")
"""In addresses, names in programs and scripts that put no spaces between words."""
_LONG_TOKEN = re.compile("[^\\s\\-\u0e00-\u109f\u1780-\u17ff\u2e80-\uffef]{13}")
_GLUED_MEAN = 12.0
_RUNNING_HEADER = 120
"""Characters."""
_MAX_TITLE_WORDS = 60
_MAX_NUMBERING = 8
"""Characters, as in 12.4.11."""


class Bookmark(NamedTuple):
    """An entry of the outline."""

    level: int
    """From 1."""
    title: str
    page: int
    """From 0."""


def clean(text: str, *, join_hyphens: bool = False) -> str:
    """Text without control characters, ligature glyphs and soft hyphens; ``\\n`` line ends.

    Args: join_hyphens: Also join a word cut by a plain hyphen between small letters at a line end, which pdfium
        marks by itself and pypdf leaves.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\ufffe" in text or "\xad" in text or "\x02" in text:
        text = _LINE_END_HYPHEN.sub("", text).replace("\xad", "")
    if join_hyphens:
        text = _HYPHEN.sub("", text)
    if not text.isascii() and _TO_REPAIR.search(text):
        text = _repaired(text)
    if not text.replace("\n", "").isprintable():
        text = _CONTROLS.sub("", text)
    if " \n" in text or "\t\n" in text or "\xa0\n" in text:
        text = "\n".join([line.rstrip(" \t\xa0") for line in text.split("\n")])
    return text.strip("\n ")


def _repaired(text: str) -> str:
    text = _PRESENTATION_FORMS.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
    text = text.encode("utf-8", "ignore").decode()  # half surrogates of a broken character map
    text = _LOOSE_ACCENT.sub(_accented, text)
    return with_spaced_scripts(text) if is_right_to_left(text) else text


def _accented(match: re.Match[str]) -> str:
    """One letter of an accent that is drawn before it, as TeX does; as it was where there is no such letter."""
    accent, letter = match[1], match[2].replace("ı", "i")
    composed = unicodedata.normalize("NFC", letter + _ACCENTS[accent])
    return composed if len(composed) == 1 else match[0]


def has_glued_words(text: str) -> bool:
    """Whether the mean Latin token is longer than any language has words: the spaces are missing.

    German, the longest of the common ones, has 6; addresses and tokens with digits are left out.
    """
    if len(text) < 9 * (text.count(" ") + text.count("\n")):
        return False  # so many spaces that no mean can be that high
    if not _LONG_TOKEN.search(text):
        return False
    return (_mean_token(text) or 0.0) > _GLUED_MEAN


def better_spaced(other: str, text: str) -> bool:
    """Whether `other` is the same page, made of the same letters, with words of a plausible length."""
    mean, other_mean = _mean_token(text) or 0.0, _mean_token(other) or 0.0
    if not 2.0 <= other_mean < mean:
        return False
    letters, others = (Counter("".join(unicodedata.normalize("NFKC", one).split())) for one in (text, other))
    return (letters & others).total() >= 0.8 * letters.total()


def _mean_token(text: str) -> float | None:
    tokens = [t for t in text.replace("-", " ").split() if _LATIN_WORD.match(t) and not _NO_WORD.search(t)]
    return sum(map(len, tokens)) / len(tokens) if len(tokens) >= 3 else None


class Outline:
    """The entries of a document's outline, by page."""

    def __init__(self, marks: list[Bookmark]) -> None:
        self._marks = sorted(marks, key=lambda mark: mark.page)
        self._pages = [mark.page for mark in self._marks]
        self._parents: list[int] = []
        """Index of the entry above each, -1 for none."""
        last = -1
        for index, mark in enumerate(self._marks):
            while last >= 0 and self._marks[last].level >= mark.level:
                last = self._parents[last]
            self._parents.append(last)
            last = index

    def __bool__(self) -> bool:
        return bool(self._marks)

    def of_page(self, page: int, text: str) -> tuple[list[str], list[Heading]]:
        """The titles above the start of a page, and the headings in its text.

        An entry that points to this page is placed where its title stands in the text, else at its start. Titles
        carried over from earlier pages that an entry of this page will end are headings at offset 0.
        """
        first, end = bisect_left(self._pages, page), bisect_right(self._pages, page)
        above = self._path(first - 1)
        placed = _placed(self._marks[first:end], text)
        while placed and placed[0][0] == 0:
            mark = placed.pop(0)[1]
            while above and above[-1].level >= mark.level:
                above.pop()
            above.append(mark)
        top = min((mark.level for _, mark in placed), default=1_000)
        path = [mark.title for mark in above if mark.level < top]
        carried = [Heading(level=mark.level, title=mark.title, offset=0) for mark in above if mark.level >= top]
        found = [Heading(level=mark.level, title=mark.title, offset=offset) for offset, mark in placed]
        return path, carried + found

    def _path(self, index: int) -> list[Bookmark]:
        path: list[Bookmark] = []
        while index >= 0:
            path.append(self._marks[index])
            index = self._parents[index]
        return path[::-1]


def _placed(marks: list[Bookmark], text: str) -> list[tuple[int, Bookmark]]:
    placed: list[tuple[int, Bookmark]] = []
    lowered = text.lower()
    position = 0
    for mark in marks:
        position = _title_offset(mark.title, text, lowered, position)
        placed.append((0 if _is_page_start(text, position) else position, mark))
    return placed


def _title_offset(title: str, text: str, lowered: str, start: int) -> int:
    """Where the title stands from `start` on: best alone on a line, then as it is written, then in any case or spacing.

    Returns: `start` where it is not found.
    """
    if len(lowered) == len(text):
        wanted = title.lower()
        found = lowered.find(wanted, start)
        while found >= 0:
            if _is_alone(text, found, found + len(wanted)):
                return found
            found = lowered.find(wanted, found + 1)
    exact = text.find(title, start)
    if exact >= 0:
        return exact
    words = title.split()
    if not words or len(words) >= _MAX_TITLE_WORDS:
        return start
    match = re.compile(r"\s*".join(map(re.escape, words)), re.I).search(text, start)
    return match.start() if match else start


def _is_alone(text: str, start: int, end: int) -> bool:
    """Whether nothing else stands on the line, but for a number before."""
    before = start - 1 - text.rfind("\n", 0, start)
    return before <= _MAX_NUMBERING and text[end : end + 1] in ("", "\n")


def _is_page_start(text: str, offset: int) -> bool:
    """Whether nothing but a running header stands before `offset`."""
    return offset <= _RUNNING_HEADER and text.count("\n", 0, offset) <= 2
