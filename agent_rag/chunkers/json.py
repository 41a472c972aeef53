"""JSON, cut along its own structure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from ..documents import Section
from ._text import STRUCTURED_CHARACTERS, Piece, SizedChunker, SizeParameters
from ._windows import Cutter, Span, largest_fit
from .lengths import LengthFunction

_RECORD = re.compile(r"^[^\S\n]*+\S[^\n]*", re.M)
"""A line that is not blank."""
Path = tuple[str | int, ...]


class JSONChunker(SizedChunker):
    """Each chunk is valid JSON that repeats the keys above it: ``{"shop": {"name": "...", ...}}``.

    A text that fits is one chunk, as it stands. Otherwise members are packed in their order, and a value that does not
    fit is entered. Nothing is read into Python numbers: duplicate keys, NaN, long integers and ``1.10`` come out as
    they came in; white space between tokens does not. ``metadata["key_path"]`` lists the keys (and array positions, as
    text) above the chunk's members, ``metadata["items"]`` the first and last position of array elements, from 0. A
    string that is too long is divided into strings with ``metadata["part"] = [number, count]``, from 1; so is a number
    that alone exceeds the size. Where the keys above take more than half of `chunk_size`, the outer ones stand in the
    metadata only.

    JSON Lines are read as an array of their values. Any other text, and JSON nested deeper than Python can follow, is
    cut as by `RecursiveChunker`; only then does `overlap` count. `chunk_size` cannot be kept below 3 characters.
    """

    chunker_type: ClassVar[str] = "json"
    _in_process_characters: ClassVar[int] = STRUCTURED_CHARACTERS

    class Parameters(SizeParameters):
        overlap: int = Field(default=0, json_schema_extra={"minimum": 0})
        """Used only for text that is no JSON."""

    def split(self, section: Section) -> Sequence[Piece | Span]:
        text = section.text
        try:
            value, lines = _parsed(text)
            if self.length(text) <= self.parameters.chunk_size:
                return [Piece(0, len(text), metadata={"key_path": []})]
            pieces = list(_Splitter(len(text), self.parameters.chunk_size, self.length).split((), value))
            return _at_lines(pieces, lines) if lines and section.places else pieces
        except (ValueError, RecursionError):
            return self.cutter().cut(text)


def _at_lines(pieces: Iterable[Piece], lines: Sequence[Span]) -> list[Piece]:
    """Pieces of JSON Lines with the span of their lines, whose numbers say more than positions in an array."""
    found: list[Piece] = []
    for piece in pieces:
        metadata = dict(piece.metadata or {})
        path = metadata["key_path"]
        first, last = (int(path[0]), int(path[0])) if path else metadata.pop("items", (0, len(lines) - 1))
        found.append(piece._replace(start=lines[first][0], end=lines[last][1], metadata=metadata))
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object, with duplicate keys."""

    __slots__ = ()


class _Raw(str):
    """A number or constant as written."""

    __slots__ = ()


def _parsed(text: str) -> tuple[Any, list[Span]]:
    """The value of a JSON text; or the list of those of JSON Lines, with the spans of its lines.

    Raises: ValueError: it is neither.
    """
    try:
        return _decoded(text.removeprefix("\ufeff")), []
    except ValueError:
        lines = [match.span() for match in _RECORD.finditer(text)]
        if len(lines) < 2:
            raise
        return [_decoded(text[start:end].removeprefix("\ufeff")) for start, end in lines], lines


def _decoded(text: str) -> Any:
    return json.loads(
        text,
        object_pairs_hook=_Pairs,
        parse_int=_Raw,
        parse_float=_Raw,
        parse_constant=_Raw,
    )


