"""One source going into one knowledge base."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..chunkers import ChunkerBase
from ..documents import Chunk, DocumentSummary
from ..errors import (
    AgentRAGError,
    ConfigurationError,
    DimensionMismatchError,
    EmbeddingAuthError,
    ModelMismatchError,
    SourceError,
    StoreClosedError,
    StoreUnavailableError,
    redact,
)
from ..events import EventCallback, LoadProgress, Trigger, emit
from ..knowledge.document import Document
from ..knowledge.knowledge_base import KnowledgeBase
from ..parsers import ParserBase, ParserPool
from ..sources import Listing, SourceBase, SourceItem
from .reading import read_file
from .report import FileReport, IngestReport, Outcome

logger = logging.getLogger("agent_rag")

ParserFor = Callable[[SourceItem], ParserBase]

PIPELINE_VERSION = 1
_BATCH_CHUNKS = 512
_BATCH_DOCUMENTS = 64
# An error that every further file would meet as well.
_FATAL = (
    ConfigurationError,
    DimensionMismatchError,
    EmbeddingAuthError,
    ModelMismatchError,
    StoreClosedError,
    StoreUnavailableError,
)


@dataclass(frozen=True, kw_only=True)
class IngestOptions:
    """How to ingest; see `agent_rag.sync`."""

    chunker: ChunkerBase
    parser_for: ParserFor
    pool: ParserPool
    strict: bool
    prune: bool
    max_prune_share: float
    trigger: Trigger
    on_event: EventCallback | None


@dataclass
class _Prepared:
    item: SourceItem
    document_id: str
    outcome: Outcome
    state: dict[str, str]
    chunks: list[Chunk] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class IngestRun:
    """One source going into one knowledge base: several files are parsed at once, one task writes."""

    def __init__(self, kb: KnowledgeBase, source: SourceBase, options: IngestOptions, report: IngestReport) -> None:
        self.kb = kb
        self.source = source
        self.options = options
        self.report = report
        self.existing: dict[str, DocumentSummary] = {}
        self.by_uri: dict[str, str] = {}
        self.taken: set[str] = set()
        self.total = 0
        self.parsed = 0
        self.stored = 0

    async def run(self) -> None:
        listing = await self.source.list()
        summaries = await self.kb.list_documents()
        self.existing = {summary.document_id: summary for summary in summaries}
        self.by_uri = {summary.uri: summary.document_id for summary in summaries if summary.uri}
        self.total = len(listing.items)
        await self._progress("list", 0)
        for path, reason in listing.skipped:
            self._add(FileReport(document_id=path, uri=path, outcome="skipped", reason=reason))
        for path, reason in listing.errors:
            self._add(FileReport(document_id=path, uri=path, outcome="failed", reason=reason))
        await self._process(listing.items)
        if self.options.prune:
            await self._prune(listing)
        await self._progress("done", self.total)

    async def _process(self, items: list[SourceItem]) -> None:
        queue: asyncio.Queue[_Prepared | None] = asyncio.Queue(maxsize=4 * self.options.pool.workers)
        waiting = iter(items)

        async def parse_some() -> None:
            for item in waiting:
                if (prepared := await self._prepare_reported(item)) is not None:
                    await queue.put(prepared)

        async def parse_all() -> None:
            async with asyncio.TaskGroup() as parsers:
                for _ in range(self.options.pool.workers):
                    parsers.create_task(parse_some())
            await queue.put(None)

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(parse_all())
                group.create_task(self._write_all(queue))
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    # --- reading ---

    async def _prepare_reported(self, item: SourceItem) -> _Prepared | None:
        """Read one file; None when nothing is to be written. Its failure is reported, unless every file would fail."""
        document_id = item.document_id
        try:
            digest = await asyncio.to_thread(_digest, item)
            document_id = await asyncio.to_thread(self._document_id, item, digest)
            self.taken.add(document_id)
            return await self._prepare(item, document_id, digest)
        except _FATAL:
            raise
        except Exception as error:
            if not isinstance(error, AgentRAGError | OSError):
                logger.exception("reading %s failed", item.filename)
            if self.options.strict:
                raise
            await self._fail(item, document_id, error)
            return None
        finally:
            self.parsed += 1
            await self._progress("parse", self.parsed, document_id)

    async def _prepare(self, item: SourceItem, document_id: str, digest: str) -> _Prepared | None:
        parser = await asyncio.to_thread(self.options.parser_for, item)
        known = self.existing.get(document_id)
        state = {"digest": digest, "pipeline": self._pipeline(parser, item), "source": self.source.name}
        if known and (known.state.get("digest"), known.state.get("pipeline")) == (digest, state["pipeline"]):
            self._add(self._file(item, document_id, "unchanged", chunks=known.chunk_count))
            return None
        file = item.path if item.path is not None else item.data or b""
        read = await read_file(self.options.pool, parser, self.options.chunker, file, item.filename)
        outcome: Outcome = "replaced" if known else "added"
        title = read.title or item.title
        for chunk in read.chunks:
            chunk.title = chunk.title or title
        return _Prepared(item, document_id, outcome, state, read.chunks, read.warnings)

    def _document_id(self, item: SourceItem, digest: str) -> str:
        """The id this uri already has; else the preferred one, unless another file that still exists has it."""
        if (known := self.by_uri.get(item.uri)) is not None:
            return known
        prefix = hashlib.sha256(item.uri.encode()).hexdigest()[:8]
        folder = f"{item.path.resolve().parent.name}/" if item.path is not None else ""
        for candidate in (item.document_id, f"{folder}{item.document_id}", f"{prefix}/{item.document_id}"):
            if candidate not in self.taken and self._is_free(candidate, item, digest):
                return candidate
        raise SourceError(f"{item.filename}: no document id is free; ingest it with another name")

    def _is_free(self, candidate: str, item: SourceItem, digest: str) -> bool:
        holder = self.existing.get(candidate)
        if holder is None or holder.uri is None or holder.uri == item.uri:
            return True
        # The same content under another path is the same document (a copied or moved folder).
        return holder.state.get("digest") == digest or not _uri_exists(holder.uri)

    def _pipeline(self, parser: ParserBase, item: SourceItem) -> str:
        model = getattr(self.kb.embedding_model, "fingerprint", type(self.kb.embedding_model).__name__)
        parts = (
            PIPELINE_VERSION,
            getattr(parser, "fingerprint", type(parser).__name__),
            self.options.chunker.fingerprint,
            model,
            sorted(item.metadata.items()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    # --- writing ---

    async def _write_all(self, queue: asyncio.Queue[_Prepared | None]) -> None:
        open_ended = True
        while open_ended:
            batch: list[_Prepared] = []
            while open_ended and (not batch or not queue.empty()) and not _is_full(batch):
                prepared = await queue.get()
                if prepared is None:
                    open_ended = False
                else:
                    batch.append(prepared)
            if batch:
                await self._write(batch)

    async def _write(self, batch: list[_Prepared]) -> None:
        """Write a batch in one go; if that fails, one by one, so that one bad document costs only itself."""
        try:
            await self._replace(batch)
        except _FATAL:
            raise
        except Exception as error:
            if len(batch) > 1:
                for prepared in batch:
                    await self._write([prepared])
                return
            if not isinstance(error, AgentRAGError | OSError):
                logger.exception("writing %s failed", batch[0].document_id)
            if self.options.strict:
                raise
            await self._fail(batch[0].item, batch[0].document_id, error)
            await self._count_stored(batch[0])

    async def _replace(self, batch: list[_Prepared]) -> None:
        replaced = [prepared.document_id for prepared in batch if prepared.outcome == "replaced"]
        known = await self.kb.known_vectors(replaced) if replaced and self.kb.atomic else {}
        write = await self.kb.replace_documents(
            [_document(prepared) for prepared in batch], trigger=self.options.trigger, known_vectors=known
        )
        self.report.embedded += write.embedded
        for prepared in batch:
            self._add(self._written(prepared))
            await self._count_stored(prepared)

    def _written(self, prepared: _Prepared) -> FileReport:
        indexed = [chunk for chunk in prepared.chunks if self.kb.can_index(chunk)]
        images = len(prepared.chunks) - len(indexed)
        warnings = list(prepared.warnings)
        if images:
            warnings.append(f"{images} image(s) without text left out: the embedding model reads text only")
        file = self._file(prepared.item, prepared.document_id, prepared.outcome, chunks=len(indexed), warnings=warnings)
        if indexed:
            return file
        reason = "; ".join(warnings) or "no text in it"
        if prepared.outcome == "replaced":
            reason += "; its earlier version was removed"
        return file.model_copy(update={"outcome": "skipped", "reason": reason, "warnings": []})

    # --- pruning ---

    async def _prune(self, listing: Listing) -> None:
        if listing.errors:
            logger.warning("%s: the listing had errors, so nothing is pruned", self.source.name)
            return
        mine = [summary for summary in self.existing.values() if summary.state.get("source") == self.source.name]
        gone = [summary for summary in mine if summary.document_id not in self.taken]
        if not gone:
            return
        if len(gone) > self.options.max_prune_share * len(mine):
            raise SourceError(
                f"{self.source.name} lacks {len(gone)} of its {len(mine)} documents; pruning more than "
                f"{self.options.max_prune_share:.0%} needs max_prune_share=1.0 (command line: --force); if they came "
                "from another source, give each a name of its own"
            )
        await self.kb.delete_documents([summary.document_id for summary in gone], trigger=self.options.trigger)
        for count, summary in enumerate(gone, 1):
            self._add(FileReport(document_id=summary.document_id, uri=summary.uri or "", outcome="pruned"))
            await self._progress("prune", count, summary.document_id, "pruned")

    # --- reporting ---

    def _add(self, file: FileReport) -> None:
        self.report.files.append(file)

    def _file(self, item: SourceItem, document_id: str, outcome: Outcome, **more: Any) -> FileReport:
        return FileReport(document_id=document_id, uri=item.uri, outcome=outcome, **more)

    async def _fail(self, item: SourceItem, document_id: str, error: Exception) -> None:
        reason = redact(str(error) or type(error).__name__)
        logger.warning("%s failed: %s", item.filename, reason)
        self.taken.add(document_id)
        self._add(self._file(item, document_id, "failed", reason=reason))

    async def _count_stored(self, prepared: _Prepared) -> None:
        self.stored += 1
        await self._progress("store", self.stored, prepared.document_id, prepared.outcome)

    async def _progress(
        self,
        stage: Literal["list", "parse", "store", "prune", "done"],
        done: int,
        document_id: str | None = None,
        outcome: str | None = None,
    ) -> None:
        event = LoadProgress(
            source=self.source.name, stage=stage, done=done, total=self.total, document_id=document_id, outcome=outcome
        )
        await emit(self.options.on_event, event)


def _digest(item: SourceItem) -> str:
    if item.path is None:
        return hashlib.sha256(item.data or b"").hexdigest()
    with open(item.path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _uri_exists(uri: str) -> bool:
    if not uri.startswith("file:"):
        return True
    from urllib.parse import unquote, urlsplit
    from urllib.request import url2pathname

    return Path(url2pathname(unquote(urlsplit(uri).path))).exists()


def _is_full(batch: Sequence[_Prepared]) -> bool:
    return len(batch) >= _BATCH_DOCUMENTS or sum(len(prepared.chunks) for prepared in batch) >= _BATCH_CHUNKS


def _document(prepared: _Prepared) -> Document:
    return Document(
        document_id=prepared.document_id,
        chunks=prepared.chunks,
        metadata={"filename": prepared.item.filename, **prepared.item.metadata},
        title=prepared.chunks[0].title if prepared.chunks else prepared.item.title,
        uri=prepared.item.uri,
        source=prepared.item.filename,
        state=prepared.state,
    )


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
