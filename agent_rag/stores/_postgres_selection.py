"""What a filter keeps: about how many chunks, and the condition that finds them fastest."""

from __future__ import annotations

import json

from ..filters import FilterLike
from ..filters.plan import plan
from ._postgres_connection import Session
from ._postgres_filters import Range, Values, has_range, range_sql, ranges_of, where
from ._postgres_schema import Collection

_SAMPLE = 2_000
"""Chunks that are looked at to estimate a share."""


class Selection:
    """A filter over the chunks of a collection, in one transaction.

    Estimates only choose between two right answers. (Counting took 25 ms where half of 100k chunks match.)
    """

    def __init__(
        self, session: Session, collection: Collection, metadata_filter: FilterLike | None, *, few: int
    ) -> None:
        """
        Args:
            few: So many chunks are worth a list of their ids.
        """
        self._session = session
        self._collection = collection
        self._filter = metadata_filter
        self._few = few
        self._matches: float | None = None
        self._narrow: Range | None = None
        """The range that only a few chunks are in."""

    @property
    def keeps_all(self) -> bool:
        return plan(self._filter) is None

    async def matches(self) -> float:
        """About how many chunks match: the planner's estimate; the planner knows nothing of our numbers, so these are
        counted where they are few, else a sample is looked at."""
        if self._matches is None:
            self._matches = await (self._by_range() if has_range(self._filter) else self._by_plan())
        return self._matches

    def condition(self, values: Values) -> str:
        """The filter over the alias ``c``, by the ids of a narrow range where `matches` found one."""
        condition = where(self._filter, "c", values)
        if self._narrow is None:
            return condition
        ids = range_sql(self._narrow, self._collection.numbers, values)
        return f"({condition}) AND c.id = ANY(ARRAY({ids}))"

    async def _by_plan(self) -> float:
        values = Values()
        row = await self._session.fetch_one(
            f"EXPLAIN (FORMAT JSON) SELECT FROM {self._collection.chunk_table} c "
            f"WHERE {where(self._filter, 'c', values)}",
            *values,
        )
        return float(json.loads(row[0])[0]["Plan"]["Plan Rows"])

    async def _by_range(self) -> float:
        fewest = self._few
        for one in ranges_of(self._filter):
            values = Values()
            ids = range_sql(one, self._collection.numbers, values)
            row = await self._session.fetch_one(
                f"SELECT count(*) AS chunks FROM ({ids} LIMIT {self._few + 1}) AS range", *values
            )
            if row["chunks"] <= fewest:
                fewest, self._narrow = row["chunks"], one
        return float(fewest) if self._narrow is not None else await self._by_sample()

    async def _by_sample(self) -> float:
        values = Values()
        share = min(1.0, _SAMPLE / max(1, self._collection.chunks))
        row = await self._session.fetch_one(
            f"SELECT count(*) AS seen, count(*) FILTER (WHERE {where(self._filter, 'c', values)}) AS kept "
            f"FROM {self._collection.chunk_table} c TABLESAMPLE SYSTEM ({values.bind(100 * share, 'float4')})",
            *values,
        )
        return float(self._collection.chunks * (row["kept"] / row["seen"] if row["seen"] else 1.0))
