"""Writing documents as versions; `protocol` says how."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...documents import DocumentSummary, VectorRecord
from ...errors import StoreError
from ...filters import FilterLike, matches
from ...retrieval.analysis import index_tokens
from ..engine.prepared import by_document
from ..engine.records import Prepared, Vector
from .groups import at_most, grouped
from .heads import Name, Runs, check_indexes, runs_of
from .protocol import Head, NewRow, NewVersion, Primitives, Put, head_id, head_of, made_at, new_version

_ATTEMPTS = 50
_GROUP_CHUNKS = 1_000
_GROUP_DOCUMENTS = 200
LEFTOVER_S = 3_600.0
"""Age of tombstones that `compact` removes, and of versions that nobody publishes any more."""
_AWAY_S = LEFTOVER_S / 2
"""A writer that needed longer from reading a head to swapping it begins again: its tombstone or its
rows may be gone."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A document before it has a version."""

    name: Name
    summary: DocumentSummary | None
    """None removes the document."""
    rows: Sequence[NewRow] = ()

    def head(self) -> Head:
        """The head of a new version."""
        head = head_id(self.name)
        if self.summary is None:
            return Head(id=head, name=self.name, version="", summary=None)
        return Head(
            id=head,
            name=self.name,
            version=new_version(head),
            summary=self.summary.model_copy(update={"chunk_count": len(self.rows)}),
            runs=runs_of(row.index for row in self.rows),
            tokens=sum(len(row.terms) for row in self.rows),
            indexed=sum(bool(row.terms) for row in self.rows),
        )


Fits = Callable[[Head | None], bool]
"""Whether a draft may follow a head; what may not is left as it is."""


