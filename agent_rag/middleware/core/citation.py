"""What a number such as [3] stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ...documents import Signals, VectorSearchResult
from ...places import RANGE_FIELDS, location_of, place_text
from ...retrieval.fence import clean_inline
from .conversation.memory import Remembered

PREVIEW_CHARACTERS = 300
TABLE_PART = 1_000_000_000
"""From here on a chunk's index stands for a table that was asked in SQL, which is no chunk."""

PassageKey = tuple[str, str, str, int]
"""Knowledge base, scope, document id and chunk index."""


class Source(BaseModel):
    """Another place with the same text."""

    model_config = ConfigDict(frozen=True)

    document_id: str
    chunk_id: str
    source: str
    """File name; the document id where the file name is not known."""
    knowledge_base: str | None = None


class Citation(BaseModel):
    """One numbered hit. For applications: models read the same facts in the header of the hit."""

    model_config = ConfigDict(frozen=True)

    number: int
    """From 1; unique within the conversation that the model sees, and the agents that it calls."""
    chunk_ids: tuple[str, ...]
    """``<document_id>:<index>`` of the chunks shown under this number, in document order."""
    document_id: str
    source: str
    """File name."""
    title: str | None = None
    uri: str | None = None
    knowledge_base: str | None = None
    location: dict[str, Any] = Field(default_factory=dict)
    """Page, slide, sheet, rows, lines, key path or time, over all of its chunks."""
    heading_path: tuple[str, ...] = ()
    """Titles above all of it."""
    span: tuple[int, int] | None = None
    """Characters in the section's text."""
    score: float
    """Orders the hits of one search; over several knowledge bases a rank score in [0, 1]."""
    signals: Signals = Signals()
    text: str = ""
    """The beginning of the text, at most 300 characters."""
    passage: str = Field(default="", exclude=True, repr=False)
    """The whole text, in this process only: empty in what was stored and is no longer remembered."""
    fence: str = Field(default="", repr=False)
    """Name of the fence that it was shown in."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """The chunk's metadata without excluded and scope fields."""
    also_in: tuple[Source, ...] = ()

    def place(self) -> dict[str, Any]:
        """Where it stands, as plain JSON without the text: for slots that are stored with a conversation."""
        return self.model_dump(mode="json", exclude={"text", "signals", "metadata"})

    @property
    def label(self) -> str:
        """``people-guide.docx, page 3, Pay > Bonus``: for people."""
        parts = [self.source, *(f"{name} {place_text(value)}" for name, value in self.location.items())]
        return ", ".join([*parts, " > ".join(self.heading_path)] if self.heading_path else parts)


@dataclass
class Passage:
    """What is shown under one number: a hit, or neighbouring hits as one text."""

    best: VectorSearchResult
    """The best-ranked of its hits."""
    text: str
    hits: list[VectorSearchResult] = field(default_factory=list)
    """In document order."""
    also_in: list[Source] = field(default_factory=list)
    span: tuple[int, int] | None = None

    @property
    def keys(self) -> list[PassageKey]:
        return [key_of(hit) for hit in self.hits]


remembered: Remembered[list[tuple[Citation, list[PassageKey]]]] = Remembered()
"""What was shown in which fence, in this process. A fence's name is random: who has it has seen what is in it."""
excerpts: Remembered[bool] = Remembered()
"""Fences that hold lines of their passages only: these have their numbers, and were not shown."""


def collected(*groups: Iterable[Citation | Mapping[str, Any]]) -> list[Citation]:
    """Citations of several places, objects or their JSON, by number; of two with one number the later, unless it is the
    same passage without its text. With their whole passages, as long as this process remembers them."""
    found: dict[int, Citation] = {}
    for group in groups:
        for item in group:
            if not isinstance(item, Citation) and "chunk_ids" not in item:
                continue  # of somebody else, in a slot of the same name
            citation = item if isinstance(item, Citation) else Citation.model_validate(item)
            earlier = found.get(citation.number)
            if earlier is None or citation.text or citation.chunk_ids != earlier.chunk_ids:
                found[citation.number] = citation
    return [_with_passage(found[number]) for number in sorted(found)]


