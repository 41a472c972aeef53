"""Ingestion inside a service: what is costly to start lives as long as the service."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, Unpack

from ..documents import DocumentSummary
from ..errors import ConfigurationError
from ..events import Trigger
from ..knowledge.knowledge_base import KnowledgeBase
from ..parsers import ParserPool
from ..sources import MemorySource, SourceBase, SourceDocument
from .identity import Listed, Plan, Task
from .ingest import Ingestible, ingest, sync
from .options import IngestOptions, RunOptions, SyncOptions
from .report import FileReport, IngestReport
from .run import IngestRun
from .source_names import Stored
from .state import FileState


class Ingestor:
    """Takes documents into knowledge bases, one upload at a time or whole sources, with one pool of workers.

    ::

        async with Ingestor() as ingestor:
            report = await ingestor.put(kb, SourceDocument(document_id="7", content=upload, filename="a.pdf"))

    Safe for concurrent use, also with many knowledge bases (one a tenant). Leaving the block waits for what is under
    way and takes nothing new.

    Args:
        workers: Processes at most; None: one per CPU, four at most.
        options: Defaults for all calls; see `SyncOptions`. A `pool` that is given is not closed.
    """

    def __init__(self, *, workers: int | None = None, **options: Unpack[SyncOptions]) -> None:
        pool = options.pop("pool", None)
        self._own_pool = pool is None
        self._pool = pool if pool is not None else ParserPool(workers)
        self._options: SyncOptions = options
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False

    async def put(
        self, kb: KnowledgeBase, document: SourceDocument, *, source: str = "uploads", trigger: Trigger = "user"
    ) -> FileReport:
        """Store one document; what was stored under its id is replaced. Its cost does not grow with the collection.

        Args:
            source: Name of the source that it is listed under.

        Returns: What became of it; a file that cannot be read is "failed" with a reason, and keeps its last version.
        Raises: ConfigurationError, EmbeddingAuthError, StoreUnavailableError, ...: what every document would meet.
        """
        with _Busy(self):
            chosen: SyncOptions = {**self._options, "pool": self._pool, "trigger": trigger}
            run = IngestRun(kb, RunOptions(**chosen), self._pool)
            await run.run_one(await self._task(kb, MemorySource([document], name=source)))
            return run.report.files[0]

    async def ingest(
        self, kb: KnowledgeBase, paths: Ingestible | list[Ingestible], **options: Unpack[IngestOptions]
    ) -> IngestReport:
        """As `agent_rag.ingest`, with the workers of this service."""
        with _Busy(self):
            chosen: IngestOptions = {**self._options, **options, "pool": self._pool}
            return await ingest(kb, paths, **chosen)

    async def sync(
        self, kb: KnowledgeBase, source: SourceBase | list[SourceBase], **options: Unpack[SyncOptions]
    ) -> IngestReport:
        """As `agent_rag.sync`, with the workers of this service."""
        with _Busy(self):
            chosen: SyncOptions = {**self._options, **options, "pool": self._pool}
            return await sync(kb, source, **chosen)

    async def aclose(self) -> None:
        """Take nothing new, wait for what is under way, end the workers."""
        self._closing = True
        await self._idle.wait()
        if self._own_pool:
            await asyncio.to_thread(self._pool.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _task(self, kb: KnowledgeBase, source: MemorySource) -> Plan:
        """A plan with one task, made without listing what is stored."""
        listing = await source.list()
        item = listing.items[0]
        listed = Listed(source, listing, source.name)
        count = (await kb.chunk_counts([item.document_id])).get(item.document_id, 0)
        owner = FileState(source=source.name, path=item.key, chosen="yes")
        summary = DocumentSummary(document_id=item.document_id, source=item.filename, chunk_count=count)
        listed.tasks.append(Task(item, listed, Stored(summary, owner), owner, item.document_id))
        return Plan([listed], [], set())


class _Busy:
    """Counts what is under way."""

    def __init__(self, ingestor: Ingestor) -> None:
        self._ingestor = ingestor

    def __enter__(self) -> None:
        if self._ingestor._closing:
            raise ConfigurationError("the Ingestor is closed; it takes nothing new")
        self._ingestor._busy += 1
        self._ingestor._idle.clear()

    def __exit__(self, *error: object) -> None:
        self._ingestor._busy -= 1
        if self._ingestor._busy == 0:
            self._ingestor._idle.set()
