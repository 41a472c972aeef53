"""Which stored chunks may hold a part of a text that is looked for, without reading them as JSON."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, repeat
from typing import Self

from ...retrieval.pattern import TextPattern

_MOST = 16
"""Bytes of the pattern that are looked for: enough to be rare."""
_LEAST = 3
"""Bytes that are rare enough to leave the rest of the pattern out."""
_AS_WRITTEN = re.compile(r'[^"\\\x00-\x20\x7f]+')
"""What JSON does not escape."""
_LOOKALIKES = {b"i": ("\u0130", "\u0131"), b"k": ("\u212a",), b"s": ("\u017f",)}
"""Letters beyond ASCII that `re` takes for one of ASCII when it ignores case."""

Fold = Callable[[bytes], bytes]


class Candidates:
    """Looks for what every occurrence of a pattern holds: a few passes over the bytes of many chunks at once."""

    def __init__(self, pattern: TextPattern, begins: bytes) -> None:
        """
        Args:
            begins: JSON of a chunk up to its text, unless it has none.
        """
        words = pattern.words
        self._pattern, self._begins = pattern, begins
        self._lower: Fold = bytes.lower if pattern.ignore_case else bytes
        self._folded = _longest(map(pattern.folded, words))
        self._quick = b""
        """What can be found by the case of ASCII alone; empty where nothing can."""
        if not pattern.ignore_accents:
            alike = map(_of_one_case, words) if pattern.ignore_case else words
            quick = self._lower(_longest(alike))
            self._quick = quick if len(quick) >= min(_LEAST, len(self._folded)) else b""
        self._lookalikes = [
            other.encode()
            for letter, others in _LOOKALIKES.items()
            if pattern.ignore_case and letter in self._quick
            for other in others
        ]

    def __call__(self, bodies: Sequence[bytes]) -> Iterable[int]:
        """Positions in `bodies`, chunks in order of their documents, of those that may hold a part of an occurrence.

        Every document with an occurrence has one, also where it stands across chunks; others may be among them. A
        regular expression of which nothing is known to stand in each: all.
        """
        if not self._folded:
            return range(len(bodies))
        joined = _Joined(bodies)
        if joined.text.isascii():
            found = _search(self._folded, bodies, joined.after(self._lower), self._lower, len(self._begins))
        elif self._quick and not any(other in joined.text for other in self._lookalikes):
            found = _search(self._quick, bodies, joined.after(self._lower), self._lower, len(self._begins))
        else:
            folded = self._pattern.folded(joined.text.decode()).encode().split(b"\0")[1:]
            found = _search(self._folded, folded, _Joined(folded), bytes, len(self._begins))
        if not all(map(bytes.startswith, bodies, repeat(self._begins))):
            found.update(place for place, body in enumerate(bodies) if not body.startswith(self._begins))
        return sorted(found)


class _Joined:
    """Pieces, each behind a NUL."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.text = b"\0".join([b"", *pieces])
        self._pieces = pieces

    def after(self, fold: Fold) -> Self:
        """
        Args:
            fold: Changes no length.
        """
        self.text = fold(self.text)
        return self

    def holding(self, wanted: bytes) -> Iterator[int]:
        """Numbers of the pieces that hold `wanted`; or, with a NUL before it, that begin with it."""
        at = self.text.find(wanted)
        while at >= 0:
            number = bisect_right(self._starts, at) - 1
            yield number
            if number + 1 == len(self._starts):
                return
            at = self.text.find(wanted, self._starts[number + 1])

    @cached_property
    def _starts(self) -> list[int]:
        """Where the NUL before each piece stands."""
        lengths = [len(piece) + 1 for piece in self._pieces]
        return list(accumulate(lengths[:-1], initial=0))


def _search(wanted: bytes, bodies: Sequence[bytes], folded: _Joined, fold: Fold, begin: int) -> set[int]:
    """
    Args:
        folded: `bodies` after `fold`, which `wanted` has behind it.
        begin: Where the text of each begins.
    """
    found = set(folded.holding(wanted))
    # Where no chunk holds it whole, one ends within it, and the next one begins with its back part, or within it, too,
    # and ends at once.
    size = len(wanted)
    heads = _Joined([body[begin : begin + size + 1] for body in bodies]).after(fold)
    found.update(heads.holding(b'"}'))
    for cut in range(1, size):
        fronts = [wanted[:length] + b'"}' for length in range(cut, size)]
        for place in heads.holding(b"\0" + wanted[cut:]):
            if place and place not in found:
                before = fold(bodies[place - 1])
                if any(front in before for front in fronts):
                    found.add(place)
    return found


def _longest(words: Iterable[str]) -> bytes:
    """The begin of the longest part of a word that JSON writes as it is."""
    parts = (part.encode(errors="surrogatepass") for word in words for part in _AS_WRITTEN.findall(word))
    return max(parts, key=len, default=b"")[:_MOST]


def _of_one_case(word: str) -> str:
    """`word` with a blank for each letter that `re` takes for others beyond ASCII when it ignores case."""
    return "".join(
        letter if letter.isascii() or letter == letter.lower() == letter.upper() == letter.casefold() else " "
        for letter in word
    )
