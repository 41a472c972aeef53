"""Where a text may be cut: paragraph, line, sentence, clause, word, grapheme cluster.

All searches look at one window of the text and run inside the regex engine or `str.rfind`; ``(?r)`` makes `regex`
search backwards, so the cost is the distance to the boundary, not the size of the window.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import regex

_CLOSERS = "\"'”’»）」』】》〉〕)]}"
_CLOSING = _CLOSERS.replace("]", r"\]")
# Terminators that end a sentence without white space behind them, and those that need it.
_FULL_STOPS = "。！？｡．‼⁇⁈⁉"
_STOPS = r".!?;…；؟۔؛।॥።፧៕។։"
_CLAUSES = "，、：﹐﹑"
_SCRIPTS_WITHOUT_SPACES = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_NEVER_FIRST = _FULL_STOPS + _CLAUSES + "；…”’）」』】》〉〕ー々ゝゞ"


# The common terminators, for `str.rfind` and `re`: up to ten times faster than the patterns below, which are asked when
# none of these is there.
_COMMON_STOPS = (". ", "? ", "! ")
_WIDE_STOPS = ("。", "？", "！", ". ")
_ASCII_STOP = re.compile(r"[.?!]")
_STOP = re.compile(r"[。.？！?!]")
_WIDE = "\u2e80"
"""The first character of the CJK blocks; what lies above is a script without spaces, or an emoji."""
_COMMON_CLAUSES = ("，", "、")


class Patterns:
    """Compiled once, on first use: compiling takes 15 ms, which no import should pay."""

    def __init__(self) -> None:
        compiled = regex.compile
        self.visible = compiled(r"[^\s\p{Z}\p{Cc}\p{Default_Ignorable_Code_Point}\u2800]")
        # Joiners and variation selectors belong to a cluster that was cut, so a piece made of them is kept.
        self.solid = compiled(r"[^\s\p{Z}\p{Cc}\p{Default_Ignorable_Code_Point}\u2800]|[\u200c\u200d\ufe00-\ufe0f]")
        # Runs are bounded: searching backwards, an unbounded one makes a window of blanks cost its square.
        self.paragraph = compiled(r"(?r)\n[^\S\n]{0,64}\n")
        sentence = (
            rf"[{_FULL_STOPS}；…]{{1,9}}[{_CLOSING}]{{0,9}}\s{{0,9}}+|[{_STOPS}]{{1,9}}[{_CLOSING}]{{0,9}}\s{{1,9}}+"
        )
        clause = rf"[{_CLAUSES}]{{1,9}}\s{{0,9}}+|[,:،]\s{{1,9}}+|\s[-–—]\s{{1,9}}|[—–]"
        self.sentence = compiled(f"(?r){sentence}")
        self.clause = compiled(f"(?r){clause}")
        self.word = compiled(rf"(?r)[\s\u200b]+|[{_SCRIPTS_WITHOUT_SPACES}](?![{_NEVER_FIRST}])")
        self.space = compiled(r"(?r)\s")
        self.word_start = compiled(rf"[\s\u200b]+|[{_SCRIPTS_WITHOUT_SPACES}](?![{_NEVER_FIRST}])")
        self.cluster = compiled(r"\X")


@cache
def patterns() -> Patterns:
    return Patterns()


def natural_end(text: str, begin: int, lowest: int, reach: int) -> int:
    """The best end in (lowest, reach] for a piece that starts at `begin`; `lowest` when there is none.

    Paragraph, line, sentence and the soft line breaks of wrapped prose count in the second half of the window only,
    so that a piece is not cut short for them; then an earlier sentence end, a clause in the last quarter, a word.
    """
    half = begin + (reach - begin >> 1)
    if half < lowest:
        half = lowest
    newline = text.rfind("\n", half, reach)
    if newline >= 0 and (end := _line_break(text, half, newline, reach)):
        return end
    return _sentence_end(text, half, reach) or newline + 1 or _early_end(text, begin, lowest, reach)


def space_end(text: str, begin: int, lowest: int, reach: int) -> int:
    """Like `natural_end`, at white space only: a paragraph or line end in the last quarter, else the last space."""
    known = patterns()
    tail = max(lowest, reach - ((reach - begin) >> 2))
    return (
        _last(known.paragraph, text, tail, reach)
        or text.rfind("\n", tail, reach) + 1
        or _last(known.space, text, max(lowest, begin + ((reach - begin) >> 3)), reach)
        or lowest
    )


def line_end(text: str, begin: int, lowest: int, reach: int) -> int:
    """Like `natural_end`, for code: a blank line in the second half, else the last line end, else as prose."""
    blank = _last(patterns().paragraph, text, max(lowest, begin + (reach - begin >> 1)), reach)
    newline = text.rfind("\n", max(lowest, begin + (reach - begin >> 3)), reach)
    return blank or newline + 1 or natural_end(text, begin, lowest, reach)


def natural_start(text: str, lowest: int, end: int) -> int:
    """The first good start in [lowest, end) for text repeated from before `end`; `end` when there is none.

    A sentence, else a line, a clause of a script without spaces, a word; inside an unbroken run of letters any cluster.
    """
    behind = lowest - 2 if lowest > 2 else 0
    found = (_ASCII_STOP if text.isascii() else _STOP).search(text, behind, end - 1)
    while found is not None:
        stop = found.start()
        if text[stop] > "\u2fff" or text[stop + 1].isspace():
            start = _after_mark(text, stop, end)
            if lowest <= start < end:
                return start
        found = _STOP.search(text, stop + 1, end - 1)
    newline = text.find("\n", behind + 1, end - 1)
    if newline >= 0 and lowest <= (start := _after_mark(text, newline, end)) < end:
        return start
    return word_start(text, lowest, end)


def word_start(text: str, lowest: int, end: int) -> int:
    """Like `natural_start`, at the first word, or the first clause of a script without spaces."""
    behind = lowest - 1 if lowest else 0
    if text[lowest] < _WIDE:
        space = text.find(" ", behind, end - 1)
        if space >= 0 and not text[space + 1].isspace():
            return space + 1
    else:
        for mark in _COMMON_CLAUSES:
            if (found := text.find(mark, behind, end - 1)) >= 0:
                return found + 1
    for match in patterns().word_start.finditer(text, behind, end):
        if lowest <= match.end() < end:
            return int(match.end())
    return _inside_a_run(text, lowest, end)


def line_start(text: str, lowest: int, end: int) -> int:
    """Like `natural_start`, at the first line."""
    newline = text.find("\n", max(0, lowest - 1), end - 1)
    return newline + 1 if newline >= 0 else _inside_a_run(text, lowest, end)


def cluster_floor(text: str, begin: int, position: int) -> int:
    """The largest boundary between grapheme clusters in (begin, position]; `begin` when there is none.

    `begin` counts as a boundary. Source of the rules: Unicode UAX #29, extended grapheme clusters.
    """
    if position >= len(text) or _is_simple(text[position - 1], text[position]):
        return position
    safe = position - 1
    while safe > begin and not _is_simple(text[safe - 1], text[safe]):
        safe -= 1
    last = 0
    # A break depends on no character behind the one it stands before, so the search may end there. It is made on a
    # copy, because for flags the engine looks back as far as there are any: to the start of the text.
    for found in patterns().cluster.finditer(text[safe : position + 1]):
        last = int(found.start())
    return safe + last


def splits_cluster(text: str, begin: int, position: int) -> bool:
    """Whether a cut at `position` divides a grapheme cluster of a text that starts at `begin`."""
    after = text[position]
    return (after > "\u02ff" or after == "\n") and cluster_floor(text, begin, position) != position


def cluster_end(text: str, position: int, limit: int) -> int:
    """End of the grapheme cluster that starts at `position`, at most `limit`."""
    found = patterns().cluster.match(text[position:limit])
    return position + int(found.end()) if found else limit


def first_solid(text: str, begin: int, end: int) -> int:
    """Start of the first grapheme cluster with a character that is neither white space nor invisible; `end` if none."""
    if begin < end and text[begin].isalnum():
        return begin
    found = patterns().solid.search(text, begin, end)
    if not found:
        return end
    position = int(found.start())
    return cluster_floor(text, begin, position) if position > begin else position


def is_blank(text: str) -> bool:
    """Whether nothing in `text` can be seen: white space, controls, zero-width characters."""
    return patterns().visible.search(text) is None


def _early_end(text: str, begin: int, lowest: int, reach: int) -> int:
    known = patterns()
    early = max(lowest, begin + (reach - begin >> 3))
    return (
        _last(known.sentence, text, early, reach)
        or _last(known.clause, text, max(lowest, reach - (reach - begin >> 2)), reach)
        or _last(known.word, text, early, reach)
        or lowest
    )


def _line_break(text: str, half: int, newline: int, reach: int) -> int:
    """End in (half, reach] of the last paragraph, else of the last line that is not a soft break; 0 without one."""
    for paragraph in ("\n\n", "\n\r\n"):
        found = text.rfind(paragraph, half, reach)
        if found >= 0:
            return found + len(paragraph)
    while newline >= 0:
        if not _is_soft_break(text, newline):
            return newline + 1
        newline = text.rfind("\n", half, newline)
    return 0


def _is_soft_break(text: str, newline: int) -> bool:
    """Whether a line break lies inside wrapped prose: a letter or comma before it, a small letter (or one of a script
    without case) behind it."""
    before = text[max(0, newline - 2) : newline].rstrip("\r ")[-1:]
    return _is_small(text[newline + 1 : newline + 2]) and (_is_small(before) or before in (",", "，", "、", "-"))


def _is_small(letter: str) -> bool:
    return letter.isalpha() and not letter.isupper()


def _sentence_end(text: str, floor: int, reach: int) -> int:
    """End in (floor, reach] of the last sentence; 0 when there is none."""
    stop = -1
    for mark in _COMMON_STOPS if text[reach] < _WIDE else _WIDE_STOPS:
        # Behind the first that is there, which leaves a few words to look at.
        found = text.rfind(mark, floor if stop < 0 else stop, reach + len(mark) - 1)
        if found >= 0:
            stop = found
    return _after_mark(text, stop, reach) if stop >= 0 else _last(patterns().sentence, text, floor, reach)


def _after_mark(text: str, mark: int, end: int) -> int:
    """Index behind the mark at `mark` and its closing quotes and spaces, at most `end`."""
    start = mark + 1
    while start < end and (text[start].isspace() or text[start] in _CLOSERS):
        start += 1
    return start


def _last(pattern: Any, text: str, floor: int, reach: int) -> int:
    """End in (floor, reach] of the last match; 0 when there is none."""
    # One character past the window is looked at, for the space behind a sentence that ends exactly at its edge.
    found = pattern.search(text, floor, reach + 1)
    if found is None:
        return 0
    end = int(found.end())
    if end <= reach:
        return end
    if text[reach].isspace() or text[reach].isalpha():
        return reach
    found = pattern.search(text, floor, reach)
    return int(found.end()) if found is not None else 0


def _inside_a_run(text: str, lowest: int, end: int) -> int:
    if not (text[end - 1].isalnum() and text[end : end + 1].isalnum()):
        return end
    start = cluster_floor(text, max(0, lowest - 64), lowest)
    return start if start == lowest else min(cluster_end(text, start, end), end)


def _is_simple(before: str, after: str) -> bool:
    """Whether a break between the two characters is certain. False says nothing."""
    if after < "\u0300":
        return before < "\u0300" and not (before == "\r" and after == "\n")
    return (before < "\u0300" or "\u3000" <= before <= "\u9fff") and (
        "\u3400" <= after <= "\u9fff" or "\u3000" <= after <= "\u3029"
    )
