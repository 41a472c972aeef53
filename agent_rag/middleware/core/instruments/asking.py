"""What the tools beside the search share: which knowledge bases are asked, within which filter, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....filters import Filter, FilterField, FilterLike, all_of, filter_schema
from ..arguments import ArgumentError, as_object, bases_argument, check_names, filter_argument
from ..fields import FilterFields
from ..pipeline import Pipeline, StageError
from ..result import ToolResult, said
from ..search import Base, Failure, reason_of
from ..turn import Turn

KNOWLEDGE_BASES = "knowledge_bases"


def can(pipeline: Pipeline, method: str) -> bool:
    """Whether one of the knowledge bases has a method."""
    return any(hasattr(base.knowledge_base, method) for base in pipeline.bases)


def able(pipeline: Pipeline, names: Sequence[str], method: str) -> list[Base]:
    """Those of `names` that have a method."""
    return [base for base in pipeline.bases if base.name in names and hasattr(base.knowledge_base, method)]


def common_properties(pipeline: Pipeline, fields: Mapping[str, FilterField], method: str) -> dict[str, Any]:
    """The arguments that say where to look."""
    names = sorted(base.name for base in pipeline.bases if hasattr(base.knowledge_base, method))
    properties: dict[str, Any] = {}
    if len(names) > 1:
        items = {"type": "string", "enum": names}
        properties[KNOWLEDGE_BASES] = {"type": "array", "items": items, "description": "Only these."}
    if fields:
        properties["filter"] = {**filter_schema(fields), "description": "As in the search."}
    return properties


async def common_arguments(
    pipeline: Pipeline, fields: FilterFields, arguments: Any, own: Sequence[str]
) -> tuple[dict[str, Any], tuple[str, ...], Filter | None]:
    """The arguments by name, the knowledge bases that are asked, and the model's filter.

    Raises: ArgumentError: for the model.
    """
    await fields.load()
    known = fields.current()
    given = as_object(arguments)
    check_names(given, [*own, KNOWLEDGE_BASES, *(["filter"] if known else [])])
    names = bases_argument(given.get(KNOWLEDGE_BASES), [base.name for base in pipeline.bases])
    return given, names, filter_argument(given.get("filter"), known) if known else None


async def allowed(pipeline: Pipeline, turn: Turn, asked: Filter | None) -> FilterLike | None:
    """Scope, fixed filter and the model's filter together.

    Raises: StageError: the scope could not be resolved; nothing may be read then.
    """
    return all_of(await pipeline.scope_of(turn), pipeline.parameters.filter, asked)


async def not_available(pipeline: Pipeline, error: StageError) -> ToolResult:
    """The answer where the scope failed, which is reported."""
    await pipeline.report(error.stage, reason_of(error.error))
    return said("This is not available right now; answer without it and say so.", is_error=True)


async def told(pipeline: Pipeline, failures: Sequence[Failure]) -> str:
    """Report the knowledge bases that failed, and name them for the model."""
    for failure in failures:
        await pipeline.report("read", failure.reason, knowledge_base=failure.knowledge_base)
    return "; ".join(f"{failure.knowledge_base} did not answer ({failure.reason})" for failure in failures)


def flag_argument(value: Any, name: str, *, default: bool) -> bool:
    """Raises: ArgumentError: it is not true or false."""
    if value is None or value == "":
        return default
    if isinstance(value, str) and value.strip().casefold() in ("true", "false"):
        return value.strip().casefold() == "true"
    if not isinstance(value, bool):
        raise ArgumentError(f"The argument '{name}' must be true or false.")
    return value
