"""Tool arguments as models send them: coerced where that is safe, else refused in words that a model can act on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...documents import is_blank
from ...errors import FilterError
from ...filters import Filter, FilterField, parse_filter
from .parameters import MAX_TOP_K

_ECHO_CHARACTERS = 80
_MOST_QUERIES = 8


class ArgumentError(Exception):
    """The arguments cannot be used; the message is for the model."""


@dataclass(frozen=True)
class SearchArguments:
    """Checked arguments of ``search_knowledge``."""

    query: str
    knowledge_bases: tuple[str, ...]
    """In the order of attachment; all of them when the model named none."""
    top_k: int
    filter: Filter | None = None
    more_queries: tuple[str, ...] = ()
    """Further queries of the same call."""

    @property
    def queries(self) -> tuple[str, ...]:
        return (self.query, *self.more_queries)


def as_object(arguments: Any) -> dict[str, Any]:
    """Arguments as a dict: a mapping, its JSON text, or None for none.

    Raises: ArgumentError: it is something else.
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            raise ArgumentError('The arguments are not valid JSON; send an object such as {"query": "..."}.') from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ArgumentError(f'The arguments must be an object such as {{"query": "..."}}, not {echo(arguments)}.')
    return {str(name): value for name, value in arguments.items()}


def check_names(arguments: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Raises: ArgumentError: there is an argument that the tool does not have (null ones are overlooked)."""
    unknown = [name for name, value in arguments.items() if name not in allowed and value is not None]
    if unknown:
        raise ArgumentError(f"Unknown argument {echo(unknown[0])}; allowed: {', '.join(allowed)}.")


def search_arguments(
    arguments: Any, *, bases: Sequence[str], default_top_k: int, fields: Mapping[str, FilterField]
) -> SearchArguments:
    """Raises: ArgumentError: with the name of the argument and what is allowed."""
    given = as_object(arguments)
    check_names(given, ["query", "more_queries", "knowledge_bases", "top_k", *(["filter"] if fields else [])])
    query, *more = _queries(given.get("query"), given.get("more_queries"))
    return SearchArguments(
        query=query,
        more_queries=tuple(more),
        knowledge_bases=bases_argument(given.get("knowledge_bases"), bases),
        top_k=min(integer_argument(given.get("top_k"), "top_k", default=default_top_k), MAX_TOP_K),
        filter=filter_argument(given.get("filter"), fields) if fields else None,
    )


def text_argument(value: Any, name: str) -> str:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or is_blank(value):
        raise ArgumentError(f"The argument '{name}' is needed: a text that is not empty.")
    return value.strip()


def _queries(first: Any, more: Any) -> list[str]:
    """The queries of a call, each once. Models also send several as the first."""
    given = [*(first if isinstance(first, list) and first else [first]), *(more if isinstance(more, list) else [more])]
    queries = [text_argument(value, "query") for number, value in enumerate(given) if not number or value is not None]
    return list(dict.fromkeys(queries))[:_MOST_QUERIES]


def integer_argument(value: Any, name: str, *, default: int, least: int = 1) -> int:
    """A whole number: 5, 5.0 or "5"; the default for null."""
    if value is None or value == "":
        return default
    number = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ArgumentError(f"The argument '{name}' must be a whole number, not {echo(value)}.")
    if number != int(number) or number < least:
        raise ArgumentError(f"The argument '{name}' must be a whole number of at least {least}, not {echo(value)}.")
    return int(number)


def bases_argument(value: Any, names: Sequence[str]) -> tuple[str, ...]:
    """In the order of attachment; all of them when the model named none."""
    asked = _list(value)
    if asked is None:
        raise ArgumentError(f"The argument 'knowledge_bases' must be a list of names; allowed: {', '.join(names)}.")
    by_name = {name.casefold(): name for name in names}
    unknown = [item for item in asked if not isinstance(item, str) or item.strip().casefold() not in by_name]
    if unknown:
        raise ArgumentError(
            f"Unknown knowledge base {echo(unknown[0])} in 'knowledge_bases'; allowed: {', '.join(names)}."
        )
    chosen = {by_name[item.strip().casefold()] for item in asked}
    return tuple(name for name in names if not chosen or name in chosen)


def _list(value: Any) -> list[Any] | None:
    """A list, its JSON text, or one name; [] for null; None for anything else."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if isinstance(value, str):
        return [value] if value.strip() else []
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else None


def filter_argument(value: Any, fields: Mapping[str, FilterField]) -> Filter | None:
    """Checked against the fields that the model may filter by."""
    try:
        return parse_filter(None if value == "" else value, fields)
    except FilterError as error:
        raise ArgumentError(f"The argument 'filter' cannot be used: {str(error)[:600]}") from error


def echo(value: Any) -> str:
    """A value of the model's, short, for an answer to it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _ECHO_CHARACTERS else text[: _ECHO_CHARACTERS - 1] + "…"
