"""How a search tells versions of documents apart on an engine that others write to meanwhile.

Each version of a document has an id of its own, which all its rows carry, and the document's head names the version
that counts. A writer writes the rows first and the head last. A reader searches, reads the heads of what it found, and
searches again without the rows that do not count. So it never mixes two versions, and finds one of each document.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from .heads import Head, Name

Id = TypeVar("Id", bound=Hashable)
# How far the clocks of writers and readers may be apart.
_CLOCKS_S = 10.0


class Changed(Exception):
    """A document got another version between two steps of a read."""


class CountingHead(Protocol):
    """A head as it was read."""

    @property
    def name(self) -> Name: ...

    @property
    def head(self) -> Head: ...

    @property
    def written_at(self) -> float:
        """Seconds since 1970, by the writer's clock."""


AnyHead = TypeVar("AnyHead", bound=CountingHead)


class Versions(Generic[Id, AnyHead]):
    """The versions that one search has seen.

    Args:
        is_shared: Whether a version may be published during a search, which then may have found it in part.
    """

    def __init__(self, *, is_shared: bool) -> None:
        self._is_shared = is_shared
        self._since = time.time()
        """A moment before the search that is settled next began, however long it takes. A head that is older was
        published with all rows of its version before that search."""
        self.pinned: dict[Name, Id] = {}
        """The version of each document that this search sees."""
        self.known: dict[Id, AnyHead] = {}
        """Versions that count."""
        self.stale: set[Id] = set()
        """Versions that do not; to be left out of the next search."""

    def to_ask(self, found: Iterable[Id]) -> set[Id]:
        """The versions whose heads must be read after a search that found rows of the versions `found`."""
        return (set(found) - self.known.keys()) | self.stale

    def settle(self, asked: set[Id], heads: Mapping[Id, AnyHead]) -> bool:
        """Take what the heads say; whether the search saw nothing but what counts.

        Args:
            asked: From `to_ask`.
            heads: Version -> head, of those in `asked` that are named by a head.

        Raises: Changed: a document that was seen before has another version now.
        """
        for version, head in heads.items():
            if self.pinned.setdefault(head.name, version) != version:
                raise Changed
            self.known[version] = head
        revived = self.stale & heads.keys()  # the search left them out
        new_stale = (asked - self.stale) - heads.keys()
        self.stale = asked - heads.keys()
        recent = self._is_shared and any(head.written_at > self._since - _CLOCKS_S for head in heads.values())
        self._since = time.time()
        return not (recent or new_stale or revived)
