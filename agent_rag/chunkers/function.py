"""Any function that splits a text, as a chunker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

from ..documents import Section
from ..errors import ChunkError, ConfigurationError
from ._text import Piece, TextChunker


class DocumentText(str):
    """The text of a Section, for splitters that take a text and for those that take a document."""

    section: Section

    @property
    def text(self) -> str:
        return str(self)

    @property
    def source(self) -> str:
        return self.section.source

    @property
    def metadata(self) -> dict[str, Any]:
        return self.section.metadata


class Splitter(Protocol):
    """An object with a synchronous `split`; the argument is a str that also has `.text`, `.source`, `.metadata`."""

    def split(self, document: DocumentText, /) -> Sequence[str]: ...


class FunctionChunker(TextChunker):
    """Cuts with a given function. Built by `from_function`.

    A piece that occurs in the text behind the start of the one before gets its span; the function may drop separators,
    strip or overlap. A piece that it wrote anew has none. Blank pieces are left out.
    """

    chunker_type: ClassVar[str] = "function"

    class Parameters(TextChunker.Parameters):
        name: str = ""
        """Names the function, for the fingerprint."""

    def __init__(self, parameters: Any = None, *, split: Callable[[DocumentText], Sequence[str]] | None = None) -> None:
        super().__init__(parameters)
        if split is None:
            raise ConfigurationError(
                "a function cannot be rebuilt from stored parameters; call from_function(split) with the function"
            )
        self._split = split

    def split(self, section: Section) -> Iterator[Piece]:
        document = DocumentText(section.text)
        document.section = section
        start, end = -1, 0
        for piece in self._checked(self._split(document)):
            # The first occurrence that goes beyond the piece before, so that equal pieces get different spans.
            found = document.find(piece, max(start + 1, end - len(piece) + 1)) if piece else -1
            if found < 0:
                yield Piece(max(start, 0), len(document), str(piece))
            else:
                start, end = found, found + len(piece)
                yield Piece(start, end)

    def _checked(self, pieces: Any) -> Sequence[str]:
        name = self.parameters.name or "the split function"
        if isinstance(pieces, str) or not isinstance(pieces, Sequence):
            raise ChunkError(f"{name} returned a {type(pieces).__name__}; return a list or tuple of str")
        for position, piece in enumerate(pieces):
            if not isinstance(piece, str):
                raise ChunkError(f"{name} returned a {type(piece).__name__} at position {position}; return str only")
        if not any(piece.strip() for piece in pieces):
            raise ChunkError(f"{name} returned nothing for a text with content; return at least one piece")
        return pieces


def from_function(
    split: Callable[[DocumentText], Sequence[str]] | Splitter, *, name: str | None = None
) -> FunctionChunker:
    """Make a chunker of a function from a text to its pieces, or of an object with such a `split` method.

    Args:
        split: Synchronous; gets a str that also has `.text`, `.source` and `.metadata`. Returns a list of str.
        name: Part of the fingerprint; change it when the function cuts differently. Its qualified name when None.

    Raises: ChunkError: (when chunking) the function returned something else, or nothing for a text with content.
    """
    function = split if callable(split) else split.split
    if name is None:
        defined: Any = split if hasattr(split, "__qualname__") else type(split)
        name = f"{getattr(defined, '__module__', None) or 'builtins'}.{defined.__qualname__}"
    return FunctionChunker(FunctionChunker.Parameters(name=name), split=function)