class Publisher:
    """The writes of one collection."""

    def __init__(self, primitives: Primitives, average_length: Callable[[Sequence[NewRow]], Awaitable[float]]) -> None:
        self._primitives = primitives
        self._average_length = average_length

    async def replace(self, drafts: Iterable[Draft]) -> int:
        """Publish whole documents, each at one moment. Returns the number of chunks they had before."""
        return sum(head.count for head in await self._publish_all(drafts, lambda _: True))

    async def replace_unchanged(self, drafts: Iterable[Draft], versions: Mapping[Name, str]) -> list[Name]:
        """Publish the documents whose version still is that of `versions`. Returns the others."""

        def fits(head: Head | None) -> bool:
            return head is not None and head.version == versions[head.name]

        replaced = {head.name for head in await self._publish_all(drafts, fits)}
        return [name for name in versions if name not in replaced]

    async def _publish_all(self, drafts: Iterable[Draft], fits: Fits) -> list[Head]:
        """Returns the heads of the documents that were replaced."""
        bounds = at_most(_GROUP_DOCUMENTS), (lambda draft: len(draft.rows), _GROUP_CHUNKS)
        return [head for group in grouped(drafts, *bounds) for head in await self._publish(group, fits)]

    async def delete(self, names: Iterable[Name], metadata_filter: FilterLike | None) -> list[Head]:
        """Remove documents, where their metadata match when they are removed. Returns what was removed."""

        def fits(head: Head | None) -> bool:
            return head is not None and head.summary is not None and matches(metadata_filter, head.summary.metadata)

        gone: list[Head] = []
        for group in grouped(names, at_most(_GROUP_CHUNKS)):
            gone += await self._publish([Draft(name, None) for name in group], fits)
        return gone

    async def compact(self) -> int:
        """Remove the rows that no head names, and old tombstones. Returns the number of rows removed."""
        primitives = self._primitives
        counted, named = await primitives.tally(None), await primitives.named()
        strays = {version: count for version, count in counted.items() if version not in named}
        removed = 0
        for group in grouped(self._abandoned(strays), at_most(_GROUP_CHUNKS)):
            quiet = await self._beaten(group) if primitives.guarded else group
            await primitives.delete_rows(dict.fromkeys(quiet))
            removed += sum(strays[version] for version in quiet)
        await primitives.delete_tombstones(time.time() - LEFTOVER_S)
        await primitives.settle()
        return removed

    async def _beaten(self, versions: Sequence[str]) -> list[str]:
        """Those of these unnamed versions that nobody can publish from now on."""
        heads = await self._primitives.get_heads({head_of(version) for version in versions})
        # A new revision beats the writers that are at work: their rows may be among those to remove.
        puts = [_touched(head, heads.get(head)) for head in dict.fromkeys(map(head_of, versions))]
        kept = await self._swap(puts) | {put.head.version for put in puts}
        return [version for version in versions if version not in kept and head_of(version) not in kept]

    def _abandoned(self, versions: Iterable[str]) -> list[str]:
        """Those of these versions whose writer cannot publish them after a new head."""
        if self._primitives.guarded:
            return list(versions)
        latest = time.time() - LEFTOVER_S
        return [version for version in versions if made_at(version) < latest]

    async def _publish(self, drafts: Sequence[Draft], fits: Fits) -> list[Head]:
        """Returns the heads of the documents that were replaced; new documents have none."""
        replaced: list[Head] = []
        pending = list(drafts)
        for attempt in range(_ATTEMPTS):
            pending = await self._attempt(pending, fits, replaced)
            if not pending:
                return replaced
            await asyncio.sleep(random.random() * 0.004 * attempt)
        raise StoreError(
            f"documents {sorted(draft.name[1] for draft in pending)[:5]!r} of collection "
            f"{self._primitives.info.name!r} are replaced by others all the time: {_ATTEMPTS} attempts lost; try again"
        )

    async def _attempt(self, drafts: Sequence[Draft], fits: Fits, replaced: list[Head]) -> list[Draft]:
        """Try once. Returns what lost."""
        primitives, started = self._primitives, time.monotonic()
        heads = await primitives.get_heads([head_id(draft.name) for draft in drafts])
        found = {draft.name: heads.get(head_id(draft.name)) for draft in drafts}
        drafts = [draft for draft in drafts if fits(found[draft.name])]
        if not drafts:
            return []
        puts = [Put(draft.head().over(found[draft.name]), found[draft.name]) for draft in drafts]
        await self._put_rows(drafts, puts)
        strays = self._abandoned(await primitives.tally(None, [put.head.id for put in puts]))
        is_late = time.monotonic() - started > _AWAY_S
        lost = {put.head.id for put in puts} if is_late else await self._swap(puts)
        await primitives.delete_rows(_doomed(puts, lost, strays))
        await primitives.settle()
        replaced += [put.before for put in puts if put.head.id not in lost and put.before and put.before.summary]
        return [draft for draft in drafts if head_id(draft.name) in lost]

    async def _put_rows(self, drafts: Sequence[Draft], puts: Sequence[Put]) -> None:
        new = [
            NewVersion(draft.name, put.head.version, draft.rows)
            for draft, put in zip(drafts, puts, strict=True)
            if draft.rows
        ]
        if not new:
            return
        average = await self._average_length([row for version in new for row in version.rows])
        try:
            await self._primitives.put_rows(new, average)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error says more, and no head names these rows
                await self._primitives.delete_rows({put.head.version: put.head.runs for put in puts if put.head.runs})
            raise

    async def _swap(self, puts: Sequence[Put]) -> set[str]:
        """Write the heads. Returns the ids of those that lost."""
        # Readers take a head that is older than their search for one that was published before it.
        puts = [Put(put.head.now(), put.before) for put in puts]
        doubtful = await self._primitives.put_heads(puts)
        if not doubtful:
            return set()
        now = await self._primitives.get_heads(doubtful)
        mine = {put.head.id: put.head.revision for put in puts}
        return {
            head for head in doubtful if head not in now or mine[head] not in (now[head].revision, *now[head].history)
        }


def _doomed(puts: Sequence[Put], lost: Collection[str], strays: Collection[str]) -> dict[str, Runs | None]:
    """The versions whose rows go after a swap, with what is known of their rows."""
    won = {put.head.id: put for put in puts if put.head.id not in lost}
    doomed: dict[str, Runs | None] = {put.head.version: put.head.runs for put in puts if put.head.id in lost}
    for version in strays:
        if head_of(version) in won and version != won[head_of(version)].head.version:
            doomed[version] = None
    doomed |= {put.before.version: put.before.runs for put in won.values() if put.before is not None}
    doomed.pop("", None)
    return doomed


def _touched(head: str, stored: Head | None) -> Put:
    """The same head again; a tombstone where there is none."""
    kept = stored or Head(id=head, name=("", ""), version="", summary=None)
    return Put(kept.over(stored), stored)


def drafts_of(primitives: Primitives, summaries: Sequence[DocumentSummary], prepared: Prepared) -> list[Draft]:
    """Everything about documents that needs no server: JSON, tokens. For a worker thread.

    Raises: RecordError: a chunk index is too high.
    """
    check_indexes(prepared.records)

    def make(record: VectorRecord, vector: Vector) -> NewRow:
        chunk = record.chunk
        terms = primitives.terms(index_tokens(chunk)) if primitives.info.keyword else []
        return NewRow(chunk.chunk_index, vector, chunk.model_dump_json(), chunk.metadata, terms)

    return [
        Draft((summary.scope, summary.document_id), summary, rows)
        for summary, rows in by_document(summaries, prepared, make)
    ]
