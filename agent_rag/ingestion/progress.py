"""Where a run is, as events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..events import EventCallback, LoadProgress, emit

_HEARTBEAT_S = 1.0


@dataclass
class _Counts:
    total: int
    parsed: int = 0
    stored: int = 0
    pruned: int = 0


class Progress:
    """Counts files by source and tells `on_event`; without one it costs nothing."""

    def __init__(self, on_event: EventCallback | None) -> None:
        self._on_event = on_event
        self._started = time.monotonic()
        self._last = self._started
        self._counts: dict[str, _Counts] = {}
        self._bytes = 0
        self._telling: set[asyncio.Future[None]] = set()
        self.embedding: Callable[[], tuple[int, int, int]] = lambda: (0, 0, 0)
        """Chunks embedded, chunks waiting, requests in flight; set by who embeds."""

    def fetching(self, source: str) -> Callable[[int, int], None]:
        """For a source that tells how far its listing is."""

        def tell(done: int, total: int) -> None:
            if self._on_event is not None:
                event = LoadProgress(
                    source=source, stage="fetch", done=done, total=total, elapsed_s=time.monotonic() - self._started
                )
                task = asyncio.ensure_future(emit(self._on_event, event))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

        return tell

    async def start(self, source: str, total: int) -> None:
        """A source was listed; a second one of the same name adds to it."""
        counts = self._counts.setdefault(source, _Counts(0))
        counts.total += total
        await self._tell(source, "list", 0)

    async def parsed(self, source: str, *, files: int = 1, bytes: int = 0, document_id: str | None = None,
                     error: str | None = None) -> None:  # fmt: skip
        """Files were read, found unchanged, or failed."""
        counts = self._counts[source]
        counts.parsed += files
        self._bytes += bytes
        await self._tell(source, "parse", counts.parsed, document_id, error=error)

    async def heartbeat(self) -> None:
        """Tell each second in which nothing else is told that the run goes on; cancelled at its end."""
        while self._on_event is not None:
            await asyncio.sleep(_HEARTBEAT_S)
            if time.monotonic() - self._last >= _HEARTBEAT_S:
                for source, counts in self._counts.items():
                    if counts.stored < counts.total:
                        await self._tell(source, "working", counts.stored)

    async def requested(self) -> None:
        """A request to the embedding model ended."""
        for source, counts in self._counts.items():
            if counts.stored < counts.total:
                await self._tell(source, "embed", counts.stored)

    async def stored(self, source: str, document_id: str, outcome: str, error: str | None = None) -> None:
        """A document was written, or its writing failed."""
        counts = self._counts[source]
        counts.stored += 1
        await self._tell(source, "store", counts.stored, document_id, outcome, error)

    async def pruned(self, source: str, document_id: str) -> None:
        """A document was deleted."""
        counts = self._counts[source]
        counts.pruned += 1
        await self._tell(source, "prune", counts.pruned, document_id, "pruned")

    async def finish(self, source: str) -> None:
        """A source is done."""
        await self._tell(source, "done", self._counts[source].total)

    async def _tell(
        self,
        source: str,
        stage: Literal["list", "parse", "embed", "store", "prune", "working", "done"],
        done: int,
        document_id: str | None = None,
        outcome: str | None = None,
        error: str | None = None,
    ) -> None:
        if self._on_event is None:
            return
        self._last = time.monotonic()
        elapsed = self._last - self._started
        through = sum(counts.parsed for counts in self._counts.values())
        total = sum(counts.total for counts in self._counts.values())
        chunks, waiting, in_flight = self.embedding()
        event = LoadProgress(
            source=source,
            stage=stage,
            done=done,
            total=self._counts[source].total,
            document_id=document_id,
            outcome=outcome,
            error=error,
            bytes=self._bytes,
            chunks=chunks,
            chunks_waiting=waiting,
            requests_in_flight=in_flight,
            elapsed_s=elapsed,
            eta_s=elapsed * (total - through) / through if through else None,
        )
        await emit(self._on_event, event)
