"""Whole trees of files, read and cut many at a time: no run crashes, and every chunk is that of one after another.

    scripts/bench code_trees --tree NAME=FOLDER [--runs 10]

Each run is a process of its own, so that a crash is seen: once one file after another without threads, then `runs`
times with 80 files at a time through worker processes, as an ingestion does it, and as often with four threads of one
process that share a chunker.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _common import ROOT, write_result

from agent_rag import AutoChunker, DirectorySource, ParserPool
from agent_rag.documents import Chunk, Section
from agent_rag.errors import AgentRAGError
from agent_rag.ingestion.reading import read_file
from agent_rag.parsers import parser_for
from agent_rag.workers import mark_as_isolated

AT_ONCE = 80
MODES = ("workers", "threads")


def digest(chunks: list[Chunk]) -> str:
    return hashlib.sha256(json.dumps([chunk.model_dump(mode="json") for chunk in chunks]).encode()).hexdigest()[:16]


async def paths_of(folder: Path) -> list[Path]:
    """The files that an ingestion would take."""
    listing = await DirectorySource(folder).list()
    return [item.path for item in listing.items if item.path is not None]


async def read_alone(path: Path) -> str:
    try:
        sections = await parser_for(path).parse(path, path.name)
        return digest(await AutoChunker().chunk(sections))
    except AgentRAGError as error:
        return type(error).__name__


async def one_after_another(paths: list[Path]) -> dict[str, str]:
    mark_as_isolated()  # In this very thread, as a worker does it.
    return {str(path): await read_alone(path) for path in paths}


async def in_workers(paths: list[Path]) -> dict[str, str]:
    gate = asyncio.Semaphore(AT_ONCE)
    async with ParserPool() as pool:

        async def one(path: Path) -> tuple[str, str]:
            async with gate:
                try:
                    read = await read_file(pool, parser_for(path), AutoChunker(), path, path.name)
                    return str(path), digest(read.chunks)
                except AgentRAGError as error:
                    return str(path), type(error).__name__

        return dict(await asyncio.gather(*map(one, paths)))


async def in_threads(paths: list[Path]) -> dict[str, str]:
    """Parsed one after another, cut by one chunker from four threads with a loop each."""
    mark_as_isolated()
    parsed: list[tuple[str, list[Section] | str]] = []
    for path in paths:
        try:
            parsed.append((str(path), await parser_for(path).parse(path, path.name)))
        except AgentRAGError as error:
            parsed.append((str(path), type(error).__name__))
    chunker = AutoChunker()

    async def cut(sections: list[Section] | str) -> str:
        return sections if isinstance(sections, str) else digest(await chunker.chunk(sections))

    def part(number: int) -> dict[str, str]:
        async def all_of_it() -> dict[str, str]:
            own = parsed[number::4]
            found = await asyncio.gather(*(cut(sections) for _, sections in own))
            return {name: text for (name, _), text in zip(own, found, strict=True)}

        return asyncio.run(all_of_it())

    with ThreadPoolExecutor(4) as pool:
        return {name: text for found in pool.map(part, range(4)) for name, text in found.items()}


WAYS = {"alone": one_after_another, "workers": in_workers, "threads": in_threads}


async def child(folder: Path, way: str) -> None:
    paths = await paths_of(folder)
    found = await WAYS[way](paths)
    print(json.dumps(found))


def run(folder: Path, way: str) -> tuple[dict[str, str] | None, float]:
    """What one process finds, and its seconds; None where it ended by itself."""
    started = time.perf_counter()
    command = [sys.executable, __file__, "--child", way, "--tree", f"x={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        print(f"{folder} {way}: exit {done.returncode}: {done.stderr[-500:]}", flush=True)
        return None, seconds
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found, seconds


def measure(name: str, folder: Path, runs: int) -> dict[str, Any]:
    alone, seconds = run(folder, "alone")
    if alone is None:
        raise SystemExit(f"{name}: the run of one file after another ended by itself")
    row: dict[str, Any] = {"files": len(alone), "refused": sum(len(text) != 16 for text in alone.values())}
    row["seconds_alone"] = seconds
    for way in MODES:
        crashes = different = 0
        times = []
        for _ in range(runs):
            found, seconds = run(folder, way)
            times.append(seconds)
            crashes += found is None
            different += found is not None and found != alone
            if found is not None and found != alone:
                print(name, way, [key for key in alone if alone[key] != found.get(key)][:10], flush=True)
        row[way] = {"runs": runs, "crashes": crashes, "different": different, "seconds": min(times, default=0.0)}
        print(name, way, row[way], flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", action="append", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--child", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    trees = {name: Path(folder) for name, _, folder in (tree.partition("=") for tree in options.tree)}
    if options.child:
        asyncio.run(child(next(iter(trees.values())), options.child))
        return
    rows = {name: measure(name, folder, options.runs) for name, folder in trees.items()}
    write_result("code_trees", {"at_once": AT_ONCE, "trees": rows})


if __name__ == "__main__":
    main()
