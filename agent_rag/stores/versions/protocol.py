"""Documents as versions: what an engine answers, and what is kept.

Each write of a document makes a *version* with an id of its own, whose rows (one per chunk) never change. The
document's *head* names the version that counts. A writer

1. reads the head;
2. writes the rows of its new version, and looks which other versions have rows of this document;
3. swaps the head, where it still is the one that was read in 1;
4. removes the rows of the versions it saw in 2, or its own where it lost; then it begins again.

A head carries a new revision at each write, and deleting is a swap too: it leaves a tombstone. So a head that was read
never comes back, whoever wrote before 3 and has not swapped has lost, and 4 removes no row that can still be published,
without clocks and locks. What dead writers left is removed by the next write of the document or by `compact`.

A server without conditional writes cannot do 3: its heads are *unguarded*, and that of the last writer counts. A writer
then looks whether its head still stands or was followed, and 4 removes only the version that its own head replaced and
those that are older than any writer at work, by the time in their ids: another young one may be published yet.

A reader finds rows, then reads the heads of their documents: a row counts where its head names its version. What it
finds beside is left out of the next try. Totals are sums over heads. So what is counted, listed, found and weighed is
what heads name, wherever a writer stands or died.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from ...documents import DocumentSummary
from ...filters import FilterLike
from ..engine.records import Vector
from .heads import Name, Runs
from .stored_info import StoredInfo

HEAD_DIGITS = 32
_HISTORY = 32
CLOCKS_S = 10.0
"""How far the clocks of programs may be apart that share a server."""

Term = Hashable
"""A word as the engine indexes it."""


def head_id(name: Name) -> str:
    """32 hexadecimal digits; of one document always the same."""
    return hashlib.sha256(json.dumps(["agent_rag", "head", *name]).encode()).hexdigest()[:HEAD_DIGITS]


def new_version(head: str) -> str:
    """A new id: that of the document's head, the time in seconds since 1970 (8 digits), 12 random digits."""
    return f"{head}{int(time.time()):08x}{uuid.uuid4().hex[:12]}"


def head_of(version: str) -> str:
    return version[:HEAD_DIGITS]


def made_at(version: str) -> float:
    """When this id was made, in seconds since 1970 by the writer's clock."""
    return int(version[HEAD_DIGITS : HEAD_DIGITS + 8], 16)


@dataclass(frozen=True, slots=True)
class RowId:
    version: str
    index: int


@dataclass(frozen=True, slots=True)
class NewRow:
    """A chunk as it is written."""

    index: int
    vector: Vector
    """Empty in a collection without vectors."""
    chunk: str
    """As JSON."""
    metadata: Mapping[str, Any]
    terms: Sequence[Term]
    """Tokens of the chunk as `Primitives.terms` gives them; empty where no words are indexed."""


@dataclass(frozen=True, slots=True)
class NewVersion:
    name: Name
    version: str
    rows: Sequence[NewRow]


@dataclass(frozen=True, slots=True)
class Row:
    """A chunk as it was read."""

    chunk: str
    vector: list[float]
    """Empty where it was not asked for."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a document's head says."""

    id: str
    name: Name
    version: str
    """"" on a tombstone: the document was deleted."""
    summary: DocumentSummary | None
    """None on a tombstone."""
    runs: Runs = ()
    """Which chunks the version has."""
    tokens: int = 0
    """Sum of the chunks' lengths."""
    indexed: int = 0
    """Number of its chunks that have tokens."""
    revision: str = ""
    """Of this write of the head."""
    history: tuple[str, ...] = ()
    """Revisions before this one, latest first; a writer finds its own here when it won and was replaced at once."""
    written_at: float = 0.0
    """Seconds since 1970, by the writer's clock."""
    guard: Any = None
    """What the engine needs to write over exactly this head."""

    @property
    def count(self) -> int:
        return sum(stop - start for start, stop in self.runs)

    def rows(self, start: int = 0, stop: int | None = None) -> list[RowId]:
        """Ids of the rows with ``start <= index < stop``, ascending."""
        return [
            RowId(self.version, index)
            for low, high in self.runs
            for index in range(max(low, start), high if stop is None else min(high, stop))
        ]

    def over(self, before: Head | None) -> Head:
        """This head as a new one that follows `before`."""
        history = () if before is None else (before.revision, *before.history)[:_HISTORY]
        return replace(self, revision=uuid.uuid4().hex[:16], history=history)

    def now(self) -> Head:
        """This head as it is written at this moment."""
        return replace(self, written_at=time.time())

    def body(self) -> str:
        """Everything as JSON text, for engines to keep."""
        return json.dumps(
            {
                "id": self.id,
                "v": self.version,
                "s": self.summary.model_dump(mode="json") if self.summary else None,
                "n": self.name,
                "runs": self.runs,
                "tokens": self.tokens,
                "indexed": self.indexed,
                "r": self.revision,
                "history": self.history,
                "at": self.written_at,
            },
            ensure_ascii=False,
        )

    @classmethod
    def of_body(cls, body: str, guard: Any = None) -> Head:
        kept = json.loads(body)
        scope, document_id = kept["n"]
        return cls(
            id=kept["id"],
            name=(scope, document_id),
            version=kept["v"],
            summary=DocumentSummary.model_validate(kept["s"]) if kept["s"] else None,
            runs=tuple((start, stop) for start, stop in kept["runs"]),
            tokens=kept["tokens"],
            indexed=kept["indexed"],
            revision=kept["r"],
            history=tuple(kept["history"]),
            written_at=kept["at"],
            guard=guard,
        )


