"""All levels: a store answers as `MemoryStore` does, over a seeded random sequence of operations."""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...documents import ChunkKey, VectorRecord, VectorSearchResult, scope_key
from ...filters import FilterLike
from ...stores.base import RetrieveRequest, VectorStoreBase
from ...stores.native import NativeStoreBase
from ..records import document, record
from .base import DIMENSIONS, StoreFixtures, assert_same_hits, same_direction, same_json
from .filters import random_filter
from .keyword import WORDS, random_texts

Settle = Callable[[VectorStoreBase, str], Awaitable[None]]


async def assert_congruent(
    store: VectorStoreBase,
    reference: NativeStoreBase,
    seed: int,
    operations: int,
    *,
    score_tolerance: float = 1e-5,
    keyword_tolerance: float = 1e-4,
    settle: Settle | None = None,
) -> None:
    """Do the same random writes in two open stores and compare every answer, for what `store` can.

    Args:
        store: The store under test.
        reference: Usually a `MemoryStore`.
        seed: Decides everything that is random here.
        operations: Number of writes; after each one some reads are compared.
        score_tolerance: Absolute, of cosines.
        keyword_tolerance: Relative, of BM25.
        settle: Awaited with `store` and the collection after each write.

    Raises: AssertionError: an answer differs; the message has seed and step.
    """
    walk = _Walk(store, reference, random.Random(seed), f"c{uuid.uuid4().hex[:16]}", score_tolerance, keyword_tolerance)
    await walk.both(lambda one: one.create_collection(walk.collection, DIMENSIONS))
    for number in range(operations):
        try:
            await walk.write()
            if settle is not None:
                await settle(store, walk.collection)
            await walk.read()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number} ({walk.last}): {error}") from error
    await walk.both(lambda one: one.delete_collection(walk.collection))