def _with_passage(citation: Citation) -> Citation:
    shown = () if citation.passage else remembered.of(citation.fence) or ()
    passage = next((one.passage for one, _ in shown if one.number == citation.number), "")
    return citation.model_copy(update={"passage": passage}) if passage else citation


def key_of(hit: VectorSearchResult) -> PassageKey:
    return (hit.knowledge_base or "", hit.scope, hit.document_id, hit.chunk.chunk_index)


def cite(passage: Passage, number: int, *, hidden: Iterable[str] = ()) -> Citation:
    """The citation of `passage`; metadata fields in `hidden` are left out."""
    best, chunk = passage.best, passage.best.chunk
    excluded = set(hidden)
    metadata = {name: value for name, value in chunk.metadata.items() if name not in excluded}
    return Citation(
        number=number,
        chunk_ids=tuple(hit.chunk_id for hit in passage.hits),
        document_id=best.document_id,
        source=chunk.source,
        title=chunk.title,
        uri=chunk.uri,
        knowledge_base=best.knowledge_base,
        location=_common_location([hit.chunk.metadata for hit in passage.hits or [best]], excluded),
        heading_path=_common_path([hit.chunk.heading_path for hit in passage.hits]),
        span=passage.span,
        score=best.score,
        signals=best.signals,
        text=passage.text[:PREVIEW_CHARACTERS],
        passage=passage.text,
        metadata=metadata,
        also_in=tuple(passage.also_in),
    )


def _common_path(paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The titles that stand above every hit of a passage."""
    common: list[str] = []
    for titles in zip(*paths, strict=False):
        if len(set(titles)) > 1:
            break
        common.append(titles[0])
    return tuple(common)


def same_place(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two places differ at most in their ranges."""
    first, second = location_of(a), location_of(b)
    return first.keys() == second.keys() and all(
        name in RANGE_FIELDS or value == second[name] for name, value in first.items()
    )


def _common_location(metadatas: Sequence[Mapping[str, Any]], hidden: set[str]) -> dict[str, Any]:
    """The place of neighbouring chunks: from the first number to the last, from the first time to the last."""
    location = location_of({name: value for name, value in metadatas[0].items() if name not in hidden})
    for name in RANGE_FIELDS if len(metadatas) > 1 else ():
        if name in location:
            location[name] = _spanned([metadata[name] for metadata in metadatas if name in metadata], name)
    return location


def _spanned(values: Sequence[Any], name: str) -> Any:
    if name == "speaker":
        return ", ".join(dict.fromkeys(speaker for value in values for speaker in str(value).split(", ")))
    if all(isinstance(value, list) and len(value) == 2 for value in values):
        return [min(value[0] for value in values), max(value[1] for value in values)]
    return f"{str(values[0]).partition('-')[0]}-{str(values[-1]).rpartition('-')[2]}"


def header(citation: Citation, *, show_base: bool, show_document: bool) -> str:
    """``[1] (source: guide.pdf, page 4)``: every value in it is data of strangers and cleaned."""
    parts = [f"source: {clean_inline(citation.source)}"]
    parts += [f"{name} {clean_inline(place_text(value), limit=80)}" for name, value in citation.location.items()]
    if citation.heading_path:
        parts.append(f"section {clean_inline(' > '.join(citation.heading_path))}")
    if show_base and citation.knowledge_base:
        parts.append(f"knowledge base {clean_inline(citation.knowledge_base)}")
    if show_document:
        parts.append(f"document {clean_inline(citation.document_id, limit=512)}")
    if others := sorted({place.source for place in citation.also_in} - {citation.source}):
        listed = " and ".join(map(clean_inline, others[:5]))
        parts.append(f"also in {listed}" + (f" and {len(others) - 5} more" if len(others) > 5 else ""))
    return f"[{citation.number}] ({', '.join(parts)})"
