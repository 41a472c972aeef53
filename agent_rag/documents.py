"""The nouns of the data flow: Section, Chunk, VectorRecord, VectorSearchResult, DocumentSummary."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from .content import ContentBlock, DataBlock, TextBlock
from .errors import RecordError
from .places import PLACE_FIELDS, Places

__all__ = [
    "CellFacts",
    "Chunk",
    "ChunkKey",
    "DocumentSummary",
    "Heading",
    "Section",
    "Signals",
    "VectorRecord",
    "VectorSearchResult",
    "renumber",
    "text_section",
]

_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,31}\d{0,2});")
_ESCAPE = re.compile(r"\\u(00[a-fA-F][0-9a-fA-F]|0[1-9a-fA-F][0-9a-fA-F]{2}|[1-9a-cA-C][0-9a-fA-F]{3})")
"""Of characters beyond ASCII, below the surrogates."""
_INVISIBLE = re.compile(r"[\u00ad\u2060\ufeff]|(?<=[A-Za-z\u00c0-\u024f])\u200b(?=[A-Za-z\u00c0-\u024f])")
_DIVIDED = re.compile(r"\b([^\W\d_]{2,40})-\n[ \t]*([a-zß-öø-ÿ][^\W\d_]{1,40})")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff]*")


class Heading(BaseModel):
    """A heading inside a Section's text. It counts from `offset` until one of the same or a higher rank."""

    level: int = Field(ge=1)
    """1 is the highest rank."""
    title: str
    offset: int = Field(ge=0)
    """Index of its first character in the section's text."""


class CellFacts(BaseModel):
    """What the text of a sheet does not say of its cells, for its typed tables."""

    merged: list[tuple[int, int, int]] = Field(default_factory=list)
    """(first row, last row, column of the table from 0) of merged cells; their value stands in the first row only."""
    number_texts: list[int] = Field(default_factory=list)
    """Columns of the table from 0 that hold texts which look like numbers: a person wrote those, with separators of
    any language."""


class Section(BaseModel):
    """One natural part of a file: a page, a slide, a sheet, an image, or the whole text."""

    content: ContentBlock = Field(discriminator="type")
    source: str
    """File name as given by the caller."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    headings: list[Heading] = Field(default_factory=list)
    """Headings in this section's text, by offset."""
    heading_path: list[str] = Field(default_factory=list)
    """Titles above the start of this section, outermost first (an outline entry, an enclosing heading)."""
    places: Places | None = None
    """Where the lines of the text stand in the file: each chunk gets its own part of it as metadata (`lines`, `rows`,
    `records`, `time`)."""
    cells: CellFacts | None = None
    """Of a sheet, where there is more to say than its text does. The first Section of a sheet has it."""
    warnings: list[str] = Field(default_factory=list)
    """What of the file is in no Section, and why, one sentence each; an ingestion reports them. Chunks have none."""

    @property
    def text(self) -> str:
        """The text; for data its caption, or the empty string."""
        return _text_of(self.content)

    def heading_path_at(self, offset: int) -> list[str]:
        """Titles above the character at `offset`, outermost first; a heading is above its own line."""
        path: list[tuple[int, str]] = []
        for heading in self.headings:
            if heading.offset > offset:
                break
            while path and path[-1][0] >= heading.level:
                path.pop()
            path.append((heading.level, heading.title))
        return [*self.heading_path, *(title for _, title in path)]


