"""Bounds on what enters, as one model: each has a default, an option and an error that names it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from .errors import LimitExceededError


class Limits(BaseModel):
    """Bounds of a KnowledgeBase. Search text over its limit is cut and logged; everything else raises.

    The defaults are those of the Harnest RAG extension (validation and safety bounds), except
    `chunks_per_document`, which it counts per request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    documents_per_request: int = Field(default=1_000, ge=1)
    chunk_characters: int = Field(default=1_000_000, ge=1)
    chunks_per_document: int = Field(default=1_000_000, ge=1)
    dimensions: int = Field(default=65_536, ge=1)
    results: int = Field(default=100, ge=1)
    """Largest `top_k` of a search."""
    query_characters: int = Field(default=16_384, ge=1)
    metadata_fields: int = Field(default=64, ge=1)
    filter_values: int = Field(default=100, ge=1)
    """Largest list in one `in`, `not_in` or `contains` condition."""
    identifier_characters: int = Field(default=512, ge=1)

    def check(self, name: str, value: int, what: str) -> None:
        """Raises: LimitExceededError: `value` is larger than the limit called `name`."""
        allowed = getattr(self, name)
        if value > allowed:
            raise LimitExceededError(
                f"{what}: {value:,} is over the limit {name}={allowed:,}; "
                f"split the input, or pass Limits({name}=...) to the KnowledgeBase"
            )
