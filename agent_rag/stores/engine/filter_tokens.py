"""Filters as membership in one list of short tokens, for engines whose index must know each field beforehand.

A record carries one list: the hashes of its filter tokens, and for each of its numbers the prefixes of the number's
sortable form at 17 precisions. A range is then "has one of at most 450 prefixes" (the trie of Lucene's former numeric
fields: Schindler and Diepenbroek, "Generic XML-based framework for metadata portals", 2008). So every field can be
filtered by, exactly, with one indexed list of texts, and nothing that a caller wrote goes into an expression.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...filters import FilterLike
from ...filters.plan import AllOf, AnyOf, HasAny, InRange, NotOf, Plan, index_metadata, plan

EVERY = "0" * 16
"""A token that every record has, so that no list is empty; the others are hashes, none of which is known to be it."""
_DIGITS = 16


@dataclass(frozen=True)
class Has:
    """The record's list has one of `tokens`; there is at least one."""

    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Lacks:
    """The record's list has none of `tokens`; there is at least one."""

    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Both:
    """All of `parts`; there are at least two."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Either:
    """At least one of `parts`; there are at least two."""

    parts: tuple[Condition, ...]


Condition = Has | Lacks | Both | Either
ALWAYS, NEVER = Has((EVERY,)), Lacks((EVERY,))


def tokens_of(metadata: Mapping[str, Any]) -> list[str]:
    """The list of a record, 16 hexadecimal digits each, `EVERY` among them."""
    indexed = index_metadata(metadata)
    tokens = [EVERY, *map(token_hash, indexed.tokens)]
    for key, number in indexed.numbers.items():
        digits = sortable(number)
        tokens += [token_hash(f"{key}\x1e{digits[:length]}") for length in range(_DIGITS + 1)]
    return tokens


def condition_of(metadata_filter: FilterLike | None) -> Condition | None:
    """A filter with its negations at the leaves; None keeps everything."""
    node = plan(metadata_filter)
    return None if node is None else _condition(node, negated=False)


def _condition(node: Plan, *, negated: bool) -> Condition:
    match node:
        case NotOf(part):
            return _condition(part, negated=not negated)
        case AllOf(parts):
            return _combined([_condition(part, negated=negated) for part in parts], every=not negated)
        case AnyOf(parts):
            return _combined([_condition(part, negated=negated) for part in parts], every=negated)
        case HasAny(tokens):
            hashed = tuple(map(token_hash, tokens))
        case InRange(key, bounds):
            hashed = tuple(token_hash(f"{key}\x1e{prefix}") for prefix in range_prefixes(dict(bounds)))
    if not hashed:
        return ALWAYS if negated else NEVER
    return Lacks(hashed) if negated else Has(hashed)


def _combined(parts: list[Condition], *, every: bool) -> Condition:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return ALWAYS if every else NEVER
    return Both(tuple(parts)) if every else Either(tuple(parts))


def range_prefixes(bounds: Mapping[str, float]) -> list[str]:
    """The prefixes that together cover exactly the numbers within `bounds` (gt, gte, lt, lte)."""
    low, high = 0, 16**_DIGITS - 1
    for bound, value in bounds.items():
        bits = int(sortable(value), 16)
        match bound:
            case "gt":
                low = max(low, bits + 1)
            case "gte":
                low = max(low, bits)
            case "lt":
                high = min(high, bits - 1)
            case _:
                high = min(high, bits)
    prefixes: list[str] = []
    length = _DIGITS
    while length:
        while low <= high and low % 16:
            prefixes.append(f"{low:0{length}x}")
            low += 1
        while low <= high and high % 16 != 15:
            prefixes.append(f"{high:0{length}x}")
            high -= 1
        if low > high:
            return prefixes
        low, high, length = low // 16, high // 16, length - 1
    return [*prefixes, ""] if low <= high else prefixes


@lru_cache(maxsize=100_000)
def token_hash(token: str) -> str:
    """16 hexadecimal digits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def sortable(number: float) -> str:
    """16 hexadecimal digits that compare as the numbers do."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))
    return f"{bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63):016x}"
