"""Which tools there are, which of them a middleware offers, and who answers a call."""

from __future__ import annotations

from typing import Any

from ....chat import ToolSpec
from ..answering import Answer, answer_read, answer_search
from ..arguments import ArgumentError, echo
from ..fields import FilterFields
from ..pipeline import Pipeline
from ..tool import read_spec, search_spec
from ..turn import Turn
from . import finding, listing, tables
from .declared import DeclaredTool

TOOLS = (
    DeclaredTool(
        name="search_knowledge",
        spec=lambda pipeline, fields: search_spec(
            pipeline.parameters.tool_name,
            pipeline.parameters.tool_description,
            pipeline.bases,
            pipeline.parameters.top_k,
            fields,
        ),
        answer=answer_search,
    ),
    DeclaredTool(name="find_text", spec=finding.spec, answer=finding.answer, offered=finding.offered),
    DeclaredTool(name="list_documents", spec=listing.spec, answer=listing.answer, offered=listing.offered),
    DeclaredTool(name="read_document", spec=lambda pipeline, fields: read_spec(), answer=answer_read),
    DeclaredTool(name="describe_tables", spec=tables.describe_spec, answer=tables.describe, offered=tables.offered),
    DeclaredTool(name="query_tables", spec=tables.query_spec, answer=tables.query, offered=tables.offered),
)
"""In the order in which a model is shown them."""


def offered(pipeline: Pipeline) -> dict[str, DeclaredTool]:
    """The tools that ``Parameters(tools=...)`` chose and a knowledge base can answer, by the name a model calls."""
    chosen = pipeline.parameters.chosen_tools
    return {
        pipeline.parameters.tool_name if tool.name == "search_knowledge" else tool.name: tool
        for tool in TOOLS
        if tool.name in chosen and tool.offered(pipeline)
    }


def specs(pipeline: Pipeline, fields: FilterFields) -> list[ToolSpec]:
    """What a model sees of each tool that is offered."""
    known = fields.current()
    return [tool.spec(pipeline, known) for tool in offered(pipeline).values()]


async def answer(pipeline: Pipeline, fields: FilterFields, name: str, arguments: Any, turn: Turn) -> Answer:
    """Raises: ArgumentError: there is no such tool, or its arguments cannot be used; the message is for the model."""
    tools = offered(pipeline)
    if name not in tools:
        raise ArgumentError(f"There is no tool {echo(name)}; available: {', '.join(tools)}.")
    return await tools[name].answer(pipeline, fields, arguments, turn)
