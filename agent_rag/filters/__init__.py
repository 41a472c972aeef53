"""Metadata filters: one language, one meaning on every store. `language` explains it."""

from .fields import FilterField, filter_schema, parse_filter
from .language import And, Condition, F, Filter, Not, Or
from .matching import matches
from .nodes import FilterLike, all_of, as_filter, to_json

__all__ = [
    "And",
    "Condition",
    "F",
    "Filter",
    "FilterField",
    "FilterLike",
    "Not",
    "Or",
    "all_of",
    "as_filter",
    "filter_schema",
    "matches",
    "parse_filter",
    "to_json",
]
