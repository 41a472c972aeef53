"""How documents lie on a Qdrant server, where several processes read and write at once.

Each version of a document is a *generation* with an id of its own, and its chunks are points of their own. The head
names the generation that counts. A writer

1. upserts the new chunks with ``live=false``, which no search sees;
2. sets ``live=true`` on all of them;
3. swaps the head with a conditional update (only where it still names the generation that was read before), and reads
   it back to see whether it won; else it tries again from the new state;
4. deletes the generation that it replaced.

From 2 to 4 both generations are found, and readers tell them apart: a hit counts only when its document's head,
read after the search, names its generation; otherwise the search runs again without the stale one. So no reader mixes
two versions, and none finds no version of a document that is there: the old generation is whole until the head has
been swapped, the new one from before. What a crashed writer left is invisible, and removed by the next replace of the
document once it is `LEFTOVER_S` old.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, Field
from qdrant_client import models

from ...documents import ChunkKey, DocumentSummary
from ...filters import FilterLike
from ...filters.plan import plan
from ..engine.payload import CHUNK, TOKENS, metadata_payload, translate
from ..engine.prepared import PreparedChunk, PreparedDocument
from ..versions.groups import at_most, grouped
from ..versions.heads import Name
from .client import ServerDialect, any_of, equals
from .schema import DENSE, HEAD, KIND, SPARSE, SUMMARY

SCOPE, DOCUMENT, INDEX, GENERATION, LIVE, LENGTH, WRITTEN = "s", "d", "i", "g", "live", "l", "at"
HEAD_DATA = "head"
LEFTOVER_S = 3_600.0
_HISTORY = 32
_PIECE_POINTS = 300
# A server refuses bodies above 32 MB.
_PIECE_BYTES = 24_000_000

DIALECT = ServerDialect()
IS_LIVE = equals(LIVE, True)
IS_HEAD = equals(KIND, HEAD)

INDEXES: dict[str, Any] = {
    SCOPE: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    DOCUMENT: models.PayloadSchemaType.KEYWORD,
    GENERATION: models.PayloadSchemaType.KEYWORD,
    TOKENS: models.PayloadSchemaType.KEYWORD,
    KIND: models.PayloadSchemaType.KEYWORD,
    LIVE: models.PayloadSchemaType.BOOL,
    INDEX: models.PayloadSchemaType.INTEGER,
    LENGTH: models.PayloadSchemaType.INTEGER,
    WRITTEN: models.PayloadSchemaType.FLOAT,
}


class ServerHead(BaseModel):
    """What a head says of its document besides the summary."""

    generation: str
    count: int
    top: int = 0
    """Highest chunk index plus 1."""
    history: list[str] = Field(default_factory=list)
    """Generations before this one, latest first; a writer finds itself here when it won and was replaced at once."""


def condition(metadata_filter: FilterLike | None, stale: set[str] | None = None) -> models.Filter:
    """Live chunks that match, without the generations in `stale`."""
    node = plan(metadata_filter)
    must: list[Any] = [IS_LIVE, *([] if node is None else [translate(node, DIALECT)])]
    return DIALECT.combine(must=must, must_not=[any_of(GENERATION, sorted(stale))] if stale else [])


def head_id(name: Name) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(["agent_rag", "head", *name])))


def chunk_id(key: ChunkKey, generation: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(["agent_rag", *key, generation])))


def name_of(payload: dict[str, Any]) -> Name:
    return payload[SCOPE], payload[DOCUMENT]


def key_of(payload: dict[str, Any]) -> ChunkKey:
    return ChunkKey(payload[SCOPE], payload[DOCUMENT], payload[INDEX])


def head_of_payload(payload: dict[str, Any]) -> ServerHead:
    return ServerHead.model_validate_json(payload[HEAD_DATA])


def summary_of(payload: dict[str, Any]) -> DocumentSummary:
    summary = DocumentSummary.model_validate_json(payload[SUMMARY])
    summary.chunk_count = head_of_payload(payload).count
    return summary


def first_head(document: PreparedDocument, generation: str, before: ServerHead | None) -> ServerHead:
    """The head of a new generation that follows `before`."""
    indexes = [chunk.index for chunk in document.chunks]
    history = [] if before is None else [before.generation, *before.history][:_HISTORY]
    return ServerHead(
        generation=generation,
        count=len(indexes),
        top=max(indexes, default=-1) + 1,
        history=history,
    )


def head_point(summary: DocumentSummary, head: ServerHead) -> models.PointStruct:
    name = (summary.scope, summary.document_id)
    payload = {
        KIND: HEAD,
        SUMMARY: summary.model_dump_json(),
        HEAD_DATA: head.model_dump_json(),
        SCOPE: name[0],
        DOCUMENT: name[1],
        GENERATION: head.generation,
        **metadata_payload(summary.metadata),
    }
    return models.PointStruct(id=head_id(name), vector={}, payload=payload)


def chunk_points(
    name: Name, chunks: Sequence[PreparedChunk], generation: str, average: float, *, live: bool
) -> Iterator[models.PointStruct]:
    for chunk in chunks:
        vector: dict[str, Any] = {DENSE: chunk.vector} if chunk.vector else {}
        indices, values = chunk.terms.sparse(average)
        if indices:
            vector[SPARSE] = models.SparseVector(indices=indices, values=values)
        payload = {
            **chunk.payload,
            SCOPE: name[0],
            DOCUMENT: name[1],
            INDEX: chunk.index,
            GENERATION: generation,
            LIVE: live,
            LENGTH: chunk.terms.length,
            WRITTEN: time.time(),
        }
        yield models.PointStruct(id=chunk_id(ChunkKey(*name, chunk.index), generation), vector=vector, payload=payload)


def pieces(points: Sequence[models.PointStruct]) -> Iterator[list[models.PointStruct]]:
    """Points in bodies that a server takes."""
    return grouped(points, at_most(_PIECE_POINTS), (_bytes, _PIECE_BYTES))


def _bytes(point: models.PointStruct) -> int:
    """At most what the point takes in JSON: 6 per escaped character, 25 per number."""
    payload, vector = point.payload or {}, point.vector
    numbers = 0
    if isinstance(vector, dict):
        for item in vector.values():
            numbers += 2 * len(item.indices) if isinstance(item, models.SparseVector) else len(item)  # type: ignore[arg-type]
    text = len(payload.get(CHUNK, "")) + sum(map(len, payload.get(TOKENS, ())))
    return 1_000 + 6 * text + 25 * numbers
