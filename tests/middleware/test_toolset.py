"""Which tools a middleware offers: the search alone, all, or those that are named."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_rag.middleware import Parameters
from agent_rag.testing import FactBase

from .bases import agentic


def names(**parameters: Any) -> list[str]:
    return [tool.name for tool in agentic(FactBase(), **parameters).tools]


def test_the_search_is_offered_alone_by_default() -> None:
    """What was offered before there were others."""
    assert names() == ["search_knowledge"]
    assert names(tools="search") == ["search_knowledge"]


def test_tools_are_chosen_by_name_in_one_order() -> None:
    """A set, a list or one name; the order is always the same, so that prompt caches hold."""
    assert names(tools={"read_document", "search_knowledge"}) == ["search_knowledge", "read_document"]
    assert names(tools=["read_document"]) == names(tools="read_document") == ["read_document"]
    assert names(tools={"search_knowledge"}, read_document=True) == ["search_knowledge", "read_document"]


def test_the_search_may_have_another_name() -> None:
    """`tool_name` is what a model calls it; `tools` names what it is."""
    assert names(tools="all", tool_name="look_up")[0] == "look_up"


@pytest.mark.parametrize("wrong", ["none", [], {"serch"}, {"search_knowledge", 1}, 3])
def test_unknown_tools_are_refused(wrong: Any) -> None:
    """At construction, naming those that there are."""
    with pytest.raises(ValidationError, match="tools"):
        Parameters(tools=wrong)


def test_two_tools_of_one_name_are_refused() -> None:
    """The search cannot be called as another tool that is offered."""
    with pytest.raises(ValidationError, match="the name of another tool"):
        Parameters(tools="all", tool_name="read_document")


async def test_a_tool_that_is_not_offered_is_not_answered() -> None:
    """The model is told which there are."""
    rag = agentic(FactBase(), tools={"read_document"})

    result = await rag.call_tool({"query": "x"}, name="search_knowledge")

    assert result.is_error
    assert result.text == 'There is no tool "search_knowledge"; available: read_document.'
