"""Citation numbers: unique within what one prompt can hold, which is a conversation with its subagents."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ...chat import ChatMessage
from ...retrieval.fence import FENCED
from .citation import Citation, Passage, PassageKey, cite

_HEADER = re.compile(r"^\[(\d{1,9})\] \(source: ", re.MULTILINE)
# A year or an index such as [2024] is no citation of ours: conversations with more passages than this are rare.
_MARKER = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")


def highest_number(messages: Iterable[ChatMessage]) -> int:
    """The highest citation number that `messages` use; 0 for none.

    Counted are the headers of hits in every message, and markers such as ``[3]`` or ``[1, 3]`` up to 999 in what
    models and other tools wrote: outside of fences, where they are somebody else's.
    """
    highest = 0
    for message in messages:
        text = message.text
        found = [int(number) for number in _HEADER.findall(text)]
        if message.role in ("assistant", "tool"):
            markers = _MARKER.findall(FENCED.sub("", text))
            found += [int(number) for marker in markers for number in re.findall(r"\d+", marker)]
        highest = max([highest, *found])
    return highest


# Of one conversation: a session of an MCP client may last for weeks.
_MOST = 10_000


class _Remembered:
    """What was shown in which fence, in this process. A fence's name is random: who has it has seen what is in it."""

    def __init__(self, most: int = 1_024) -> None:
        self._most = most
        self._shown: OrderedDict[str, list[tuple[Citation, list[PassageKey]]]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, fence: str, shown: list[tuple[Citation, list[PassageKey]]]) -> None:
        with self._lock:
            self._shown[fence] = shown
            while len(self._shown) > self._most:
                self._shown.popitem(last=False)

    def of(self, fence: str) -> list[tuple[Citation, list[PassageKey]]]:
        return self._shown.get(fence, [])


_remembered = _Remembered()


class Numbers:
    """Which passage each number stands for. Turns of subagents share the one of the turn that called them."""

    def __init__(self) -> None:
        self._next = 1
        self._numbers: dict[PassageKey, int] = {}
        self._citations: dict[int, Citation] = {}

    def go_on_after(self, messages: Sequence[ChatMessage]) -> None:
        """Give no number that `messages` use to a new passage, and take over those of passages shown in them."""
        self.start_after(highest_number(messages))
        for message in messages:
            for fence in FENCED.finditer(message.text):
                for citation, keys in _remembered.of(fence[1]):
                    self._citations[citation.number] = citation
                    for key in keys:
                        self._numbers.setdefault(key, citation.number)

    def start_after(self, number: int) -> None:
        """Give no number up to `number` to a new passage."""
        self._next = max(self._next, number + 1)

    @property
    def citations(self) -> list[Citation]:
        """Everything numbered so far, by number."""
        return [self._citations[number] for number in sorted(self._citations)]

    def citation(self, number: int) -> Citation | None:
        return self._citations.get(number)

    def number_of(self, key: PassageKey) -> int | None:
        return self._numbers.get(key)

    def numbers_for(self, passages: Sequence[Passage]) -> list[int]:
        """The number of each passage: the one a chunk of it already has, else the next free ones in order."""
        numbers, free = [], self._next
        for passage in passages:
            known = [self._numbers[key] for key in passage.keys if key in self._numbers]
            numbers.append(min(known, default=free))
            free += not known
        return numbers

    def keep(self, passages: Sequence[Passage], fence: str, *, hidden: Iterable[str] = ()) -> list[Citation]:
        """Number `passages`, shown in that fence, for good. Several under one number become one citation."""
        kept = []
        for passage, number in zip(passages, self.numbers_for(passages), strict=True):
            citation = cite(passage, number, hidden=hidden)
            if (earlier := self._citations.get(number)) is not None:
                ids = dict.fromkeys((*earlier.chunk_ids, *citation.chunk_ids))
                citation = citation.model_copy(update={"chunk_ids": tuple(ids)})
            for key in passage.keys:
                self._numbers.setdefault(key, number)
            self._citations[number] = citation
            self.start_after(number)
            kept.append(citation)
        for number in sorted(self._citations)[: max(len(self._citations) - _MOST, 0)]:
            del self._citations[number]
        _remembered.keep(fence, [(citation, passage.keys) for citation, passage in zip(kept, passages, strict=True)])
        return kept
