"""What a filter keeps: about how many chunks, and the condition that finds them fastest."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from ...filters import FilterLike
from ...filters.plan import AllOf, AnyOf, HasAny, InRange, NotOf, Plan, plan
from .connection import Session
from .filters import Range, Values, compares, range_sql, ranges_of, uses_index, where, where_among
from .schema import Collection

_SAMPLE = 2_000
"""Chunks that are looked at to estimate a share."""
_MAX_AGE_S = 60.0
_MAX_AGE_UNKNOWN_S = 3.0
"""Where nothing was analysed yet."""


@dataclass(frozen=True)
class Frequencies:
    """Which share of the chunks has a token, as the server's last ANALYZE saw it."""

    common: dict[str, float]
    """The most common thousand tokens or so."""
    rare: float
    """At most so large is the share of any other."""

    def share(self, node: Plan) -> float:
        """The share of chunks that match, as if tokens were independent; a range counts as if all were in it."""
        match node:
            case HasAny(tokens):
                return 1 - math.prod(1 - self.common.get(token, self.rare) for token in tokens)
            case InRange():
                return 1.0
            case AllOf(parts):
                return math.prod(map(self.share, parts))
            case AnyOf(parts):
                return 1 - math.prod(1 - self.share(part) for part in parts)
            case NotOf(part):
                return 1.0 if compares(part) else 1 - self.share(part)


class FrequencyCache:
    """Frequencies of the collections of one store, read anew once a minute: a search asks only now and then."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[float, Frequencies]] = {}

    async def get(self, session: Session, collection: Collection) -> Frequencies:
        """Frequencies of the tokens of `collection`."""
        now = time.monotonic()
        expires, held = self._held.get(collection.id, (now, None))
        if held is None or now >= expires:
            held = await _read_frequencies(session, collection)
            self._held[collection.id] = now + (_MAX_AGE_S if held.common else _MAX_AGE_UNKNOWN_S), held
        return held


class Selection:
    """A filter over the chunks of a collection, in one transaction.

    Estimates only choose between two right answers. (Counting took 25 ms where half of 100k chunks match.)
    """

    def __init__(
        self,
        session: Session,
        collection: Collection,
        metadata_filter: FilterLike | None,
        frequencies: FrequencyCache,
        *,
        few: int,
    ) -> None:
        """
        Args:
            few: So many chunks are worth a list of their ids.
        """
        self._session = session
        self._collection = collection
        self._filter = metadata_filter
        self._frequencies = frequencies
        self._few = few
        self._matches: float | None = None
        self._narrow: Range | None = None
        """The range that only a few chunks are in."""

    @property
    def keeps_all(self) -> bool:
        return plan(self._filter) is None

    async def share(self) -> float | None:
        """About which share of the chunks matches; None where that depends on numbers."""
        node = plan(self._filter)
        if node is None:
            return 1.0
        if compares(node):
            return None
        return (await self._frequencies.get(self._session, self._collection)).share(node)

    async def matches(self) -> float:
        """About how many chunks match: from the frequencies of tokens. The numbers in a range are counted where they
        are few, else a sample is looked at."""
        if self._matches is None:
            self._matches = await self._estimate()
        return self._matches

    def condition(self, values: Values, *, at_most: int | None = None) -> str:
        """The filter over the alias ``c``: by the ids of the narrow range that `matches` found, or of the first one
        where no index over tokens can find what matches.

        Args:
            at_most: Nothing matches where more chunks are in that range.
        """
        ranges = [] if uses_index(self._filter) else ranges_of(self._filter)
        held = self._narrow or next(iter(ranges), None)
        if held is None:
            return where(self._filter, "c", values)
        return where_among(self._filter, held, self._collection.numbers, values, at_most=at_most)

    async def _estimate(self) -> float:
        node = plan(self._filter)
        if node is None:
            return float(self._collection.chunks)
        frequencies = await self._frequencies.get(self._session, self._collection)
        most = frequencies.share(node) * self._collection.chunks
        return await self._by_range() if most > self._few and compares(node) else most

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


async def _read_frequencies(session: Session, collection: Collection) -> Frequencies:
    row = await session.fetch_one(
        "SELECT most_common_elems::text::text[] AS tokens, most_common_elem_freqs AS shares FROM pg_stats "
        "WHERE tablename = $1 AND attname = 'tokens' AND schemaname = (SELECT n.nspname FROM pg_class k "
        "JOIN pg_namespace n ON n.oid = k.relnamespace WHERE k.oid = to_regclass(quote_ident($1)))",
        collection.names.plain(collection.id, "chunks"),
    )
    if row is None or row["tokens"] is None:
        return Frequencies({}, 0.0)
    # The shares are followed by their minimum, their maximum and the share of nulls.
    common = dict(zip(row["tokens"], row["shares"], strict=False))
    return Frequencies(common, min(common.values(), default=0.0) / 2)
