"""The tools ``describe_tables`` and ``query_tables``: what tables the documents have, and SQL over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from ....chat import ToolSpec
from ....content import TextBlock
from ....documents import Chunk, VectorSearchResult
from ....errors import TableQueryError
from ....filters import Filter, FilterField, FilterLike
from ....retrieval.fence import Fence, clean
from ....tables import QueryLimits, TableAnswer, TableCitation
from ....tables.query import prepare
from ..answering import Answer, once
from ..arguments import text_argument
from ..citation import TABLE_PART, Passage, header
from ..fields import FilterFields
from ..pipeline import Pipeline, StageError
from ..render import Layout, most
from ..result import ToolResult, said
from ..search import Base, Deadline, ask_all
from ..turn import Turn
from .asking import able, allowed, common_arguments, common_properties, not_available, told

DESCRIBE_TABLES = "describe_tables"
QUERY_TABLES = "query_tables"
_DESCRIBED_TOKENS = 2_000
_CHARACTERS_PER_TOKEN = 4
_ROWS = 200


def offered(pipeline: Pipeline) -> bool:
    """Whether a knowledge base keeps tables, and no `on_results` must see first what a model is shown."""
    keeps = any(getattr(base.knowledge_base, "keeps_tables", False) for base in pipeline.bases)
    return keeps and pipeline.parameters.on_results is None


def describe_spec(pipeline: Pipeline, fields: Mapping[str, FilterField]) -> ToolSpec:
    """The tool as a model sees it."""
    properties: dict[str, Any] = {
        "question": {"type": "string", "description": "What the tables shall be about."},
        **common_properties(pipeline, fields, "query_tables"),
    }
    return ToolSpec(
        name=DESCRIBE_TABLES,
        description="Tables in the documents with columns, types and examples. Look before query_tables.",
        parameters={"type": "object", "properties": properties, "additionalProperties": False},
    )


def query_spec(pipeline: Pipeline, fields: Mapping[str, FilterField]) -> ToolSpec:
    """The tool as a model sees it."""
    properties: dict[str, Any] = {
        "sql": {"type": "string", "description": "One SELECT (SQLite)."},
        **common_properties(pipeline, fields, "query_tables"),
    }
    return ToolSpec(
        name=QUERY_TABLES,
        description=(
            "Ask the tables in the documents with SQL: sums, counts, averages, groups, joins. Select _row too "
            "where you quote single rows."
        ),
        parameters={"type": "object", "properties": properties, "required": ["sql"], "additionalProperties": False},
    )


async def describe(pipeline: Pipeline, fields: FilterFields, arguments: Any, turn: Turn) -> Answer:
    """Raises: ArgumentError: the model sent something that cannot be used; the message is for it."""
    given, names, filter = await common_arguments(pipeline, fields, arguments, ["question"])
    question = text_argument(given["question"], "question") if given.get("question") else ""
    call = turn.call(f"{pipeline.key} {DESCRIBE_TABLES} {question} {names} {filter}")
    return Answer(
        await once(pipeline, call, lambda: _describe(pipeline, question, names, filter, turn)), question, names
    )


async def query(pipeline: Pipeline, fields: FilterFields, arguments: Any, turn: Turn) -> Answer:
    """Raises: ArgumentError: the model sent something that cannot be used; the message is for it."""
    given, names, filter = await common_arguments(pipeline, fields, arguments, ["sql"])
    sql = text_argument(given.get("sql"), "sql")
    call = turn.call(f"{pipeline.key} {QUERY_TABLES} {sql} {names} {filter}")
    return Answer(await once(pipeline, call, lambda: _query(pipeline, sql, names, filter, turn)), sql, names)


async def _describe(
    pipeline: Pipeline, question: str, names: tuple[str, ...], filter: Filter | None, turn: Turn
) -> ToolResult:
    try:
        within = await allowed(pipeline, turn, filter)
    except StageError as error:
        return await not_available(pipeline, error)
    prepare()  # a query will follow
    layout = pipeline.layout(turn)
    bases = _keeping(pipeline, names)
    tokens = min(layout.max_tokens, _DESCRIBED_TOKENS) // max(len(bases), 1)

    async def described(base: Base) -> list[str]:
        text = await base.knowledge_base.describe_tables(
            question or None, filter=within, characters=tokens * _CHARACTERS_PER_TOKEN * 3 // 4
        )
        return [f"knowledge base {base.name}:\n{text}" if len(bases) > 1 else text]

    answers, failures = await ask_all(bases, described, Deadline(pipeline.parameters.timeout_s).left())
    failed = await told(pipeline, failures)
    if failed and len(failures) == len(bases):
        return said(f"The tables cannot be read: {failed}.", is_error=True, degraded=True)
    shown = clean("\n".join(text for answer in answers for text in answer), images=not layout.disarm_images)
    incomplete = f" (Incomplete: {failed}.)" if failed else ""
    return said(f"Tables for {QUERY_TABLES}:\n{Fence().wrap(shown)}{incomplete}", degraded=bool(failed))


async def _query(pipeline: Pipeline, sql: str, names: tuple[str, ...], filter: Filter | None, turn: Turn) -> ToolResult:
    try:
        within = await allowed(pipeline, turn, filter)
    except StageError as error:
        return await not_available(pipeline, error)
    bases = _keeping(pipeline, names)
    answers, failures = await ask_all(
        bases, lambda base: _asked(base, sql, within), Deadline(pipeline.parameters.timeout_s).left()
    )
    for base, found in zip(bases, answers, strict=True):
        for answer in found:
            return _shown(pipeline, turn, base, answer)
    wrong = [str(failure.error) for failure in failures if isinstance(failure.error, TableQueryError)]
    wrong.sort(key=lambda message: message.startswith("there is no table"))
    if wrong:
        layout = pipeline.layout(turn)
        message = clean(wrong[0][:1_000], images=not layout.disarm_images)
        return said(f"The query is not answered:\n{Fence().wrap(message)}", is_error=True)
    return said(f"The tables cannot be asked: {await told(pipeline, failures)}.", is_error=True, degraded=True)


async def _asked(base: Base, sql: str, within: FilterLike | None) -> list[TableAnswer]:
    return [await base.knowledge_base.query_tables(sql, filter=within, limits=QueryLimits(rows=_ROWS))]


def _keeping(pipeline: Pipeline, names: tuple[str, ...]) -> list[Base]:
    return [base for base in able(pipeline, names, "query_tables") if base.knowledge_base.keeps_tables]


def _shown(pipeline: Pipeline, turn: Turn, base: Base, answer: TableAnswer) -> ToolResult:
    """The rows as far as they fit, with a number for each table that they come from."""
    layout = pipeline.layout(turn)
    passages = [_passage(base, citation, answer) for citation in answer.citations]
    fence = Fence()
    kept = turn.show(passages, fence.name, hidden=layout.hidden, lasting=False)
    heads = [header(citation, show_base=layout.show_base, show_document=True) for citation in kept]

    def text_of(count: int) -> str:
        part = answer.model_copy(
            update={"rows": answer.rows[:count], "has_more": answer.has_more or count < len(answer.rows)}
        )
        return "\n".join([_head(part), fence.wrap("\n".join([*heads, _rows(part, layout)]))])

    count = most(len(answer.rows), lambda number: layout.count(text_of(number)) <= layout.max_tokens)
    left_out = len(answer.rows) - count
    return said(text_of(count)).model_copy(update={"citations": tuple(kept), "dropped": left_out})


def _head(answer: TableAnswer) -> str:
    count = f"{len(answer.rows):,} row{'s' if len(answer.rows) != 1 else ''}"
    return f"{count}, and there are more: narrow the query or sum up." if answer.has_more else f"{count}:"


def _rows(answer: TableAnswer, layout: Layout) -> str:
    table = answer.model_copy(update={"citations": []}).text()
    return clean(table, images=not layout.disarm_images)


def _passage(base: Base, citation: TableCitation, answer: TableAnswer) -> Passage:
    """What a number stands for: the table's place, and the answer as its text."""
    location: dict[str, Any] = dict(citation.place)
    if citation.rows is not None:
        location[citation.unit] = list(citation.rows)
    index = TABLE_PART + crc32(f"{citation.table} {citation.rows}".encode()) % TABLE_PART
    chunk = Chunk(
        content=TextBlock(text=answer.model_copy(update={"citations": []}).text()),
        source=citation.source,
        chunk_index=index,
        total_chunks=index + 1,
        metadata=location,
        document_id=citation.document_id,
        title=citation.title,
        uri=citation.uri,
    )
    hit = VectorSearchResult(
        score=0.0, document_id=citation.document_id, chunk=chunk, scope=citation.scope, knowledge_base=base.name
    )
    return Passage(best=hit, text=chunk.text, hits=[hit])
