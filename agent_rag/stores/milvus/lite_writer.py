"""Writing documents to a collection of a local file: to the file first, then to memory, which is what readers see.

A version's head goes into the last call that writes its rows, so a crash leaves the old version or the new one, and
rows that the next opening removes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from ...errors import StoreError
from ..rows.worker import Steps
from ..versions.groups import grouped, slices
from ..versions.heads import Name
from .lite_collection import LiteCollection
from .lite_file import ID, row_bytes
from .lite_rows import Head, NewDocument

_GROUP_CHUNKS = 256
_PIECE_BYTES = 8_000_000
_DELETED_AT_ONCE = 200
_SPARE_PARTS = 16


class LiteWriter:
    """The write operations, as steps: reads may run between them."""

    def __init__(self, collection: LiteCollection) -> None:
        self._collection = collection

    def replace(self, documents: Sequence[NewDocument]) -> Steps[int]:
        """Publish whole documents. Returns the number of chunks they had before."""
        before = 0
        for group in grouped(documents, (lambda document: document.size, _GROUP_CHUNKS)):
            before += yield from self._publish(group)
        self._collection.compact()
        return before

    def delete(self, names: Sequence[Name]) -> Steps[int]:
        """Remove documents that are there. Returns the number of chunks."""
        removed = 0
        for some in slices(names, _DELETED_AT_ONCE):
            self._collection.rows.delete([one for name in some for one in self._collection.row_ids(name)])
            removed += sum(map(self._collection.drop, some))
            yield
        self._collection.compact()
        return removed

    def _publish(self, group: Sequence[NewDocument]) -> Steps[int]:
        collection = self._collection
        numbers = range(collection.next_number, collection.next_number + len(group))
        collection.next_number += len(group)
        heads = [Head(document.name, document.document, len(document.parts)) for document in group]
        rows = [row for document, number in zip(group, numbers, strict=True) for row in document.rows(number)]
        rows += [head.row(number) for head, number in zip(heads, numbers, strict=True)]
        written: list[str] = []
        try:
            for piece in grouped(rows, (row_bytes, _PIECE_BYTES)):
                if written:
                    yield
                collection.rows.insert(piece)
                written += [row[ID] or "" for row in piece]
        except BaseException:
            if written:
                with contextlib.suppress(StoreError), collection.rows.tidying():  # the first error says more
                    collection.rows.delete(written)
            raise
        old = [one for head in heads if head.name in collection.versions for one in collection.row_ids(head.name)]
        before = sum(collection.drop(head.name) for head in heads)
        for document, head, number in zip(group, heads, numbers, strict=True):
            collection.put(head, number)
            collection.add([(head.name, one.part) for one in document.parts])
        if old:
            with collection.rows.tidying():
                collection.rows.delete(old)
        yield
        return before
