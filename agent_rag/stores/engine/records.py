"""What every store does with its arguments before it touches the engine: check, clean, copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from ...content import DataBlock, TextBlock
from ...documents import Chunk, ChunkKey, DocumentSummary, VectorRecord, storable_metadata, storable_text
from ...errors import CollectionNotFoundError, ConfigurationError, DimensionMismatchError, RecordError, StoreClosedError

Matrix = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]
Info = TypeVar("Info")

_MAX_FLOAT32 = 3.4028234e38
_BLOCK = 256


@dataclass(frozen=True)
class Prepared:
    """Records that can be written: checked, cleaned, copied, without duplicates."""

    records: list[VectorRecord]
    """In the order of their last occurrence; with the vectors as the caller gave them."""
    matrix: Matrix
    """Row n is the vector of `records[n]`; ``(len(records), dimensions)``."""

    @property
    def keys(self) -> list[ChunkKey]:
        return [record.key for record in self.records]


Checked = Callable[[int], tuple[list[DocumentSummary], Prepared]]
"""Checks and cleans what a write got, for a collection of so many dimensions; for a worker thread."""


def prepare_records(
    collection: str, dimensions: int, records: Iterable[VectorRecord], *, scope: str | None = None
) -> Prepared:
    """Check and clean `records` for a collection; of equal (scope, document id, chunk index) the last one is kept.

    The records returned share nothing mutable with the arguments but their vectors, and can be stored as they are:
    texts and metadata are storable and plain JSON.

    Args:
        scope: Overrides the scope of every record; None keeps each record's own.

    Raises: DimensionMismatchError: a vector has another size. RecordError: a number is not finite as a 32-bit float,
        metadata is not JSON, an id or index is bad.
    """
    kept: dict[ChunkKey, VectorRecord] = {}
    for record in records:
        if len(record.vector) != dimensions:
            wrong_dimensions(collection, dimensions, len(record.vector))
        cleaned = clean_record(record, scope=scope)
        kept.pop(cleaned.key, None)
        kept[cleaned.key] = cleaned
    prepared = list(kept.values())
    return Prepared(prepared, _matrix(prepared, dimensions))


def prepare_replace(
    collection: str,
    dimensions: int,
    documents: Iterable[DocumentSummary],
    records: Iterable[VectorRecord],
    *,
    scope: str = "",
) -> tuple[list[DocumentSummary], Prepared]:
    """Check and clean the arguments of `replace`. Summaries come back cleaned, in `scope`, with the true chunk count.

    Raises: ValueError: a document id occurs twice, or a record belongs to none of `documents`. As `prepare_records`.
    """
    summaries: dict[str, DocumentSummary] = {}
    for document in documents:
        if document.document_id in summaries:
            raise ValueError(f"document {document.document_id!r} occurs twice in one replace; pass each document once")
        summaries[document.document_id] = clean_summary(document, scope=scope)
    prepared = prepare_records(collection, dimensions, records, scope=scope)
    counts = dict.fromkeys(summaries, 0)
    for record in prepared.records:
        if record.document_id not in counts:
            raise ValueError(
                f"a record belongs to document {record.document_id!r}, which is not among the documents to replace; "
                "pass a DocumentSummary for it"
            )
        counts[record.document_id] += 1
    return [
        summary.model_copy(update={"chunk_count": counts[summary.document_id]}) for summary in summaries.values()
    ], prepared


def unique_ids(document_ids: Sequence[str]) -> list[str]:
    """`document_ids` as a list.

    Raises: ValueError: an id occurs twice.
    """
    if len(set(document_ids)) != len(document_ids):
        twice = next(name for number, name in enumerate(document_ids) if name in document_ids[:number])
        raise ValueError(f"document {twice!r} occurs twice in one call; pass each id once")
    return list(document_ids)


def clean_record(record: VectorRecord, *, scope: str | None = None) -> VectorRecord:
    """A copy that can be stored: texts without NUL and lone surrogates, metadata as plain JSON. The vector is shared.

    Raises: RecordError: metadata is not JSON; the id is empty or has such characters; the chunk index is negative.
    """
    chunk = record.chunk
    _check_id(record.document_id)
    if chunk.chunk_index < 0:
        raise RecordError(f"chunk_index of a record of {record.document_id!r} is {chunk.chunk_index}; it counts from 0")
    copy = chunk.model_copy(
        update={
            "content": _clean_content(chunk),
            "source": storable_text(chunk.source),
            "metadata": storable_metadata(chunk.metadata),
            "heading_path": [storable_text(title) for title in chunk.heading_path],
            "title": _clean(chunk.title),
            "uri": _clean(chunk.uri),
            "embed_text": _clean(chunk.embed_text),
            "embed_context": _clean(chunk.embed_context),
        }
    )
    return VectorRecord.model_construct(
        vector=record.vector,
        document_id=record.document_id,
        chunk=copy,
        scope=record.scope if scope is None else scope,
    )


def clean_summary(document: DocumentSummary, *, scope: str) -> DocumentSummary:
    """A copy in `scope` that can be stored.

    Raises: RecordError: metadata is not JSON, or the id is bad.
    """
    _check_id(document.document_id)
    return document.model_copy(
        update={
            "scope": scope,
            "source": storable_text(document.source),
            "metadata": storable_metadata(document.metadata),
            "title": _clean(document.title),
            "uri": _clean(document.uri),
            "state": {storable_text(key): storable_text(value) for key, value in document.state.items()},
        }
    )


def collection_name(name: str) -> str:
    """`name`, which can be stored.

    Raises: ConfigurationError: it has characters that no database keeps.
    """
    if storable_text(name) != name:
        raise ConfigurationError(f"collection {name!r} has a NUL or a lone surrogate in its name; use another name")
    return name


def query_vector(collection: str, dimensions: int, vector: Sequence[float]) -> Vector:
    """A checked query as 32-bit floats.

    Raises: DimensionMismatchError: another size than the collection's. ValueError: a number is not finite.
    """
    if len(vector) != dimensions:
        wrong_dimensions(collection, dimensions, len(vector))
    try:
        query = np.asarray(vector, dtype=np.float64)
    except OverflowError:  # of an integer
        query = np.array([np.inf])
    if not (np.abs(query) <= _MAX_FLOAT32).all():
        raise ValueError(f"query vector for collection {collection!r} has a number that is not finite; check the model")
    return query.astype(np.float32)


def wrong_dimensions(collection: str, expected: int, actual: int) -> NoReturn:
    """Raise DimensionMismatchError with both sizes."""
    if expected == 0:
        raise DimensionMismatchError(
            f"collection {collection!r} holds no vectors (0 dimensions, keyword search only), got one of {actual}; "
            "ingest into a new collection with an embedding model"
        )
    raise DimensionMismatchError(
        f"collection {collection!r} holds {expected}-dimensional vectors, got {actual}; "
        "use the model it was built with, or ingest into a new collection"
    )


def unknown_collection(collection: str) -> CollectionNotFoundError:
    """The error for a collection that does not exist."""
    return CollectionNotFoundError(
        f"collection {collection!r} does not exist; create it with create_collection, or check the name"
    )


def existing(info: Info | None, collection: str) -> Info:
    """`info` of a collection.

    Raises: CollectionNotFoundError: it is None.
    """
    if info is None:
        raise unknown_collection(collection)
    return info


def without_keyword(collection: str) -> ConfigurationError:
    """The error for a keyword search where no words are indexed."""
    return ConfigurationError(
        f"collection {collection!r} was created with keyword=False and has no keyword index; "
        "ingest into a new collection with keyword=True"
    )


def closed_store(store: object) -> StoreClosedError:
    """The error for a store that is used outside its block."""
    name = type(store).__name__
    return StoreClosedError(f"{name} is closed; use it inside 'async with store:', or await store.open() first")


def _matrix(records: Sequence[VectorRecord], dimensions: int) -> Matrix:
    if not records or not dimensions:
        return np.zeros((len(records), dimensions), dtype=np.float32)
    matrix = np.empty((len(records), dimensions), dtype=np.float32)
    # In pieces, since numpy holds the GIL while it reads lists.
    for start in range(0, len(records), _BLOCK):
        rows = np.array([record.vector for record in records[start : start + _BLOCK]], dtype=np.float64)
        finite = (np.abs(rows) <= _MAX_FLOAT32).all(axis=1)
        if not finite.all():
            bad = records[start + int(np.argmin(finite))]
            raise RecordError(
                f"vector of chunk {bad.key.chunk_id!r} has a number that is not finite as a 32-bit float; "
                "check the embedding model"
            )
        matrix[start : start + _BLOCK] = rows
    return matrix


def _check_id(document_id: str) -> None:
    if not document_id:
        raise RecordError("a document id is empty; give each document an id")
    if storable_text(document_id) != document_id:
        raise RecordError(
            f"document id {document_id!r} has a NUL character or a lone surrogate, which no store keeps; use another id"
        )


def _clean(text: str | None) -> str | None:
    return None if text is None else storable_text(text)


def _clean_content(chunk: Chunk) -> TextBlock | DataBlock:
    content = chunk.content
    if isinstance(content, TextBlock):
        return TextBlock.model_construct(type="text", text=storable_text(content.text))
    return content.model_copy(update={"name": _clean(content.name), "caption": _clean(content.caption)})
