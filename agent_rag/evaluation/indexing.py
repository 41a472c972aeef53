"""Indexes for configurations that cut or embed the documents in another way: each in a file that goes with the run."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

from ..chunkers import AutoChunker
from ..embeddings.registry import embedding_model
from ..errors import ConfigurationError
from ..ingestion import ingest, list_sources
from ..ingestion.ingest import PathLike
from ..ingestion.options import IngestOptions
from ..ingestion.source_names import path_of
from ..ingestion.state import FileState
from ..knowledge.knowledge_base import KnowledgeBase
from ..sources import DirectorySource, SourceBase
from ..sources.base import Listing
from ..stores.sqlite import SQLiteStore
from .configurations import IndexSettings

Corpus = Sequence[PathLike | SourceBase]
"""Where the documents are read anew from."""


class Indexes:
    """The knowledge base's own index, and one for each other `IndexSettings`, made when it is first asked for."""

    def __init__(self, base: KnowledgeBase, corpus: Corpus | None = None, options: IngestOptions | None = None) -> None:
        """
        Args:
            corpus: Default: what is stored, read anew from the folders that it came from, as it is now.
            options: Of `ingest`; its `chunker` is for an index whose settings have no sizes.
        """
        self._made = {IndexSettings(): base}
        self._base = base
        self._corpus = corpus
        self._options = options or IngestOptions()
        self._stack = AsyncExitStack()
        self.notes: list[str] = []
        """What of the documents is in no such index."""

    async def __aenter__(self) -> Indexes:
        await self._stack.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def of(self, settings: IndexSettings) -> KnowledgeBase:
        """The knowledge base with this index.

        Raises: ConfigurationError: the sizes do not go together, or nothing says where the documents are.
        """
        if settings not in self._made:
            self._made[settings] = await self._make(settings)
        return self._made[settings]

    async def _make(self, settings: IndexSettings) -> KnowledgeBase:
        corpus = self._corpus or await _folders_of(self._base)
        folder = await asyncio.to_thread(
            self._stack.enter_context, tempfile.TemporaryDirectory(prefix="agent-rag-eval-")
        )
        store = await self._stack.enter_async_context(SQLiteStore(Path(folder) / "index.db", synced=False))
        given = settings.embedding
        model = embedding_model(given) if isinstance(given, str) else given
        made = KnowledgeBase(
            self._base.name,
            self._base.description,
            self._base.embedding_model if given is None else model,
            store,
            self._base.collection,
            self._base.metadata_filter,
            limits=self._base.limits,
        )
        options = self._options.copy()
        if settings.chunk_size is not None or settings.overlap is not None:
            options["chunker"] = _sized(settings)
        report = await ingest(made, list(corpus), **options)
        failed = [file.document_id for file in report.files if file.outcome == "failed"]
        if failed:
            self.notes.append(f"{len(failed)} files could not be read anew: {', '.join(failed[:5])}")
        return made


class _StoredPart(DirectorySource):
    """Those files of a folder that are in the knowledge base: others were left out on purpose, or came later."""

    def __init__(self, path: str, name: str, stored: set[str]) -> None:
        super().__init__(path, name=name, include_generated=True)
        self._stored = stored

    async def list(self) -> Listing:
        listing = await super().list()
        items = [item for item in listing.items if item.key in self._stored]
        return listing.model_copy(update={"items": items, "skipped": []})


def _sized(settings: IndexSettings) -> AutoChunker:
    size = AutoChunker.Parameters().chunk_size if settings.chunk_size is None else settings.chunk_size
    overlap = min(100, size // 10) if settings.overlap is None else settings.overlap
    if not 0 <= overlap < size:
        raise ConfigurationError(f"overlap {overlap} is not smaller than chunk_size {size}")
    return AutoChunker(chunk_size=size, overlap=overlap)


async def _folders_of(base: KnowledgeBase) -> list[SourceBase]:
    """Raises: ConfigurationError: a source is no folder that is there."""
    folders: list[SourceBase] = []
    for source in await list_sources(base):
        path = path_of(source.location) if source.location.startswith("file:") else None
        if path is None or not await asyncio.to_thread(os.path.isdir, path):
            raise ConfigurationError(
                f"source {source.name!r} of {base.name!r} is no folder that is there; say where the documents are "
                "(corpus=[...], --corpus PATH), or compare settings of the search only"
            )
        stored = await base.list_documents(source=source.name)
        paths = {state.path for one in stored if (state := FileState.of(one.state)) is not None}
        folders.append(_StoredPart(path, source.name, paths))
    if not folders:
        raise ConfigurationError(f"{base.name!r} has no source to read anew; pass corpus=[...], or --corpus PATH")
    return folders
