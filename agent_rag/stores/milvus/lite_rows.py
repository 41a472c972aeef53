"""How documents lie in a file of Milvus Lite.

Each version of a document has a number, higher than those before it, and three kinds of rows. ``<number>:<index>`` is a
chunk, ``<number>:head`` the document, and ``<number>:part<n>`` what searches need of up to 256 chunks: vectors, filter
tokens, terms. So opening a collection reads a row for many chunks, and a search reads chunks by id.

A version is there when its head is, which is written last.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...documents import DocumentSummary, VectorRecord
from ...filters.plan import IndexedMetadata, index_metadata
from ...retrieval.lexical import term_id, tokenize
from ..engine.prepared import by_document
from ..engine.records import Checked, Matrix, Prepared, Vector
from ..rows.inverted import FilterColumns
from ..rows.table import Document
from ..versions.groups import slices
from ..versions.heads import Name, check_indexes
from ..versions.stored_info import StoredInfo
from .lite_file import ID, TERMS, TEXT, VECTORS, Row

HEAD = ":head"
PART_CHUNKS = 256
TermIds = npt.NDArray[np.uint32]


def chunk_id(number: int, index: int) -> str:
    return f"{number}:{index}"


def part_id(number: int, place: int) -> str:
    return f"{number}:part{place}"


def head_id(number: int) -> str:
    return f"{number}{HEAD}"


def number_of(row_id: str) -> int:
    return int(row_id.partition(":")[0])


@dataclass(frozen=True)
class Part:
    """What searches need of some chunks of a document, side by side."""

    indexes: list[int]
    """Chunk indexes, ascending."""
    columns: FilterColumns
    """What is indexed of their metadata."""
    matrix: Matrix
    lengths: list[int]
    """Number of tokens of each chunk."""
    terms: TermIds
    """The tokens of all chunks, as `term_id`."""

    def row(self, number: int, place: int) -> Row:
        about = {
            "indexes": self.indexes,
            "lengths": self.lengths,
            "tokens": self.columns.tokens,
            "numbers": self.columns.numbers,
        }
        return {
            ID: part_id(number, place),
            TEXT: json.dumps(about),
            VECTORS: _encoded(self.matrix.astype("<f4", copy=False)),
            TERMS: _encoded(self.terms.astype("<u4", copy=False)),
        }

    @classmethod
    def of_row(cls, row: Row, dimensions: int) -> Part:
        about = json.loads(row[TEXT] or "")
        indexes = about["indexes"]
        return cls(
            indexes,
            FilterColumns(about["tokens"], about["numbers"]),
            _decoded(row[VECTORS], "<f4").reshape(len(indexes), dimensions),
            about["lengths"],
            _decoded(row[TERMS], "<u4"),
        )

    @classmethod
    def of(cls, chunks: Sequence[_Chunk]) -> Part:
        terms = [np.asarray(chunk.terms, np.uint32) for chunk in chunks]
        return cls(
            [chunk.index for chunk in chunks],
            FilterColumns.of(chunk.metadata for chunk in chunks),
            np.stack([chunk.vector for chunk in chunks]),
            [len(one) for one in terms],
            np.concatenate(terms),
        )

    def chunks(self) -> Iterator[_Chunk]:
        """What `of` got."""
        ends = np.cumsum(self.lengths).tolist()
        for place, metadata in enumerate(self.columns.rows(len(self.indexes))):
            terms = self.terms[ends[place] - self.lengths[place] : ends[place]]
            yield _Chunk(self.indexes[place], self.matrix[place], metadata, terms)


@dataclass(frozen=True)
class NewPart:
    """A part, and its chunks as JSON."""

    part: Part
    chunks: list[str]

    def rows(self, number: int, place: int) -> Iterator[Row]:
        for index, chunk in zip(self.part.indexes, self.chunks, strict=True):
            yield {ID: chunk_id(number, index), TEXT: chunk}
        yield self.part.row(number, place)


@dataclass(frozen=True)
class Head:
    """A document, and how many parts its version has."""

    name: Name
    document: Document
    parts: int

    def row(self, number: int) -> Row:
        document = self.document
        about = {
            "name": self.name,
            "parts": self.parts,
            "metadata": _packed(document.indexed),
            "summary": document.summary,
        }
        return {ID: head_id(number), TEXT: json.dumps(about)}

    @classmethod
    def of_text(cls, text: str) -> Head:
        about = json.loads(text)
        scope, document_id = about["name"]
        document = Document(about["summary"], _unpacked(about["metadata"]))
        return cls((scope, document_id), document, about["parts"])


@dataclass(frozen=True)
class NewDocument:
    """A document as it is written, computed before its turn."""

    name: Name
    document: Document
    parts: list[NewPart]

    @property
    def size(self) -> int:
        """Number of chunks."""
        return sum(len(one.chunks) for one in self.parts)

    def rows(self, number: int, first_place: int = 0) -> Iterator[Row]:
        """Its chunks and parts."""
        for place, part in enumerate(self.parts, first_place):
            yield from part.rows(number, place)


async def prepare_write(info: StoredInfo, checked: Checked) -> list[NewDocument]:
    """Everything that needs no file, in a thread."""
    return await asyncio.to_thread(lambda: _prepared(*checked(info.dimensions), keyword=info.keyword))


def _prepared(summaries: Sequence[DocumentSummary], prepared: Prepared, *, keyword: bool) -> list[NewDocument]:
    check_indexes(prepared.records)

    def make(record: VectorRecord, vector: Vector) -> _NewChunk:
        return _NewChunk.of(record, vector, keyword=keyword)

    documents = []
    for summary, chunks in by_document(summaries, prepared, make):
        document = Document(summary.model_dump_json(), index_metadata(summary.metadata))
        parts = [NewPart(Part.of(some), [chunk.text for chunk in some]) for some in slices(chunks, PART_CHUNKS)]
        documents.append(NewDocument((summary.scope, summary.document_id), document, parts))
    return documents


@dataclass(frozen=True, slots=True)
class _Chunk:
    index: int
    vector: Vector
    metadata: IndexedMetadata
    terms: Sequence[int] | TermIds


@dataclass(frozen=True, slots=True)
class _NewChunk(_Chunk):
    text: str
    """As JSON."""

    @classmethod
    def of(cls, record: VectorRecord, vector: Vector, *, keyword: bool) -> _NewChunk:
        chunk = record.chunk
        terms = list(map(term_id, tokenize(chunk.indexed_text))) if keyword else []
        return cls(chunk.chunk_index, vector, index_metadata(chunk.metadata), terms, chunk.model_dump_json())


def _packed(metadata: IndexedMetadata) -> list[Any]:
    return [metadata.tokens, metadata.numbers]


def _unpacked(packed: list[Any]) -> IndexedMetadata:
    tokens, numbers = packed
    return IndexedMetadata(tuple(tokens), numbers)


def _encoded(numbers: npt.NDArray[Any]) -> str:
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _decoded(text: str | None, kind: str) -> npt.NDArray[Any]:
    return np.frombuffer(base64.b64decode(text or ""), kind)
