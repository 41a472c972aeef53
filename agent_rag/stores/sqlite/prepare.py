"""Documents as they are written, computed before the gate is asked for."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...documents import Chunk, DocumentSummary, VectorRecord
from ...filters.plan import index_metadata
from ...retrieval.analysis import index_tokens
from ..engine.records import Matrix, prepare_replace
from .schema import Collection
from .segments import NUMBERS, TOKENS, Block, collect_numbers, count_keys, key_of


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


def prepare_part(
    collection: Collection, document: DocumentSummary, records: Sequence[VectorRecord], *, scope: str, after: int
) -> Batch:
    """Some chunks of a document that comes in parts.

    Args:
        after: Highest chunk index of the part before.

    Raises: ValueError: the chunks do not follow those before. As `prepare_replace`.
    """
    summaries, prepared = prepare_replace(collection.name, collection.dimensions, [document], records, scope=scope)
    batch = prepare_batch(summaries, prepared.records, as_stored(prepared.matrix, collection.distance))
    first = batch.documents[0].indexes[0]
    if first <= after:
        raise ValueError(
            f"chunk {first} of document {document.document_id!r} comes after chunk {after}; "
            "pass its parts in the order of their chunks"
        )
    return batch


def index_chunks(chunks: Sequence[Chunk], places: Sequence[int]) -> tuple[list[int], list[Block]]:
    """Number of tokens of each chunk, and blocks of their words, filter tokens and numbers.

    Args:
        places: Number of each chunk, ascending, from the segment's base.
    """
    words: list[int] = []
    tokens: list[int] = []
    keys = array("q")  # at once, since the tokens themselves take ten times the memory
    numbers: list[tuple[int, dict[str, float]]] = []
    for place, chunk in zip(places, chunks, strict=True):
        of_text, of_metadata = index_tokens(chunk), index_metadata(chunk.metadata)
        keys.extend(map(key_of, of_text))
        keys.extend(map(key_of, of_metadata.tokens))
        words.append(len(of_text))
        tokens.append(len(of_text) + len(of_metadata.tokens))
        numbers.append((place, of_metadata.numbers))
    postings = count_keys(np.array(keys, np.int64), tokens, places)
    return words, [*postings.blocks(TOKENS), *collect_numbers(numbers).blocks(NUMBERS)]


def as_stored(matrix: Matrix, distance: str) -> Matrix:
    """Vectors as they are stored: of length 1 where only the direction counts, so that opening computes nothing."""
    if distance != "Cosine" or not matrix.size:
        return matrix
    sizes = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    unit: Matrix = (matrix / np.where(sizes > 0, sizes, 1.0)[:, None]).astype(np.float32)
    return unit
