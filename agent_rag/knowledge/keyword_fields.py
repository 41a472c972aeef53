"""Which fields the keyword index of a collection has: as its chunks say, or chosen by the first ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from ..documents import Chunk, VectorSearchResult
from ..retrieval.analysis import has_grams, language_of
from ..retrieval.prose import Composition
from ..stores.native import NativeStoreBase, first_chunk

logger = logging.getLogger("agent_rag")

_FIRST = 500
"""So many of the first chunks choose."""
_SAMPLE = 10
"""Every tenth chunk that is written is looked at."""
_ENOUGH = 50
"""Chunks looked at before a choice is doubted."""


class KeywordFields:
    """The fields of one collection.

    Args:
        grams: Whether parts of words are indexed; None: as the collection has it, or as suits its first documents.
    """

    def __init__(self, store: NativeStoreBase, collection: str, grams: bool | None) -> None:
        self._store = store
        self._collection = collection
        self._grams = grams
        self._known = False
        self._analysis: str | None = None
        self._composition = Composition()
        self._written = self._looked_at = 0
        self._choosing = asyncio.Lock()
        self.notes: list[str] = []
        """What there is to say about the fields, one line each, once."""

    @property
    def grams(self) -> bool:
        """Whether a search should ask for parts of words: unless the collection is known to have none."""
        return not self._known or has_grams(self._analysis)

    @property
    def language(self) -> str:
        """Of the collection; English until it is known."""
        return language_of(self._analysis if self._known else None)

    async def of(self, chunks: Sequence[Chunk]) -> str | None:
        """The `Chunk.analysis` that these get which are written next."""
        if not self._store.keyword_search:
            return None
        async with self._choosing:
            if not self._known:
                stored = await first_chunk(self._store, self._collection)
                if stored is not None:
                    self._learn(stored.analysis)
                elif chunks:
                    self._learn(await asyncio.to_thread(_best_for, chunks, self._grams))
            await asyncio.to_thread(self._look_at, chunks)
        return self._analysis

    def seen(self, results: Iterable[VectorSearchResult]) -> None:
        """Learn from what a search found; another process may have indexed the collection anew."""
        found = {result.chunk.analysis for result in results}
        if found:
            self._known, self._analysis = True, max(found, key=lambda one: (has_grams(one), one or ""))

    def forget(self) -> None:
        """After the collection was indexed anew, or dropped."""
        self._known = False

    def _learn(self, analysis: str | None) -> None:
        self._known, self._analysis = True, analysis
        if analysis is None:
            self._tell("was written by an earlier release, so its keyword index has words only")
        elif self._grams is not None and has_grams(analysis) != self._grams:
            self._tell(f"has the keyword fields {analysis}, {'without' if self._grams else 'with'} parts of words")

    def _look_at(self, chunks: Sequence[Chunk]) -> None:
        """Say so when the documents that followed the first ones are of another kind."""
        looked_at = chunks[-self._written % _SAMPLE :: _SAMPLE]
        self._written += len(chunks)
        self._looked_at += len(looked_at)
        self._composition.add(chunk.indexed_text for chunk in looked_at)
        if self._looked_at >= _ENOUGH and self._analysis is not None:
            better = self._composition.fields(grams=self._grams)
            if better != self._analysis:
                self._tell(f"has the keyword fields {self._analysis}; for what it holds now {better} are better")

    def _tell(self, what: str) -> None:
        note = f"collection {self._collection!r} {what}; `agent-rag reindex --keywords` changes that"
        if note not in self.notes:
            self.notes.append(note)
            logger.warning(note)


def _best_for(chunks: Sequence[Chunk], grams: bool | None) -> str:
    step = max(1, len(chunks) // _FIRST)
    return Composition(chunk.indexed_text for chunk in chunks[::step]).fields(grams=grams)
