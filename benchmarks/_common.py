"""What all benchmarks share: interleaved timing, and results with versions and commit beside them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
RESULTS = ROOT / "benchmarks" / "results"


def interleaved(cases: Mapping[str, Callable[[], Any]], repeats: int = 3) -> dict[str, list[float]]:
    """Seconds of each case, measured in turns so that the load of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, run in cases.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """Median of each case."""
    return {name: statistics.median(values) for name, values in seconds.items()}


def write_result(name: str, data: Mapping[str, Any], *, packages: tuple[str, ...] = ()) -> Path:
    """Write ``benchmarks/results/<name>.json``: the data, the command, the machine, versions and commit."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    about = {
        "command": f"scripts/bench {name.split('-')[0]}",
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "versions": {package: _version(package) for package in packages},
    }
    written = {"about": about, **{key: value for key, value in data.items() if key != "about"}}
    path.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")
    return path


def commit() -> str:
    """What is measured."""
    return _git("rev-parse", "HEAD") + ("+changes" if _git("status", "--porcelain", "agent_rag") else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
