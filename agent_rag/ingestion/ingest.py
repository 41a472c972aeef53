"""From sources to searchable documents: parse, chunk, embed, replace; what has not changed is not touched."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..chunkers import AutoChunker, ChunkerBase
from ..errors import ConfigurationError, SourceError, redact
from ..events import EventCallback, Trigger
from ..knowledge.knowledge_base import KnowledgeBase
from ..parsers import ParserBase, ParserPool, parser_for
from ..sources import DirectorySource, FileSource, SourceBase, SourceItem
from ..sources.base import is_address
from .report import IngestReport
from .run import IngestOptions, IngestRun, ParserFor

PathLike = str | os.PathLike[str]


async def ingest(
    kb: KnowledgeBase,
    paths: PathLike | SourceBase | Sequence[PathLike | SourceBase],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    recursive: bool = True,
    **options: Any,
) -> IngestReport:
    """Bring files and directories into a knowledge base; a second run skips what has not changed.

    A file that cannot be read is reported and the rest goes on; a known document keeps its last good version. Document
    ids are paths relative to the given directory (or to what several paths share), so that the same tree gives the same
    ids anywhere; a file keeps its id however its path is spelled.

    Args:
        paths: Files, directories, or sources.
        include, exclude: Patterns as in .gitignore, for directories.
        recursive: Also look into sub-directories.
        **options: As `sync`, except that `prune` defaults to False.

    Returns: One entry per file. `report.ok` is False when something failed.
    Raises: ConfigurationError, EmbeddingAuthError, StoreUnavailableError, ...: what every further file would meet too.
    """
    items = [paths] if isinstance(paths, str | os.PathLike | SourceBase) else list(paths)
    sources = await asyncio.to_thread(_sources, items, include, exclude, recursive)
    options.setdefault("prune", False)
    return await sync(kb, sources, **options)


async def sync(
    kb: KnowledgeBase,
    source: SourceBase | Sequence[SourceBase],
    *,
    chunker: ChunkerBase | None = None,
    parser_for: ParserFor | None = None,
    pool: ParserPool | None = None,
    strict: bool = False,
    prune: bool = True,
    max_prune_share: float = 0.5,
    trigger: Trigger = "user",
    on_event: EventCallback | None = None,
) -> IngestReport:
    """Make the knowledge base hold what `source` holds: new and changed documents are written, vanished ones deleted.

    A document is unchanged when its content (SHA-256), parser, chunker, embedding model and metadata are; it is skipped
    before parsing. Vectors of chunks whose text did not change are reused.

    Args:
        chunker: Default: `AutoChunker`, by kind of text.
        parser_for: Default: the registry, by content.
        pool: Worker processes to parse in; default: one for this call.
        strict: Raise at the first failure.
        prune: Delete documents of this source that it no longer has. Only after a listing without errors.
        max_prune_share: Refuse to prune more than this share of the source's documents.
        trigger: Who asked for it, for the audit events.
        on_event: Called with `LoadProgress`.

    Raises: SourceError: a source cannot be listed at all, or pruning was refused. Otherwise as `ingest`.
    """
    started = time.monotonic()
    sources = [source] if isinstance(source, SourceBase | str | os.PathLike) else list(source)
    for one in sources:
        if not isinstance(one, SourceBase):
            kind = "WebSource([...])" if is_address(one) else "DirectorySource(...), or call ingest"
            raise ConfigurationError(redact(f"sync takes sources, got {one!r}; pass {kind}"))
    async with contextlib.AsyncExitStack() as stack:
        chosen = IngestOptions(
            chunker=chunker or AutoChunker(),
            parser_for=parser_for or _parser_of,
            pool=pool if pool is not None else await stack.enter_async_context(ParserPool()),
            strict=strict,
            prune=prune,
            max_prune_share=max_prune_share,
            trigger=trigger,
            on_event=on_event,
        )
        report = IngestReport()
        for one in sources:
            await IngestRun(kb, one, chosen, report).run()
    report.files.sort(key=lambda file: file.document_id)
    report.seconds = time.monotonic() - started
    return report


def _sources(
    items: Sequence[PathLike | SourceBase], include: Sequence[str], exclude: Sequence[str], recursive: bool
) -> list[SourceBase]:
    """Directories each become a source; files together become one. Ids are relative to what all paths share."""
    if any(not isinstance(item, SourceBase) and not os.fspath(item) for item in items):
        raise SourceError("a path to ingest is empty; an unset variable of a script looks like this")
    if (address := next(filter(is_address, items), None)) is not None:
        raise ConfigurationError(redact(f"{address} is an address and no path; to fetch it, pass WebSource([...])"))
    paths = [Path(item) for item in items if not isinstance(item, SourceBase)]
    folders = [path for path in paths if path.is_dir()]
    files = [path for path in paths if not path.is_dir()]
    alone = len(paths) == 1
    root = Path(os.path.commonpath([path.resolve().parent for path in paths])) if paths else Path()
    sources = [item for item in items if isinstance(item, SourceBase)]
    for folder in folders:
        prefix = "" if alone else folder.resolve().relative_to(root).as_posix()
        sources.append(DirectorySource(folder, include=include, exclude=exclude, recursive=recursive, id_prefix=prefix))
    if files:
        sources.append(FileSource(files, root=root))
    return sources


def _parser_of(item: SourceItem) -> ParserBase:
    return parser_for(item.filename, item.media_type, item.path if item.path is not None else item.data)
