"""A run: list the sources, settle what each item is, read what changed, embed, write, and prune what is gone."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence

from ..chunkers import AutoChunker, ChunkerBase
from ..chunkers.base import chunker_from
from ..documents import DocumentSummary, scope_key
from ..errors import ConfigurationError, SourceError
from ..knowledge.knowledge_base import KnowledgeBase
from ..knowledge.updating import DocumentChange
from ..parsers import ParserBase, ParserPool, parser_for
from ..sources import Listing, SourceBase, SourceItem
from ..tables.extract import VERSION as TABLES_VERSION
from .changes import ChangeCheck, digest_of, fingerprint_of
from .flow import Flow
from .identity import Listed, Plan, Task, make_plan
from .options import RunOptions
from .progress import Progress
from .report import Estimate, FileReport, IngestReport
from .reuse import Reuse
from .source_names import Stored, path_of
from .state import FileState, Pipeline
from .transforms import CleanText, TransformBase, fingerprint_of_all

logger = logging.getLogger("agent_rag")


class IngestRun:
    """Sources going into one knowledge base, once."""

    def __init__(self, kb: KnowledgeBase, options: RunOptions, pool: ParserPool) -> None:
        self.kb = kb
        self.options = options
        self.report = IngestReport(dry_run=options.dry_run, estimate=Estimate() if options.dry_run else None)
        self.progress = Progress(options.on_event)
        self._pool = pool
        given = options.transforms
        self._transforms: list[TransformBase] = (
            [CleanText(images=kb.embedder.multimodal)] if given is None else [*given]
        )
        self._chunkers: dict[str, tuple[ChunkerBase, bool]] = {}

    async def run(self, sources: Sequence[SourceBase]) -> IngestReport:
        """Do it. Raises: SourceError; what every further file would meet too, with a note of what was done before."""
        key = scope_key(self.kb.metadata_filter)
        summaries = [
            # A handle without a scope sees those of all; they are none of its sources'.
            summary
            for summary in await self.kb.list_documents(remembered=True)
            if key or not summary.scope
        ]
        listings = await self._list(sources, summaries)
        plan = await asyncio.to_thread(make_plan, listings, summaries, digest_of)
        self.report.notes += plan.notes
        self.report.sources = sorted({listed.name for listed in plan.listed})
        for listed in plan.listed:
            self._choose_chunker(listed, plan)
            await self.progress.start(listed.name, len(listed.listing.items))
            self._report_listing(listed)
        flow = self._flow(plan)
        unchanged, open_tasks = await asyncio.to_thread(_sieve, flow.check, plan.tasks)
        await flow.keep(unchanged)
        await flow.process(open_tasks)
        await self._restate(flow.kept)
        for name in self.report.sources:
            await self._remove_gone(name, plan)
            await self.progress.finish(name)
        if not self.options.dry_run:
            await self.kb.sweep_tables()
        self.report.notes += [note for note in self.kb.keyword_notes if note not in self.report.notes]
        return self.report

    async def run_one(self, plan: Plan) -> None:
        """The one task of a plan that was made without looking at what else is stored."""
        (listed,) = plan.listed
        self._choose_chunker(listed, plan)
        await self.progress.start(listed.name, 1)
        await self._flow(plan).process(plan.tasks)
        await self.progress.finish(listed.name)

    def _made_by(self) -> str:
        """What stands between parsing and embedding, beside the chunker."""
        steps = fingerprint_of_all(self._transforms)
        return steps if self.options.contexts is None else f"{steps}|{self.options.contexts.fingerprint}"

    def _flow(self, plan: Plan) -> Flow:
        check = ChangeCheck(
            self.options,
            self.options.parser_for or _parser_of,
            lambda task: self._chunkers[task.listed.name][0].fingerprint,
            fingerprint_of(self.kb.embedding_model) if self.kb.embedding_model is not None else "",
            self._made_by(),
            TABLES_VERSION if self.kb.keeps_tables else "",
            in_parts=self.kb.takes_parts and self._pool.shares_disk and self.options.contexts is None,
        )
        reuse = Reuse(self.kb, plan)
        return Flow(
            self.kb,
            self.options,
            self._pool,
            check,
            reuse,
            self._transforms,
            self._chunkers,
            self.report,
            self.progress,
        )

    async def _list(
        self, sources: Sequence[SourceBase], summaries: Sequence[DocumentSummary]
    ) -> list[tuple[SourceBase, Listing]]:
        stamps: dict[str, dict[str, str]] = {}
        if not (self.options.force or self.options.checksum):
            for summary in summaries:
                state = FileState.of(summary.state)
                if state is not None and state.stamp and not state.refused:
                    stamps.setdefault(state.source, {})[state.path] = state.stamp
        gate = asyncio.Semaphore(self.options.source_concurrency)

        async def listed(source: SourceBase) -> Listing:
            async with gate:
                return await source.list_since(stamps.get(source.name, {}), self.progress.fetching(source.name))

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(listed(source)) for source in sources]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [(source, task.result()) for source, task in zip(sources, tasks, strict=True)]

    def _choose_chunker(self, listed: Listed, plan: Plan) -> None:
        """The chunker that was given; else the one that was given when this source was ingested last."""
        if self.options.chunker is not None:
            self._chunkers[listed.name] = (self.options.chunker, True)
            return
        self._chunkers.setdefault(listed.name, (AutoChunker(), False))
        chosen = [
            one.state.pipeline
            for one in plan.stored
            if one.state.source == listed.name and one.state.chunker_chosen and one.summary.chunk_count
        ]
        if not chosen:
            return
        pipeline = Pipeline.load(max(sorted(set(chosen)), key=chosen.count))
        kind, _, parameters = (pipeline.chunker if pipeline is not None else "").partition(":")
        try:
            chunker = chunker_from(kind, parameters)
        except (ConfigurationError, ValueError) as error:
            self.report.notes.append(f"{listed.name}: its chunker {kind!r} cannot be made again ({error}); using auto")
            return
        self._chunkers[listed.name] = (chunker, True)
        if chunker.fingerprint != AutoChunker().fingerprint:
            note = f"{listed.name}: chunked as before with {chunker.fingerprint}; pass a chunker to change it"
            self.report.notes.extend([note] if note not in self.report.notes else [])

    def _report_listing(self, listed: Listed) -> None:
        for outcome, entries in (("skipped", listed.listing.skipped), ("failed", listed.listing.errors)):
            for path, reason in entries:
                self.report.files.append(
                    FileReport(document_id=path, uri=path, outcome=outcome, reason=reason, source=listed.name)  # type: ignore[arg-type]
                )

    async def _restate(self, kept: Sequence[tuple[Task, FileState]]) -> None:
        """Write where documents are now, if that changed, and nothing else."""
        changes: dict[str, DocumentChange] = {}
        for task, state in kept:
            assert task.known is not None
            summary, dumped = task.known.summary, state.dump()
            moved = task.item.uri != summary.uri and summary.chunk_count > 0
            if moved or any(
                dumped.get(name) != summary.state.get(name)
                for name in ("source", "path", "location", "chosen", "refused", "status")
            ):
                changes[summary.document_id] = DocumentChange(uri=task.item.uri, state=dumped)
        if changes and not self.options.dry_run:
            await self.kb.change_documents(changes)

    # --- what is gone ---

    async def _remove_gone(self, name: str, plan: Plan) -> None:
        gone, total = plan.gone(name)
        errors = any(listed.listing.errors for listed in plan.listed if listed.name == name)
        if not gone:
            return
        if errors:
            if self.options.prune:
                logger.warning("%s: the listing had errors, so nothing is pruned", name)
                self.report.notes.append(f"{name}: the listing had errors, so nothing was pruned")
            return
        if not self.options.prune:
            await self._delete(name, await asyncio.to_thread(self._moved, gone, plan))
            return
        lost = sum(one.summary.chunk_count > 0 for one in gone)
        if lost > self.options.max_prune_share * total:
            raise SourceError(
                f"{name} lacks {lost} of its {total} documents; pruning more than "
                f"{self.options.max_prune_share:.0%} needs max_prune_share=1.0 (command line: --force); if they "
                "came from another source, give each a name of its own"
            )
        await self._delete(name, [(one, None) for one in gone])

    def _moved(self, gone: Sequence[Stored], plan: Plan) -> list[tuple[Stored, str | None]]:
        """Of files that are gone: those whose content is here under another path now, and what has no text anyway."""
        here = {task.digest: task.document_id for task in plan.tasks if task.digest and task.known is None}
        moved: list[tuple[Stored, str | None]] = []
        for one in gone:
            path = path_of(one.summary.uri or "")
            if path is None or os.path.lexists(path):
                continue
            if not one.summary.chunk_count:
                moved.append((one, None))
            elif one.state.digest in here:
                moved.append((one, f"moved to {here[one.state.digest]}"))
        return moved

    async def _delete(self, name: str, gone: Sequence[tuple[Stored, str | None]]) -> None:
        ids = [one.summary.document_id for one, _ in gone]
        if ids and not self.options.dry_run:
            await self.kb.delete_documents(ids, trigger=self.options.trigger)
        for one, reason in gone:
            summary = one.summary
            if not summary.chunk_count:
                continue
            self.report.files.append(
                FileReport(
                    document_id=summary.document_id,
                    uri=summary.uri or "",
                    outcome="pruned",
                    reason=reason,
                    chunks=summary.chunk_count,
                    source=name,
                )
            )
            await self.progress.pruned(name, summary.document_id)


def _sieve(check: ChangeCheck, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """Those that the file system says are unchanged, and the others."""
    unchanged: list[Task] = []
    changed: list[Task] = []
    for task in tasks:
        (unchanged if check.is_unchanged_by_stat(task) else changed).append(task)
    return unchanged, changed


def _parser_of(item: SourceItem) -> ParserBase:
    return parser_for(item.filename, item.media_type, item.path if item.path is not None else item.data)
