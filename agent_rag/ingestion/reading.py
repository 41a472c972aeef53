"""What happens to one file before it is written: parsing and chunking, both in one call of a worker process."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..chunkers import ChunkerBase
from ..documents import Chunk, Section
from ..errors import AgentRAGError, ChunkError
from ..parsers import ParserBase, ParserPool
from ..tables.extract import extract_tables
from ..tables.model import Table
from .transforms import TransformBase

logger = logging.getLogger("agent_rag")

_MAX_CELLS = 2_000_000
"""Of one document's tables: they are in memory at once, at about 100 bytes each."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """What a file became."""

    chunks: list[Chunk]
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
        parser, file, filename, partial(_cut, chunker, filename, tuple(transforms), with_tables)
    )


async def _cut(
    chunker: ChunkerBase,
    filename: str,
    transforms: Sequence[TransformBase],
    with_tables: bool,
    sections: list[Section],
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
    tables, said = _tables(sections, filename) if with_tables else ([], [])
    return ReadFile(chunks, _title(sections), [*_warnings(sections), *said], tables)


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
