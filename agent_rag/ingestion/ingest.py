"""From sources to searchable documents: parse, chunk, embed, replace; what has not changed is not touched."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

from ..errors import ConfigurationError, SourceError, redact
from ..knowledge.knowledge_base import KnowledgeBase
from ..parsers import ParserPool
from ..sources import DirectorySource, FileSource, MemorySource, SourceBase, SourceDocument
from ..sources.base import is_address
from .options import IngestOptions, RunOptions, SyncOptions
from .report import IngestReport
from .run import IngestRun

_OF_DIRECTORIES = tuple(sorted(set(IngestOptions.__annotations__) - set(SyncOptions.__annotations__) - {"name"}))
PathLike = str | os.PathLike[str]
Ingestible = PathLike | SourceBase | SourceDocument


async def ingest(
    kb: KnowledgeBase, paths: Ingestible | Sequence[Ingestible], **options: Unpack[IngestOptions]
) -> IngestReport:
    """Bring files and directories into a knowledge base; a second run skips what has not changed.

    A file that cannot be read is reported and the rest goes on; a known document keeps its last good version. Document
    ids are paths relative to the given directory (or to what several paths share), so that the same tree gives the same
    ids anywhere; a file keeps its id however its path is spelled. Nothing is deleted, but for a file that was moved:
    it goes from its old place.

    Args:
        paths: Files, directories, sources, or documents in memory (`SourceDocument`).
        **options: See `IngestOptions`; `prune` defaults to False.

    Returns: One entry per file. `report.ok` is False when something failed.
    Raises: ConfigurationError, EmbeddingAuthError, StoreUnavailableError, ...: what every further file would meet too;
        a note of the error says what was done before.
    """
    items = [paths] if isinstance(paths, str | os.PathLike | SourceBase | SourceDocument) else list(paths)
    name = options.pop("name", None)
    listed: dict[str, Any] = {key: options.pop(key) for key in _OF_DIRECTORIES if key in options}  # type: ignore[misc]
    sources = await asyncio.to_thread(_sources, items, name, listed)
    options.setdefault("prune", False)
    return await sync(kb, sources, **options)  # type: ignore[misc]


async def sync(
    kb: KnowledgeBase, source: SourceBase | Sequence[SourceBase], **options: Unpack[SyncOptions]
) -> IngestReport:
    """Make the knowledge base hold what `source` holds: new and changed documents are written, vanished ones deleted.

    A document is unchanged when its content, parser, chunker, embedding model and metadata are; content is read only
    where size, times or inode changed. Vectors of chunks whose text did not change are reused, also after a file was
    moved or renamed.

    Args:
        **options: See `SyncOptions`.

    Raises: SourceError: a source cannot be listed at all, or pruning was refused. Otherwise as `ingest`.
    """
    started = time.monotonic()
    chosen = RunOptions(**options)
    sources = [source] if isinstance(source, SourceBase | str | os.PathLike) else list(source)
    for one in sources:
        if not isinstance(one, SourceBase):
            kind = "WebSource([...])" if is_address(one) else "DirectorySource(...), or call ingest"
            raise ConfigurationError(redact(f"sync takes sources, got {one!r}; pass {kind}"))
    async with contextlib.AsyncExitStack() as stack:
        pool = chosen.pool if chosen.pool is not None else await stack.enter_async_context(ParserPool())
        run = IngestRun(kb, chosen, pool)
        try:
            report = await run.run(sources)
        except Exception as error:
            if run.report.files:
                error.add_note(f"before that: {run.report}; it is kept, and another run goes on from there")
            raise
    report.files.sort(key=lambda file: file.document_id)
    report.seconds = time.monotonic() - started
    return report


def _sources(items: Sequence[Ingestible], name: str | None, listed: dict[str, Any]) -> list[SourceBase]:
    """Directories each become a source, `listed` with these options; files together become one. Ids are relative to
    what all paths share."""
    given = [item for item in items if not isinstance(item, SourceBase | SourceDocument)]
    if any(not os.fspath(item) for item in given):
        raise SourceError("a path to ingest is empty; an unset variable of a script looks like this")
    if (address := next(filter(is_address, given), None)) is not None:
        raise ConfigurationError(redact(f"{address} is an address and no path; to fetch it, pass WebSource([...])"))
    paths = [Path(item) for item in given]
    folders = list(dict.fromkeys(path for path in paths if path.is_dir()))
    files = [path for path in paths if not path.is_dir()]
    if name is not None and len(folders) + bool(files) > 1:
        raise ConfigurationError(f"the name {name!r} is for one source; pass one directory, or sources with names")
    alone = len(paths) == 1
    root = Path(os.path.commonpath([path.resolve().parent for path in paths])) if paths else Path()
    sources = [item for item in items if isinstance(item, SourceBase)]
    if documents := [item for item in items if isinstance(item, SourceDocument)]:
        sources.append(MemorySource(documents, **({"name": name} if name is not None else {})))
    for folder in folders:
        prefix = "" if alone else folder.resolve().relative_to(root).as_posix()
        sources.append(DirectorySource(folder, id_prefix=prefix, name=name, **listed))
    if files:
        sources.append(FileSource(files, root=root, name=name))
    return sources
