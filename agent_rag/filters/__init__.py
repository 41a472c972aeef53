"""Metadata filters: one language, one meaning on every store. `language` explains it."""

from .language import And, Condition, F, Filter, FilterLike, Not, Or, all_of, as_filter, matches
from .model import FilterField, filter_schema, parse_filter, to_json

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