class Current(NamedTuple):
    """The part of a head that a search reads."""

    name: Name
    version: str
    written_at: float


class Put(NamedTuple):
    """A head to write where the stored one still is `before`; None: where there is none."""

    head: Head
    before: Head | None


class Totals(NamedTuple):
    """Sums over rows or over heads."""

    chunks: int
    indexed: int
    """Chunks that have tokens."""
    tokens: int

    def plus(self, more: Totals) -> Totals:
        return Totals(*(one + other for one, other in zip(self, more, strict=True)))


@dataclass(frozen=True)
class NearestTo:
    """Rows by similarity to a vector: all that score at least as much as the best one at `limit`."""

    vector: Vector
    limit: int
    metadata_filter: FilterLike | None


@dataclass(frozen=True)
class Matching:
    """Rows by BM25 above 0: all that score at least as much as the best one at `limit`.

    On a server that embeds texts (`StoredInfo.embedding`) its similarity to `text` stands for BM25, and `weights` are
    empty.
    """

    weights: Mapping[Any, float]
    """Term -> idf times its weight in the query; above 0."""
    asked: Mapping[Any, float]
    """Term -> its weight in the query, of all terms."""
    average_length: float
    limit: int
    metadata_filter: FilterLike | None
    text: str = ""


@dataclass(frozen=True)
class Among:
    """The similarity of each of these rows to a vector."""

    vector: Vector
    rows: Sequence[RowId]


Question = NearestTo | Matching | Among


class Hit(NamedTuple):
    row: RowId
    score: float
    """Higher is better: cosine, dot product, negated distance or BM25."""
    chunk: str | None = None
    """As JSON, where texts were asked for."""


class Primitives(Protocol):
    """One collection on a server. Filters are on the metadata of rows, or of documents for heads.

    Every answer is of a moment between call and return. What a call wrote, later calls of anybody see: heads at once in
    `get_heads` and `current`; rows in all reads when `put_rows` returns; heads in the other reads, and removed rows,
    at the latest when `settle` returns.
    """

    info: StoredInfo

    guarded: bool
    """Whether `put_heads` writes each head only where the stored one still is the one it is to follow."""

    clocks_s: float
    """How far the clocks of those who write and read may be apart: `CLOCKS_S`, or 0 in one process."""

    def terms(self, tokens: Iterable[str]) -> list[Any]:
        """Tokens as they are indexed, in order."""

    async def put_rows(self, versions: Sequence[NewVersion], average_length: float) -> None: ...

    async def delete_rows(self, versions: Mapping[str, Runs | None]) -> None:
        """Remove all rows of these versions; `Runs` says which they have, where it is known."""

    async def get_rows(self, rows: Sequence[RowId], *, vectors: bool) -> dict[RowId, Row]:
        """Missing ones are left out."""

    async def put_heads(self, puts: Sequence[Put]) -> set[str]:
        """Returns the ids of heads that were not written, or perhaps not; all where heads are unguarded."""

    async def get_heads(self, heads: Collection[str]) -> dict[str, Head]:
        """By id, tombstones too."""

    async def current(self, heads: Collection[str]) -> dict[str, Current]:
        """As `get_heads`, with what a search needs."""

    async def heads_where(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[Head]:
        """In any order; without tombstones."""

    async def delete_tombstones(self, before: float) -> None:
        """Those that were written before this time."""

    async def settle(self) -> None:
        """Return when all reads show what was written."""

    async def search(self, questions: Sequence[Question], *, without: Collection[str], texts: bool) -> list[list[Hit]]:
        """One list per question, best first; rows of the versions `without` are left out."""

    async def document_frequencies(self, terms: Sequence[Any], *, without: Collection[str]) -> dict[Any, int]:
        """Number of rows that have each term."""

    async def totals(self) -> tuple[Totals, Totals]:
        """Over heads, and over rows.

        A server that adds nothing up counts rows: where there are as many as heads say, these are all of them.
        """

    async def tally(self, metadata_filter: FilterLike | None, heads: Collection[str] | None = None) -> dict[str, int]:
        """Version -> number of its rows that match; of the documents with these heads."""

    async def named(self) -> set[str]:
        """The versions that heads name."""
