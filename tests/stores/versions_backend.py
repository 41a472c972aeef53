"""The primitives of versions in memory, which stop before each step so that a test chooses who goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from agent_rag.filters import FilterLike, matches
from agent_rag.stores.engine.records import closed_store
from agent_rag.stores.engine.store import EngineStore
from agent_rag.stores.versions import protocol
from agent_rag.stores.versions.engine import LAYOUT, VersionsEngine
from agent_rag.stores.versions.exact_scores import bm25, similarities
from agent_rag.stores.versions.heads import Runs
from agent_rag.stores.versions.stored_info import StoredInfo

T = TypeVar("T")


class World:
    """What lies on the server: rows and heads of one collection.

    Args:
        guarded: Whether the server can write a head only where the stored one is the one to follow.
    """

    def __init__(self, *, guarded: bool = True) -> None:
        self.guarded = guarded
        self.rows: dict[protocol.RowId, protocol.NewRow] = {}
        self.heads: dict[str, protocol.Head] = {}

    def strays(self) -> set[str]:
        """Versions with rows that no head names."""
        return {row.version for row in self.rows} - {head.version for head in self.heads.values()}


class Gate:
    """Lets everybody through; a schedule does not."""

    async def __call__(self) -> None:
        return None


class MemoryPrimitives:
    """One actor's view of a world; each step begins when its gate opens."""

    def __init__(self, world: World, info: StoredInfo, gate: Gate | None = None) -> None:
        self.world = world
        self.info = info
        self.guarded = world.guarded
        self.clocks_s = protocol.CLOCKS_S
        self._gate = gate or Gate()

    def terms(self, tokens: Iterable[str]) -> list[str]:
        return list(tokens)

    async def put_rows(self, versions: Sequence[protocol.NewVersion], average_length: float) -> None:
        for version in versions:
            half = (len(version.rows) + 1) // 2
            for part in (version.rows[:half], version.rows[half:]):
                if part:
                    await self._gate()
                    self.world.rows |= {protocol.RowId(version.version, row.index): row for row in part}

    async def delete_rows(self, versions: Mapping[str, Runs | None]) -> None:
        for version in versions:
            await self._gate()
            for row in [row for row in self.world.rows if row.version == version]:
                del self.world.rows[row]

    async def get_rows(self, rows: Sequence[protocol.RowId], *, vectors: bool) -> dict[protocol.RowId, protocol.Row]:
        await self._gate()
        found = {row: self.world.rows[row] for row in rows if row in self.world.rows}
        return {row: protocol.Row(one.chunk, one.vector.tolist() if vectors else []) for row, one in found.items()}

    async def put_heads(self, puts: Sequence[protocol.Put]) -> set[str]:
        """As a server that does not say which were written."""
        for head, before in puts:
            await self._gate()
            stored = self.world.heads.get(head.id)
            if not self.guarded or (stored and stored.revision) == (before and before.revision):
                self.world.heads[head.id] = head
        return {head.id for head, _ in puts}

    async def get_heads(self, heads: Collection[str]) -> dict[str, protocol.Head]:
        await self._gate()
        return {one: self.world.heads[one] for one in heads if one in self.world.heads}

    async def current(self, heads: Collection[str]) -> dict[str, protocol.Current]:
        found = await self.get_heads(heads)
        return {
            one: protocol.Current(head.name, head.version, head.written_at)
            for one, head in found.items()
            if head.summary
        }

    async def heads_where(
        self, metadata_filter: FilterLike | None, document_ids: Sequence[str] | None = None
    ) -> list[protocol.Head]:
        await self._gate()
        return [
            protocol.Head.of_body(head.body())
            for head in self.world.heads.values()
            if head.summary is not None
            and matches(metadata_filter, head.summary.metadata)
            and (document_ids is None or head.name[1] in document_ids)
        ]

    async def delete_tombstones(self, before: float) -> None:
        await self._gate()
        for one in [one for one, head in self.world.heads.items() if not head.summary and head.written_at < before]:
            del self.world.heads[one]

    async def settle(self) -> None:
        return None

    async def search(
        self, questions: Sequence[protocol.Question], *, without: Collection[str], texts: bool
    ) -> list[list[protocol.Hit]]:
        await self._gate()
        return [self._hits(question, without, texts=texts) for question in questions]

    async def document_frequencies(self, terms: Sequence[str], *, without: Collection[str]) -> dict[str, int]:
        await self._gate()
        rows = [one for row, one in self.world.rows.items() if row.version not in without]
        return {term: sum(term in row.terms for row in rows) for term in terms}

    async def totals(self) -> tuple[protocol.Totals, protocol.Totals]:
        await self._gate()
        heads = [head for head in self.world.heads.values() if head.summary]
        rows = self.world.rows.values()
        return (
            protocol.Totals(
                sum(head.count for head in heads),
                sum(head.indexed for head in heads),
                sum(head.tokens for head in heads),
            ),
            protocol.Totals(len(rows), sum(bool(row.terms) for row in rows), sum(len(row.terms) for row in rows)),
        )

    async def tally(self, metadata_filter: FilterLike | None, heads: Collection[str] | None = None) -> dict[str, int]:
        await self._gate()
        counted: dict[str, int] = {}
        for row, one in self.world.rows.items():
            if (heads is None or protocol.head_of(row.version) in heads) and matches(metadata_filter, one.metadata):
                counted[row.version] = counted.get(row.version, 0) + 1
        return counted

    async def named(self) -> set[str]:
        await self._gate()
        return {head.version for head in self.world.heads.values() if head.summary}

    def _hits(self, question: protocol.Question, without: Collection[str], *, texts: bool) -> list[protocol.Hit]:
        if isinstance(question, protocol.Among):
            rows = {row: self.world.rows[row] for row in question.rows if row in self.world.rows}
        else:
            rows = {
                row: one
                for row, one in self.world.rows.items()
                if row.version not in without and matches(question.metadata_filter, one.metadata)
            }
        if isinstance(question, protocol.Matching):
            weights, average = question.weights, question.average_length
            scores = [
                bm25({term: row.terms.count(term) for term in weights}, len(row.terms), weights, average)
                for row in rows.values()
            ]
        elif rows:
            matrix = np.array([row.vector for row in rows.values()], np.float32)
            scores = similarities(self.info.distance, question.vector, matrix).tolist()
        else:
            scores = []
        hits = [
            protocol.Hit(row, score, one.chunk if texts else None)
            for (row, one), score in zip(rows.items(), scores, strict=True)
            if score > 0 or not isinstance(question, protocol.Matching)
        ]
        return sorted(hits, key=lambda hit: -hit.score)


