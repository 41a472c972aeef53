"""Citation numbers: unique within what one prompt can hold, which is a conversation with its subagents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...chat import ChatMessage
from ...retrieval.fence import FENCED
from .citation import Citation, Passage, PassageKey, cite, remembered

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
                for citation, keys in remembered.of(fence[1]) or ():
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
            citation = _joined(self._citations.get(number), cite(passage, number, hidden=hidden), fence)
            for key in passage.keys:
                self._numbers.setdefault(key, number)
            self._citations[number] = citation
            self.start_after(number)
            kept.append(citation)
        for number in sorted(self._citations)[: max(len(self._citations) - _MOST, 0)]:
            del self._citations[number]
        remembered.keep(fence, [(citation, passage.keys) for citation, passage in zip(kept, passages, strict=True)])
        return kept


def _joined(earlier: Citation | None, later: Citation, fence: str) -> Citation:
    """The citation of everything that was shown under one number."""
    if earlier is None:
        return later.model_copy(update={"fence": fence})
    ids = dict.fromkeys((*earlier.chunk_ids, *later.chunk_ids))
    known = not earlier.passage or earlier.passage in later.passage
    passage = later.passage if known else f"{earlier.passage}\n{later.passage}"
    return later.model_copy(update={"chunk_ids": tuple(ids), "fence": fence, "passage": passage})