class Chunk(BaseModel):
    """The unit that is embedded, indexed, found and cited."""

    content: ContentBlock = Field(discriminator="type")
    source: str
    chunk_index: int
    """Position in its document, from 0."""
    total_chunks: int
    metadata: dict[str, Any] = Field(default_factory=dict)
    section_index: int | None = None
    """Position of its Section in the parser's list, from 0."""
    span: tuple[int, int] | None = None
    """``(start, end)`` in its section's text, so that the chunk's text equals ``section.text[start:end]``;
    None where the chunker had to write the text anew (JSON, a repeated table header)."""
    heading_path: list[str] = Field(default_factory=list)
    """Titles above the chunk, outermost first."""
    document_id: str | None = None
    """Id of its document, once it is stored."""
    title: str | None = None
    """Title of its document."""
    uri: str | None = None
    """Where its document can be opened."""
    embed_text: str | None = None
    """What is embedded and indexed instead of `indexed_text`'s default; the content is what is shown."""
    embed_context: str | None = None
    """What is embedded and indexed between the heading path and the text, and never shown: the words of names in code,
    the signature of the function that the text continues."""
    analysis: str | None = None
    """Fields of its keyword index, set by the KnowledgeBase for all chunks of a collection alike (see
    `agent_rag.retrieval.analysis`); None: its words only, as releases before indexed them."""

    @property
    def text(self) -> str:
        """The text; for data its caption, or the empty string."""
        return _text_of(self.content)

    @property
    def indexed_text(self) -> str:
        """What is embedded and keyword-indexed: `embed_text`, else ``title > heading > heading``, `embed_context` and
        the text as a reader sees it (`readable`).

        The prefix is worth +.04 nDCG@10 (heading path against none, paired bootstrap; shared corpus of docs).
        """
        if self.embed_text is not None:
            return self.embed_text
        if not self.text:
            return ""
        path = " > ".join(part for part in (self.title, *self.heading_path) if part)
        return "\n".join(part for part in (path, self.embed_context, readable(self.text)) if part)


class ChunkKey(NamedTuple):
    """Identity of a chunk in a collection."""

    scope: str
    """Canonical form of the KnowledgeBase's `metadata_filter` (`scope_key`), "" for none."""
    document_id: str
    chunk_index: int

    @property
    def chunk_id(self) -> str:
        """``<document_id>:<index>``, unique within its scope."""
        return f"{self.document_id}:{self.chunk_index}"

    @classmethod
    def from_chunk_id(cls, chunk_id: str, *, scope: str = "") -> ChunkKey:
        """Raises: ValueError: `chunk_id` is not ``<document_id>:<index>``."""
        document_id, colon, index = chunk_id.rpartition(":")
        if not colon or not index.isdecimal():
            raise ValueError(f"chunk id {chunk_id!r} is not of the form '<document_id>:<index>'")
        return cls(scope, document_id, int(index))


class VectorRecord(BaseModel):
    """A chunk with its vector, as a store keeps it."""

    vector: list[float]
    """Empty in a collection without vectors (keyword only), or when a reader did not ask for it."""
    document_id: str
    chunk: Chunk
    scope: str = ""

    @property
    def key(self) -> ChunkKey:
        return ChunkKey(self.scope, self.document_id, self.chunk.chunk_index)


class Signals(BaseModel):
    """The scores a hit collected on its way; None where that step did not look at it."""

    model_config = ConfigDict(frozen=True)

    semantic: float | None = None
    """Cosine in [-1, 1] (or the negated distance of another metric)."""
    keyword: float | None = None
    """BM25, >= 0."""
    rerank: float | None = None
    """The reranker's own number."""


class VectorSearchResult(BaseModel):
    """A hit. A higher score is better, always."""

    score: float
    document_id: str
    chunk: Chunk
    signals: Signals = Signals()
    scope: str = ""
    knowledge_base: str | None = None
    """Name of the KnowledgeBase it came from."""
    also_in: list[ChunkKey] = Field(default_factory=list)
    """Further chunks with the same text, or with nine tenths of theirs in it, when a search collapsed duplicates."""

    @property
    def chunk_id(self) -> str:
        """``<document_id>:<index>``, unique within its scope."""
        return self.key.chunk_id

    @property
    def key(self) -> ChunkKey:
        return ChunkKey(self.scope, self.document_id, self.chunk.chunk_index)

    def _repr_html_(self) -> str:
        """For notebooks: file, place and score, and the text as it is; what looks like HTML in it is shown as text."""
        metadata = self.chunk.metadata
        place = [f"{name} {metadata[name]}" for name in PLACE_FIELDS if metadata.get(name) not in (None, "", [])]
        path = [" > ".join(self.chunk.heading_path)] if self.chunk.heading_path else []
        title = html.escape(", ".join([self.chunk.source, *place, *path]))
        scores = ", ".join(f"{name} {value:.3f}" for name, value in self.signals.model_dump(exclude_none=True).items())
        return (
            f"<div style='margin:0 0 1em'><b>{title}</b> <small>{self.score:.3f} ({html.escape(scores)})</small>"
            f"<div style='white-space:pre-wrap;text-align:left'>{html.escape(self.chunk.text)}</div></div>"
        )


