"""The tool ``read_document``: the text around a hit, or a document in parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...documents import Chunk, VectorSearchResult, scope_key
from ...filters import FilterLike, matches
from ...knowledge.outline import select
from .arguments import ArgumentError, as_object, check_names, echo, integer_argument, text_argument
from .citation import TABLE_PART, Citation
from .render import Layout, Rendered, passages_of, render
from .result import ToolResult, said
from .search import Base, Failure, ask_all
from .turn import Turn

_BEFORE = 2
_AFTER = 2
_MAX_PARTS = 200
MAX_CHUNKS = 100_000
"""Of one document, where a part of it is looked for by what it is."""


@dataclass(frozen=True)
class ReadArguments:
    """Checked arguments of ``read_document``."""

    document_id: str
    knowledge_base: str | None
    start: int
    count: int
    page: int | None = None
    heading: str | None = None
    rows: tuple[int, int] | None = None

    @property
    def selects(self) -> bool:
        """Whether parts are looked for by what they are."""
        return self.page is not None or self.heading is not None or self.rows is not None


def read_arguments(arguments: Any, turn: Turn) -> ReadArguments:
    """Raises: ArgumentError: for the model."""
    given = as_object(arguments)
    check_names(given, ["document_id", "around", "page", "heading", "rows", "start"])
    around = integer_argument(given.get("around"), "around", default=0, least=1)
    citation = turn.numbers.citation(around)
    if around and citation is None:
        shown = ", ".join(f"[{item.number}]" for item in turn.citations) or "none yet"
        raise ArgumentError(
            f"There is no hit [{around}] in this turn; the numbers so far: {shown}. Give the id after 'document' in "
            "its header instead."
        )
    own = citation is not None and given.get("document_id") in (None, "", citation.document_id)
    page = integer_argument(given.get("page"), "page", default=0) or None
    heading = text_argument(given["heading"], "heading") if given.get("heading") else None
    rows = _rows(given.get("rows"))
    start = integer_argument(given.get("start"), "start", default=0, least=0)
    if citation is None or not own:
        document_id = text_argument(given.get("document_id"), "document_id")
        return ReadArguments(document_id, None, start, _MAX_PARTS, page, heading, rows)
    if page or heading or rows:
        return ReadArguments(citation.document_id, citation.knowledge_base, start, _MAX_PARTS, page, heading, rows)
    if (table := _table_rows(citation)) is not None:
        return ReadArguments(citation.document_id, citation.knowledge_base, start, _MAX_PARTS, rows=table or None)
    first, last = (int(chunk_id.rpartition(":")[2]) for chunk_id in (citation.chunk_ids[0], citation.chunk_ids[-1]))
    start = max(first - _BEFORE, 0)
    return ReadArguments(citation.document_id, citation.knowledge_base, start, last + _AFTER + 1 - start)


def _table_rows(citation: Citation) -> tuple[int, int] | tuple[()] | None:
    """Of a table that was asked in SQL: its rows, empty where it has no numbers; None for a passage."""
    if int(citation.chunk_ids[0].rpartition(":")[2]) < TABLE_PART:
        return None
    rows = citation.location.get("rows")
    return (int(rows[0]), int(rows[1])) if isinstance(rows, list | tuple) and len(rows) == 2 else ()


def _rows(value: Any) -> tuple[int, int] | None:
    """Rows as models write them: "10-20", "10", 10 or [10, 20]; None for null.

    Raises: ArgumentError: it is something else.
    """
    if value in (None, "", []):
        return None
    numbers = [int(number) for number in re.findall(r"\d{1,9}", str(value))]
    if not 1 <= len(numbers) <= 2:
        raise ArgumentError(f"The argument 'rows' must be a text such as \"10-20\", not {echo(value)}.")
    return min(numbers), max(numbers)


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
            f"No document {echo(arguments.document_id)} with {_wanted(arguments)}; use the id after 'document' in "
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


def _wanted(arguments: ReadArguments) -> str:
    """What was looked for, in words."""
    if not arguments.selects:
        return f"a part {arguments.start}"
    named = {"page or slide": arguments.page, "heading": arguments.heading and echo(arguments.heading)}
    parts = [f"{name} {value}" for name, value in named.items() if value is not None]
    parts += [f"rows {arguments.rows[0]}-{arguments.rows[1]}"] if arguments.rows else []
    return " and ".join(parts) + (f" from part {arguments.start} on" if arguments.start else "")


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
    listed: list[Chunk] = await base.knowledge_base.list_chunks(
        arguments.document_id, offset=arguments.start, limit=MAX_CHUNKS if arguments.selects else arguments.count
    )
    chunks = select(listed, page=arguments.page, heading=arguments.heading, rows=arguments.rows)[: arguments.count]
    scope = scope_key(getattr(base.knowledge_base, "metadata_filter", None))
    return [
        VectorSearchResult(
            score=0.0, document_id=arguments.document_id, chunk=chunk, scope=scope, knowledge_base=base.name
        )
        for chunk in chunks
        if allowed is None or matches(allowed, chunk.metadata)
    ]
