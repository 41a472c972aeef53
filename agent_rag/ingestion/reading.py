"""What happens to one file before it is written: parsing and chunking, both in one call of a worker process."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from .._util.spool import Spool
from ..chunkers import ChunkerBase
from ..content import DataBlock
from ..documents import Chunk, Section, is_blank
from ..errors import AgentRAGError, ChunkError
from ..knowledge.document import PART_CHUNKS
from ..parsers import ParserBase, ParserPool
from ..tables.extract import extract_tables
from ..tables.model import Table
from .transforms import TransformBase

logger = logging.getLogger("agent_rag")

_MAX_CELLS = 2_000_000
"""Of one document's tables: they are in memory at once, at about 100 bytes each."""
PART_BYTES = 2 * 1024 * 1024
"""Text (or base64 of images) of the chunks that are in memory at once."""


class ChunkFile:
    """Parts of at most `PART_CHUNKS` chunks, about `PART_BYTES` of text, in order; read any number of times.

    It travels from one process to another on this machine by pickle, once, and the file has no name from then on.
    """

    def __init__(self) -> None:
        descriptor, self._path = tempfile.mkstemp(prefix="agent-rag-chunks-")
        self._open(cast(BinaryIO, os.fdopen(descriptor, "w+b")), 0)
        self.chunks = 0
        """How many there are."""
        self.has_text = False
        """Whether one of them has text."""

    def _open(self, file: BinaryIO, parts: int) -> None:
        self._file = file
        self._spool = Spool[list[Chunk]](file, parts)
        self._removal = weakref.finalize(self, _remove, self._path)

    def __len__(self) -> int:
        return self.chunks

    def __iter__(self) -> Iterator[list[Chunk]]:
        return iter(self._spool)

    def append(self, part: list[Chunk]) -> None:
        self._spool.append(part)
        self.chunks += len(part)
        self.has_text = self.has_text or any(not is_blank(chunk.embed_text or chunk.text) for chunk in part)

    def close(self) -> None:
        """Delete it."""
        self._spool.close()
        self._removal()

    def __reduce__(self) -> tuple[Callable[..., ChunkFile], tuple[str, int, int, bool]]:
        self._file.flush()
        self._removal.detach()
        return _taken_over, (self._path, len(self._spool), self.chunks, self.has_text)


def _taken_over(path: str, parts: int, chunks: int, has_text: bool) -> ChunkFile:
    taken = ChunkFile.__new__(ChunkFile)
    taken._path, taken.chunks, taken.has_text = path, chunks, has_text
    taken._open(cast(BinaryIO, open(path, "rb")), parts)  # noqa: SIM115 - closed by `close`
    _remove(path)  # an open file stays until it is closed, but on Windows, where `close` removes it
    return taken


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What a file became."""

    chunks: list[Chunk] | ChunkFile
    """On disk when they are many, and the disk is that of the caller."""
    title: str | None
    warnings: list[str]
    """What could not be read."""
    tables: list[Table] = field(default_factory=list)


async def read_file(
    pool: ParserPool,
    parser: ParserBase,
    chunker: ChunkerBase,
    file: bytes | str | Path,
    filename: str,
    transforms: Sequence[TransformBase] = (),
    *,
    with_tables: bool = False,
) -> ReadFile:
    """Parse, transform and chunk a file in a worker of `pool`; a chunker that cannot travel to it works here.

    Raises: ParseError, ChunkError: and their subclasses, among them ParserCrashedError and ParseTimeoutError for both
        steps; FileNotFoundError.
    """
    return await pool.parse_then(
        parser, file, filename, partial(_cut, chunker, filename, tuple(transforms), with_tables, pool.shares_disk)
    )


async def _cut(
    chunker: ChunkerBase,
    filename: str,
    transforms: Sequence[TransformBase],
    with_tables: bool,
    on_disk: bool,
    sections: list[Section],
) -> ReadFile:
    try:
        for transform in transforms:
            sections = transform.apply(sections)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ChunkError(f"{filename}: {type(transform).__name__} failed: {reason}") from error
    try:
        chunks = gathered(await chunker.chunks(sections), filename, on_disk=on_disk)
    except AgentRAGError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ChunkError(f"{filename}: {type(chunker).__name__} failed: {reason}") from error
    tables, said = _tables(sections, filename) if with_tables else ([], [])
    return ReadFile(chunks, _title(sections), [*_warnings(sections), *said], tables)


def gathered(chunks: Iterable[Chunk], filename: str, *, on_disk: bool = True) -> list[Chunk] | ChunkFile:
    """The chunks of a file: as a list, or `on_disk` where they are more than a part.

    Raises: ChunkError: they are not numbered as they should be.
    """
    file: ChunkFile | None = None
    part: list[Chunk] = []
    position, size, total = 0, 0, None
    for position, chunk in enumerate(chunks, 1):
        total = chunk.total_chunks if total is None else total
        if chunk.chunk_index != position - 1 or chunk.total_chunks != total:
            raise _misnumbered(filename, position - 1, chunk, total)
        if on_disk and (len(part) == PART_CHUNKS or size >= PART_BYTES):
            file = file or ChunkFile()
            file.append(part)
            part, size = [], 0
        part.append(chunk)
        size += _size_of(chunk)
    if part and position != total:
        raise _misnumbered(filename, position - 1, part[-1], position)
    if file is None:
        return part
    file.append(part)
    return file


def _size_of(chunk: Chunk) -> int:
    content = chunk.content
    return len(chunk.text) + (len(content.model_dump_json()) if isinstance(content, DataBlock) else 0)


def _misnumbered(filename: str, position: int, chunk: Chunk, total: int) -> ChunkError:
    return ChunkError(
        f"{filename}: chunk {position} says it is {chunk.chunk_index} of {chunk.total_chunks}, not {position} of "
        f"{total}; a chunker numbers its chunks from 0 and gives each the same total_chunks"
    )


def _tables(sections: list[Section], filename: str) -> tuple[list[Table], list[str]]:
    """The typed tables, and what is to be said of them. A fault in them does not cost the document."""
    try:
        tables = extract_tables(sections)
    except Exception as error:
        logger.exception("%s: its tables", filename)
        return [], [f"its tables could not be read ({type(error).__name__}: {error}); its text is here"]
    if (cells := sum(table.row_count * len(table.columns) for table in tables)) > _MAX_CELLS:
        return [], [f"its tables have {cells:,} cells, over {_MAX_CELLS:,}, and cannot be queried; its text is here"]
    return tables, []


def _title(sections: Sequence[Section]) -> str | None:
    title = sections[0].metadata.get("title") if sections else None
    return title.strip() if isinstance(title, str) and title.strip() else None


def _warnings(sections: Sequence[Section]) -> list[str]:
    said = list(dict.fromkeys(warning for section in sections for warning in section.warnings))
    pages = [str(section.metadata.get("page", "?")) for section in sections if section.metadata.get("needs_ocr")]
    if pages:
        shown = ", ".join(pages[:10]) + ("..." if len(pages) > 10 else "")
        said.append(f"{len(pages)} page(s) without text need OCR ({shown}): --ocr, or a parser with ocr=TesseractOCR()")
    return said
