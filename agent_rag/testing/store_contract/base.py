"""Fixtures, knobs and comparisons that all levels share."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, TypeVar

import pytest
import pytest_asyncio

from ...documents import ChunkKey, VectorRecord, VectorSearchResult
from ...stores.base import RetrieveRequest, VectorStoreBase
from ...stores.native import NativeStoreBase

MakeStore = Callable[[], Any]
"""Makes the store under test; tests of its level call what a `NativeStoreBase` or a `VectorStoreBase` has."""
Test = TypeVar("Test", bound=Callable[..., Any])

DIMENSIONS = 4
EAST, NORTH, UP, WEST = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (-1.0, 0.0, 0.0, 0.0)


def when(*conditions: str) -> Callable[[Test], Test]:
    """Collect a test only where the contract class has all `conditions`: attributes that are true."""

    def mark(test: Test) -> Test:
        test.__dict__["_needs"] = conditions
        return test

    return mark


_PROMISES = ("native", "keyword_search", "can_exchange", "persistent", "shared", "has_unavailable")


class StoreFixtures:
    """What a backend's test class sets. Only `make_store` is required."""

    pytestmark = pytest.mark.asyncio

    native: ClassVar[bool] = True
    """The store is a `NativeStoreBase`. False: it has the seven methods only, and only the core level runs."""
    keyword_search: ClassVar[bool] = True
    """As the store's own `keyword_search`, where it is native."""
    can_exchange: ClassVar[bool] = False
    """As the store's own `can_exchange`, where it is native."""
    persistent: ClassVar[bool] = False
    """A store made by `make_store` after another one was closed shows the same data."""
    shared: ClassVar[bool] = False
    """Two stores made by `make_store` may be open at the same time (a server)."""
    has_unavailable: ClassVar[bool] = False
    """The fixture `unavailable` is there."""
    cosine: ClassVar[bool] = True
    """The store under test compares by cosine."""
    eventual_seconds: ClassVar[float] = 0.0
    """How long after a write a read may still see the old state; see `settle`."""
    score_tolerance: ClassVar[float] = 1e-5
    keyword_tolerance: ClassVar[float] = 1e-4
    """Relative, of BM25."""
    filter_trials: ClassVar[int] = 120
    race_trials: ClassVar[int] = 20
    congruence_seeds: ClassVar[Sequence[int]] = (1, 2, 3)
    congruence_operations: ClassVar[int] = 40
    max_loop_pause_s: ClassVar[float] = 0.05
    """Longest time that the event loop may stand still; DESIGN says 50 ms for writes of up to 1,000 chunks."""

    level: ClassVar[tuple[str, ...]] = ()
    """Conditions for all tests of a level."""

    _placed: ClassVar[frozenset[str]] = frozenset()
    """Tests that `__init_subclass__` put into this class, as they are or hidden."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Hide the tests of what the store does not promise: pytest collects no attribute that is None. Hidden, not
        skipped, since nothing is missing."""
        super().__init_subclass__(**options)
        met = {name for name in _PROMISES if getattr(cls, name)}
        tests = _inherited_tests(cls)
        for name, (level, test) in tests.items():
            wanted = (*level, *getattr(test, "_needs", ()))
            setattr(cls, name, test if met.issuperset(wanted) else None)
        cls._placed = frozenset(tests)

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Override: a function that returns a store that is not entered, over the same data at each call of a test."""
        raise NotImplementedError("the test class must have a fixture make_store")

    @pytest.fixture
    def unavailable(self) -> VectorStoreBase:
        """Override with `has_unavailable`: a store that is not entered and whose server does not answer."""
        raise NotImplementedError("has_unavailable needs a fixture unavailable")

    @pytest_asyncio.fixture
    async def store(self, make_store: MakeStore) -> AsyncIterator[VectorStoreBase]:
        """An open store."""
        store = make_store()
        if (fault := self.misdeclared(store)) is not None:
            pytest.skip(fault)
        async with store:
            yield store

    @pytest.fixture
    def collection(self) -> str:
        """A new name, since a server may be used by many tests."""
        return f"c{uuid.uuid4().hex[:16]}"

    def misdeclared(self, store: VectorStoreBase) -> str | None:
        """What the test class says of its store and is not so; then one test fails and the others are skipped."""
        name, mine = type(store).__name__, type(self).__name__
        if isinstance(store, NativeStoreBase) != self.native:
            kind = "is a NativeStoreBase" if not self.native else "is no NativeStoreBase"
            return f"{name} {kind}: set `native = {not self.native}` in {mine}"
        if isinstance(store, NativeStoreBase) and store.keyword_search != self.keyword_search:
            return f"{name} has keyword_search={store.keyword_search}: set it in {mine}"
        return None

    async def settle(self, store: VectorStoreBase, collection: str) -> None:
        """Called between writes and reads. Override it where the engine can be told to refresh."""
        await asyncio.sleep(self.eventual_seconds)

    async def fill(
        self,
        store: VectorStoreBase,
        collection: str,
        records: Sequence[VectorRecord],
        *,
        dimensions: int = DIMENSIONS,
    ) -> None:
        """Create the collection, insert `records` in one call, and wait until they can be read."""
        await store.create_collection(collection, dimensions)
        if records:
            await store.insert(collection, list(records))
        await self.settle(store, collection)

    async def keyword(
        self, store: NativeStoreBase, collection: str, text: str, *, limit: int = 100, metadata_filter: Any = None
    ) -> list[VectorSearchResult]:
        """Keyword hits."""
        request = RetrieveRequest(texts=[text], limit=limit, candidates=limit, metadata_filter=metadata_filter)
        return await store.retrieve(collection, request)

    async def every_key(self, store: VectorStoreBase, collection: str, metadata_filter: Any = None) -> list[ChunkKey]:
        """Keys of all chunks, by a search that is wide enough, sorted."""
        hits = await store.search(collection, list(EAST), 2_000, metadata_filter)
        return sorted(hit.key for hit in hits)


def _inherited_tests(cls: type[StoreFixtures]) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Name -> (level, test) of the tests that `cls` inherits, those that a parent hides included."""
    found: dict[str, tuple[tuple[str, ...], Any]] = {}
    for base in cls.__mro__[1:]:
        for name, test in vars(base).items():
            if name.startswith("test_") and name not in vars(cls) and name not in vars(base).get("_placed", ()):
                found.setdefault(name, (vars(base).get("level", ()), test))
    return found


