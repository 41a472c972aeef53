"""Answering the tool calls of agentic mode."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ...filters import all_of, to_json
from .arguments import SearchArguments, echo, search_arguments
from .citation import key_of
from .conversation.recall import asked_numbers, recall
from .fields import FilterFields
from .pipeline import Pipeline, StageError
from .reading import ReadArguments, read_arguments, read_document
from .render import entry, passages_of, render
from .result import ToolResult, said
from .search import Deadline, Found, reason_of
from .turn import Call, Turn


@dataclass
class Answer:
    """A result, and what was asked, for the event."""

    result: ToolResult
    query: str = ""
    knowledge_bases: tuple[str, ...] = field(default_factory=tuple)


async def answer_search(pipeline: Pipeline, fields: FilterFields, arguments: Any, turn: Turn) -> Answer:
    """Raises: ArgumentError: the model sent something that cannot be used; the message is for it."""
    parameters = pipeline.parameters
    await fields.load()
    search = search_arguments(
        arguments,
        bases=[base.name for base in pipeline.bases],
        default_top_k=parameters.top_k,
        fields=fields.current(),
    )
    call = turn.call(f"{pipeline.key} {parameters.tool_name} {_signature(search)}")
    numbers = asked_numbers(search.query)
    result = await once(
        pipeline, call, lambda: _recall(pipeline, numbers, turn) if numbers else _search(pipeline, search, turn)
    )
    return Answer(result, search.query, search.knowledge_bases)


async def answer_read(pipeline: Pipeline, fields: FilterFields, arguments: Any, turn: Turn) -> Answer:
    """Raises: ArgumentError: the model sent something that cannot be used; the message is for it."""
    asked = read_arguments(arguments, turn)
    call = turn.call(f"{pipeline.key} read_document {asked}")
    return Answer(await once(pipeline, call, lambda: _read(pipeline, asked, turn)))


async def once(pipeline: Pipeline, call: Call, fresh: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    """A fresh answer the first time or after an error; then the same with a note; past the limits, only words."""
    async with call.lock:
        call.count += 1
        if call.count > pipeline.parameters.repeat_limit:
            return said(
                "This same call was already answered in this turn, and it will not be answered again. "
                "Answer the user with what you have, or say that it was not found.",
                repeated=True,
            )
        if call.result is None or call.result.is_error:
            call.result = await fresh()
            return call.result
        return _with_note(call.result, "(Same call as before in this turn, same answer. Do not repeat it.)")


def over_limit(pipeline: Pipeline, turn: Turn) -> ToolResult | None:
    """Count one more search of this turn; the answer where it is one too many."""
    slot, limit = turn.slot(pipeline.key), pipeline.parameters.search_limit
    slot.searches += 1
    if slot.searches <= limit:
        return None
    return said(
        f"{limit} searches were made in this turn, and no more will be. "
        "Answer the user with what you have, or say that it was not found.",
        repeated=True,
    )


async def _search(pipeline: Pipeline, search: SearchArguments, turn: Turn) -> ToolResult:
    if (refused := over_limit(pipeline, turn)) is not None:
        return refused
    bases = [base for base in pipeline.bases if base.name in search.knowledge_bases]
    without_filter = [base.name for base in bases if not base.takes_filter]
    if search.filter is not None and without_filter:
        return said(f"The knowledge base {without_filter[0]} takes no filter; leave 'filter' out.", is_error=True)
    try:
        found, _ = await pipeline.find(
            turn,
            search.query,
            (),
            bases,
            top_k=search.top_k,
            deadline=Deadline(pipeline.parameters.timeout_s),
            filter=search.filter,
            extra=turn.hinted_count,
            more=search.more_queries,
        )
    except StageError as error:
        await pipeline.report(error.stage, reason_of(error.error))
        return said("The search is not available right now; answer without it and say so.", is_error=True)
    failed = "; ".join(f"{failure.knowledge_base} did not answer ({failure.reason})" for failure in found.failures)
    if found.hits:
        return _rendered(pipeline, search, turn, found, f"(Incomplete: {failed}.)" if failed else "")
    if bases and len(found.failures) == len(bases):
        return said(f"The search failed: {failed}. Answer without it and say so.", is_error=True, degraded=True)
    return said(_nothing(search) + (f" (Incomplete: {failed}.)" if failed else ""), degraded=found.degraded)


def _rendered(pipeline: Pipeline, search: SearchArguments, turn: Turn, found: Found, note: str) -> ToolResult:
    """The passages with something that the model does not see already, and the numbers of the others."""
    layout = pipeline.layout(turn)
    merge = pipeline.parameters.merge_neighbours
    turn.find_above(
        lambda: passages_of(found.hits[: search.top_k], found.also_in, merge=merge),
        lambda passage: entry(passage, 0, layout),
        layout.hidden,
    )
    seen = {key_of(hit) for hit in found.hits if turn.was_shown(key_of(hit))}
    fresh = {key_of(hit) for hit in [hit for hit in found.hits if key_of(hit) not in seen][: search.top_k]}
    seen &= {key_of(hit) for hit in found.hits[: search.top_k]}
    hits = [hit for hit in found.hits if key_of(hit) in fresh | seen]
    passages = passages_of(hits, found.also_in, merge=merge)
    new = [passage for passage in passages if not seen.issuperset(passage.keys)]
    numbers = turn.numbers
    old = [key for passage in passages if seen.issuperset(passage.keys) for key in passage.keys]
    here = {numbers.number_of(key) for key in old if not turn.is_above(key)}
    above = {number for key in old if (number := numbers.number_of(key)) is not None} - here
    references = [citation for citation in numbers.citations if citation.number in here | above]
    rendered = render(
        new,
        numbers.numbers_for(new),
        layout,
        references=[citation for citation in references if citation.number in here],
        above=sorted(above),
        note=note,
    )
    shown = turn.show(rendered.shown, rendered.fence, hidden=layout.hidden)
    return ToolResult(
        text=rendered.text,
        blocks=tuple(rendered.blocks),
        citations=(*references, *shown),
        degraded=found.degraded,
        dropped=rendered.dropped,
    )


async def _recall(pipeline: Pipeline, numbers: list[int], turn: Turn) -> ToolResult:
    try:
        return await recall(pipeline, numbers, turn)
    except StageError as error:
        await pipeline.report(error.stage, reason_of(error.error))
        return said("Reading is not available right now; answer without it and say so.", is_error=True)


async def _read(pipeline: Pipeline, asked: ReadArguments, turn: Turn) -> ToolResult:
    deadline = Deadline(pipeline.parameters.timeout_s)
    try:
        allowed = all_of(await pipeline.scope_of(turn), pipeline.parameters.filter)
    except StageError as error:
        await pipeline.report(error.stage, reason_of(error.error))
        return said("Reading is not available right now; answer without it and say so.", is_error=True)
    result, failures = await read_document(
        asked, pipeline.bases, turn, pipeline.layout(turn), allowed=allowed, timeout_s=deadline.left()
    )
    for failure in failures:
        await pipeline.report("read", failure.reason, knowledge_base=failure.knowledge_base)
    return result


def _signature(search: SearchArguments) -> str:
    """Equal for calls that ask the same."""
    parsed = None if search.filter is None else to_json(search.filter)
    queries = sorted(" ".join(query.casefold().split()) for query in search.queries)
    return json.dumps([queries, sorted(search.knowledge_bases), search.top_k, parsed], ensure_ascii=False)


def _nothing(search: SearchArguments) -> str:
    change = "other words" if search.filter is None else "no filter or a wider one, or other words"
    return (
        f"No match found for {' or '.join(map(echo, search.queries))} in "
        f"{', '.join(search.knowledge_bases) or 'any knowledge base'}. "
        f"Do not repeat the same query: try {change}, or tell the user that it is not in the knowledge bases."
    )


def _with_note(result: ToolResult, note: str) -> ToolResult:
    noted = said(f"{result.text}\n{note}", repeated=True)
    blocks = noted.blocks if len(result.blocks) < 2 else (*result.blocks, *said(note).blocks)
    return result.model_copy(update={"text": noted.text, "blocks": blocks, "repeated": True})
