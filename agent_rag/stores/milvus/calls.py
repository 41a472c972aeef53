"""The calls to a Milvus, wherever it runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..versions.groups import at_most, grouped
from .options import MilvusOptions
from .schema import ID, PLACE, Fields, Indexes, MilvusDialect, MilvusInfo, among, parse_row_id, row_bytes

# A server refuses messages above 64 MB.
PIECE_BYTES = 24_000_000
MAX_LIMIT = 16_384

Stored = dict[str, Any]
"""A row as it was read."""
Having = Mapping[str, Collection[str]]
"""Field -> values, of which a row has one."""


def joined(condition: str, having: Having) -> str:
    """What `scan` looks for, as one expression."""
    parts = [f"{PLACE} > 0", *([condition] if condition else []), *(among(*item) for item in having.items())]
    return " and ".join(parts)


class Milvus(ABC):
    """What the primitives ask of a Milvus, wherever it runs. All calls block.

    Args:
        options: Of the store.
    """

    is_alone: bool = False
    """Whether nobody else writes, and calls run one after the other."""
    terms_at_once: int = 1
    """Most terms that one call of `frequencies` gets."""
    dialect = MilvusDialect()

    def __init__(self, options: MilvusOptions) -> None:
        self.options = options
        self.making = threading.RLock()
        """Held while a collection is made or completed."""

    @abstractmethod
    def open(self) -> None:
        """Raises: StoreUnavailableError, StoreLockedError."""

    @abstractmethod
    def close(self) -> None:
        """Harmless when closed."""

    @property
    @abstractmethod
    def version(self) -> str: ...

    @property
    @abstractmethod
    def has_snapshots(self) -> bool:
        """Whether a search sees the rows of one moment."""

    # --- rows ---

    @abstractmethod
    def upsert(self, collection: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write `rows`, all of which fit in one message (see `pieces`)."""

    def pieces(self, rows: Sequence[Stored]) -> Iterator[list[Stored]]:
        """`rows` in parts for one message each."""
        return grouped(rows, at_most(self.options.batch_size), (row_bytes, PIECE_BYTES))

    @abstractmethod
    def delete(self, collection: str, ids: Sequence[str]) -> None:
        """Heads, or all chunks of some versions."""

    @abstractmethod
    def delete_tombstones(self, heads: str, before: float) -> None:
        """Those that were written before this time, where that is safe."""

    @abstractmethod
    def get(self, collection: str, ids: Sequence[str], fields: Sequence[str]) -> list[Stored]:
        """Rows by id; missing ones are left out."""

    @abstractmethod
    def scan(self, collection: str, condition: str, fields: Sequence[str], having: Having) -> Iterator[Stored]:
        """All chunks or heads that match and have one of the values in each field of `having`, each once."""

    @abstractmethod
    def count(self, collection: str) -> int:
        """Chunks of a collection."""

    def tally(self, info: MilvusInfo, condition: str, heads: Collection[str] | None) -> dict[str, int]:
        """Number of chunks that match, by version; of the documents with these heads."""
        having = {} if heads is None else {info.head_field: heads}
        return Counter(parse_row_id(row[ID]).version for row in self.scan(info.chunks, condition, [ID], having))

    @abstractmethod
    def frequencies(self, collection: str, terms: Sequence[int], condition: str) -> dict[int, int]:
        """Number of chunks that match and have a term, by term."""

    @abstractmethod
    def search(
        self, collection: str, metric: str, query: Any, limit: int, condition: str, fields: Sequence[str]
    ) -> list[Stored]:
        """The best rows with ``id`` and ``distance``, best first.

        Args:
            query: A sparse vector as a dictionary, or a dense one.
        """

    # --- collections ---

    @abstractmethod
    def fields(self, collection: str) -> list[str] | None:
        """Names of its fields; None where there is no such collection."""

    @abstractmethod
    def names(self) -> list[str]: ...

    @abstractmethod
    def create(self, collection: str, fields: Fields) -> bool:
        """Without indexes. False where it is there already."""

    @abstractmethod
    def load(self, collection: str, indexes: Indexes | None = None, heads: str | None = None) -> None:
        """Before the first read of a session; harmless when loaded.

        Args:
            indexes: Those that are made where they are missing.
            heads: Of a collection of chunks, the heads beside it, which are loaded.
        """

    @abstractmethod
    def drop(self, collection: str) -> None: ...
