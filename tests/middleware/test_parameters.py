"""Options: the seed's names and defaults, checks at construction, and a schema for forms."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from agent_rag.errors import ConfigurationError
from agent_rag.filters import F, FilterField
from agent_rag.middleware import Parameters, RAGMiddleware
from agent_rag.testing import FactBase

from .bases import static


def test_the_seeds_fields_have_the_seeds_defaults() -> None:
    """The nested model carries AgentScope's eight fields."""
    parameters = RAGMiddleware.Parameters()

    values = {
        name: getattr(parameters, name)
        for name in (
            "mode", "top_k", "score_threshold", "rerank_candidate_k", "emit_hint_event", "persist_hint"
        )
    }  # fmt: skip
    assert values == {
        "mode": "agentic",
        "top_k": 5,
        "score_threshold": None,
        "rerank_candidate_k": None,
        "emit_hint_event": True,
        "persist_hint": False,
    }
    assert "{context}" in parameters.hint_template
    assert "{query}" in parameters.rerank_prompt


def test_trpcs_options_have_their_defaults() -> None:
    """The search tool's options of tRPC-Agent."""
    parameters = Parameters()

    assert (parameters.tool_name, parameters.tool_description) == ("search_knowledge", None)
    assert (parameters.filter, parameters.exclude_metadata, parameters.on_results) == (None, (), None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "both"},
        {"top_k": 0},
        {"top_k": 51},
        {"rerank_candidate_k": 4},
        {"rerank_candidate_k": 51},
        {"hint_template": "no placeholder"},
        {"hint_template": "{context} and {context}"},
        {"rerank_prompt": "rank {top_k}"},
        {"timeout_s": 0},
        {"tool_name": "with blank"},
        {"filter": {"year": {"nested": 1}}},
        {"unknown": 1},
    ],
)
def test_impossible_options_raise_at_construction(wrong: dict[str, object]) -> None:
    """A ValueError, before anything runs."""
    with pytest.raises(ValueError) as caught:
        Parameters(**wrong)

    assert isinstance(caught.value, ValidationError)


def test_parameters_are_frozen() -> None:
    """Nobody changes the options of a running middleware."""
    with pytest.raises(ValidationError, match="frozen"):
        Parameters().top_k = 3  # type: ignore[misc]


def test_candidates_default_to_twice_top_k_and_at_most_50() -> None:
    """The seed's rule."""
    assert [Parameters(top_k=top_k).candidate_k for top_k in (5, 40)] == [10, 50]
    assert Parameters(top_k=3, rerank_candidate_k=4).candidate_k == 4


def test_schema_can_drive_a_form() -> None:
    """Plain JSON schema with descriptions; templates and functions are not in it."""
    schema = Parameters.model_json_schema()

    properties = schema["properties"]
    assert {"mode", "top_k", "filter", "filter_fields", "tool_name"} <= set(properties)
    assert not {"hint_template", "rerank_prompt", "on_results", "token_counter"} & set(properties)
    assert all(properties[name].get("description") for name in ("mode", "top_k", "hint_scope", "timeout_s"))


def test_parameters_survive_json() -> None:
    """What a form or a file holds rebuilds the same options."""
    parameters = Parameters(
        top_k=3, filter={"kind": ["manual", "note"], "year": 2024}, filter_fields={"kind": ["a", "b"], "author": None}
    )

    again = Parameters.model_validate_json(parameters.model_dump_json())

    assert again == parameters
    assert again.filter == (F("kind").in_(["manual", "note"]) & (F("year") == 2024))
    assert again.filter_fields == {"kind": FilterField(values=["a", "b"]), "author": FilterField(type="any")}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("A {context} B", ("A ", " B")),
        ("{{json}} {context}", ("{json} ", "")),
        ("{context} {{}} {name}", ("", " {{}} {name}")),
        ('{"a": {"b": 1}} {context} {', ('{"a": {"b": 1}} ', " {")),
        ("{context} {0} {x.y} {x!r}", ("", " {0} {x.y} {x!r}")),
    ],
)
async def test_other_braces_in_a_template_never_crash_a_reply(template: str, expected: tuple[str, str]) -> None:
    """A format string of {context} alone means what str.format means; any other brace is plain text."""
    rag = static(FactBase(), hint_template=template)

    hint = await rag.hint(rag.start_turn("hello"))

    assert hint is not None
    assert hint.text.startswith(expected[0])
    assert hint.text.endswith(expected[1])
    assert "FACT(hello)" in hint.text


@pytest.mark.parametrize("missing", ["name", "description", "search"])
def test_a_knowledge_base_needs_three_things(missing: str) -> None:
    """Anything with name, description and search is one; without, the error says which is missing."""
    base = FactBase()
    setattr(base, missing, None)

    with pytest.raises(ConfigurationError, match=missing):
        RAGMiddleware([base])


def test_two_knowledge_bases_of_one_name_are_refused() -> None:
    """The model could not tell them apart."""
    with pytest.raises(ConfigurationError, match="'docs'"):
        RAGMiddleware([FactBase("docs"), FactBase("docs")])


def test_two_rerankers_are_refused() -> None:
    """One of them would be ignored."""
    with pytest.raises(ConfigurationError, match="not both"):
        RAGMiddleware([FactBase()], rerank_model=lambda text: "[1]", reranker=object())  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"scope": {"tenant": "a"}}, {"parameters": Parameters(filter={"tenant": "a"})}])
def test_a_scope_that_cannot_be_enforced_is_refused(options: dict[str, object]) -> None:
    """A knowledge base whose search takes no filter would answer from outside the scope."""

    class Bare:
        name, description = "bare", "takes no filter"

        async def search(
            self, queries: list[str], top_k: int = 5, score_threshold: float | None = None
        ) -> list[object]:
            return []

    with pytest.raises(ConfigurationError, match="takes no filter"):
        RAGMiddleware([Bare()], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", "b"], FilterField(type="text", values=["a", "b"])),
        ((2023, 2024.5), FilterField(type="number", values=[2023, 2024.5])),
        ([True, False], FilterField(type="boolean", values=[True, False])),
        ([1, "a"], FilterField(type="any", values=[1, "a"])),
        ([1, True], FilterField(type="any", values=[1, True])),
        (None, FilterField(type="any")),
    ],
)
def test_the_short_form_of_a_filter_field_has_the_type_of_its_values(values: Any, expected: FilterField) -> None:
    """So that a year that is stored as a number can be filtered by without saying its type."""
    assert Parameters(filter_fields={"year": values}).filter_fields == {"year": expected}
