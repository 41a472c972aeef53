"""Metadata fields that a model may filter by, taken from what is stored (``filter_fields="auto"``)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ...documents import scope_key
from ...filters import FilterField
from ...filters.language import range_value
from ...filters.matching import flatten
from ...retrieval.fence import clean_inline
from .pipeline import Pipeline
from .search import reason_of

logger = logging.getLogger("agent_rag")

# Names and values go into the tool's schema, outside of any fence: only what looks like a name or a value, one or two
# words, and never what is made to be read.
_NAME = re.compile(r"(?=.{1,40}$)\w+(?:[.\-]\w+){0,4}")
_VALUE = re.compile(r"(?=.{1,32}$)\w+(?:[./:+\-]\w+){0,3}(?: \w+(?:[./\-]\w+)?)?")
_MAX_NAME_WORDS = 6
_MAX_FIELDS = 30
_MAX_VALUES = 20

Kind = Literal["text", "number", "boolean", "date", "list"]


class FilterFields:
    """The fields of one middleware instance: declared, or found in the stores, apart for each of their scopes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._declared = pipeline.parameters.filter_fields
        self._found: dict[str, dict[str, FilterField]] = {}

    def current(self) -> dict[str, FilterField]:
        """The fields as known now."""
        if self._declared == "auto":
            return self._found.get(self._scopes(), {})
        return self._declared or {}

    async def load(self, *, refresh: bool = False) -> None:
        """Look into the stores where that is needed, again with `refresh`. A store that fails adds no field."""
        scopes = self._scopes()
        if self._declared != "auto" or (not refresh and scopes in self._found):
            return
        metadata: list[Mapping[str, Any]] = []
        for base in self._pipeline.bases:
            try:
                listed = await base.knowledge_base.list_documents() if base.takes_filter else []
                metadata += [summary.metadata for summary in listed]
            except Exception as error:
                logger.warning("no filter fields from %r: %s", base.name, reason_of(error))
        # Which documents a run may see is not known here when there is a scope: then only names are given away.
        with_values = not self._pipeline.scoped
        self._found[scopes] = fields_of(metadata, hidden=self._pipeline.hidden_fields, with_values=with_values)

    def _scopes(self) -> str:
        if self._declared != "auto":
            return ""
        bases = self._pipeline.bases
        return "\n".join(scope_key(getattr(base.knowledge_base, "metadata_filter", None)) for base in bases)


def fields_of(
    documents: Iterable[Mapping[str, Any]], *, hidden: Iterable[str] = (), with_values: bool = True
) -> dict[str, FilterField]:
    """Fields of these documents' metadata, by name: those of one type throughout, the most frequent 30.

    Args:
        hidden: Names to leave out.
        with_values: Whether a text or list field of at most 20 short values names them.
    """
    seen: dict[str, list[Any]] = {}
    for metadata in documents:
        for name, value in flatten(metadata).items():
            if value is not None and not isinstance(value, Mapping):
                seen.setdefault(name, []).append(value)
    excluded = set(hidden)
    fields: dict[str, FilterField] = {}
    for name, values in sorted(seen.items(), key=lambda item: (-len(item[1]), item[0])):
        kinds = {_kind(value) for value in values}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is not None and name not in excluded and _is_name(name):
            fields[name] = FilterField(type=kind, values=_values(kind, values) if with_values else None)
    return dict(list(fields.items())[:_MAX_FIELDS])


def _kind(value: Any) -> Kind | None:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "date" if range_value(value) is not None else "text"
    return "list" if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _values(kind: Kind, values: Iterable[Any]) -> list[Any] | None:
    """The distinct values, sorted; None when they are too many, or one does not look like a value."""
    if kind not in ("text", "list"):
        return None
    distinct = {item for value in values for item in (value if isinstance(value, list) else [value])}
    plain = all(_VALUE.fullmatch(item) and clean_inline(item) == item for item in distinct)
    return sorted(distinct) if plain and 0 < len(distinct) <= _MAX_VALUES else None


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and len(re.split(r"[._\-]", name)) <= _MAX_NAME_WORDS
