"""Documents as they are written, computed before the gate is asked for."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...documents import Chunk, DocumentSummary, VectorRecord
from ...filters.plan import index_metadata
from ...retrieval.analysis import index_tokens
from ..engine.records import Matrix
from .segments import NUMBERS, TOKENS, Block, collect_numbers, count_tokens


@dataclass(frozen=True)
class NewDocument:
    """A document, ready to be written; chunks by index."""

    summary: DocumentSummary
    indexes: list[int]
    bodies: list[bytes]
    crcs: list[int]
    """Of the bodies alone."""
    lengths: npt.NDArray[np.uint32]
    """Tokens of each chunk."""
    vectors: Matrix

    @property
    def room(self) -> int:
        """Numbers that it takes; one without chunks, too, has a number."""
        return max(1, len(self.indexes))


@dataclass(frozen=True)
class Batch:
    """What one transaction adds to a collection."""

    documents: list[NewDocument]
    blocks: list[Block]
    """Of all chunks, numbered in order from 0."""

    @property
    def room(self) -> int:
        return sum(document.room for document in self.documents)


def prepare_batch(documents: Iterable[DocumentSummary], records: Sequence[VectorRecord], matrix: Matrix) -> Batch:
    """Everything about the documents that needs no file.

    Args:
        records: Chunks of these documents, each once, in any order.
        matrix: A vector for each of `records`, as it is stored.
    """
    rows: dict[tuple[str, str], list[int]] = {}
    for row, record in enumerate(records):
        rows.setdefault((record.scope, record.document_id), []).append(row)
    ordered: list[int] = []
    prepared: list[NewDocument] = []
    places: list[int] = []
    place = 0
    for summary in documents:
        own = rows.get((summary.scope, summary.document_id), [])
        own.sort(key=lambda row: records[row].chunk.chunk_index)
        bodies = [records[row].chunk.model_dump_json().encode() for row in own]
        document = NewDocument(
            summary.model_copy(update={"chunk_count": len(own)}),
            [records[row].chunk.chunk_index for row in own],
            bodies,
            [zlib.crc32(body) for body in bodies],
            np.zeros(len(own), np.uint32),
            matrix[own],
        )
        prepared.append(document)
        ordered += own
        places += range(place, place + len(own))
        place += document.room
    words, blocks = index_chunks([records[row].chunk for row in ordered], places)
    at = 0
    for document in prepared:
        document.lengths[:] = words[at : at + len(document.indexes)]
        at += len(document.indexes)
    return Batch(prepared, blocks)


def index_chunks(chunks: Sequence[Chunk], places: Sequence[int]) -> tuple[list[int], list[Block]]:
    """Number of tokens of each chunk, and blocks of their words, filter tokens and numbers.

    Args:
        places: Number of each chunk, ascending, from the segment's base.
    """
    words = [index_tokens(chunk) for chunk in chunks]
    metadata = [index_metadata(chunk.metadata) for chunk in chunks]
    tokens = [[*some, *indexed.tokens] for some, indexed in zip(words, metadata, strict=True)]
    numbers = collect_numbers((place, indexed.numbers) for place, indexed in zip(places, metadata, strict=True))
    blocks = [*count_tokens(tokens, places).blocks(TOKENS), *numbers.blocks(NUMBERS)]
    return [len(some) for some in words], blocks


def as_stored(matrix: Matrix, distance: str) -> Matrix:
    """Vectors as they are stored: of length 1 where only the direction counts, so that opening computes nothing."""
    if distance != "Cosine" or not matrix.size:
        return matrix
    sizes = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    unit: Matrix = (matrix / np.where(sizes > 0, sizes, 1.0)[:, None]).astype(np.float32)
    return unit
