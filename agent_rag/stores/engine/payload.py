"""The part of a row that filters look at, and a plan as an engine's condition.

Only what filters look at is indexed; the chunk itself is one JSON text, so that it comes back as it was (integers above
2**63, null, nested and dotted keys).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...documents import Chunk
from ...errors import StoreError
from ...filters.plan import AllOf, AnyOf, HasAny, InRange, NotOf, Plan, index_metadata
from ..base import FORMAT_VERSION, CollectionInfo

CHUNK = "c"
"""The chunk as JSON text."""
TOKENS = "x"
"""Filter tokens, a list of keywords; on a head those of the document's metadata."""


def number_field(key: str) -> str:
    """Payload name of a range key; hashed, since keys are any text and payload paths are not."""
    return f"n_{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def metadata_payload(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a payload that filters look at."""
    indexed = index_metadata(metadata)
    numbers = {number_field(key): value for key, value in indexed.numbers.items()}
    return {TOKENS: list(indexed.tokens), **numbers}


class Dialect(Protocol):
    """How one client spells conditions."""

    def any_token(self, tokens: Sequence[str]) -> Any:
        """`TOKENS` has one of `tokens`; none at all is never true."""

    def in_range(self, field: str, bounds: Mapping[str, float]) -> Any:
        """The number called `field` is within `bounds`."""

    def combine(self, must: Sequence[Any] = (), should: Sequence[Any] = (), must_not: Sequence[Any] = ()) -> Any:
        """All of `must`, one of `should` where there are some, none of `must_not`."""


def translate(node: Plan, dialect: Dialect) -> Any:
    """A plan as a condition of one of the clients."""
    match node:
        case HasAny(tokens):
            return dialect.any_token(tokens)
        case InRange(key, bounds):
            return dialect.in_range(number_field(key), dict(bounds))
        case AllOf(parts):
            return dialect.combine(must=[translate(part, dialect) for part in parts])
        case AnyOf(parts):
            # An empty `should` is no condition at all.
            return dialect.combine(should=[translate(part, dialect) for part in parts] or [dialect.any_token(())])
        case NotOf(part):
            return dialect.combine(must_not=[translate(part, dialect)])


def range_keys(node: Plan | None) -> set[str]:
    """Payload names of the numbers that `node` compares."""
    match node:
        case InRange(key, _):
            return {number_field(key)}
        case AllOf(parts) | AnyOf(parts):
            return {name for part in parts for name in range_keys(part)}
        case NotOf(part):
            return range_keys(part)
    return set()


def check_format(info: CollectionInfo) -> None:
    """Raises: StoreError: a later version of this package wrote the collection."""
    if info.format_version > FORMAT_VERSION:
        raise StoreError(
            f"collection {info.name!r} has format {info.format_version}, this version reads up to {FORMAT_VERSION}; "
            "upgrade agent-rag-middleware"
        )


def parse_chunk(text: str) -> Chunk:
    return Chunk.model_validate_json(text)
