"""What all chunkers of text share: options, numbering, blank pieces, heading paths, running off the event loop."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from math import inf
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from pydantic import BaseModel, Field, model_validator

from ..content import TextBlock
from ..documents import Chunk, Section
from ..errors import ChunkError, ParseLimitError
from ..places import Locator
from ..workers import is_isolated, run_isolated
from ._boundaries import first_solid, is_blank
from ._windows import Cutter, Span
from .base import ChunkerBase
from .lengths import CHARACTERS, LengthFunction, length_from, name_of

# Above this a call is moved to a thread: the loop must not stand still for 50 ms, also with a slow tokeniser.
_OFF_LOOP_CHARACTERS = 16_384


class Piece(NamedTuple):
    """A future chunk of one Section; a plain ``(start, end)`` stands for one with nothing special."""

    start: int
    end: int
    """The chunk's text is ``section.text[start:end]``, unless `text` is given."""
    text: str | None = None
    """Text that the chunker wrote anew from ``section.text[start:end]``; the chunk has no span then."""
    metadata: dict[str, Any] | None = None
    """Added to the section's."""
    heading_path: list[str] | None = None
    """The section's headings above the first visible character when None."""
    embed_context: str | None = None


class TextChunker(ChunkerBase):
    """A chunker of text: a subclass says how one Section is cut.

    DataBlocks pass through whole, blank Sections and blank pieces give no chunk. Long texts are cut in a thread, very
    long ones in a worker process.
    """

    _splits_visibly: ClassVar[bool] = False
    """Whether `split` leaves out blank pieces itself, so that they need not be looked for."""
    _in_process_characters: ClassVar[int] = 4 * 1024 * 1024
    """A longer text is cut in a worker process, where a chunker that can travel has one."""

    async def chunk(self, sections: list[Section]) -> list[Chunk]:
        characters = sum(len(section.text) for section in sections)
        if characters <= _OFF_LOOP_CHARACTERS or is_isolated():
            return self._chunk(sections)
        if characters <= self._in_process_characters:
            return await asyncio.to_thread(self._chunk, sections)
        try:
            pieces = await run_isolated(_all_pieces, self, sections, filename=sections[0].source, timeout_s=inf)
        except ParseLimitError as error:
            raise ChunkError(str(error)) from error
        return await asyncio.to_thread(_made_of, sections, pieces)

    async def chunks(self, sections: list[Section]) -> Iterable[Chunk]:
        if not is_isolated() or type(self).chunk is not TextChunker.chunk:
            return await self.chunk(sections)
        return _each_of(sections, self._all_pieces(sections))

    @abstractmethod
    def split(self, section: Section) -> Iterable[Piece | Span]:
        """Cut a Section whose text is not blank. Pieces are in order."""

    def _chunk(self, sections: Sequence[Section]) -> list[Chunk]:
        return _made_of(sections, self._all_pieces(sections))

    def _all_pieces(self, sections: Sequence[Section]) -> list[Sequence[Piece | Span]]:
        return [self._pieces(section) for section in sections]

    def _pieces(self, section: Section) -> Sequence[Piece | Span]:
        if not isinstance(section.content, TextBlock):
            return [(0, 0)]
        text = section.content.text
        if is_blank(text):
            return []
        pieces = self.split(section)
        return list(pieces) if self._splits_visibly else [piece for piece in pieces if _is_visible(text, *piece)]


STRUCTURED_CHARACTERS = 65_536
"""`_in_process_characters` of a chunker that reads the structure first: the objects of 1 MB of Markdown set off
collections of the whole process, which stopped the event loop for 280 ms."""


class SizeParameters(ChunkerBase.Parameters):
    """Options of a chunker that limits the size of its chunks."""

    chunk_size: int = Field(default=1000, json_schema_extra={"minimum": 1})
    """Most that a chunk holds, in the unit of `length`."""
    overlap: int = Field(default=100, json_schema_extra={"minimum": 0})
    """Most that a chunk repeats of the one before; counts inside `chunk_size`, and is below it."""
    length: str = CHARACTERS
    """Name of the length function: ``characters``, ``approx_tokens``, or one given to `register_length`."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        check_sizes(self.chunk_size, self.overlap)
        return self


def check_sizes(chunk_size: int, overlap: int) -> None:
    """Raises: ValueError: naming both numbers."""
    if chunk_size < 1 or not 0 <= overlap < chunk_size:
        raise ValueError(
            f"chunk_size={chunk_size} with overlap={overlap} cannot work: "
            "chunk_size must be at least 1, and overlap from 0 to below chunk_size"
        )


class SizedChunker(TextChunker):
    """A chunker whose chunks never exceed a size, in characters or by any length function."""

    Parameters = SizeParameters
    parameters: SizeParameters

    def __init__(self, parameters: Any = None, *, length: LengthFunction | str | None = None, **options: Any) -> None:
        """Args:
            parameters: An instance of this class's `Parameters`, or a mapping of its fields; None for defaults.
            length: The length function, for example `approx_tokens` or ``token_length(tokenizer)``; or its registered
                name. A function that is not registered cannot be rebuilt from the Parameters, which keep its name.
            options: Fields of `Parameters` by name, instead of `parameters`.

        Raises: ValueError: an option is out of range, or no length of that name is known.
        """
        super().__init__(parameters, **options)
        if length is not None:
            name = length if isinstance(length, str) else name_of(length)
            self._parameters = self.parameters.model_copy(update={"length": name})
        self.length = length if callable(length) else length_from(self.parameters.length)

    def cutter(self, **changes: Any) -> Cutter:
        """The Cutter of this chunker's options."""
        options = {"size": self.parameters.chunk_size, "overlap": self.parameters.overlap, "length": self.length}
        return Cutter(**{**options, **changes})


