"""Searching a collection while others write to it: one version of each document per search."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...documents import Chunk, ChunkKey, VectorSearchResult, storable_text
from ...errors import StoreError
from ...retrieval.analysis import FIELD_PREFIXES
from ...retrieval.coverage import seen_share
from ..base import Get, Keyword, Nearest, RetrieveRequest, Scored, Seen, Step
from ..engine.driver import best, run_steps_async
from ..engine.payload import parse_chunk
from ..engine.records import query_vector
from .protocol import Among, Current, Hit, Matching, NearestTo, Primitives, Question, RowId, head_of
from .settled import Changed, Settled
from .weights import Weighed, Weights

_ATTEMPTS = 20


async def search(primitives: Primitives, weights: Weights, request: RetrieveRequest) -> list[VectorSearchResult]:
    """Run `request`, again from the start when a document in it was replaced between two steps.

    Raises: StoreError: documents are replaced faster than they are read.
    """
    if request.limit <= 0:
        return []
    for attempt in range(_ATTEMPTS):
        try:
            view = await View.of(primitives, weights, request)
            return await run_steps_async(request, view.answer)
        except Changed:
            await asyncio.sleep(0.002 * attempt)
    raise StoreError(
        f"documents of collection {primitives.info.name!r} are replaced all the time: {_ATTEMPTS} searches found a "
        "version that was gone at the end; try again"
    )


class View:
    """The lists of one search, found together, and the versions that they show."""

    def __init__(self, primitives: Primitives, request: RetrieveRequest) -> None:
        self._primitives = primitives
        self._vectors = [query_vector(primitives.info.name, primitives.info.dimensions, one) for one in request.vectors]
        self._lists: list[list[Scored]] = []
        self._weighed: list[Weighed | None] = []
        """Of each text that was not asked about yet; None where the server does not go by words."""
        self._rows: dict[ChunkKey, RowId] = {}
        self._texts: dict[RowId, str] = {}
        self._cosines: dict[tuple[int, RowId], float] = {}

    @classmethod
    async def of(cls, primitives: Primitives, weights: Weights, request: RetrieveRequest) -> View:
        view = cls(primitives, request)
        await view._find(weights, request)
        return view

    async def answer(self, step: Step) -> Any:
        match step:
            case Nearest(_, _, _, None) | Keyword():
                return self._lists.pop(0)
            case Nearest(vector, limit, _, keys):
                return best(self._similarities(vector, keys or ()), limit)
            case Seen(words):
                weighed = self._weighed.pop(0)
                if weighed is None:
                    return 1.0
                return seen_share(self._primitives.terms(words), weighed.frequencies, weighed.indexed)
            case Get(keys):
                return await self._chunks(keys)

    async def _find(self, weights: Weights, request: RetrieveRequest) -> None:
        """The lists, hits and heads until every hit is of the version that its document's head names."""
        length = request.limit if request.rank is None else request.candidates
        questions: list[Question | None] = [NearestTo(one, length, request.metadata_filter) for one in self._vectors]
        for text in request.texts:
            questions.append(await self._of_text(weights, request, text, length))
        asked = [question for question in questions if question is not None]
        settled = Settled(self._primitives, weights.unnamed)
        while True:
            answers = iter(
                await self._primitives.search(asked, without=settled.stale, texts=request.rank is None) if asked else []
            )
            lists = [[] if question is None else next(answers) for question in questions]
            found = {head_of(hit.row.version) for hits in lists for hit in hits}
            versions = {hit.row.version for hits in lists for hit in hits}
            steady, _ = await asyncio.gather(settled.check(versions), self._compare(lists, found))
            if steady:
                break
        self._lists = [best(self._scored(hits, settled.current), length) for hits in lists]
        self._texts = {hit.row: hit.chunk for hits in lists for hit in hits if hit.chunk is not None}

    async def _of_text(self, weights: Weights, request: RetrieveRequest, text: str, length: int) -> Question | None:
        """None: no chunk has a word of it."""
        if self._primitives.info.embedding:
            self._weighed.append(None)
            return Matching({}, {}, 1.0, length, request.metadata_filter, storable_text(text))
        asked_for = request.weights(text)
        terms = self._terms(asked_for)
        beside = self._terms({token: 1.0 for token in asked_for if token.startswith(FIELD_PREFIXES)})
        weighed = await weights.of(terms, beside) if terms else Weighed({}, 1.0, 0, {})
        self._weighed.append(weighed)
        matching = Matching(weighed.weights, terms, weighed.average, length, request.metadata_filter)
        return matching if weighed.weights else None

    def _terms(self, weights: Mapping[str, float]) -> dict[Any, float]:
        found: dict[Any, float] = {}
        for term, weight in zip(self._primitives.terms(weights), weights.values(), strict=True):
            found[term] = found.get(term, 0.0) + weight
        return found

    def _scored(self, hits: Iterable[Hit], current: Mapping[str, Current]) -> list[Scored]:
        scored = []
        for hit in hits:
            key = ChunkKey(*current[hit.row.version].name, hit.row.index)
            self._rows[key] = hit.row
            scored.append(Scored(key, hit.score))
        return scored

    async def _compare(self, lists: Sequence[Sequence[Hit]], found: Collection[str]) -> None:
        """The similarity to each vector of the hits that only other lists have; rows never change."""
        semantic, others = lists[: len(self._vectors)], lists[len(self._vectors) :]
        if not semantic or not found or not (others or len(semantic) > 1):
            return
        rows = dict.fromkeys(hit.row for hits in lists for hit in hits)
        questions: list[Question] = []
        places: list[int] = []
        for place, (vector, hits) in enumerate(zip(self._vectors, semantic, strict=True)):
            known = {(place, hit.row): hit.score for hit in hits}
            self._cosines |= known
            if missing := [row for row in rows if (place, row) not in known]:
                questions.append(Among(vector, missing))
                places.append(place)
        answers = await self._primitives.search(questions, without=(), texts=False) if questions else []
        for place, hits in zip(places, answers, strict=True):
            self._cosines |= {(place, hit.row): hit.score for hit in hits}

    def _similarities(self, vector: Sequence[float], keys: Sequence[ChunkKey]) -> list[Scored]:
        wanted = query_vector(self._primitives.info.name, self._primitives.info.dimensions, vector).tolist()
        place = next(at for at, one in enumerate(self._vectors) if one.tolist() == wanted)
        try:
            return [Scored(key, self._cosines[place, self._rows[key]]) for key in keys]
        except KeyError:  # the row was removed meanwhile
            raise Changed from None

    async def _chunks(self, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Chunk]:
        rows = {key: self._rows[key] for key in keys if key in self._rows}
        missing = [row for row in rows.values() if row not in self._texts]
        if missing:
            found = await self._primitives.get_rows(missing, vectors=False)
            self._texts |= {row: one.chunk for row, one in found.items()}
        if any(row not in self._texts for row in rows.values()):
            raise Changed
        return {key: parse_chunk(self._texts[row]) for key, row in rows.items()}
