"""The tool ``list_documents``: which documents there are, or what one of them consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ....chat import ToolSpec
from ....documents import Chunk, DocumentSummary
from ....filters import Filter, FilterField, FilterLike, matches
from ....knowledge import DocumentOutline, OutlineEntry
from ....knowledge.outline import outline_of
from ....places import place_text
from ....retrieval.fence import Fence, clean_inline
from ..answering import Answer, once
from ..arguments import echo, text_argument
from ..fields import FilterFields
from ..pipeline import Pipeline, StageError
from ..reading import MAX_CHUNKS
from ..render import most
from ..result import ToolResult, said
from ..search import Base, Deadline, ask_all
from ..turn import Turn
from .asking import able, allowed, can, common_arguments, common_properties, not_available, told

LIST_DOCUMENTS = "list_documents"
_MAX_TOKENS = 2_000


@dataclass(frozen=True)
class _Asked:
    pattern: str | None
    after: str | None
    document_id: str | None
    knowledge_bases: tuple[str, ...]
    filter: Filter | None


@dataclass(frozen=True)
class _Listed:
    base: str
    summary: DocumentSummary


def offered(pipeline: Pipeline) -> bool:
    return can(pipeline, "list_documents")


def spec(pipeline: Pipeline, fields: Mapping[str, FilterField]) -> ToolSpec:
    """The tool as a model sees it."""
    properties: dict[str, Any] = {
        "pattern": {"type": "string", "description": "Only ids or titles with this; * is any text."},
        "after": {"type": "string", "description": "The last id of the page before."},
        "document_id": {"type": "string", "description": "Outline this document instead."},
        **common_properties(pipeline, fields, "list_documents"),
    }
    return ToolSpec(
        name=LIST_DOCUMENTS,
        description=(
            "List all documents with their number, or the outline of one: headings with pages, slides, sheets with "
            "rows."
        ),
        parameters={"type": "object", "properties": properties, "additionalProperties": False},
    )


async def answer(pipeline: Pipeline, fields: FilterFields, arguments: Any, turn: Turn) -> Answer:
    """Raises: ArgumentError: the model sent something that cannot be used; the message is for it."""
    own = ["pattern", "after", "document_id"]
    given, names, filter = await common_arguments(pipeline, fields, arguments, own)
    pattern, after, document_id = (text_argument(given[name], name) if given.get(name) else None for name in own)
    asked = _Asked(pattern, after, document_id, names, filter)
    call = turn.call(f"{pipeline.key} {LIST_DOCUMENTS} {asked}")
    return Answer(await once(pipeline, call, lambda: _list(pipeline, asked, turn)), asked.pattern or "", names)


async def _list(pipeline: Pipeline, asked: _Asked, turn: Turn) -> ToolResult:
    try:
        within = await allowed(pipeline, turn, asked.filter)
    except StageError as error:
        return await not_available(pipeline, error)
    deadline = Deadline(pipeline.parameters.timeout_s)
    if asked.document_id is not None:
        return await _outlined(pipeline, asked, asked.document_id, turn, within, deadline)
    bases = able(pipeline, asked.knowledge_bases, "list_documents")
    answers, failures = await ask_all(bases, lambda base: _summaries(base, within), deadline.left())
    failed = await told(pipeline, failures)
    if failed and len(failures) == len(bases):
        return said(f"Nothing could be listed: {failed}.", is_error=True, degraded=True)
    found = [
        _Listed(base.name, summary)
        for base, summaries in zip(bases, answers, strict=True)
        for summary in summaries
        if asked.pattern is None or _fits_pattern(summary, asked.pattern)
    ]
    silent = [name for name in asked.knowledge_bases if name not in {base.name for base in bases}]
    notes = [f"(Incomplete: {failed}.)"] if failed else []
    notes += [f"({', '.join(silent)} cannot list documents; use the search.)"] if silent else []
    return _page(pipeline, asked, turn, found, notes, degraded=bool(failed))


async def _summaries(base: Base, within: FilterLike | None) -> list[DocumentSummary]:
    options = {} if within is None else {"filter": within}
    return list(await base.knowledge_base.list_documents(**options))


def _fits_pattern(summary: DocumentSummary, pattern: str) -> bool:
    wanted = pattern.casefold()
    wanted = wanted if "*" in wanted or "?" in wanted else f"*{wanted}*"
    names = (summary.document_id, summary.source, summary.title or "")
    return any(fnmatchcase(name.casefold(), wanted) for name in names)


def _page(
    pipeline: Pipeline, asked: _Asked, turn: Turn, found: Sequence[_Listed], notes: list[str], *, degraded: bool
) -> ToolResult:
    """As many documents as fit, by knowledge base and id."""
    layout = pipeline.layout(turn)
    rest = [one for one in found if asked.after is None or one.summary.document_id > asked.after]
    # Pages follow the ids alone, so that one page ends at one id.
    rest.sort(key=lambda one: one.summary.document_id)
    about = f" with {echo(asked.pattern)} in their id or title" if asked.pattern else ""
    fence = Fence()
    if not rest:
        behind = f" behind {echo(asked.after)}" if asked.after else ""
        return said("\n".join([f"No documents{about}{behind}; there are {len(found):,}{about}.", *notes]))

    def text_of(count: int) -> str:
        left = len(rest) - count
        head = f"{len(found):,} document{'s' if len(found) != 1 else ''}{about}"
        head += f"; {count:,} listed here, {left:,} more" if left or count < len(found) else ""
        rows = [_row(one, show_base=layout.show_base) for one in rest[:count]]
        tail = ["(To list on, give the last id above as 'after'.)"] if left else []
        return "\n".join([f"{head}:", fence.wrap("\n".join(rows)), *tail, *notes])

    budget = min(layout.max_tokens, _MAX_TOKENS)
    count = max(most(len(rest), lambda number: layout.count(text_of(number)) <= budget), 1)
    ids = [one.summary.document_id for one in rest]
    # Two knowledge bases may have documents of one id, and the next page begins behind it.
    count = next((end for end in range(count, 0, -1) if end == len(ids) or ids[end] != ids[end - 1]), count)
    return said(text_of(count), degraded=degraded).model_copy(update={"dropped": len(rest) - count})


def _row(one: _Listed, *, show_base: bool) -> str:
    summary = one.summary
    parts = [clean_inline(summary.document_id, limit=512)]
    if summary.title and summary.title not in summary.document_id:
        parts.append(clean_inline(summary.title, limit=80))
    if show_base:
        parts.append(clean_inline(one.base, limit=40))
    return "- " + " | ".join(parts)


# --- the outline of one document ---


async def _outlined(
    pipeline: Pipeline, asked: _Asked, document_id: str, turn: Turn, within: FilterLike | None, deadline: Deadline
) -> ToolResult:
    bases = able(pipeline, asked.knowledge_bases, "list_chunks")
    answers, failures = await ask_all(bases, lambda base: _chunks(base, document_id, within), deadline.left())
    failed = await told(pipeline, failures)
    outline = next((made for chunks in answers if (made := outline_of(document_id, chunks)) is not None), None)
    incomplete = f" (Incomplete: {failed}.)" if failed else ""
    if outline is None:
        return said(
            f"No document {echo(document_id)}; list the documents to see their ids.{incomplete}",
            is_error=bool(failed),
            degraded=bool(failed),
        )
    return _outline_page(pipeline, turn, outline, incomplete)


async def _chunks(base: Base, document_id: str, within: FilterLike | None) -> list[Chunk]:
    chunks: list[Chunk] = await base.knowledge_base.list_chunks(document_id, limit=MAX_CHUNKS)
    return [chunk for chunk in chunks if within is None or matches(within, chunk.metadata)]


def _outline_page(pipeline: Pipeline, turn: Turn, outline: DocumentOutline, incomplete: str) -> ToolResult:
    """The whole outline; where it does not fit, without its deepest levels; then as many entries as fit."""
    layout = pipeline.layout(turn)
    fence = Fence()
    entries = outline.entries
    deepest = max((entry.level for entry in entries), default=1)

    def text_of(level: int, count: int) -> str:
        kept = [entry for entry in entries if entry.level <= level][:count]
        left = len(entries) - len(kept)
        notes = [f"({left} deeper or later entries left out; read by heading or page to see more.)"] if left else []
        rows = [_outline_head(outline), *(_outline_row(entry) for entry in kept)]
        return "\n".join([fence.wrap("\n".join(rows)), *notes]) + incomplete

    budget = min(layout.max_tokens, _MAX_TOKENS)
    level = max(most(deepest, lambda number: layout.count(text_of(number, len(entries))) <= budget), 1)
    count = most(len(entries), lambda number: layout.count(text_of(level, number)) <= budget)
    return said(text_of(level, count), degraded=bool(incomplete))


def _outline_head(outline: DocumentOutline) -> str:
    parts = [clean_inline(outline.document_id, limit=512)]
    if outline.title and outline.title not in outline.document_id:
        parts.append(clean_inline(outline.title, limit=80))
    parts.append(f"{outline.chunk_count} parts")
    ranges = {"pages": outline.pages, "rows": outline.rows}
    parts += [f"{name} {one[0]}-{one[1]}" for name, one in ranges.items() if one is not None]
    return " | ".join(parts)


def _outline_row(entry: OutlineEntry) -> str:
    place = ", ".join(f"{name} {clean_inline(place_text(value), limit=40)}" for name, value in entry.place.items())
    return f"{'  ' * (entry.level - 1)}- {clean_inline(entry.title, limit=100)}" + (f" ({place})" if place else "")