def _all_pieces(chunker: TextChunker, sections: Sequence[Section]) -> list[Sequence[Piece | Span]]:
    return chunker._all_pieces(sections)


def _made_of(sections: Sequence[Section], pieces: Sequence[Sequence[Piece | Span]]) -> list[Chunk]:
    return list(_each_of(sections, pieces))


def _each_of(sections: Sequence[Section], pieces: Sequence[Sequence[Piece | Span]]) -> Iterator[Chunk]:
    total = sum(map(len, pieces))
    first = 0
    for index, (section, found) in enumerate(zip(sections, pieces, strict=True)):
        yield from _chunks_of(section, index, found, first, total)
        first += len(found)


def _is_visible(text: str, start: int, end: int, own: str | None = None, *_: object) -> bool:
    return first_solid(text, start, end) < end if own is None else not is_blank(own)


def _chunks_of(
    section: Section, section_index: int, pieces: Iterable[Piece | Span], first_index: int, total: int
) -> Iterator[Chunk]:
    paths = HeadingPaths(section)
    first = Chunk(
        content=section.content,
        source=section.source,
        chunk_index=first_index,
        total_chunks=total,
        metadata=deepcopy(section.metadata),
        section_index=section_index,
        heading_path=paths.at(0),
    )
    if not isinstance(section.content, TextBlock):
        yield first
        return
    text = section.content.text
    fields = first.__dict__
    path = first.heading_path
    nested = any(isinstance(value, dict | list) for value in section.metadata.values())
    located = Locator(section.places, text) if section.places else None
    for index, piece in enumerate(pieces, first_index):
        values = fields.copy()
        values["chunk_index"] = index
        values["metadata"] = deepcopy(fields["metadata"]) if nested else fields["metadata"].copy()
        if isinstance(piece, Piece):
            _fill_from_piece(values, piece, text, paths)
        else:
            start, end = values["span"] = piece
            values["content"] = _made(TextBlock, {"type": "text", "text": text[start:end]}, _TEXT_FIELDS)
            values["heading_path"] = paths.at_visible(text, start, end) if section.headings else path.copy()
        if located is not None:
            _take_place(values["metadata"], located.between(piece[0], piece[1]))
        yield _made(Chunk, values, _CHUNK_FIELDS)


def _take_place(metadata: dict[str, Any], place: dict[str, Any]) -> None:
    """Write a chunk's own place over that of its section; None where it has none of that kind."""
    metadata.update(place)
    for name in [name for name, value in place.items() if value is None]:
        del metadata[name]


def _fill_from_piece(values: dict[str, Any], piece: Piece, text: str, paths: HeadingPaths) -> None:
    start, end, own_text, metadata, path, context = piece
    shown = text[start:end] if own_text is None else own_text
    values["content"] = _made(TextBlock, {"type": "text", "text": shown}, _TEXT_FIELDS)
    values["span"] = (start, end) if own_text is None else None
    values["metadata"].update(metadata or {})
    values["embed_context"] = context
    values["heading_path"] = paths.at_visible(text, start, end) if path is None else list(path)


def _made(model: type[M], values: dict[str, Any], fields_set: set[str]) -> M:
    """``model.model_construct(**values)`` for complete `values`, in a quarter of its time.

    Half of the time of chunking goes into making models. Not validating also lets lone surrogates pass, which stores
    remove later and a chunker must not stop at.
    """
    made = _new(model)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", fields_set)
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


M = TypeVar("M", bound=BaseModel)
_new = object.__new__
_set = object.__setattr__
_TEXT_FIELDS = set(TextBlock.model_fields)
_CHUNK_FIELDS = set(Chunk.model_fields)


class HeadingPaths:
    """`Section.heading_path_at` for many offsets: one walk over the headings instead of one per chunk."""

    def __init__(self, section: Section) -> None:
        self._start = list(section.heading_path)
        self._offsets = [heading.offset for heading in section.headings]
        self._titles = [heading.title for heading in section.headings]
        self._above: list[int] = []
        """Of each heading the position of the one above it, -1 for none: a path for each would be 100,000 lists."""
        levels = [heading.level for heading in section.headings]
        for position, level in enumerate(levels):
            above = position - 1
            while above >= 0 and levels[above] >= level:
                above = self._above[above]
            self._above.append(above)

    def at_visible(self, text: str, start: int, end: int) -> list[str]:
        return self.at(first_solid(text, start, end)) if self._offsets else self._start.copy()

    def at(self, offset: int) -> list[str]:
        """A new list."""
        titles: list[str] = []
        position = bisect_right(self._offsets, offset) - 1
        while position >= 0:
            titles.append(self._titles[position])
            position = self._above[position]
        return [*self._start, *reversed(titles)]
