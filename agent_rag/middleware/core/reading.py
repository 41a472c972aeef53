"""The tool ``read_document``: the text around a hit, or a document in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...documents import Chunk, VectorSearchResult, scope_key
from ...filters import FilterLike, matches
from .arguments import ArgumentError, as_object, check_names, echo, integer_argument, text_argument
from .render import Layout, Rendered, passages_of, render
from .result import ToolResult, said
from .search import Base, Failure, ask_all
from .turn import Turn

_BEFORE = 2
_AFTER = 2
_MAX_PARTS = 200


@dataclass(frozen=True)
class ReadArguments:
    """Checked arguments of ``read_document``."""

    document_id: str
    knowledge_base: str | None
    start: int
    count: int


def read_arguments(arguments: Any, turn: Turn) -> ReadArguments:
    """Raises: ArgumentError: for the model."""
    given = as_object(arguments)
    check_names(given, ["document_id", "around", "start"])
    around = integer_argument(given.get("around"), "around", default=0, least=1)
    citation = turn.numbers.citation(around)
    if around and citation is None:
        shown = ", ".join(f"[{item.number}]" for item in turn.citations) or "none yet"
        raise ArgumentError(
            f"There is no hit [{around}] in this turn; the numbers so far: {shown}. Give the id after 'document' in "
            "its header instead."
        )
    if citation is not None and given.get("document_id") in (None, "", citation.document_id):
        first, last = (int(chunk_id.rpartition(":")[2]) for chunk_id in (citation.chunk_ids[0], citation.chunk_ids[-1]))
        start = max(first - _BEFORE, 0)
        return ReadArguments(citation.document_id, citation.knowledge_base, start, last + _AFTER + 1 - start)
    start = integer_argument(given.get("start"), "start", default=0, least=0)
    return ReadArguments(text_argument(given.get("document_id"), "document_id"), None, start, _MAX_PARTS)


async def read_document(
    arguments: ReadArguments,
    bases: Sequence[Base],
    turn: Turn,
    layout: Layout,
    *,
    allowed: FilterLike | None,
    timeout_s: float | None = None,
) -> tuple[ToolResult, list[Failure]]:
    """As many parts as fit the budget, from `arguments.start`, and the knowledge bases that did not answer.

    Args:
        allowed: Scope and filter; parts outside of it do not exist.
        timeout_s: For all knowledge bases, which are asked at once.
    """
    hits, failures = await _parts(arguments, bases, allowed, timeout_s)
    if not hits:
        failed = "; ".join(f"{failure.knowledge_base} did not answer ({failure.reason})" for failure in failures)
        incomplete = f" (Incomplete: {failed}.)" if failed else ""
        return said(
            f"No document {echo(arguments.document_id)} with a part {arguments.start}; use the id after 'document' in "
            f"the header of a hit, or its number as 'around'.{incomplete}",
            is_error=bool(failed),
            degraded=bool(failed),
        ), failures
    count = len(hits)
    rendered = _shown(hits, turn, layout)
    while rendered.dropped and count > 1:
        # Parts merge into few passages, so what is dropped says little: halve until everything fits.
        count = max(count // 2, 1)
        rendered = _shown(hits[:count], turn, layout)
    citations = turn.show(rendered.shown, rendered.fence, hidden=layout.hidden)
    result = ToolResult(
        text=rendered.text,
        blocks=tuple(rendered.blocks),
        citations=tuple(citations),
        degraded=bool(failures),
        dropped=len(hits) - count,
    )
    return result, failures


def _shown(hits: Sequence[VectorSearchResult], turn: Turn, layout: Layout) -> Rendered:
    passages = passages_of(hits, {}, merge=True)
    first, last = hits[0].chunk, hits[-1].chunk
    note = f"(Parts {first.chunk_index} to {last.chunk_index} of {last.total_chunks}, counted from 0."
    if last.chunk_index + 1 < last.total_chunks:
        note += f" To read on: document_id {echo(hits[0].document_id)}, start {last.chunk_index + 1}."
    return render(passages, turn.numbers.numbers_for(passages), layout, note=note + ")")


async def _parts(
    arguments: ReadArguments, bases: Sequence[Base], allowed: FilterLike | None, timeout_s: float | None
) -> tuple[list[VectorSearchResult], list[Failure]]:
    """The parts from the first knowledge base that has any, and those that did not answer."""
    asked = [
        base
        for base in bases
        if arguments.knowledge_base in (None, base.name) and hasattr(base.knowledge_base, "list_chunks")
    ]
    answers, failures = await ask_all(asked, lambda base: _listed(base, arguments, allowed), timeout_s)
    return next((hits for hits in answers if hits), []), failures


async def _listed(base: Base, arguments: ReadArguments, allowed: FilterLike | None) -> list[VectorSearchResult]:
    chunks: list[Chunk] = await base.knowledge_base.list_chunks(
        arguments.document_id, offset=arguments.start, limit=arguments.count
    )
    scope = scope_key(getattr(base.knowledge_base, "metadata_filter", None))
    return [
        VectorSearchResult(
            score=0.0, document_id=arguments.document_id, chunk=chunk, scope=scope, knowledge_base=base.name
        )
        for chunk in chunks
        if allowed is None or matches(allowed, chunk.metadata)
    ]
