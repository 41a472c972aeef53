"""Vectors of large stored documents, by what was embedded: looked up in the store, 16 bytes of memory a chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..documents import Chunk, DocumentSummary, VectorRecord
from .document import PART_CHUNKS


class ReadChunks(Protocol):
    """Reads chunks of one document, by index."""

    def __call__(self, document_id: str, *, offset: int, limit: int) -> Awaitable[list[VectorRecord]]: ...


FetchVectors = Callable[[Sequence[tuple[str, int]]], Awaitable[list[VectorRecord]]]
"""Reads chunks with their vectors, by document id and index."""


class StoredVectors:
    """Made by `KnowledgeBase.stored_vectors`. Of a document that is replaced meanwhile less is found, nothing wrong.

    Args:
        key_of: What tells whether two chunks have one vector.
    """

    def __init__(self, key_of: Callable[[Chunk], str], fetch: FetchVectors) -> None:
        self._key_of, self._fetch = key_of, fetch
        self._names: list[str] = []
        self._hashes: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._places: npt.NDArray[np.int64] = np.empty(0, np.int64)
        """Of each hash: number of the document in the high 32 bits, index of the chunk in the low ones."""

    async def load(self, documents: Sequence[DocumentSummary], read: ReadChunks) -> None:
        """Learn what these documents have."""
        hashes: list[int] = []
        places: list[int] = []
        for number, document in enumerate(documents):
            self._names.append(document.document_id)
            for offset in range(0, document.chunk_count, PART_CHUNKS):
                chunks = [one.chunk for one in await read(document.document_id, offset=offset, limit=PART_CHUNKS)]
                hashes += await asyncio.to_thread(self._hashes_of, chunks)
                places += [number << 32 | chunk.chunk_index for chunk in chunks]
        order = np.argsort(np.array(hashes, np.int64), kind="stable")
        self._hashes, self._places = np.array(hashes, np.int64)[order], np.array(places, np.int64)[order]

    def _hashes_of(self, chunks: Sequence[Chunk]) -> list[int]:
        return [hash(self._key_of(chunk)) for chunk in chunks]

    async def of(self, chunks: Sequence[Chunk]) -> dict[str, Sequence[float]]:
        """The vectors that are known of `chunks`, by their keys."""
        if not len(self._hashes) or not chunks:
            return {}
        keys = await asyncio.to_thread(lambda: {self._key_of(chunk) for chunk in chunks})
        wanted = np.array([hash(key) for key in keys], np.int64)
        found = np.searchsorted(self._hashes, wanted)
        found[found == len(self._hashes)] = 0
        places = np.sort(self._places[found[self._hashes[found] == wanted]]).tolist()
        records = await self._fetch([(self._names[place >> 32], place & 0xFFFFFFFF) for place in places])
        vectors = {self._key_of(record.chunk): record.vector for record in records if record.vector}
        return {key: vector for key, vector in vectors.items() if key in keys}