class DocumentSummary(BaseModel):
    """A stored document, without its text."""

    document_id: str
    source: str
    chunk_count: int
    metadata: dict[str, Any] = Field(default_factory=dict)
    title: str | None = None
    uri: str | None = None
    scope: str = ""
    state: dict[str, str] = Field(default_factory=dict)
    """What ingestion keeps with the document to see changes (digest, pipeline, source). Written and deleted
    with it, so there is no separate manifest to go stale."""

    @property
    def status(self) -> Literal["stored", "skipped", "failed"]:
        """What became of its file at the last ingestion; of a failed one the last good version may be stored."""
        if self.state.get("refused"):
            return "failed"
        told = self.state.get("status")
        return "skipped" if told == "skipped" else "failed" if told == "failed" else "stored"


def text_section(text: str, source: str, **metadata: Any) -> Section:
    """A Section of plain text."""
    return Section(content=TextBlock(text=text), source=source, metadata=metadata)


def renumber(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Number `chunks` from 0 and give each the same `total_chunks`, in place."""
    numbered = list(chunks)
    for index, chunk in enumerate(numbered):
        chunk.chunk_index = index
        chunk.total_chunks = len(numbered)
    return numbered


def _text_of(content: TextBlock | DataBlock) -> str:
    return content.text if isinstance(content, TextBlock) else (content.caption or "")


def readable(text: str) -> str:
    """`text` as a reader sees it, for the index: what is shown and stored stays as its author wrote it.

    Character references (``Caf&eacute;``) and escapes (``sch\\u00f6n``) are characters, soft hyphens and zero-width
    signs inside of words are gone, and a word that is divided at a line's end stands whole beside its parts.
    """
    if "&" in text:
        text = _REFERENCE.sub(lambda found: html.unescape(found[0]), text)
    if "\\u" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    if not text.isascii():
        text = _INVISIBLE.sub("", text)
    return _DIVIDED.sub(r"\1\2 \1-\2", text) if "-\n" in text else text


def is_blank(text: str) -> bool:
    """Whether `text` has nothing to read: blanks, control, zero-width and other format characters only."""
    return _BLANK.fullmatch(text) is not None


def storable_text(text: str) -> str:
    """`text` without what no database keeps: NUL characters and lone surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "ignore").decode()
    return text


def storable_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """`metadata` as plain JSON: dates become ISO 8601 text (with a zone: UTC and ``Z``), tuples become lists.

    Raises: RecordError: a value is not JSON, or a number is not finite; names the field.
    """
    return {storable_text(str(key)): _storable(value, str(key)) for key, value in metadata.items()}


def date_text(value: date) -> str:
    """ISO 8601 text of a date or datetime; one with a zone is given in UTC with a ``Z``."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    return value.isoformat()


def scope_key(scope: Mapping[str, Any] | None) -> str:
    """Canonical text of a KnowledgeBase's `metadata_filter`: part of every record's identity. Numbers that are equal
    are one scope, whether written 1 or 1.0.

    Raises: RecordError: a value is not a scalar.
    """
    if not scope:
        return ""
    plain = storable_metadata(scope)
    for key, value in plain.items():
        if isinstance(value, list | dict):
            raise RecordError(f"metadata_filter[{key!r}] is {value!r}; a scope takes scalar values only")
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            plain[key] = int(value)
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _storable(value: Any, field: str) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            if not math.isfinite(value):
                raise RecordError(f"metadata[{field!r}] is {value}; only finite numbers can be stored")
            return value
        case str():
            return storable_text(value)
        case date():
            return date_text(value)
        case Mapping():
            return {storable_text(str(key)): _storable(item, f"{field}.{key}") for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_storable(item, field) for item in value]
        case _:
            raise RecordError(
                f"metadata[{field!r}] is a {type(value).__name__}; store text, numbers, bools, dates, "
                "None, or lists and dicts of them"
            )
