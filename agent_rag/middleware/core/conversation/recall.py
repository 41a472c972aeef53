"""Showing a passage again by its number: a search for ``[3]``, also after a framework has cleared its tool results."""

from __future__ import annotations

import re

from ....documents import scope_key
from ....filters import FilterLike, all_of
from ..pipeline import Pipeline
from ..reading import ReadArguments, read_document
from ..result import ToolResult, said
from ..search import Deadline
from ..turn import Turn

_NUMBERS = re.compile(r"\s*(?:\[\d{1,9}\][\s,;]*)+")
_MOST = 5


def asked_numbers(query: str) -> list[int]:
    """The numbers of a query that is made of numbers in brackets only, each once; else none."""
    if not _NUMBERS.fullmatch(query):
        return []
    return list(dict.fromkeys(int(number) for number in re.findall(r"\d+", query)))


async def recall(pipeline: Pipeline, numbers: list[int], turn: Turn) -> ToolResult:
    """The passages of these numbers in full, as they are stored now and as far as the caller may read them.

    Raises: StageError: the scope could not be resolved.
    """
    allowed = all_of(await pipeline.scope_of(turn), pipeline.parameters.filter)
    results = []
    for number in numbers[:_MOST]:
        results.append(await _one(pipeline, number, turn, allowed))
    if len(numbers) > _MOST:
        results.append(said(f"({len(numbers) - _MOST} further numbers left out; ask for {_MOST} at a time.)"))
    if len(results) == 1:
        return results[0]
    return ToolResult(
        text="\n".join(result.text for result in results),
        blocks=tuple(block for result in results for block in result.blocks),
        citations=tuple(citation for result in results for citation in result.citations),
        is_error=all(result.is_error for result in results),
        degraded=any(result.degraded for result in results),
        dropped=sum(result.dropped for result in results),
    )


async def _one(pipeline: Pipeline, number: int, turn: Turn, allowed: FilterLike | None) -> ToolResult:
    citation = turn.numbers.citation(number)
    if citation is None:
        known = ", ".join(f"[{one.number}]" for one in turn.citations) or "none yet"
        return said(f"There is no [{number}] in this conversation; the numbers so far: {known}.", is_error=True)
    bases = [base for base in pipeline.bases if base.name == (citation.knowledge_base or base.name)]
    readable = [base for base in bases if hasattr(base.knowledge_base, "list_chunks")]
    if not readable:
        turn.show_again(number)
        return said(f"[{number}] cannot be read again by its number; search for it with its words.", is_error=True)
    places = [int(chunk_id.rpartition(":")[2]) for chunk_id in citation.chunk_ids]
    for base in readable:
        own = scope_key(getattr(base.knowledge_base, "metadata_filter", None))
        turn.numbers.bind(number, [(base.name, own, citation.document_id, place) for place in places])
    asked = ReadArguments(citation.document_id, citation.knowledge_base, min(places), max(places) - min(places) + 1)
    deadline = Deadline(pipeline.parameters.timeout_s)
    result, failures = await read_document(
        asked, readable, turn, pipeline.layout(turn), allowed=allowed, timeout_s=deadline.left()
    )
    for failure in failures:
        await pipeline.report("read", failure.reason, knowledge_base=failure.knowledge_base)
    return result
