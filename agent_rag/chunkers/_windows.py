"""Cutting a text into overlapping windows, each at the best boundary within the size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import _boundaries as boundaries
from .lengths import LengthFunction

Span = tuple[int, int]
"""A piece of a text, ``text[start:end]``."""

EndFinder = Callable[[str, int, int, int], int]
StartFinder = Callable[[str, int, int], int]


@dataclass(frozen=True, slots=True)
class Cutter:
    """Cuts texts into spans of at most `size`.

    The cost per span is a few searches near its end, whatever the length of the text. A grapheme cluster is divided
    only when it alone exceeds the size; a single character that alone exceeds it (four byte tokens, size 3) is the one
    span that can be larger. Only runs of white space between spans are left out.
    """

    size: int
    """At least 1, measured with `length`."""
    overlap: int = 0
    """Most that a span repeats of the one before, from 0 to below `size`; counts inside `size`. It is smaller where a
    good start demands it, and never above three quarters of `size`, so that each span brings something new."""
    length: LengthFunction = len
    find_end: EndFinder = boundaries.natural_end
    find_start: StartFinder = boundaries.natural_start

    def cut(self, text: str, start: int = 0, stop: int | None = None, *, breaks: Sequence[int] = ()) -> list[Span]:
        """Spans of ``text[start:stop]`` in order, each reaching further than the one before.

        Args:
            breaks: Sorted offsets that are better ends than any other (headings). No span repeats text across one.
        """
        stop = len(text) if stop is None else stop
        if self.length is len and not breaks:
            return self._cut_characters(text, start, stop)
        spans: list[Span] = []
        begin, done = start, boundaries.first_solid(text, start, stop)
        width = 4 * self.size  # A first guess, in characters; then the width of the window before.
        while done < stop:
            # Here text[begin:done] is repeated or blank, and text[done] is the first character not yet in a span.
            reach = self._reach(text, begin, stop, width)
            width = reach - begin
            if reach >= stop:
                spans.append((begin, stop))
                break
            end = self._end(text, begin, done, reach, breaks) if reach > done else done
            if end <= done:
                if begin < done:
                    begin = done
                    continue
                end = self._forced_end(text, begin, reach, stop)
                if boundaries.first_solid(text, begin, end) == end:  # A space under a joiner that does not fit.
                    begin, done = end, boundaries.first_solid(text, end, stop)
                    continue
            spans.append((begin, end))
            done = boundaries.first_solid(text, end, stop)
            begin = self.next_start(text, begin, end, breaks=breaks)
        return spans

    def _cut_characters(self, text: str, start: int, stop: int) -> list[Span]:
        """`cut` by characters: the same loop written out, which makes it twice as fast."""
        spans: list[Span] = []
        size, overlap = self.size, self._most_overlap
        find_end, find_start, splits_cluster = self.find_end, self.find_start, boundaries.splits_cluster
        begin, done = start, boundaries.first_solid(text, start, stop)
        while done < stop:
            reach = begin + size
            if reach >= stop:
                spans.append((begin, stop))
                break
            end = find_end(text, begin, done, reach) if reach > done else done
            after = text[end]
            if end <= done or ((after > "z" or after == "\n") and splits_cluster(text, begin, end)):
                end = self._end(text, begin, done, reach, ()) if reach > done else done
                if end <= done:
                    if begin < done:
                        begin = done
                        continue
                    end = self._forced_end(text, begin, reach, stop)
                    if boundaries.first_solid(text, begin, end) == end:
                        begin, done = end, boundaries.first_solid(text, end, stop)
                        continue
                after = text[end]
            spans.append((begin, end))
            done = end if after.isalnum() else boundaries.first_solid(text, end, stop)
            lowest = end - overlap if end - overlap > begin else begin + 1
            if lowest >= end:
                begin = end
                continue
            again = find_start(text, lowest, end)
            begin = end if text[again] > "z" and splits_cluster(text, begin, again) else again
        return spans

    @property
    def _most_overlap(self) -> int:
        return min(self.overlap, self.size - max(1, self.size >> 2))

    def _reach(self, text: str, begin: int, stop: int, guess: int) -> int:
        """The furthest end whose text fits, at least one character."""
        if self.length is len:
            return min(begin + self.size, stop)
        most = stop - begin
        count = largest_fit(lambda count: self.length(text[begin : begin + count]), self.size, most, guess=guess)
        return begin + max(1, count)

    def _end(self, text: str, begin: int, done: int, reach: int, breaks: Sequence[int]) -> int:
        """The best end in (done, reach]; `done` when every cluster there goes beyond `reach`."""
        while reach > done:
            end = self._break_in(breaks, max(done, begin + ((reach - begin) >> 1)), reach)
            end = end or self.find_end(text, begin, done, reach)
            end = boundaries.cluster_floor(text, begin, end) if end > done else done
            if end <= done:
                end = boundaries.cluster_floor(text, begin, reach)
            if end <= done or self.length is len or self.length(text[begin:end]) <= self.size:
                return max(end, done)
            reach = end - 1  # A shorter text can have more tokens than a longer one.
        return done

    def _forced_end(self, text: str, begin: int, reach: int, stop: int) -> int:
        """The end of a span whose first cluster does not fit before `reach`."""
        # A cluster much longer than the window cannot fit, and may be as long as the text.
        limit = min(stop, reach + max(64, reach - begin))
        end = boundaries.cluster_end(text, begin, limit)
        if end <= reach or self.length(text[begin:end]) <= self.size:
            return end
        while reach > begin + 1 and self.length(text[begin:reach]) > self.size:
            reach -= 1
        return reach

    def next_start(self, text: str, begin: int, end: int, *, breaks: Sequence[int] = ()) -> int:
        """Start of the span after ``text[begin:end]``: its overlap, else `end`."""
        overlap = self._most_overlap
        if overlap <= 0:
            return end
        most = end - begin - 1
        if self.length is len:
            lowest = end - min(overlap, most)
        else:
            lowest = end - largest_fit(lambda count: self.length(text[end - count : end]), overlap, most)
        lowest = max(lowest, self._break_in(breaks, begin, end))
        if lowest >= end:
            return end
        start = self.find_start(text, lowest, end)
        return end if boundaries.splits_cluster(text, begin, start) else start

    @staticmethod
    def _break_in(breaks: Sequence[int], lowest: int, highest: int) -> int:
        """The last break in (lowest, highest]; 0 when there is none."""
        if not breaks:
            return 0
        found = breaks[bisect_right(breaks, highest) - 1]
        return found if lowest < found <= highest else 0


def largest_fit(measure: Callable[[int], int], budget: int, most: int, *, guess: int | None = None) -> int:
    """A large count in [0, most] with ``measure(count) <= budget``: the largest, or within 3 % of it.

    `measure` should not shrink as count grows. It is called about four times, on counts of about the answer.

    Args:
        guess: First count to try; four times the budget when None (characters per token).
    """
    good, bad = 0, most + 1
    count = min(most, max(1, guess or budget * 4))
    for attempt in range(64):
        if bad - good <= 1 + (good >> 5):
            break
        measured = measure(count)
        if measured <= budget:
            good = count
        else:
            bad = count
        expected = count * budget // max(measured, 1)
        if attempt >= 3 and bad <= most:
            expected = (good + bad) // 2
        count = min(max(expected, good + 1), bad - 1)
    return good
