"""Writing documents to one collection in Tencent Cloud VectorDB.

A version is published by its head: in place of another one only where the head is still the one that was read (an
update with a condition), and otherwise by an upsert, so of two writers of a new document the later one wins. Chunks of
a version without a head are invisible to every reader. Log rows name the versions that are being written or removed,
and a later writer removes what a crashed one left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

from ...errors import StoreError
from ...filters import FilterLike
from ..versions.groups import grouped, slices
from ..versions.heads import Name
from .reads import IS_LOG, Reader
from .schema import (
    ID,
    REVISION,
    VERSION,
    WRITTEN,
    NewDocument,
    Row,
    Stored,
    chunk_row_id,
    head_row,
    head_row_id,
    is_in,
    log_row,
    log_row_id,
    new_version,
)

_ATTEMPTS = 50
_GROUP_CHUNKS = 1_000
_HEADS = 500
# How long a writer may take from its first chunk to its head, clocks of several machines included.
_ABANDONED_S = 3_600.0


class Writer:
    """The write operations.

    Args:
        average_length: Of the chunks that are there, for the weights of the sparse index; None without any.
    """

    def __init__(self, reader: Reader, average_length: float | None = None) -> None:
        self._reader = reader
        self._connection = reader.connection
        self._average = average_length
        self._chunks, self._heads = reader.chunks_name, reader.heads_name

    def replace(self, documents: Sequence[NewDocument]) -> int:
        """Publish whole documents, each at one moment. Returns the number of chunks they had before."""
        self.sweep()
        self._choose_average(documents)
        return sum(self._publish(group) for group in _groups(documents))

    def delete(self, document_ids: Sequence[str] | None, metadata_filter: FilterLike | None) -> list[Stored]:
        """Remove documents: first the heads, so that none of the chunks counts. Returns them as they were."""
        removed: list[Stored] = []
        for _ in range(_ATTEMPTS):
            changed = False
            for some in slices(self._reader.heads_matching(metadata_filter, document_ids), _HEADS):
                self._connection.upsert(self._heads, [log_row(stored.version) for stored in some])
                unchanged = is_in(REVISION, [stored.revision for stored in some])
                count = self._connection.delete(self._heads, [head_row_id(stored.name) for stored in some], unchanged)
                left = self._reader.by_name([stored.name for stored in some]) if count < len(some) else {}
                changed |= bool(left)
                gone = [stored for stored in some if stored.name not in left]
                self._remove(gone)
                removed += gone
            if not changed:
                return removed
        raise StoreError(
            f"documents of collection {self._reader.info.name!r} are written by others all the time: {_ATTEMPTS} "
            "attempts to delete them failed; try again"
        )

    # --- publishing ---

    def _choose_average(self, documents: Sequence[NewDocument]) -> None:
        lengths = [chunk.terms.length for document in documents for chunk in document.chunks if chunk.terms.length]
        if self._average is None and lengths:
            self._average = sum(lengths) / len(lengths)

    def _publish(self, group: Sequence[NewDocument]) -> int:
        if not group:
            return 0
        started = time.monotonic()
        version_of = {document.name: new_version() for document in group}
        versions = list(version_of.values())
        self._connection.upsert(self._heads, [log_row(version) for version in versions])
        try:
            rows = (row for document in group for row in self._rows(document, version_of[document.name]))
            self._connection.upsert(self._chunks, rows)
        except BaseException:
            unpublished = [
                Stored(document.name, document.head, version_of[document.name], "", 0.0) for document in group
            ]
            with contextlib.suppress(Exception):  # the first error says more, and no head names these rows
                self._remove(unpublished)
            raise
        # An error from here on leaves the chunks: the heads may have been written.
        if time.monotonic() - started > _ABANDONED_S / 2:
            raise StoreError(
                f"a write to collection {self._reader.info.name!r} took longer than {_ABANDONED_S / 2:g} s, so that "
                "others may have cleared it away; write less in one call"
            )
        replaced = self._swap_heads(group, version_of)
        self._remove(replaced)
        # Log rows of new documents stay for `sweep`: another writer's head may yet take the place of theirs.
        done = [log_row_id(version_of[stored.name]) for stored in replaced]
        self._connection.delete(self._heads, done)
        return sum(stored.head.count for stored in replaced)

    def _swap_heads(self, group: Sequence[NewDocument], version_of: dict[Name, str]) -> list[Stored]:
        """Make every head name its new version. Returns the heads that were replaced."""
        pending = {document.name: document for document in group}
        replaced: list[Stored] = []
        for attempt in range(_ATTEMPTS):
            current = self._reader.by_name(list(pending))
            self._connection.upsert(self._heads, [log_row(stored.version) for stored in current.values()])
            new = [
                head_row(document.summary, document.head, version_of[name])
                for name, document in pending.items()
                if name not in current
            ]
            self._connection.upsert(self._heads, new)
            for name in [name for name in pending if name not in current]:
                del pending[name]
            for name, stored in current.items():
                row = head_row(pending[name].summary, pending[name].head, version_of[name])
                if self._put_if(stored, row):
                    del pending[name]
                    replaced.append(stored)
            if not pending:
                return replaced
            time.sleep(0.002 * attempt)
        raise StoreError(
            f"documents {sorted(name[1] for name in pending)[:5]!r} of collection {self._reader.info.name!r} are "
            f"replaced by others all the time: {_ATTEMPTS} attempts lost; try again"
        )

    def _put_if(self, stored: Stored, row: Row) -> bool:
        """Write a head over the one that was read; whether it was still there."""
        changes = {name: value for name, value in row.items() if name not in (ID, "vector")}
        return self._connection.update_if(self._heads, row[ID], is_in(REVISION, [stored.revision]), changes)

    def _rows(self, document: NewDocument, version: str) -> Iterator[Row]:
        average = self._average or 1.0
        embedded = self._connection.options.embedding is not None
        return (chunk.in_version(version, average, embedded=embedded) for chunk in document.chunks)

    # --- afterwards ---

    def _remove(self, versions: Sequence[Stored]) -> None:
        """Remove the chunks of versions that no head names, then their log rows."""
        ids = [chunk_row_id(one.version, index) for one in versions for index in one.head.indexes()]
        self._connection.delete(self._chunks, ids)
        self._connection.delete(self._heads, [log_row_id(one.version) for one in versions])

    def sweep(self) -> None:
        """Clear up after writers that crashed."""
        before = int((time.time() - _ABANDONED_S) * 1000)
        rows = self._connection.query(self._heads, f"{IS_LOG} and {WRITTEN} < {max(before, 0)}", [VERSION], limit=500)
        versions = [row[VERSION] for row in rows]
        live = self._reader.by_version(versions) if versions else {}
        for version in versions:
            if version not in live:
                self._connection.delete_where(self._chunks, is_in(VERSION, [version]))
        self._connection.delete(self._heads, [log_row_id(version) for version in versions])


def _groups(documents: Sequence[NewDocument]) -> Iterator[list[NewDocument]]:
    """Documents that are published together."""
    return grouped(documents, (lambda document: len(document.chunks), _GROUP_CHUNKS))
