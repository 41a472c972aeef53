"""Windows of one size, cut at white space."""

from __future__ import annotations

from typing import ClassVar

from pydantic import AliasChoices, ConfigDict, Field

from ..documents import Section
from ._boundaries import space_end, word_start
from ._text import SizedChunker, SizeParameters
from ._windows import Span


class FixedSizeChunker(SizedChunker):
    """Fills each chunk up to the last white space that fits; an overlap starts at a word.

    A paragraph or line end is preferred to a space in the last quarter of the window only, so chunks stay near the
    size.
    """

    chunker_type: ClassVar[str] = "fixed_size"
    _splits_visibly: ClassVar[bool] = True

    class Parameters(SizeParameters):
        """`size` is accepted as another name of `chunk_size`."""

        model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

        chunk_size: int = Field(
            default=2000, validation_alias=AliasChoices("chunk_size", "size"), json_schema_extra={"minimum": 1}
        )
        overlap: int = Field(default=200, json_schema_extra={"minimum": 0})

    def split(self, section: Section) -> list[Span]:
        return self.cutter(find_end=space_end, find_start=word_start).cut(section.text)
