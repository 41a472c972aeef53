"""Citation numbers: unique within what one prompt can hold, which is a conversation with its subagents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ....answers import Quotable
from ..citation import Citation, Passage, PassageKey, cite, remembered
from .ledger import Above, entry_key

# Of one conversation: a session of an MCP client may last for weeks.
_MOST = 10_000


class _Unread(NamedTuple):
    """A number of the messages whose passage this process does not remember."""

    number: int
    text: str = ""
    passage: str = ""


class Numbers:
    """Which passage each number stands for. Turns of subagents share the one of the turn that called them."""

    def __init__(self) -> None:
        self._next = 1
        self._numbers: dict[PassageKey, int] = {}
        self._citations: dict[int, Citation] = {}
        self.entries: dict[str, int] = {}
        """Numbers of passages that stand in the history and that this process does not remember; see `entry_key`."""

    def go_on_after(self, above: Above) -> None:
        """Give no number that a conversation uses to a new passage, and take over those of passages shown in it."""
        self.start_after(above.highest)
        for citation, keys in above.stored:
            self._citations.setdefault(citation.number, citation)
            self.bind(citation.number, keys)
        for citation, keys in above.shown:
            self._citations[citation.number] = citation
            self.bind(citation.number, keys)
        self.entries.update(above.entries)

    def take_over(self, passage: Passage, entry: str, *, hidden: Iterable[str] = ()) -> bool:
        """Whether `passage` stands in the messages under a number, which it then keeps.

        Args:
            entry: Its header and text as they would be shown.
        """
        number = self.entries.get(entry_key(entry))
        if number is None or any(key in self._numbers for key in passage.keys):
            return number is not None
        self.bind(number, passage.keys)
        citation = cite(passage, number, hidden=hidden)
        self._citations[number] = _joined(self._citations.get(number), citation, citation.fence)
        return True

    def bind(self, number: int, keys: Iterable[PassageKey]) -> None:
        """Let chunks that have no number yet have this one."""
        for key in keys:
            self._numbers.setdefault(key, number)

    def start_after(self, number: int) -> None:
        """Give no number up to `number` to a new passage."""
        self._next = max(self._next, number + 1)

    @property
    def citations(self) -> list[Citation]:
        """Everything numbered so far, by number."""
        return [self._citations[number] for number in sorted(self._citations)]

    @property
    def quotable(self) -> list[Quotable]:
        """What each number in use stands for, without a text where only the messages have it."""
        unread = sorted(set(self.entries.values()) - self._citations.keys())
        return [*self.citations, *map(_Unread, unread)]

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
