"""How documents lie in Elasticsearch, one index per collection.

::

    info                  {k: "info", c: <CollectionInfo as JSON>}
    h-<hash of the name>  {k: "head", g, s, d, f: <which chunks count>, c: <DocumentSummary>, n, l, w, x, r}
    <version>:<index>     {k: "chunk", g, h, i, t: <tokens>, v: <vector>, c: <Chunk>, x, r}

A version of a document (`g`) has a random id. The head is written last, only where it is still the one that was read
before (``if_seq_no``), and names the version that counts; readers leave out all others (`_versions`). Head and chunks
of a document are in one shard, so that a point in time has them as they were together.

The mapping has a fixed number of fields, whatever the metadata are: `x` has the filter tokens, `r` the numbers as texts
that sort as the numbers do.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...documents import Chunk, DocumentSummary, VectorRecord
from ...filters import FilterLike
from ...filters.plan import index_metadata, plan
from ..engine.filter_tokens import sortable
from ..engine.payload import number_field, parse_chunk, translate
from ..engine.words import words_of
from ..versions.heads import Head, Name, runs_of

KIND, VERSION, HEAD_ID, SCOPE, DOCUMENT, INDEX = "k", "g", "h", "s", "d", "i"
TEXT, VECTOR, CONTENT, TOKENS, RANGES, HEAD = "t", "v", "c", "x", "r", "f"
COUNT, INDEXED, LENGTH, WRITTEN, ZERO = "n", "l", "w", "at", "z"
INFO_ID = "info"
Document = dict[str, Any]

_K1_PLUS_1 = 2.2

IS_CHUNK, IS_HEAD = {"term": {KIND: "chunk"}}, {"term": {KIND: "head"}}
NOTHING: Document = {"match_none": {}}


class Stored(NamedTuple):
    """A head as it was read, with what a conditional write needs."""

    name: Name
    head: Head
    version: str
    summary: str
    """DocumentSummary as JSON."""
    written_at: float
    seq_no: int
    primary_term: int


def index_settings(more: Mapping[str, Any]) -> Document:
    bm25 = {"type": "BM25", "k1": 1.2, "b": 0.75}
    return {"similarity": {"agent_rag": bm25}, **more}


def mappings(dimensions: int) -> Document:
    keyword = {"type": "keyword"}
    not_indexed = {"type": "object", "enabled": False}
    number = {"type": "long"}
    fields: Document = {
        **dict.fromkeys((KIND, VERSION, HEAD_ID, SCOPE, DOCUMENT, TOKENS, RANGES), keyword),
        **dict.fromkeys((INDEX, COUNT, INDEXED, LENGTH, WRITTEN), number),
        ZERO: {"type": "boolean"},
        TEXT: {"type": "text", "analyzer": "whitespace", "similarity": "agent_rag", "index_options": "freqs"},
        CONTENT: not_indexed,
        HEAD: not_indexed,
    }
    if dimensions:
        fields[VECTOR] = {
            "type": "dense_vector",
            "dims": dimensions,
            "index": True,
            "similarity": "cosine",
            # Not the default, which keeps 8 bits or 1 bit of a number: scores would be off by some percent.
            "index_options": {"type": "hnsw", "m": 16, "ef_construction": 200},
        }
    return {"dynamic": "strict", "properties": fields}


def index_name(prefix: str, name: str) -> str:
    """Index names are lower case and short; equal for equal collections only."""
    safe = re.sub(r"[^a-z0-9]", lambda found: f"_{ord(found[0]):x}_", name)
    if len(safe) > 150:
        safe = f"{safe[:80]}__{hashlib.sha256(name.encode()).hexdigest()}"
    return f"{prefix}{safe}"


def new_version() -> str:
    return uuid.uuid4().hex


def chunk_doc_id(version: str, index: int) -> str:
    return f"{version}:{index}"


def head_doc_id(name: Name) -> str:
    return f"h-{hashlib.sha256(json.dumps(name).encode()).hexdigest()}"


# --- tokens ---


def rough_bm25(score: float) -> float:
    """Elasticsearch multiplies BM25 by k1 + 1."""
    return score / _K1_PLUS_1


# --- filters ---


class ElasticsearchDialect:
    """Conditions as queries."""

    def any_token(self, tokens: Sequence[str]) -> Document:
        return {"terms": {TOKENS: list(tokens)}} if tokens else NOTHING

    def in_range(self, field: str, bounds: Mapping[str, float]) -> Document:
        """Texts of this field are ``<field>:<digits>``, so both ends are bound to it."""
        limits = {"gte": f"{field}:", "lt": f"{field}:g"}
        for bound, value in bounds.items():
            side, other = ("gte", "gt") if bound.startswith("g") else ("lt", "lte")
            limits.pop(side, None)
            limits.pop(other, None)
            limits[bound] = f"{field}:{sortable(value)}"
        return {"range": {RANGES: limits}}

    def combine(
        self, must: Sequence[Document] = (), should: Sequence[Document] = (), must_not: Sequence[Document] = ()
    ) -> Document:
        parts: Document = {"filter": list(must), "must_not": list(must_not)}
        if should:
            parts |= {"should": list(should), "minimum_should_match": 1}
        return {"bool": {key: value for key, value in parts.items() if value}}


DIALECT = ElasticsearchDialect()


def condition(metadata_filter: FilterLike | None, *more: Document, without: Sequence[str] = ()) -> Document:
    """`more` and the filter; without the versions `without`."""
    node = plan(metadata_filter)
    must = [*more, *([] if node is None else [translate(node, DIALECT)])]
    must_not = [{"terms": {VERSION: list(without)}}] if without else []
    return DIALECT.combine(must=must, must_not=must_not)


def _filter_fields(metadata: Mapping[str, Any]) -> Document:
    indexed = index_metadata(metadata)
    ranges = [f"{number_field(key)}:{sortable(value)}" for key, value in indexed.numbers.items()]
    return {TOKENS: list(indexed.tokens), RANGES: ranges}


# --- documents ---


def as_json(value: Document) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True, slots=True)
class ChunkDocument:
    """A chunk before it belongs to a version."""

    index: int
    fields: bytes
    """As JSON without the opening brace: a tenth of the size of the objects, and nothing for the collector to visit."""
    length: int
    """Number of tokens."""

    @classmethod
    def of(cls, record: VectorRecord, vector: list[float]) -> ChunkDocument:
        chunk = record.chunk
        words = words_of(chunk.indexed_text)
        source: Document = {
            KIND: "chunk",
            HEAD_ID: head_doc_id((record.scope, record.document_id)),
            SCOPE: record.scope,
            DOCUMENT: record.document_id,
            INDEX: chunk.chunk_index,
            LENGTH: len(words),
            CONTENT: chunk.model_dump_json(),
            **_filter_fields(chunk.metadata),
        }
        if words:
            source[TEXT] = " ".join(words)
        if any(vector):
            source[VECTOR] = vector
        elif vector:
            source[ZERO] = True  # cosine refuses a vector of zeros
        return cls(chunk.chunk_index, as_json(source)[1:], len(words))

    def in_version(self, version: str) -> bytes:
        """The source of its row."""
        return as_json({VERSION: version, WRITTEN: int(time.time() * 1000)})[:-1] + b"," + self.fields


def head_of_chunks(chunks: Sequence[ChunkDocument]) -> Head:
    return Head(
        number=0,
        runs=runs_of(chunk.index for chunk in chunks),
        tokens=sum(chunk.length for chunk in chunks),
        indexed=sum(chunk.length > 0 for chunk in chunks),
    )


def head_document(summary: DocumentSummary, head: Head, version: str) -> Document:
    return {
        KIND: "head",
        VERSION: version,
        SCOPE: summary.scope,
        DOCUMENT: summary.document_id,
        HEAD: json.dumps(head.payload()),
        CONTENT: summary.model_dump_json(),
        COUNT: head.count,
        INDEXED: head.indexed,
        LENGTH: head.tokens,
        WRITTEN: int(time.time() * 1000),
        **_filter_fields(summary.metadata),
    }


def stored_of(answer: Mapping[str, Any]) -> Stored:
    """From an item of a multi-get."""
    source = answer["_source"]
    return Stored(
        name=(source[SCOPE], source[DOCUMENT]),
        head=Head.of_payload(json.loads(source[HEAD])),
        version=source[VERSION],
        summary=source[CONTENT],
        written_at=source[WRITTEN] / 1000,
        seq_no=answer["_seq_no"],
        primary_term=answer["_primary_term"],
    )


def summary_of(source: Mapping[str, Any]) -> DocumentSummary:
    summary = DocumentSummary.model_validate_json(source[CONTENT])
    summary.chunk_count = source[COUNT]
    return summary


def chunk_of(source: Mapping[str, Any]) -> Chunk:
    return parse_chunk(source[CONTENT])
