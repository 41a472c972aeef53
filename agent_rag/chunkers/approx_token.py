"""The seed's byte windows, four bytes to a token."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from ..documents import Section
from ._text import TextChunker, check_sizes
from ._windows import Span
from .base import ChunkerBase

_BYTES_PER_TOKEN = 4


class ApproxTokenChunker(TextChunker):
    """Splits by an approximate token count, ``len(text.encode("utf-8")) // 4``, without looking for boundaries.

    A text of at most `chunk_size` tokens stays whole. Otherwise each chunk is the longest run of whole characters of at
    most ``4 * chunk_size`` bytes, and the next one starts at the last character at least ``4 * overlap`` bytes before
    its end. Words and grapheme clusters are cut; prefer `RecursiveChunker` where that matters. This formula counts CJK
    text low for some tokenisers; `approx_tokens` errs high instead.
    """

    chunker_type: ClassVar[str] = "approx_token"

    class Parameters(ChunkerBase.Parameters):
        chunk_size: int = Field(default=512, json_schema_extra={"minimum": 1})
        """Tokens in a chunk."""
        overlap: int = Field(default=50, json_schema_extra={"minimum": 0})
        """Tokens repeated from the chunk before."""

        @model_validator(mode="after")
        def _sizes_fit(self) -> Self:
            check_sizes(self.chunk_size, self.overlap)
            return self

    parameters: Parameters

    def __init__(self, parameters: Any = None, **options: Any) -> None:
        if options and parameters is None:
            warnings.warn(
                "ApproxTokenChunker(chunk_size=..., overlap=...) is deprecated; "
                "pass parameters=ApproxTokenChunker.Parameters(...)",
                DeprecationWarning,
                stacklevel=2,
            )
        super().__init__(parameters, **options)

    def split(self, section: Section) -> Iterator[Span]:
        text = section.text
        encoded = text.encode("utf-8", "surrogatepass")
        if len(encoded) // _BYTES_PER_TOKEN <= self.parameters.chunk_size:
            yield 0, len(text)
            return
        window = _BYTES_PER_TOKEN * self.parameters.chunk_size
        overlap = _BYTES_PER_TOKEN * self.parameters.overlap
        offset = start = covered = 0
        while covered < len(encoded):
            end = _character_start(encoded, start + window) if start + window < len(encoded) else len(encoded)
            stop = offset + _characters(encoded, start, end)
            if end > covered:  # A window in front of a wide character may end where the one before did.
                yield offset, stop
            covered = end
            following = max(_character_start(encoded, end - overlap), _next_character(encoded, start))
            offset += _characters(encoded, start, following)
            start = following


def _character_start(encoded: bytes, position: int) -> int:
    """The last start of a character at or before `position`."""
    while position < len(encoded) and encoded[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _next_character(encoded: bytes, position: int) -> int:
    position += 1
    while position < len(encoded) and encoded[position] & 0xC0 == 0x80:
        position += 1
    return position


def _characters(encoded: bytes, start: int, end: int) -> int:
    return len(encoded[start:end].decode("utf-8", "surrogatepass"))