class _Splitter:
    """Cuts one value. Texts are written once per level where they are small, and once in a chunk."""

    def __init__(self, source_length: int, size: int, length: LengthFunction) -> None:
        self.source_length, self.size, self.length = source_length, size, length
        # A text with more characters than this is not tried: it would be written on every level above its parts.
        self.most_characters = size if length is len else 16 * size
        self.weights: dict[int, int] = {}

    def split(self, path: Path, value: Any) -> Iterator[Piece]:
        """Pieces of `value`, which stands at `path`."""
        if isinstance(value, list) and value:
            yield from self._members(path, value)
        else:
            yield from self._scalar(path, value)

    def _members(self, path: Path, value: list[Any]) -> Iterator[Piece]:
        run: list[str] = []
        is_object = isinstance(value, _Pairs)
        entries = value if is_object else enumerate(value)
        for position, (key, child) in enumerate(entries):
            if self._weight(child) > self.most_characters:
                yield from self._packed(path, value, run, position)
                run = []
                yield from self._entered(path, key, child)
            else:
                run.append(f"{_quoted(key)}: {_written(child)}" if is_object else _written(child))
        yield from self._packed(path, value, run, len(value))

    def _packed(self, path: Path, value: list[Any], run: list[str], stop: int) -> Iterator[Piece]:
        """Chunks of `run`, the texts of the members before position `stop`."""
        opening, closing = "{}" if isinstance(value, _Pairs) else "[]"
        before, after = self._wrapping(path)

        def text_of(first: int, count: int) -> str:
            return f"{before}{opening}{', '.join(run[first : first + count])}{closing}{after}"

        done, offset, guess = 0, stop - len(run), 8
        while done < len(run):
            fitting = self._fitting(partial(text_of, done), len(run) - done, guess)
            if fitting:
                more = {} if opening == "{" else {"items": [offset + done, offset + done + fitting - 1]}
                yield self._piece(text_of(done, fitting), path, more)
            else:
                key, child = value[offset + done] if opening == "{" else (offset + done, value[offset + done])
                yield from self._entered(path, key, child)
            done += fitting or 1
            guess = fitting or 1

    def _fitting(self, text_of: Callable[[int], str], most: int, guess: int) -> int:
        fitting = largest_fit(lambda count: self.length(text_of(count)), self.size, most, guess=guess)
        while fitting and self.length(text_of(fitting)) > self.size:
            fitting -= 1
        return fitting

    def _entered(self, path: Path, key: str | int, child: Any) -> Iterator[Piece]:
        if isinstance(key, str) and not self._wrapping((key,))[0]:
            yield from self._parts(path, (), key)  # A key that is too long to be repeated is said once.
        yield from self.split((*path, key), child)

    def _scalar(self, path: Path, value: Any) -> Iterator[Piece]:
        before, after = self._wrapping(path)
        text = f"{before}{_written(value)}{after}"
        if self.length(text) <= self.size or not isinstance(value, str):
            yield self._piece(text, path)
        else:
            yield from self._parts(path, path, value)

    def _parts(self, path: Path, shown: Path, value: str) -> Iterator[Piece]:
        before, after = self._wrapping(shown)
        cutter = Cutter(self.size, 0, lambda part: self.length(f"{before}{_quoted(part)}{after}"))
        spans = cutter.cut(value) or [(0, len(value))]
        for number, (start, end) in enumerate(spans, 1):
            yield self._piece(f"{before}{_quoted(value[start:end])}{after}", path, {"part": [number, len(spans)]})

    def _piece(self, text: str, path: Path, more: dict[str, Any] | None = None) -> Piece:
        return Piece(0, self.source_length, text, {"key_path": [str(key) for key in path], **(more or {})})

    def _wrapping(self, path: Path) -> tuple[str, str]:
        """What stands before and behind a value to repeat the keys above it; the inner ones when not all fit."""
        before = after = ""
        for key in reversed(path):
            opening, closing = (f"{{{_quoted(key)}: ", "}") if isinstance(key, str) else ("[", "]")
            if self.length(opening + before + after + closing) > self.size // 2:
                break
            before, after = opening + before, after + closing
        return before, after

    def _weight(self, value: Any) -> int:
        """About the characters of the written value (without escapes), counted once for each container."""
        if not isinstance(value, list):
            return len(value) + 2 if isinstance(value, str) else 5
        known = self.weights.get(id(value))
        if known is None:
            children = [child for _, child in value] if isinstance(value, _Pairs) else value
            keys = sum(len(key) + 4 for key, _ in value) if isinstance(value, _Pairs) else 0
            known = self.weights[id(value)] = keys + 2 + sum(self._weight(child) + 2 for child in children)
        return known


def _written(value: Any) -> str:
    """JSON text of a parsed value."""
    if isinstance(value, _Raw):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, _Pairs):
        return "{" + ", ".join(f"{_quoted(key)}: {_written(child)}" for key, child in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def _quoted(text: str) -> str:
    quoted = _ENCODER.encode(text)
    if quoted.isascii():
        return quoted
    try:
        quoted.encode()
    except UnicodeEncodeError:  # Half a surrogate pair is valid as an escape only.
        return json.dumps(text)
    return quoted
