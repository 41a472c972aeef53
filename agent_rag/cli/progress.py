"""How far an ingestion is: bars on a terminal, a line every few seconds without one, JSON lines for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from ..events import Event, LoadProgress
from .output import errors, plain_text

_LINE_EVERY_S = 5.0
_JSON_EVERY_S = 1.0
_REFRESH_PER_S = 8
_TOLD = ("list", "store", "prune", "done")
"""Stages of which each event is a JSON line; of the others one a second is."""


@dataclass
class Stage:
    """How far one of reading, embedding and storing is."""

    name: str
    done: int = 0
    total: int = 0
    unit: str = "files"
    elapsed_s: float = 0.0

    @property
    def rate(self) -> float | None:
        """Of `unit`, a second; None before the first."""
        return self.done / self.elapsed_s if self.done and self.elapsed_s > 0 else None

    @property
    def left_s(self) -> float | None:
        """Seconds to go at this rate."""
        return (self.total - self.done) / self.rate if self.rate else None


@dataclass
class LoadState:
    """What the events of a run say, put together over its sources."""

    files: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    chunks: int = 0
    chunks_waiting: int = 0
    failed: int = 0
    current: str = ""
    fetching: str = ""
    elapsed_s: float = 0.0

    def take(self, event: LoadProgress) -> None:
        """One more event."""
        self.elapsed_s = max(self.elapsed_s, event.elapsed_s)
        if event.stage == "fetch":
            self.fetching = f"{event.source}: {event.done:,} of {event.total:,} fetched"
            return
        self.fetching = ""
        self.files[event.source] = max(self.files.get(event.source, 0), event.total)
        if event.stage == "parse":
            self.read[event.source] = event.done
        if event.stage == "store":
            self.stored[event.source] = event.done
        if event.error is not None:
            self.failed += 1
        if event.document_id is not None:
            self.current = event.document_id
        self.chunks, self.chunks_waiting = max(self.chunks, event.chunks), event.chunks_waiting

    @property
    def stages(self) -> list[Stage]:
        """Read, embed, store, in this order; those that are not begun have done=0."""
        total = sum(self.files.values())
        unchanged = max(0, sum(self.read.values()) - sum(self.stored.values()))
        stored = sum(self.stored.values())
        return [
            Stage("read", sum(self.read.values()), total, elapsed_s=self.elapsed_s),
            Stage("embed", self.chunks, self.chunks + self.chunks_waiting, "chunks", self.elapsed_s),
            Stage("store", stored, max(stored, total - self._settled(unchanged)), elapsed_s=self.elapsed_s),
        ]

    def _settled(self, unchanged: int) -> int:
        """Files that are read and will not be stored: once all are read, those that were not stored."""
        read, total = sum(self.read.values()), sum(self.files.values())
        return unchanged if read == total and not self.chunks_waiting else 0

    def line(self) -> str:
        """All of it in one line, for a log."""
        if self.fetching:
            return self.fetching
        parts = [_told(stage) for stage in self.stages if stage.done or stage.name == "read"]
        left = self.stages[0].left_s
        if left is not None and self.stages[0].done < self.stages[0].total:
            parts.append(f"about {_duration(left)} to go")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return "; ".join([*parts, *([self.current] if self.current else [])])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        table = Table.grid(padding=(0, 1))
        for stage in self.stages:
            if not stage.total and stage.name != "read":
                continue
            bar = ProgressBar(total=stage.total or None, completed=stage.done, width=max(6, min(40, width // 4)))
            cells = [f"{stage.done:,}/{stage.total:,}", _rate(stage), _left(stage)]
            table.add_row(f"{stage.name:>5}", bar, *cells[: 1 if width < 48 else 2 if width < 64 else 3])
        yield table
        text = self.fetching or self.current
        if text:
            yield plain_text(f"      {text}", style="dim", one_line=True)


def _told(stage: Stage) -> str:
    rate = f" ({stage.rate:,.0f}/s)" if stage.rate else ""
    of = "" if stage.name == "embed" else f" of {stage.total:,}"
    return f"{stage.name} {stage.done:,}{of}{f' {stage.unit}' if stage.name == 'embed' else ''}{rate}"


def _rate(stage: Stage) -> str:
    return f"{stage.rate:,.0f} {stage.unit}/s" if stage.rate else ""


def _left(stage: Stage) -> str:
    return f"{_duration(stage.left_s)} left" if stage.left_s and stage.done < stage.total else ""


def _duration(seconds: float) -> str:
    """``45 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@contextlib.contextmanager
def progress_of_load(*, quiet: bool, as_json: bool = False) -> Iterator[LoadDisplay]:
    """Show the events of a run: on standard error, or with `as_json` as lines of JSON on standard output."""
    display = LoadDisplay(quiet=quiet, as_json=as_json)
    if quiet or as_json or not sys.stderr.isatty():
        yield display
        return
    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=_REFRESH_PER_S, transient=True, get_renderable=lambda: display.state):
        yield display


class LoadDisplay:
    """Takes the events of a run; call it with each."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.state = LoadState()
        self._json = as_json and not quiet
        self._lines = not (quiet or as_json or sys.stderr.isatty())
        self._last = time.monotonic()

    def __call__(self, event: Event) -> None:
        if not isinstance(event, LoadProgress):
            return
        self.state.take(event)
        if self._json and (event.stage in _TOLD or event.error is not None or self._due(_JSON_EVERY_S)):
            line = {"event": "progress", **event.model_dump(mode="json", exclude_none=True)}
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
            sys.stdout.flush()
        if self._lines and self._due(_LINE_EVERY_S):
            errors().print(plain_text(self.state.line()), soft_wrap=True)

    def kept(self) -> str:
        """What is stored when the run is interrupted now."""
        stored, total = sum(self.state.stored.values()), sum(self.state.files.values())
        return f"{stored:,} of {total:,} files were written in this run and are kept"

    def _due(self, every_s: float) -> bool:
        now = time.monotonic()
        if now - self._last < every_s:
            return False
        self._last = now
        return True


@contextlib.contextmanager
def progress(name: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """One bar; call the given function with (done, total)."""
    columns = (TextColumn("{task.description:>6}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = sys.stderr.isatty() and not quiet
    with Progress(*columns, console=Console(stderr=True), disable=not shown, transient=True) as bars:
        task = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
