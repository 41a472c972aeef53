"""How much the machine computed for a test, whatever else it did meanwhile."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """CPU time of this process and of all that it started, running (where there is /proc) and ended ones."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(_running())


def _running() -> list[float]:
    """Of each process below this one: its own CPU time and that of its ended children."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(fields[1])
        seconds[int(folder.name)] = sum(map(int, fields[11:15])) / _TICKS
    return [seconds[pid] for pid in seconds if _is_below(pid, parents)]


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    own = os.getpid()
    while (parent := parents.get(pid)) is not None:
        if parent == own:
            return True
        pid = parent
    return False
