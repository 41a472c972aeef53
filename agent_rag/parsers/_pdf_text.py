"""What is done to the text of a PDF page whichever engine read it."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from ..documents import Heading

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ufdd0-\ufdef]")
_LINE_END_HYPHEN = re.compile("(?<=\\w)[\ufffe\xad\x02]\\s*\n\\s*(?=\\w)")
_HYPHEN = re.compile("(?<=[a-zß-öø-ÿ])-\n(?=[a-zß-öø-ÿ])")
# Latin ligatures and Arabic presentation forms: shapes of letters, not letters anyone searches for.
_PRESENTATION_FORMS = re.compile("[\ufb00-\ufb06\ufb50-\ufdcf\ufdf0-\ufdfb\ufe70-\ufefc]")
_SPACES_AT_LINE_END = re.compile("[ \t\xa0]+\n")
_LATIN_WORD = re.compile("[A-Za-zÀ-ɏ]")
_GLUED_MEAN = 12.0
_RUNNING_HEADER = 120
"""Characters."""


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
    if not text.isascii():
        text = _PRESENTATION_FORMS.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
        text = text.encode("utf-8", "ignore").decode()  # half surrogates of a broken character map
    text = _CONTROLS.sub("", text)
    return _SPACES_AT_LINE_END.sub("\n", text).strip("\n ")


def has_glued_words(text: str) -> bool:
    """Whether the mean Latin token is longer than any language has words: the spaces are missing.

    German, the longest of the common ones, has 6; addresses and tokens with digits are left out.
    """
    if len(text) < 9 * (text.count(" ") + text.count("\n")):
        return False  # so many spaces that no mean can be that high
    return (_mean_token(text) or 0.0) > _GLUED_MEAN


def better_spaced(other: str, text: str) -> bool:
    """Whether `other` is the same page with words of a plausible length."""
    mean, other_mean = _mean_token(text) or 0.0, _mean_token(other) or 0.0
    same = len("".join(other.split())) >= 0.8 * len("".join(text.split()))
    return same and 2.0 <= other_mean < mean


def _mean_token(text: str) -> float | None:
    tokens = [t for t in text.split() if _LATIN_WORD.match(t) and not re.search(r"[/@\\_\d]|\.\w+\.", t)]
    return sum(map(len, tokens)) / len(tokens) if len(tokens) >= 3 else None


def outline_of_page(bookmarks: list[Bookmark], page: int, text: str) -> tuple[list[str], list[Heading]]:
    """The titles above the start of a page, and the headings in its text.

    An entry that points to this page is placed where its title stands in the text, else at its start. Titles carried
    over from earlier pages that an entry of this page will end are headings at offset 0.
    """
    above: list[Bookmark] = []
    here: list[Bookmark] = []
    for mark in bookmarks:
        if mark.page < page:
            while above and above[-1].level >= mark.level:
                above.pop()
            above.append(mark)
        elif mark.page == page:
            here.append(mark)
    placed = _placed(here, text)
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


def _placed(marks: list[Bookmark], text: str) -> list[tuple[int, Bookmark]]:
    placed: list[tuple[int, Bookmark]] = []
    position = 0
    for mark in marks:
        words = [re.escape(word) for word in mark.title.split()]
        found = re.compile(r"\s*".join(words), re.I).search(text, position) if words and len(words) < 60 else None
        if found:
            position = found.start()
        placed.append((0 if _is_page_start(text, position) else position, mark))
    return placed


def _is_page_start(text: str, offset: int) -> bool:
    """Whether nothing but a running header stands before `offset`."""
    return offset <= _RUNNING_HEADER and text.count("\n", 0, offset) <= 2