class MemoryServer:
    """Collections that live as long as `worlds`."""

    def __init__(self, owner: object, worlds: dict[str, tuple[StoredInfo, World]]) -> None:
        self._owner = owner
        self._worlds = worlds
        self._open = False

    @property
    def is_open(self) -> bool:
        return self._open

    async def open(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._open:
            work.close()
            raise closed_store(self._owner)
        return await work

    def errors(self, collection: str) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    async def create(self, name: str, dimensions: int, fingerprint: str | None) -> None:
        info = StoredInfo(name=name, dimensions=dimensions, fingerprint=fingerprint, layout=LAYOUT)
        self._worlds.setdefault(name, (info, World()))

    async def complete(self, name: str) -> None:
        return None

    async def info(self, name: str) -> StoredInfo | None:
        return self._worlds[name][0] if name in self._worlds else None

    async def set_fingerprint(self, info: StoredInfo, fingerprint: str) -> None:
        self._worlds[info.name] = info.model_copy(update={"fingerprint": fingerprint}), self._worlds[info.name][1]

    async def drop(self, name: str) -> None:
        self._worlds.pop(name, None)

    async def names(self) -> list[str]:
        return list(self._worlds)

    def collection(self, info: StoredInfo) -> MemoryPrimitives:
        return MemoryPrimitives(self._worlds[info.name][1], info)

    async def facts(self) -> dict[str, str]:
        return {"engine": "memory", "version": "1"}


class VersionsStore(EngineStore):
    """A store over the protocol alone."""

    def __init__(self, worlds: dict[str, tuple[StoredInfo, World]]) -> None:
        super().__init__(VersionsEngine(MemoryServer(self, worlds)))
