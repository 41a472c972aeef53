"""Level "filter": every operator means what `filters.matches` means."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import pytest

from ...errors import FilterError
from ...filters import F, Filter, FilterLike, matches
from ...stores.native import NativeStoreBase
from ..records import record
from .base import EAST, NORTH, StoreFixtures

SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 1.0, 1.5, 2.5, 10, 9, 2**53, 2**53 + 1, 2**70, 1e300, "", "a", "b", "A", "1", "true",
    "True", "10", "9", "é", "it's", 'q"q', "a\\b", "%", "x" * 300, "null", "[]", "2024-05-01", "2024-05-01T10:00:00Z",
    "2024-05-01T12:00:00+02:00", "2024-13-01", date(2024, 5, 2), datetime(2023, 12, 31, 23, 59, tzinfo=UTC),
]  # fmt: skip
FIELDS = ["year", "kind", "a.b", "a", "sp ace", 'quo"te', "it's", "ключ", "$op", "select", "x" * 120, "a]b", "missing"]
RANGES: list[Any] = [-1, 0, 1, 1.5, 9, 10, 2**53, 1e300, date(2024, 5, 1), "2024-05-01T10:00:00Z", "2024-05-02"]


def random_metadata(rng: random.Random) -> dict[str, Any]:
    """Some fields with scalars, lists and dicts of all kinds."""
    metadata: dict[str, Any] = {}
    for name in rng.sample(FIELDS[:-1], rng.randint(0, 5)):
        shape = rng.random()
        if shape < 0.65:
            metadata[name] = rng.choice(SCALARS)
        elif shape < 0.9:
            metadata[name] = rng.sample(SCALARS, rng.randint(0, 3))
        else:
            metadata[name] = {key: rng.choice(SCALARS) for key in rng.sample(["b", "c", "b.c"], rng.randint(0, 2))}
    return metadata


def random_filter(rng: random.Random, depth: int = 2) -> Filter:
    """One condition, or a combination of them."""
    if depth and rng.random() < 0.4:
        left, right = random_filter(rng, depth - 1), random_filter(rng, depth - 1)
        return rng.choice([left & right, left | right, ~left])
    field = F(rng.choice([*FIELDS, "a.c"]))
    some = rng.sample(SCALARS, rng.randint(0, 3))
    low, high = rng.choice([(0, 10), (1.5, 1e300), ("2024-01-01", date(2024, 5, 1)), (10, 0)])
    conditions: list[Callable[[], Filter]] = [
        lambda: field == rng.choice(SCALARS),
        lambda: field != rng.choice(SCALARS),
        lambda: field > rng.choice(RANGES),
        lambda: field >= rng.choice(RANGES),
        lambda: field < rng.choice(RANGES),
        lambda: field <= rng.choice(RANGES),
        lambda: field.between(low, high),
        lambda: field.in_(some),
        lambda: field.not_in(some),
        lambda: field.contains(rng.choice(SCALARS)),
        lambda: field.contains_any(some),
        lambda: field.contains_all(some),
        lambda: field.is_null(rng.random() < 0.5),
        lambda: field.exists(rng.random() < 0.5),
    ]
    return rng.choice(conditions)()


class StoreFilters(StoreFixtures):
    """The filter language."""

    level: ClassVar[tuple[str, ...]] = ("native",)

    async def matching(
        self, store: NativeStoreBase, collection: str, rows: list[dict[str, Any]], where: FilterLike
    ) -> list[int]:
        """Numbers of the rows that a search returns; each row is a document of one chunk."""
        hits = await store.search(collection, list(EAST), len(rows) + 1, where)
        return sorted(int(hit.document_id) for hit in hits)

    async def fill_rows(self, store: NativeStoreBase, collection: str, rows: list[dict[str, Any]]) -> None:
        await self.fill(store, collection, [record(str(n), metadata=row) for n, row in enumerate(rows)])

    async def test_every_operator_agrees_with_the_reference(self, store: NativeStoreBase, collection: str) -> None:
        """Random filters over random metadata give the rows that `matches` gives, in search, listing and count."""
        rng = random.Random(20240501)
        rows = [random_metadata(rng) for _ in range(60)]
        await self.fill_rows(store, collection, rows)

        for number in range(self.filter_trials):
            where = random_filter(rng)
            expected = [n for n, row in enumerate(rows) if matches(where, row)]

            assert await self.matching(store, collection, rows, where) == expected, f"trial {number}: {where}"
            if number % 3 == 0:
                listed = await store.list_documents(collection, where)
                assert sorted(int(summary.document_id) for summary in listed) == expected, f"list {number}: {where}"
            if number % 3 == 1:
                assert await store.count(collection, where) == len(expected), f"count {number}: {where}"

    async def test_each_value_finds_itself(self, store: NativeStoreBase, collection: str) -> None:
        """Equality with each kind of value in each field gives exactly the rows that `matches` gives."""
        rows: list[dict[str, Any]] = [{field: value} for value in SCALARS for field in ("year", 'quo"te')]
        rows += [{field: "a"} for field in FIELDS]
        await self.fill_rows(store, collection, rows)

        for field, value in [*(("year", value) for value in SCALARS), *((field, "a") for field in FIELDS)]:
            where = {field: value}
            expected = [n for n, row in enumerate(rows) if matches(where, row)]
            assert await self.matching(store, collection, rows, where) == expected, where

    async def test_lists_are_searched_by_item(self, store: NativeStoreBase, collection: str) -> None:
        """contains, contains_any and contains_all look into lists of text and of numbers, and AND narrows."""
        rows: list[dict[str, Any]] = [
            {"tags": ["a", "b"], "years": [2019, 2020], "year": 1},
            {"tags": ["b"], "years": [2020], "year": 2},
            {"tags": [], "years": []},
            {},
            {"tags": "a", "years": 2019},
        ]
        await self.fill_rows(store, collection, rows)
        tags, years = F("tags"), F("years")

        expected: list[tuple[Filter, list[int]]] = [
            (tags.contains("a"), [0]),
            (tags.contains_any(["a", "c"]), [0]),
            (tags.contains_all(["a", "b"]), [0]),
            (tags.contains("b"), [0, 1]),
            (tags.contains("b") & (F("year") >= 2), [1]),
            (years.contains(2019), [0]),
            (years.contains(2020.0), [0, 1]),
            (tags.contains_all([]), [0, 1, 2]),
            (tags.contains_any([]), []),
            (tags == "a", [4]),
        ]
        for where, numbers in expected:
            assert await self.matching(store, collection, rows, where) == numbers, where

    async def test_null_true_and_missing_are_three_things(self, store: NativeStoreBase, collection: str) -> None:
        """True is not 1 and not "true"; null matches is_null and exists; a missing field matches is_null, ne and
        not_in."""
        rows: list[dict[str, Any]] = [
            {"flag": True}, {"flag": False}, {"flag": 1}, {"flag": "true"}, {"flag": None}, {}, {"flag": 0},
        ]  # fmt: skip
        await self.fill_rows(store, collection, rows)
        flag = F("flag")

        expected: list[tuple[Filter, list[int]]] = [
            (flag == True, [0]),  # noqa: E712
            (flag == False, [1]),  # noqa: E712
            (flag == 1, [2]),
            (flag == 0, [6]),
            (flag != True, [1, 2, 3, 4, 5, 6]),  # noqa: E712
            (flag == None, [4, 5]),  # noqa: E711
            (flag.is_null(), [4, 5]),
            (flag.is_null(False), [0, 1, 2, 3, 6]),
            (flag.exists(), [0, 1, 2, 3, 4, 6]),
            (flag.exists(False), [5]),
            (flag.in_([True, "true"]), [0, 3]),
            (flag.not_in([True, None]), [1, 2, 3, 6]),
            (flag > 0, [2]),
        ]
        for where, numbers in expected:
            assert await self.matching(store, collection, rows, where) == numbers, where

    async def test_numbers_compare_as_numbers(self, store: NativeStoreBase, collection: str) -> None:
        """10 is more than 9, as in no store that compares text; dates compare as moments, across zones."""
        rows: list[dict[str, Any]] = [
            {"n": 9},
            {"n": 10},
            {"n": "11"},
            {"n": 9.5},
            {"d": "2024-05-01T12:00:00+02:00"},
            {"d": date(2024, 5, 2)},
        ]
        await self.fill_rows(store, collection, rows)

        assert await self.matching(store, collection, rows, F("n") > 9) == [1, 3]
        assert await self.matching(store, collection, rows, F("n").between(9, 9.5)) == [0, 3]
        assert await self.matching(store, collection, rows, F("d") <= "2024-05-01T10:00:00Z") == [4]
        assert await self.matching(store, collection, rows, F("d") > "2024-05-01T10:00:00Z") == [5]

    async def test_values_and_fields_are_data(self, store: NativeStoreBase, collection: str) -> None:
        """Quotes, brackets and expressions in values and field names never widen a filter."""
        rows: list[dict[str, Any]] = [{"tenant": "a"}, {"tenant": "b"}]
        await self.fill_rows(store, collection, rows)
        attacks = ["a' OR '1'='1", "a' IS NULL) OR ('x'='x", 'a" or true or "', "a\\", "a'; --", "{a}", "$ne", "a*",
                   "*", "%", "_", "a\x00", "]", "${jndi}", "a\" || 1==1 || \"", "\u2028", "/.*/"]  # fmt: skip

        for text in attacks:
            for where in (F("tenant") == text, F(text) == "a", F("tenant").in_([text, "zzz"]), F(text) > 0):
                expected = [n for n, row in enumerate(rows) if matches(where, row)]
                assert await self.matching(store, collection, rows, where) == expected, where

    async def test_a_value_that_cannot_be_filtered_by_is_refused(self, store: NativeStoreBase, collection: str) -> None:
        """Something that is no filter, or a value of no scalar type, raises FilterError."""
        await self.fill_rows(store, collection, [{}])

        for where in ("year == 1", {"year": object()}, {"year": float("nan")}, {"year": {"nested": 1}}):
            with pytest.raises(FilterError):
                await store.search(collection, list(EAST), 5, where)

    async def test_many_values_in_one_filter(self, store: NativeStoreBase, collection: str) -> None:
        """Membership in a list of 1,000 values works."""
        rows = [{"n": n} for n in range(0, 3_000, 100)]
        await self.fill_rows(store, collection, rows)

        assert await self.matching(store, collection, rows, F("n").in_(range(1_000))) == list(range(10))
        assert await self.matching(store, collection, rows, F("n").not_in(range(1_000))) == list(range(10, 30))

    async def test_filters_see_what_an_overwrite_left(self, store: NativeStoreBase, collection: str) -> None:
        """After a chunk was overwritten, its old metadata match nothing."""
        await self.fill_rows(store, collection, [{"year": 2023, "tags": ["old"]}, {"year": 2023}])

        await store.insert(collection, [record("0", metadata={"year": 2024, "tags": ["new"]})])
        await self.settle(store, collection)

        assert await self.matching(store, collection, [{}, {}], F("year") < 2024) == [1]
        assert await self.matching(store, collection, [{}, {}], F("tags").contains("old")) == []
        assert await self.matching(store, collection, [{}, {}], F("tags").contains("new")) == [0]

    async def test_a_negation_does_not_bring_back_the_deleted(self, store: NativeStoreBase, collection: str) -> None:
        """What was deleted or overwritten takes no place in a search or count with a filter that it would match."""
        await self.fill_rows(store, collection, [{"n": n} for n in range(8)])

        for number in range(4):
            await store.delete(collection, str(number))
        await store.insert(collection, [record("4", metadata={"n": 9}, vector=NORTH)])
        await self.settle(store, collection)

        hits = await store.search(collection, list(EAST), 3, F("n") != 7)
        assert [hit.document_id for hit in hits] == ["5", "6", "4"]
        assert await self.matching(store, collection, [{}] * 8, F("x").exists(False)) == [4, 5, 6, 7]
        assert await store.count(collection, F("n") != 4) == 4

    async def test_delete_is_bound_by_its_filter(self, store: NativeStoreBase, collection: str) -> None:
        """`delete` with a filter removes the document only if its metadata match."""
        await self.fill(store, collection, [record("a", n, metadata={"tenant": "x"}) for n in range(3)])

        await store.delete(collection, "a", {"tenant": "y"})
        await self.settle(store, collection)
        kept = await store.list_documents(collection)
        await store.delete(collection, "a", F("tenant") == "x")
        await self.settle(store, collection)

        assert [summary.chunk_count for summary in kept] == [3]
        assert await store.list_documents(collection) == []

    async def test_whole_documents_are_deleted_by_filter(self, store: NativeStoreBase, collection: str) -> None:
        """delete_by_filter removes the documents whose metadata match and gives their ids, sorted."""
        years = {"b": 2020, "a": 2021, "c": 2024}
        records = [record(name, n, metadata={"year": year}) for name, year in years.items() for n in range(2)]
        await self.fill(store, collection, records)

        removed = await store.delete_by_filter(collection, F("year") < 2024)
        await self.settle(store, collection)

        assert removed == ["a", "b"]
        assert [summary.document_id for summary in await store.list_documents(collection)] == ["c"]
        assert await store.count(collection) == 2
        assert await store.delete_by_filter(collection, {"year": 1}) == []
