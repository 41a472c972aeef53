"""Making the hint of a static turn."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ...documents import is_blank
from ...errors import ConfigurationError
from .events import HintEvent
from .hint import Hint
from .pipeline import Pipeline, StageError
from .render import entry, passages_of, render
from .search import Deadline, Found, as_own_error, reason_of
from .turn import Turn

logger = logging.getLogger("agent_rag")


async def make_hint(pipeline: Pipeline, turn: Turn) -> Hint | None:
    """Search for the turn's ask. None: blank, gated, nothing found, or failed and reported.

    Raises: with ``on_error="raise"``: the error of a knowledge base; ConfigurationError for a failed scope or
        `on_results`.
    """
    if (is_blank(turn.text) and not turn.images) or not pipeline.bases or not await pipeline.passes_gate(turn):
        return None
    parameters = pipeline.parameters
    strict = parameters.on_error == "raise"
    try:
        found, queries = await pipeline.find(
            turn,
            turn.text,
            turn.images,
            pipeline.bases,
            top_k=parameters.top_k,
            deadline=Deadline(parameters.timeout_s),
        )
    except StageError as error:
        await pipeline.report(error.stage, reason_of(error.error))
        if strict:
            raise ConfigurationError(str(error)) from error.error
        return None
    if strict and found.failures:
        failure = found.failures[0]
        raise as_own_error(failure) from failure.error
    return _rendered(pipeline, turn, found, queries) if found.hits else None


def _rendered(pipeline: Pipeline, turn: Turn, found: Found, queries: Sequence[str]) -> Hint | None:
    parameters = pipeline.parameters
    before, after = parameters.around_hint
    layout = pipeline.layout(turn, before=before, after=after)
    passages = passages_of(found.hits, found.also_in, merge=parameters.merge_neighbours)
    turn.find_above(lambda: passages, lambda passage: entry(passage, 0, layout), layout.hidden)
    numbers = turn.numbers
    new = [passage for passage in passages if not all(turn.is_above(key) for key in passage.keys)]
    old = {numbers.number_of(key) for passage in passages for key in passage.keys if passage not in new}
    references = [citation for citation in numbers.citations if citation.number in old]
    above = [citation.number for citation in references]
    rendered = render(new, numbers.numbers_for(new), layout, above=above)
    if not rendered.shown and not above:
        logger.warning("no hint for this turn: max_context_tokens=%d holds no hit", parameters.max_context_tokens)
        return None
    lasting = parameters.hint_scope == "turn" or parameters.persist_hint
    citations = turn.show(rendered.shown, rendered.fence, hidden=layout.hidden, lasting=lasting)
    if lasting:
        turn.mark_hinted(rendered.shown)
    facts: dict[str, Any] = {
        "text": rendered.text,
        "queries": tuple(queries),
        "citations": (*references, *citations),
        "dropped": rendered.dropped,
        "degraded": found.degraded,
    }
    return Hint(
        **facts,
        blocks=tuple(rendered.blocks),
        scope=parameters.hint_scope,
        persist=parameters.persist_hint,
        event=HintEvent(middleware=pipeline.name, **facts) if parameters.emit_hint_event else None,
    )
