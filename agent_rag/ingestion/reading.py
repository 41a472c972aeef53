"""What happens to one file before it is written: parsing and chunking, both in one call of a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..chunkers import ChunkerBase
from ..documents import Chunk, Section
from ..errors import AgentRAGError, ChunkError
from ..parsers import ParserBase, ParserPool
from .transforms import TransformBase


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What a file became."""

    chunks: list[Chunk]
    title: str | None
    warnings: list[str]
    """What could not be read."""


async def read_file(
    pool: ParserPool,
    parser: ParserBase,
    chunker: ChunkerBase,
    file: bytes | str | Path,
    filename: str,
    transforms: Sequence[TransformBase] = (),
) -> ReadFile:
    """Parse, transform and chunk a file in a worker of `pool`; a chunker that cannot travel to it works here.

    Raises: ParseError, ChunkError: and their subclasses, among them ParserCrashedError and ParseTimeoutError for both
        steps; FileNotFoundError.
    """
    return await pool.parse_then(parser, file, filename, partial(_cut, chunker, filename, tuple(transforms)))


async def _cut(
    chunker: ChunkerBase, filename: str, transforms: Sequence[TransformBase], sections: list[Section]
) -> ReadFile:
    try:
        for transform in transforms:
            sections = transform.apply(sections)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ChunkError(f"{filename}: {type(transform).__name__} failed: {reason}") from error
    try:
        chunks = await chunker.chunk(sections)
    except AgentRAGError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise ChunkError(f"{filename}: {type(chunker).__name__} failed: {reason}") from error
    _check_chunks(chunks, filename)
    return ReadFile(chunks, _title(sections), _warnings(sections))


def _check_chunks(chunks: list[Chunk], filename: str) -> None:
    for position, chunk in enumerate(chunks):
        if chunk.chunk_index != position or chunk.total_chunks != len(chunks):
            raise ChunkError(
                f"{filename}: chunk {position} says it is {chunk.chunk_index} of {chunk.total_chunks}; "
                "a chunker numbers its chunks from 0 and gives each the same total_chunks"
            )


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
