"""Which versions count, of those that a read found while others write."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable

from .protocol import Current, Primitives, head_of

_ATTEMPTS = 20
_STALE = 500
"""Versions that a search leaves out from the start."""


class Changed(Exception):
    """A document got another version between two steps of a read."""


class Settled:
    """The versions that one read has seen.

    Args:
        suspects: Versions that no head named lately.
    """

    def __init__(self, primitives: Primitives, suspects: Iterable[str] = ()) -> None:
        self._primitives = primitives
        self.stale = set(sorted(suspects)[:_STALE])
        """Versions that do not count; to be left out of the next try."""
        self.current: dict[str, Current] = {}
        """Version -> head, of those that count."""
        self._pinned: dict[str, str] = {}
        """Head -> the version of its document that this read sees."""
        self._tries = 0
        self._since = time.time()
        """A moment before the try that is checked next began. A head that is older was published with all rows of its
        version before that try."""

    async def check(self, found: Collection[str]) -> bool:
        """Read the heads of what a try found; whether it saw nothing but what counts, and all of that.

        Raises: Changed: a document that was seen before has another version now, or this goes on for ever.
        """
        self._tries += 1
        if self._tries > _ATTEMPTS:
            raise Changed
        asked = (set(found) - self.current.keys()) | self.stale
        heads = await self._primitives.current({head_of(version) for version in asked}) if asked else {}
        named = {one.version: one for one in heads.values() if one.version in asked}
        for version in named:
            if self._pinned.setdefault(head_of(version), version) != version:
                raise Changed
        revived = self.stale & named.keys()  # the try left them out
        new_stale = asked - self.stale - named.keys()
        is_recent = any(one.written_at >= self._since - self._primitives.clocks_s for one in named.values())
        self.current |= named
        self.stale = asked - named.keys()
        self._since = time.time()
        return not (is_recent or new_stale or revived)
