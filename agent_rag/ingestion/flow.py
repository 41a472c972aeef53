"""From files to written documents: read in worker processes, embed across documents, write as they are done.

How much lies between the stages is bounded, whatever the size of the files. An error of one file is reported; one that
every further file would meet ends the run, after what is embedded has been written.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .._util.spool import in_threads
from .._util.tracing import span
from ..chunkers import ChunkerBase
from ..chunkers.lengths import approx_tokens
from ..documents import Chunk
from ..embeddings.base import EmbeddingInput
from ..errors import (
    AgentRAGError,
    ConfigurationError,
    DimensionMismatchError,
    EmbeddingAuthError,
    EmbeddingUnavailableError,
    EmptyFileError,
    MissingExtraError,
    ModelMismatchError,
    ParseError,
    ParseTimeoutError,
    StoreClosedError,
    StoreUnavailableError,
    redact,
)
from ..knowledge.document import PART_CHUNKS, Document
from ..knowledge.knowledge_base import KnowledgeBase
from ..knowledge.updating import DocumentChange
from ..parsers import ParserPool
from ..tables.model import Table
from .changes import ChangeCheck, Look, is_text
from .embedding import BatchEmbedder, Budget, Vector
from .identity import Task
from .options import RunOptions
from .progress import Progress
from .reading import PART_BYTES, ChunkFile, ReadFile, read_file
from .report import Estimate, FileReport, IngestReport, Outcome
from .reuse import Known, Reuse
from .state import FileState
from .transforms import TransformBase

logger = logging.getLogger("agent_rag")

# An error that every further file would meet as well.
FATAL = (
    ConfigurationError,
    DimensionMismatchError,
    EmbeddingAuthError,
    EmbeddingUnavailableError,
    ModelMismatchError,
    StoreClosedError,
    StoreUnavailableError,
)
_BATCH_CHUNKS = 512
_BATCH_DOCUMENTS = 64
_BETWEEN_BYTES = 32 * 1024 * 1024
_CHUNK_BYTES = 4096
_CELL_BYTES = 100
_INCOMPLETE = "without all lines of context"
# Documents that are ready wait so long for more, so that many small ones are one transaction.
_LINGER_S = 0.05
_MOST_CHUNKS, _MOST_CHUNKS_WHOLE = 1_000_000, 100_000
"""Of a file by default, and where a document is written whole: then all are in memory at once."""


@dataclass(eq=False)
class _Ready:
    """A document that is read, and once embedded, written."""

    task: Task
    look: Look
    chunks: list[Chunk] | ChunkFile
    title: str | None
    warnings: list[str]
    outcome: Outcome
    cause: str | None
    cost: int
    tables: list[Table] = field(default_factory=list)
    vectors: Mapping[str, Vector] = field(default_factory=dict)


class Flow:
    """The stages of a run and what is between them.

    `kept` collects the unchanged documents with the state they should have.
    """

    def __init__(
        self,
        kb: KnowledgeBase,
        options: RunOptions,
        pool: ParserPool,
        check: ChangeCheck,
        reuse: Reuse,
        transforms: Sequence[TransformBase],
        chunkers: Mapping[str, tuple[ChunkerBase, bool]],
        report: IngestReport,
        progress: Progress,
    ) -> None:
        self.kb = kb
        self.options = options
        self.report = report
        self.progress = progress
        self.kept: list[tuple[Task, FileState]] = []
        self._pool = pool
        self.check = check
        self._transforms = transforms
        self._chunkers = chunkers
        model = kb.embedding_model
        self._batch_size = options.embedding_batch_size or _whole(getattr(model, "batch_size", None)) or 64
        self._embedding = BatchEmbedder(
            self._request,
            batch_size=self._batch_size,
            max_concurrency=options.max_concurrency or _whole(getattr(model, "max_concurrency", None)) or 4,
            more_may_come=lambda: self._unread > 0,
            is_fatal=lambda error: isinstance(error, FATAL),
            on_request=progress.requested,
        )
        progress.embedding = lambda: (self._embedding.embedded, self._embedding.waiting, self._embedding.in_flight)
        self._budget = Budget(_BETWEEN_BYTES)
        self._queue: asyncio.Queue[_Ready | None] = asyncio.Queue()
        self._reuse = reuse
        self._looks: dict[Task, Look] = {}
        self._fatal: BaseException | None = None
        self._store_failed = False
        self._unread = 0
        self._unembedded = 0

    # --- unchanged ---

    async def keep(self, tasks: Sequence[Task]) -> None:
        """Report what is unchanged, or was refused before and is still the same."""
        counts: dict[str, int] = {}
        for task in tasks:
            assert task.known is not None
            self._keep(task, task.item.stamp or "")
            counts[task.listed.name] = counts.get(task.listed.name, 0) + 1
        for name, count in counts.items():
            await self.progress.parsed(name, files=count)

    def _keep(self, task: Task, stamp: str, digest: str | None = None) -> None:
        assert task.known is not None
        summary, before = task.known.summary, task.known.state
        if before.status == "stored" and not before.refused and task.is_where_it_was:
            task.digest = before.digest
            self._report(task, "unchanged", chunks=summary.chunk_count)
            return
        task.digest = digest or before.digest
        restored = bool(before.refused) and digest == before.digest
        state = self._state(task, before, digest=before.digest, stamp=stamp if not before.refused else before.stamp,
                            pipeline=before.pipeline, refused="" if restored else before.refused)  # fmt: skip
        self.kept.append((task, state))
        if before.refused and not restored:
            self._report(task, "failed", reason=before.reason, chunks=summary.chunk_count)
        elif before.status in ("skipped", "failed"):
            self._report(task, "skipped" if before.status == "skipped" else "failed", reason=before.reason)
        else:
            self._report(task, "unchanged", chunks=summary.chunk_count)

    # --- the stages ---

    async def process(self, tasks: Sequence[Task]) -> None:
        """Read, embed and write `tasks`. Raises: what every further file would meet; with `strict` the first error."""
        waiting = iter(tasks)
        self._unread = len(tasks)
        readers = self.options.document_concurrency or self._pool.workers + 1
        embedders: set[asyncio.Task[None]] = set()

        async def read_some() -> None:
            for task in waiting:
                if self._fatal is not None:
                    return
                ready = await self._read_reported(task)
                self._unread -= 1
                if ready is not None:
                    self._unembedded += 1
                    one = asyncio.create_task(self._embed(ready))
                    embedders.add(one)
                    one.add_done_callback(embedders.discard)

        async def read_all() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(readers, len(tasks))):
                    group.create_task(read_some())
            self._embedding.flush()
            while embedders:
                await asyncio.gather(*embedders)
            await self._queue.put(None)

        heartbeat = asyncio.create_task(self.progress.heartbeat())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(read_all())
                group.create_task(self._write_all())
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None
        finally:
            heartbeat.cancel()
            for one in embedders:
                one.cancel()
            await self._embedding.aclose()
            self.report.embedded += self._embedding.embedded
        if self._fatal is not None:
            raise self._fatal

    async def _read_reported(self, task: Task) -> _Ready | None:
        """Read one file; None when nothing is to be written. Its failure is reported, unless every file would fail."""
        error_text: str | None = None
        try:
            return await self._read(task)
        except Exception as error:
            if isinstance(error, FATAL):
                self._fatal = self._fatal or error
                return None
            if self.options.strict:
                raise
            error_text = await self._fail(task, error)
            return None
        finally:
            size = task.item.size or len(task.item.data or b"")
            await self.progress.parsed(
                task.listed.name, bytes=size, document_id=task.document_id or None, error=error_text
            )

    async def _read(self, task: Task) -> _Ready | None:
        item = task.item
        if (over := await asyncio.to_thread(self.check.over_size, task)) is not None:
            self._report(task, "skipped", reason=over)
            return None
        look = await asyncio.to_thread(self.check.look, task)
        task.digest = look.digest
        self._looks[task] = look
        if self.check.is_unchanged(task, look):
            self._keep(task, look.stamp, look.digest)
            return None
        chunker, _ = self._chunkers[task.listed.name]
        file = look.item.path if look.item.path is not None else look.item.data or b""
        look = self._looks[task] = replace(look, item=item)  # the content is not kept
        with span("read", bytes=item.size or len(item.data or b""), parser=type(look.parser).__name__) as told:
            read = await read_file(
                self._pool,
                look.parser,
                chunker,
                file,
                item.filename,
                self._transforms,
                with_tables=self.kb.keeps_tables,
            )
            told.set_attribute("chunks", len(read.chunks))
        try:
            return await self._checked(task, look, read)
        except BaseException:
            await _forget(read.chunks)
            raise

    async def _checked(self, task: Task, look: Look, read: ReadFile) -> _Ready | None:
        most = self.options.max_chunks or (_MOST_CHUNKS if self.check.in_parts else _MOST_CHUNKS_WHOLE)
        if len(read.chunks) > most:
            over = f"{len(read.chunks):,} chunks are over max_chunks={most:,}; split it, or raise that"
            self._report(task, "skipped", reason=over)
            await _forget(read.chunks)
            return None
        if isinstance(read.chunks, ChunkFile) and not (self.check.in_parts and read.chunks.has_text):
            chunks = await asyncio.to_thread(_in_memory, read.chunks)
            await _forget(read.chunks)
            read = replace(read, chunks=chunks)
        return await self._prepared(task, look, read)

    async def _prepared(self, task: Task, look: Look, read: ReadFile) -> _Ready:
        title = read.title or task.item.title
        warnings = list(read.warnings)
        cost = _CELL_BYTES * sum(table.row_count * len(table.columns) for table in read.tables)
        if isinstance(read.chunks, ChunkFile):
            cost += PART_CHUNKS * _CHUNK_BYTES + 2 * PART_BYTES
        else:
            look = await self._completed(look, read.chunks, title, warnings)
            cost += len(read.chunks) * _CHUNK_BYTES + 2 * sum(len(chunk.text) for chunk in read.chunks)
        await self._budget.take(cost)
        outcome: Outcome = "added" if task.is_new else "replaced"
        return _Ready(
            task,
            look,
            read.chunks,
            title,
            warnings,
            outcome,
            self.check.cause(task, look),
            cost,
            read.tables,
        )

    async def _completed(self, look: Look, chunks: list[Chunk], title: str | None, warnings: list[str]) -> Look:
        """Give chunks their title and, where it is wanted, their line of context."""
        for chunk in chunks:
            chunk.title = chunk.title or title
        if (contexts := self.options.contexts) is not None and self.options.dry_run:
            estimate = self.report.estimate = self.report.estimate or Estimate()
            more = await contexts.cost(chunks)
            estimate.add_contexts(more.requests, more.tokens, more.shared_tokens)
        elif contexts is not None:
            added = await contexts.add(chunks)
            warnings += added.warnings
            if added.failed:  # not what was asked for, so that the next run does it again
                return replace(look, pipeline=replace(look.pipeline, transforms=_INCOMPLETE))
        return look

    async def _request(self, inputs: list[EmbeddingInput]) -> Sequence[Vector]:
        with span("embed", inputs=len(inputs)):
            return await self.kb.embedder.embed(inputs, "document")

    async def _embed(self, ready: _Ready) -> None:
        """Find its vectors, then hand it to the writer; a large document goes to the store from here, part by part."""
        try:
            known = await self._reuse.known(ready.task, ready.look.digest)
            if self.options.dry_run:
                await self._estimate(ready, known)
                return
            if isinstance(ready.chunks, ChunkFile):
                await self._write_in_parts(ready, ready.chunks, known)
                await self._budget.give_back(ready.cost)
                return
            ready.vectors = await self._vectors(ready.chunks, known)
        except Exception as error:
            await self._budget.give_back(ready.cost)
            await self._failed_late(ready, error)
        else:
            await self._queue.put(ready)
        finally:
            self._unembedded -= 1
            await _forget(ready.chunks)

    async def _vectors(self, chunks: Sequence[Chunk], known: Known) -> dict[str, Vector]:
        there = await known.of(chunks)
        return {**there, **await self._embedding.vectors(self.kb.embedder.wanted(chunks, there))}

    async def _write_in_parts(self, ready: _Ready, parts: ChunkFile, known: Known) -> None:
        written = await self.kb.replace_in_parts(
            self._document(ready, [], "stored"),
            parts,
            known_vectors=lambda chunks: self._vectors(chunks, known),
            trigger=self.options.trigger,
        )
        warnings = ready.warnings + self._images_left_out(written.images_left_out)
        self._report(ready.task, ready.outcome, reason=ready.cause, chunks=written.chunk_count, warnings=warnings)
        await self.progress.stored(ready.task.listed.name, ready.task.document_id, ready.outcome)

    async def _failed_late(self, ready: _Ready, error: Exception) -> None:
        if isinstance(error, FATAL) or error is self._embedding.fatal:
            self._fatal = self._fatal or error
            return
        if self.options.strict:
            raise error
        reason = await self._fail(ready.task, error)
        await self.progress.stored(ready.task.listed.name, ready.task.document_id, "failed", reason)

    async def _estimate(self, ready: _Ready, known: Known) -> None:
        cost = self.report.estimate = self.report.estimate or Estimate()
        indexed = 0
        async for part in in_threads([ready.chunks] if isinstance(ready.chunks, list) else ready.chunks):
            for chunk in part:
                chunk.title = chunk.title or ready.title
            wanted = self.kb.embedder.wanted(part, await known.of(part)).values()
            cost.chunks += len(wanted)
            cost.tokens += sum(approx_tokens(one) for one in wanted if isinstance(one, str))
            indexed += sum(map(self.kb.can_index, part))
        cost.requests = -(-cost.chunks // self._batch_size)
        await self._budget.give_back(ready.cost)
        self._report_written(ready, indexed)

    # --- writing ---

    async def _write_all(self) -> None:
        open_ended = True
        while open_ended:
            batch: list[_Ready] = []
            while open_ended and not _is_full(batch):
                try:
                    # wait_for of Python 3.11 loses a cancellation that comes together with an item.
                    async with asyncio.timeout(_LINGER_S if batch else None):
                        ready = await self._queue.get()
                except TimeoutError:
                    break
                if ready is None:
                    open_ended = False
                else:
                    batch.append(ready)
                    if not self._unread and not self._unembedded and self._queue.empty():
                        break
            if batch and not self._store_failed:
                await self._write(batch)
            if batch:
                for ready in batch:
                    await self._budget.give_back(ready.cost)

    async def _write(self, batch: Sequence[_Ready]) -> None:
        """Write a batch in one go; if that fails, one by one, so that one bad document costs only itself."""
        try:
            known: dict[str, Vector] = {}
            for ready in batch:
                known.update(ready.vectors)
            await self.kb.replace_documents(
                [self._whole_document(ready) for ready in batch],
                trigger=self.options.trigger,
                known_vectors=known,
                tell_refused=len(batch) == 1,
            )
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, FATAL):
                for ready in batch:
                    await self._write([ready])
                return
            self._store_failed = isinstance(error, FATAL)
            await self._failed_late(batch[0], error)
            return
        for ready in batch:
            outcome = self._report_written(ready, sum(map(self.kb.can_index, _in_memory(ready.chunks))))
            await self.progress.stored(ready.task.listed.name, ready.task.document_id, outcome)

    def _whole_document(self, ready: _Ready) -> Document:
        chunks = _in_memory(ready.chunks)
        if any(self.kb.can_index(chunk) for chunk in chunks):
            return self._document(ready, chunks, "stored")
        return self._document(ready, chunks, "skipped", self._nothing(ready))

    def _document(
        self, ready: _Ready, chunks: list[Chunk], status: Literal["stored", "skipped"], reason: str = ""
    ) -> Document:
        task, look = ready.task, ready.look
        metadata = {"filename": task.item.filename, **task.item.metadata}
        state = self._state(
            task,
            FileState(source=task.listed.name),
            digest=look.digest,
            stamp=look.stamp,
            pipeline=look.pipeline.dump(),
            status=status,
            reason=reason,
        )
        return Document(
            document_id=task.document_id,
            chunks=chunks,
            metadata={**metadata, **({"also": task.also} if task.also else {})},
            title=ready.title,
            uri=task.item.uri,
            source=task.item.filename,
            state=state.dump(),
            tables=ready.tables,
        )

    def _state(self, task: Task, before: FileState, **changes: str) -> FileState:
        owner = task.owner
        _, chosen = self._chunkers[task.listed.name]
        values = {
            name: getattr(before, name) for name in ("digest", "stamp", "pipeline", "status", "reason", "refused")
        }
        return FileState(
            source=owner.source,
            path=owner.path,
            location=owner.location,
            chosen=owner.chosen,
            chunker_chosen="yes" if chosen else "",
            **{**values, **changes},
        )

    # --- reporting ---

    def _report_written(self, ready: _Ready, indexed: int) -> Outcome:
        """
        Args:
            indexed: Chunks that can be found.
        """
        if not indexed:
            reason = self._nothing(ready)
            if ready.outcome == "replaced":
                reason += "; its earlier version was removed"
            self._report(ready.task, "skipped", reason=reason)
            return "skipped"
        warnings = ready.warnings + self._images_left_out(len(ready.chunks) - indexed)
        self._report(ready.task, ready.outcome, reason=ready.cause, chunks=indexed, warnings=warnings)
        return ready.outcome

    def _nothing(self, ready: _Ready) -> str:
        return "; ".join(ready.warnings + self._images_left_out(len(ready.chunks))) or "no text in it"

    def _images_left_out(self, count: int) -> list[str]:
        return (
            [f"{count} image(s) without text left out: the embedding model reads text only (--ocr reads words in them)"]
            if count
            else []
        )

    async def _fail(self, task: Task, error: Exception) -> str:
        """Report a file that could not be read or written, and remember it if that is the content's fault."""
        reason = redact(str(error) or type(error).__name__)
        if not isinstance(error, AgentRAGError | OSError):
            logger.exception("%s failed", task.item.filename)
        else:
            logger.warning("%s failed: %s", task.item.filename, reason)
        empty = isinstance(error, EmptyFileError) and task.is_new and self._may_be_empty(task)
        self._report(task, "skipped" if empty else "failed", reason=reason)
        lasting = isinstance(error, ParseError) and not isinstance(error, ParseTimeoutError | MissingExtraError)
        if lasting and not self.options.dry_run and self.kb.atomic:
            try:
                await self._remember(task, "skipped" if empty else "failed", reason)
            except AgentRAGError as problem:
                logger.warning("%s: that it failed could not be stored: %s", task.item.filename, redact(str(problem)))
        return reason

    def _may_be_empty(self, task: Task) -> bool:
        look = self._looks.get(task)
        return look is not None and is_text(look.parser)

    async def _remember(self, task: Task, status: str, reason: str) -> None:
        look = self._looks.get(task)
        if look is None:
            return
        if task.known is not None and not task.is_new:
            state = self._state(task, task.known.state, refused=look.digest, reason=reason)
            change = DocumentChange(uri=task.item.uri, state=state.dump())
            await self.kb.change_documents({task.document_id: change})
            return
        state = self._state(task, FileState(source=task.listed.name), digest=look.digest, stamp=look.stamp,
                            pipeline=look.pipeline.dump(), status=status, reason=reason)  # fmt: skip
        document = Document(document_id=task.document_id, chunks=[], uri=task.item.uri, source=task.item.filename,
                            metadata={"filename": task.item.filename}, state=state.dump())  # fmt: skip
        await self.kb.replace_documents([document], trigger=self.options.trigger)

    def _report(self, task: Task, outcome: Outcome, **more: Any) -> None:
        self.report.files.append(
            FileReport(
                document_id=task.document_id,
                uri=task.item.uri,
                outcome=outcome,
                also=task.also,
                source=task.listed.name,
                **more,
            )
        )


def first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group of groups."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _in_memory(chunks: list[Chunk] | ChunkFile) -> list[Chunk]:
    return chunks if isinstance(chunks, list) else [chunk for part in chunks for chunk in part]


async def _forget(chunks: list[Chunk] | ChunkFile) -> None:
    if isinstance(chunks, ChunkFile):
        await asyncio.to_thread(chunks.close)  # deleting a large file takes a while


def _is_full(batch: Sequence[_Ready]) -> bool:
    return len(batch) >= _BATCH_DOCUMENTS or sum(len(ready.chunks) for ready in batch) >= _BATCH_CHUNKS


def _whole(value: object) -> int | None:
    """A number of a model's attribute, where it has one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
