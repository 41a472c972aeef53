"""Level "fetch": `retrieve`, one search over one state of the collection."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest

from ...documents import ChunkKey, Signals
from ...errors import DimensionMismatchError
from ...filters import F
from ...stores.base import RankFunction, RetrieveRequest, Scored
from ...stores.native import NativeStoreBase
from ..records import record
from .base import EAST, NORTH, UP, StoreFixtures, ids, when


class Recorder:
    """A rank function that keeps what it was given and orders by key, so that nothing is lost."""

    def __init__(self, choose: RankFunction | None = None) -> None:
        self.choose = choose
        self.semantic: list[list[Scored]] = []
        self.keyword: list[list[Scored]] = []
        self.signals: dict[ChunkKey, Signals] = {}

    def __call__(
        self, semantic: list[list[Scored]], keyword: list[list[Scored]], signals: dict[ChunkKey, Signals]
    ) -> list[Scored]:
        self.semantic, self.keyword, self.signals = semantic, keyword, signals
        if self.choose is not None:
            return self.choose(semantic, keyword, signals)
        return [Scored(key, 0.5) for key in sorted(signals)]


class StoreRetrieve(StoreFixtures):
    """Vectors alone, and with texts where the store has "keyword"."""

    level: ClassVar[tuple[str, ...]] = ("native",)

    async def test_one_vector_is_a_search(self, store: NativeStoreBase, collection: str) -> None:
        """Without `rank`, retrieve gives what search gives, with the semantic signal beside the score."""
        await self.fill(store, collection, [record(str(n), vector=v) for n, v in enumerate((NORTH, EAST, UP))])

        found = await store.retrieve(collection, RetrieveRequest(vectors=[EAST], limit=2))
        searched = await store.search(collection, list(EAST), 2)

        assert ids(found) == ids(searched) == ["1:0", "0:0"]
        assert [hit.score for hit in found] == pytest.approx([1.0, 0.0], abs=self.score_tolerance)
        assert [hit.signals.semantic for hit in found] == [hit.score for hit in found]
        assert [hit.signals.semantic for hit in searched] == pytest.approx([1.0, 0.0], abs=self.score_tolerance)
        assert [hit.signals.keyword for hit in found] == [None, None]

    async def test_nothing_asked_is_nothing_found(self, store: NativeStoreBase, collection: str) -> None:
        """No vector and no text, or a limit of 0 or less, give []."""
        await self.fill(store, collection, [record()])

        assert await store.retrieve(collection, RetrieveRequest()) == []
        for limit in (0, -1):
            assert await store.retrieve(collection, RetrieveRequest(vectors=[EAST], limit=limit)) == []

    async def test_a_vector_of_the_wrong_size_is_refused(self, store: NativeStoreBase, collection: str) -> None:
        """As in search."""
        await self.fill(store, collection, [record()])

        with pytest.raises(DimensionMismatchError, match=collection):
            await store.retrieve(collection, RetrieveRequest(vectors=[(1.0, 0.0)]))

    async def test_rank_gets_one_list_per_vector(self, store: NativeStoreBase, collection: str) -> None:
        """Lists are best first, at most `candidates` long; the signal is the best cosine of the vectors; what rank
        returns, in its order and with its scores, is the answer, cut to `limit`."""
        await self.fill(store, collection, [record(str(n), vector=v) for n, v in enumerate((NORTH, EAST, UP))])
        rank = Recorder()

        found = await store.retrieve(
            collection, RetrieveRequest(vectors=[EAST, NORTH], limit=2, candidates=1, rank=rank)
        )

        assert [[hit.key.document_id for hit in ranking] for ranking in rank.semantic] == [["1"], ["0"]]
        assert [(hit.document_id, hit.score) for hit in found] == [("0", 0.5), ("1", 0.5)]
        assert [hit.signals.semantic for hit in found] == pytest.approx([1.0, 1.0], abs=self.score_tolerance)

    async def test_rank_may_leave_out_and_reorder(self, store: NativeStoreBase, collection: str) -> None:
        """An empty answer of rank is an empty answer; a key that does not exist is left out."""
        await self.fill(store, collection, [record(str(n)) for n in range(3)])
        unknown = ChunkKey("", "unknown", 0)

        none = await store.retrieve(collection, RetrieveRequest(vectors=[EAST], rank=lambda *_: []))
        some = await store.retrieve(
            collection,
            RetrieveRequest(
                vectors=[EAST], rank=lambda semantic, *_: [Scored(unknown, 9.0), *reversed(semantic[0])], limit=3
            ),
        )

        assert none == []
        assert ids(some) == ["2:0", "1:0"]

    async def test_an_error_in_rank_goes_through(self, store: NativeStoreBase, collection: str) -> None:
        """And the store still works."""
        await self.fill(store, collection, [record()])

        with pytest.raises(ZeroDivisionError):
            await store.retrieve(collection, RetrieveRequest(vectors=[EAST], rank=lambda *_: [][1 // 0]))

        assert len(await store.search(collection, list(EAST), 5)) == 1

    @when("keyword_search")
    async def test_every_candidate_has_its_semantic_signal(self, store: NativeStoreBase, collection: str) -> None:
        """Also one that only the keyword list found: the true cosine, of the nearest vector."""
        rng = random.Random(7)
        vectors = [[rng.gauss(0, 1) for _ in range(4)] for _ in range(40)]
        records = [record(f"d{n:02}", text="apple" if n % 4 else "pear", vector=v) for n, v in enumerate(vectors)]
        await self.fill(store, collection, records)
        rank = Recorder()

        found = await store.retrieve(
            collection, RetrieveRequest(vectors=[EAST, UP], texts=["pear"], limit=100, candidates=10, rank=rank)
        )

        assert {hit.key.document_id for hit in rank.keyword[0]} == {f"d{n:02}" for n in range(0, 40, 4)}
        assert set(rank.signals) == {hit.key for ranking in (*rank.semantic, *rank.keyword) for hit in ranking}
        assert len(found) == len(rank.signals) > 20
        for hit in found:
            vector = vectors[int(hit.document_id[1:])]
            size = sum(number * number for number in vector) ** 0.5
            expected = max(vector[0], vector[2]) / size
            assert hit.signals.semantic == pytest.approx(expected, abs=self.score_tolerance)
            assert (hit.signals.keyword is not None) == (hit.chunk.text == "pear")

    @when("keyword_search")
    async def test_a_filter_binds_every_list(self, store: NativeStoreBase, collection: str) -> None:
        """Semantic and keyword candidates match the filter."""
        await self.fill(store, collection, [record(f"d{n}", text="pear", metadata={"n": n}) for n in range(9)])
        rank = Recorder()

        found = await store.retrieve(
            collection,
            RetrieveRequest(vectors=[EAST], texts=["pear"], limit=9, metadata_filter=F("n") >= 7, rank=rank),
        )

        assert [[hit.key.document_id for hit in ranking] for ranking in (*rank.semantic, *rank.keyword)] == [
            ["d7", "d8"],
            ["d7", "d8"],
        ]
        assert ids(found) == ["d7:0", "d8:0"]