@dataclass
class _Walk:
    store: Any
    """The wider methods are called only where `native`."""
    reference: NativeStoreBase
    rng: random.Random
    collection: str
    score_tolerance: float
    keyword_tolerance: float
    last: str = ""
    native: bool = field(init=False)
    scopes: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        self.native = isinstance(self.store, NativeStoreBase)
        self.scopes = ("", scope_key({"tenant": "a"}), scope_key({"tenant": "b"})) if self.native else ("",)

    async def both(self, call: Callable[[Any], Awaitable[Any]]) -> tuple[Any, Any]:
        """Answers of the store and of the reference."""
        return await call(self.store), await call(self.reference)

    async def write(self) -> None:
        """One random write."""
        name = self.rng.choice(["insert", "insert", "replace", "replace", "delete", "delete_documents", "filter"])
        if name == "replace" and self.native:
            await self.replace()
        elif name == "delete_documents" and self.native:
            chosen = self.rng.sample(self.names(), 3)
            await self.compare(name, lambda one: one.delete_documents(self.collection, chosen))
        elif name == "filter" and self.native:
            where = self.filter()
            if await self.reference.count(self.collection, where) < 40:
                await self.compare(name, lambda one: one.delete_by_filter(self.collection, where))
        elif name == "delete":
            chosen_one = self.rng.choice(self.names())
            await self.compare(name, lambda one: one.delete(self.collection, chosen_one), answer=self.native)
        else:
            await self.insert()

    async def insert(self) -> None:
        """A whole document at a time: what a chunk left over from an older one means is no part of the seed."""
        records = self.document_records(self.rng.choice(self.names()), self.rng.choice(self.scopes))
        await self.compare("delete", lambda one: one.delete(self.collection, records[0].document_id), answer=False)
        await self.compare("insert", lambda one: one.insert(self.collection, records))

    async def replace(self) -> None:
        """Up to three documents in one call."""
        scope = self.rng.choice(self.scopes)
        names = self.rng.sample(self.names(), self.rng.randint(1, 3))
        documents = [
            document(
                name,
                metadata=self.metadata(),
                state={"digest": str(self.rng.random())},
                title=self.rng.choice([None, "T"]),
            )
            for name in names
        ]
        records = [item for name in names[:2] for item in self.document_records(name, scope)]
        self.rng.shuffle(records)
        await self.compare("replace", lambda one: one.replace(self.collection, documents, records, scope=scope))

    async def compare(self, name: str, call: Callable[[Any], Awaitable[Any]], *, answer: bool = True) -> None:
        """Do one thing in both and compare what comes back."""
        self.last = name
        actual, expected = await self.both(call)
        if answer:
            assert actual == expected, f"{name} gave {actual!r}, expected {expected!r}"

    async def read(self) -> None:
        """Some random reads."""
        where = self.filter() if self.rng.random() < 0.5 else None
        vector = [self.rng.gauss(0, 1) for _ in range(DIMENSIONS)]
        for limit in (3, 500):
            self.same_hits(
                *await self.both(lambda one, limit=limit: one.search(self.collection, list(vector), limit, where)),  # type: ignore[misc]
                tolerance=self.score_tolerance,
            )
        actual, expected = await self.both(lambda one: one.list_documents(self.collection, where))
        fields = None if self.native else {"document_id", "source", "chunk_count", "metadata"}
        assert [item.model_dump(include=fields) for item in actual] == [
            item.model_dump(include=fields) for item in expected
        ]
        if self.native:
            await self.read_more(vector, where)
        if self.native and self.rng.random() < 0.3:
            self.same_records(*await self.both(lambda one: _all(one, self.collection)))

    async def read_more(self, vector: Sequence[float], where: FilterLike | None) -> None:
        await self.compare("count", lambda one: one.count(self.collection, where))
        name = self.rng.choice(self.names())
        offset, limit = self.rng.randint(0, 3), self.rng.randint(0, 6)
        self.same_records(
            *await self.both(
                lambda one: one.list_chunks(
                    self.collection, name, offset=offset, limit=limit, metadata_filter=where, with_vectors=True
                )
            )
        )
        wanted = [
            ChunkKey(self.rng.choice(self.scopes), self.rng.choice(self.names()), self.rng.randint(0, 4))
            for _ in range(6)
        ]
        wanted = list(dict.fromkeys(wanted))
        self.same_records(*await self.both(lambda one: one.fetch(self.collection, wanted, where, with_vectors=True)))
        if self.store.keyword_search:
            text = " ".join(self.rng.sample(WORDS, 3))
            request = RetrieveRequest(texts=[text], limit=10, candidates=10, metadata_filter=where)
            self.same_hits(
                *await self.both(lambda one: one.retrieve(self.collection, request)), tolerance=self.keyword_tolerance
            )

    def same_hits(
        self, actual: list[VectorSearchResult], expected: list[VectorSearchResult], *, tolerance: float
    ) -> None:
        assert_same_hits(
            [(hit.key, hit.score) for hit in actual], [(hit.key, hit.score) for hit in expected], tolerance=tolerance
        )
        texts = {hit.key: hit.chunk for hit in expected}
        for hit in actual:
            assert hit.chunk == texts.get(hit.key, hit.chunk)

    def same_records(self, actual: list[VectorRecord], expected: list[VectorRecord]) -> None:
        assert [(item.key, item.chunk) for item in actual] == [(item.key, item.chunk) for item in expected]
        for one, other in zip(actual, expected, strict=True):
            assert same_json(one.chunk.metadata, other.chunk.metadata)
            assert same_direction(one.vector, other.vector)

    def names(self) -> list[str]:
        """Document ids in use."""
        return [f"d{number}" for number in range(12)]

    def metadata(self) -> dict[str, Any]:
        """A little metadata that `filter` can hit, the same for stores with equality only."""
        return {
            "year": self.rng.choice([2023, 2024]),
            "kind": self.rng.choice(["a", "b"]),
            "a": self.rng.choice([True, 1.5, None, ["a", 1], {"c": "a"}]),
        }

    def filter(self) -> FilterLike:
        """A filter that the store understands."""
        if self.native and self.rng.random() < 0.7:
            return random_filter(self.rng, 1)
        return {"year": self.rng.choice([2023, 2024]), "kind": self.rng.choice(["a", "b"])}

    def document_records(self, name: str, scope: str) -> list[VectorRecord]:
        """One to six chunks with the same metadata."""
        metadata, count = self.metadata(), self.rng.randint(1, 6)
        return [
            record(
                name,
                index,
                text,
                vector=[self.rng.gauss(0, 1) for _ in range(DIMENSIONS)],
                metadata=metadata,
                scope=scope,
                total=count,
            )
            for index, text in enumerate(random_texts(self.rng, count))
        ]


async def _all(store: NativeStoreBase, collection: str) -> list[VectorRecord]:
    return [item async for item in store.iterate(collection, batch_size=9)]


class StoreCongruence(StoreFixtures):
    """The same answers as the reference."""

    async def test_answers_are_those_of_the_reference(self, store: VectorStoreBase) -> None:
        """Random writes and reads give what `MemoryStore` gives."""
        from ...stores.memory import MemoryStore

        for seed in self.congruence_seeds:
            async with MemoryStore() as reference:
                await assert_congruent(
                    store,
                    reference,
                    seed,
                    self.congruence_operations,
                    score_tolerance=self.score_tolerance,
                    keyword_tolerance=self.keyword_tolerance,
                    settle=self.settle,
                )
