"""The tool ``find_text``: every occurrence of a text or a pattern, counted exactly, the first of them shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....chat import ToolSpec
from ....documents import VectorSearchResult
from ....errors import PatternError
from ....filters import Filter, FilterField, FilterLike
from ....knowledge import FindResult, TextMatch
from ....places import place_text
from ....retrieval.fence import Fence, clean, clean_inline
from ..answering import Answer, once, over_limit
from ..arguments import echo, integer_argument, text_argument
from ..citation import Citation, Passage, PassageKey, cite, excerpts, key_of
from ..fields import FilterFields
from ..pipeline import Pipeline, StageError
from ..render import Layout, most
from ..result import ToolResult, said
from ..search import Base, Deadline, ask_all, in_scope
from ..turn import Turn
from .asking import able, allowed, can, common_arguments, common_properties, flag_argument, not_available, told

FIND_TEXT = "find_text"
_LIMIT, _MOST_LIMIT = 100, 500
_TOKENS_PER_LINE = 10
_NARROWEST, _WIDEST = 12, 160
"""Characters on either side of an occurrence, where there is room; with less, only its place is shown."""
_NAME_CHARACTERS = 80


@dataclass(frozen=True)
class _Asked:
    pattern: str
    regex: bool
    match_case: bool
    ignore_accents: bool
    document_id: str | None
    limit: int
    knowledge_bases: tuple[str, ...]
    filter: Filter | None


@dataclass(frozen=True)
class _Line:
    """What is shown of one passage: its number, and its occurrences."""

    passage: Passage
    matches: list[TextMatch]


def offered(pipeline: Pipeline) -> bool:
    return can(pipeline, "find")


def spec(pipeline: Pipeline, fields: Mapping[str, FilterField]) -> ToolSpec:
    """The tool as a model sees it."""
    properties: dict[str, Any] = {
        "pattern": {"type": "string", "description": "The exact words."},
        "regex": {"type": "boolean", "description": "The pattern is a regular expression."},
        "match_case": {"type": "boolean", "description": "Default false."},
        "ignore_accents": {"type": "boolean", "description": "Default false."},
        "document_id": {"type": "string", "description": "Only in this document."},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": _MOST_LIMIT,
            "description": f"Shown at most; default {_LIMIT}.",
        },
        **common_properties(pipeline, fields, "find"),
    }
    return ToolSpec(
        name=FIND_TEXT,
        description=(
            "Find and count every occurrence of an exact text or pattern in all documents: names, codes, quotes, 'how "
            "many', 'list all'. A search by meaning shows only the best."
        ),
        parameters={
            "type": "object",
            "properties": properties,
            "required": ["pattern"],
            "additionalProperties": False,
        },
    )


async def answer(pipeline: Pipeline, fields: FilterFields, arguments: Any, turn: Turn) -> Answer:
    """Raises: ArgumentError: the model sent something that cannot be used; the message is for it."""
    own = ["pattern", "regex", "match_case", "ignore_accents", "document_id", "limit"]
    given, names, filter = await common_arguments(pipeline, fields, arguments, own)
    asked = _Asked(
        pattern=text_argument(given.get("pattern"), "pattern"),
        regex=flag_argument(given.get("regex"), "regex", default=False),
        match_case=flag_argument(given.get("match_case"), "match_case", default=False),
        ignore_accents=flag_argument(given.get("ignore_accents"), "ignore_accents", default=False),
        document_id=text_argument(given["document_id"], "document_id") if given.get("document_id") else None,
        limit=min(integer_argument(given.get("limit"), "limit", default=_LIMIT), _MOST_LIMIT),
        knowledge_bases=names,
        filter=filter,
    )
    call = turn.call(f"{pipeline.key} {FIND_TEXT} {asked}")
    return Answer(await once(pipeline, call, lambda: _find(pipeline, asked, turn)), asked.pattern, names)


async def _find(pipeline: Pipeline, asked: _Asked, turn: Turn) -> ToolResult:
    if (refused := over_limit(pipeline, turn)) is not None:
        return refused
    bases = able(pipeline, asked.knowledge_bases, "find")
    try:
        scope = await pipeline.scope_of(turn)
        within = await allowed(pipeline, turn, asked.filter)
    except StageError as error:
        return await not_available(pipeline, error)
    deadline = Deadline(pipeline.parameters.timeout_s)
    answers, failures = await ask_all(bases, lambda base: _asked_of(base, asked, within), deadline.left())
    wrong = next((failure.error for failure in failures if isinstance(failure.error, PatternError)), None)
    if wrong is not None:
        return said(f"The pattern cannot be used: {str(wrong)[:400]}", is_error=True)
    failed = await told(pipeline, failures)
    if failed and len(failures) == len(bases):
        return said(f"Nothing could be looked through: {failed}.", is_error=True, degraded=True)
    results = [(base, result) for base, answer in zip(bases, answers, strict=True) for result in answer]
    total = sum(result.total for _, result in results)
    incomplete = f" (Incomplete: {failed}.)" if failed else ""
    if not total:
        return said(
            f"{echo(asked.pattern)} does not occur{' in this document' if asked.document_id else ''}. The count is "
            f"exact: try another spelling or a part of it, or search by meaning.{incomplete}",
            degraded=bool(failed),
        )
    try:
        lines = await _lines(pipeline, results, scope)
    except StageError as error:
        return await not_available(pipeline, error)
    return _shown(pipeline, turn, asked, results, lines, incomplete)


async def _asked_of(base: Base, asked: _Asked, within: FilterLike | None) -> list[FindResult]:
    found = await base.knowledge_base.find(
        asked.pattern,
        regex=asked.regex,
        ignore_case=not asked.match_case,
        ignore_accents=asked.ignore_accents,
        filter=within,
        document_id=asked.document_id,
        limit=asked.limit,
    )
    return [found]


async def _lines(
    pipeline: Pipeline, results: Sequence[tuple[Base, FindResult]], scope: FilterLike | None
) -> list[_Line]:
    """The passages that hold what is shown, each with its occurrences: without what the caller's `on_results` or the
    scope takes away."""
    hits: dict[PassageKey, VectorSearchResult] = {}
    matches: dict[PassageKey, list[TextMatch]] = {}
    for base, result in results:
        for match in result.matches:
            hit = VectorSearchResult(
                score=0.0,
                document_id=match.document_id,
                chunk=match.chunk,
                scope=match.scope,
                knowledge_base=base.name,
            )
            if scope is None or in_scope(hit, scope):
                hits.setdefault(key_of(hit), hit)
                matches.setdefault(key_of(hit), []).append(match)
    vetted = {key_of(hit): hit for hit in await pipeline.vetted(list(hits.values()))}
    return [
        _Line(Passage(best=hit, text=hit.chunk.text, hits=[hit], span=hit.chunk.span), matches[key])
        for key, hit in hits.items()
        if key in vetted and vetted[key].chunk.text == hit.chunk.text
    ]


def _shown(
    pipeline: Pipeline,
    turn: Turn,
    asked: _Asked,
    results: Sequence[tuple[Base, FindResult]],
    lines: Sequence[_Line],
    incomplete: str,
) -> ToolResult:
    """As many lines as fit, each with as much around the occurrences as there is room for."""
    layout = pipeline.layout(turn)
    budget = min(layout.max_tokens, max(1_000, _TOKENS_PER_LINE * asked.limit))
    passages = [line.passage for line in lines]
    citations = [
        cite(passage, number, hidden=layout.hidden)
        for passage, number in zip(passages, turn.numbers.numbers_for(passages), strict=True)
    ]
    documents = sum(len(result.documents) for _, result in results)
    total = sum(result.total for _, result in results)
    fence = Fence()

    def text_of(count: int, width: int | None) -> str:
        rows = [_row(line, citation, layout, width) for line, citation in zip(lines[:count], citations, strict=False)]
        if width is None and asked.regex:
            rows = [f"{row}: {_snippets(line, layout, 0)}" for row, line in zip(rows, lines, strict=False)]
        shown = sum(len(line.matches) for line in lines[:count])
        seen = len({(line.passage.best.knowledge_base, line.passage.best.document_id) for line in lines[:count]})
        parts = [_head(asked, total, documents, shown, seen), fence.wrap("\n".join(rows))]
        if width is None and count:
            parts.append(f"Cite as [{citations[0].number}] to [{citations[count - 1].number}].")
        return "\n".join(parts) + incomplete

    def fits(count: int, width: int | None) -> bool:
        return layout.count(text_of(count, width)) <= budget

    count, width = len(lines), None
    if fits(count, _NARROWEST):
        width = _NARROWEST + most(_WIDEST - _NARROWEST, lambda more: fits(count, _NARROWEST + more))
    else:
        count = most(len(lines), lambda number: fits(number, None))
    excerpts.keep(fence.name, True)
    kept = turn.show(passages[:count], fence.name, hidden=layout.hidden, lasting=False)
    text = text_of(count, width)
    return said(text, degraded=bool(incomplete)).model_copy(
        update={"citations": tuple(kept), "dropped": len(lines) - count}
    )


def _head(asked: _Asked, total: int, documents: int, shown: int, seen: int) -> str:
    counted = f"{total:,} occurrence{'s' if total != 1 else ''} of {echo(asked.pattern)} in {documents:,} " + (
        "documents" if documents != 1 else "document"
    )
    if shown == total:
        return f"{counted}, all shown:"
    return f"{counted}; shown are {shown:,} in {seen:,} (each document's first; narrow it, or raise 'limit'):"


def _row(line: _Line, citation: Citation, layout: Layout, width: int | None) -> str:
    """``[3] (source: pay.md, page 4) 2x: …the bonus is… | …no bonus…``; where there is no room for words, which is
    a `width` of None, ``[3] pay.md page 4 2x``."""
    parts = [clean_inline(citation.source, limit=_NAME_CHARACTERS)]
    parts += [f"{name} {clean_inline(place_text(value), limit=40)}" for name, value in citation.location.items()]
    if layout.show_base and citation.knowledge_base:
        parts.append(clean_inline(citation.knowledge_base, limit=40))
    times = f"{len(line.matches)}x" if len(line.matches) > 1 else ""
    if width is None:
        return f"[{citation.number}] {' '.join([*parts, *([times] if times else [])])}"
    head = f"[{citation.number}] (source: {', '.join(parts)})" + (f" {times}:" if times else "")
    return f"{head} {_snippets(line, layout, width)}"


def _snippets(line: _Line, layout: Layout, width: int) -> str:
    texts = dict.fromkeys(_snippet(match, width) for match in line.matches)
    return clean(" | ".join(texts), images=not layout.disarm_images)


def _snippet(match: TextMatch, width: int) -> str:
    """The occurrence on one line, with `width` characters on either side."""
    if not width:
        return " ".join(match.text[: 2 * _NAME_CHARACTERS].split())
    begin, end = max(match.start - width, 0), match.end + width
    middle = match.text if len(match.text) <= 2 * _NAME_CHARACTERS else f"{match.text[: 2 * _NAME_CHARACTERS]}…"
    before = ("…" if begin else "") + match.line[begin : match.start]
    after = match.line[match.end : end] + ("…" if end < len(match.line) else "")
    return " ".join(f"{before}{middle}{after}".split())