def keys(found: Sequence[VectorSearchResult | VectorRecord]) -> list[ChunkKey]:
    """Keys in order."""
    return [item.key for item in found]


def ids(found: Sequence[VectorSearchResult | VectorRecord]) -> list[str]:
    """Chunk ids in order."""
    return [item.key.chunk_id for item in found]


def same_json(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON; True is not 1 and 1 is not 1.0."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def same_direction(left: Sequence[float], right: Sequence[float]) -> bool:
    """Whether two vectors point the same way, since cosine stores may keep unit vectors."""
    size = sum(a * a for a in left) ** 0.5 * sum(b * b for b in right) ** 0.5
    return len(left) == len(right) and abs(sum(a * b for a, b in zip(left, right, strict=True)) - size) <= 1e-5 * size


def assert_same_hits(
    actual: Sequence[tuple[ChunkKey, float]], expected: Sequence[tuple[ChunkKey, float]], *, tolerance: float
) -> None:
    """The same keys with the same scores; where expected scores are closer than `tolerance`, in any order.

    The last group of such near ties may be cut anywhere, so it is compared by score only.
    """
    assert len(actual) == len(expected), f"{len(actual)} hits, expected {len(expected)}"
    assert [score for _, score in actual] == pytest.approx(
        [score for _, score in expected], rel=tolerance, abs=tolerance
    )
    start = 0
    for end in range(1, len(expected) + 1):
        if end < len(expected) and expected[end - 1][1] - expected[end][1] <= 2 * tolerance:
            continue
        if end < len(expected) or end - start == 1:
            assert {key for key, _ in actual[start:end]} == {key for key, _ in expected[start:end]}
        start = end
