"""Chunking 5 MB of English and of Chinese: RecursiveChunker beside LangChain, chonkie and AgentScope.

    scripts/bench chunking        or: python benchmarks/chunking.py [--shared FOLDER] [--repeats 9]

The texts are made from ``ir/scifact_train`` and ``ir/cmrc2018_zh``, read in place, repeated up to the size. Two shapes
of each, because the others' speed depends on it: *running* text (documents joined without a line break) and
*paragraphs* (joined by blank lines; one Chinese document is shorter than a chunk, so LangChain only splits at the blank
lines there, and never looks at a character).

Every library makes chunks of at most 1,000 characters; LangChain and this package repeat up to 100, chonkie cannot
overlap; AgentScope's windows are 250 of its tokens. Beside the time on the clock the process's CPU time is told: on a
machine that does other work the first one measures that work, too. A library that is not installed is left out with
a message.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from _common import SHARED, interleaved, medians, write_result

from agent_rag.chunkers import ApproxTokenChunker, FixedSizeChunker, RecursiveChunker
from agent_rag.documents import text_section

SIZE, OVERLAP, BYTES = 1000, 100, 5_000_000
PACKAGES = ("agent-rag-middleware", "langchain-text-splitters", "chonkie", "agentscope", "regex", "pydantic")
BARS = {"langchain": 5.0, "chonkie": 1.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    texts = {
        "english running": _filled(_documents(options.shared / "ir/scifact_train"), " "),
        "english paragraphs": _filled(_documents(options.shared / "ir/scifact_train"), "\n\n"),
        "chinese running": _filled(_documents(options.shared / "ir/cmrc2018_zh"), ""),
        "chinese paragraphs": _filled(_documents(options.shared / "ir/cmrc2018_zh"), "\n\n"),
    }
    rows = {name: _measured(text, options.repeats) for name, text in texts.items()}
    path = write_result(
        "chunking", {"size": SIZE, "overlap": OVERLAP, "bytes": BYTES, "texts": rows}, packages=PACKAGES
    )
    table = _table(rows)
    path.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)


def _documents(folder: Path) -> list[str]:
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def _filled(documents: list[str], separator: str) -> str:
    once = separator.join(documents).encode()
    return (once * (BYTES // len(once) + 1))[:BYTES].decode("utf-8", "ignore")


def _measured(text: str, repeats: int) -> dict[str, Any]:
    cases: dict[str, Callable[[], list[Any]]] = dict(_cases(text))
    counts = {name: len(run()) for name, run in cases.items()}  # Also warms up.
    cpu: dict[str, list[float]] = {name: [] for name in cases}
    seconds = interleaved({name: _cpu_timed(run, cpu[name]) for name, run in cases.items()}, repeats)
    wall, busy = medians(seconds), medians(cpu)
    size = len(text.encode()) / 1e6
    return {
        name: {
            "MB/s": round(size / wall[name], 1),
            "MB per CPU second": round(size / busy[name], 1),
            "seconds": [round(value, 4) for value in seconds[name]],
            "CPU seconds": [round(value, 4) for value in cpu[name]],
            "chunks": counts[name],
            "times the speed of": {other: round(wall[other] / wall[name], 2) for other in cases if other != name},
            "times the speed of, by CPU time": {
                other: round(busy[other] / busy[name], 2) for other in cases if other != name
            },
        }
        for name in cases
    }


def _cpu_timed(run: Callable[[], Any], seconds: list[float]) -> Callable[[], None]:
    def timed() -> None:
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)

    return timed


def _cases(text: str) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    sections = [text_section(text, "text.txt")]
    for chunker in (
        RecursiveChunker(chunk_size=SIZE, overlap=OVERLAP),
        FixedSizeChunker(chunk_size=SIZE, overlap=OVERLAP),
        ApproxTokenChunker(ApproxTokenChunker.Parameters(chunk_size=SIZE // 4, overlap=OVERLAP // 4)),
    ):
        yield type(chunker).__name__, lambda chunker=chunker: asyncio.run(chunker.chunk(sections))
    yield from _langchain(text)
    yield from _chonkie(text)
    yield from _agentscope(text)


def _langchain(text: str) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    try:
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    except ImportError as error:
        print(f"left out: pip install langchain-text-splitters ({error})")
        return
    splitter = RecursiveCharacterTextSplitter(chunk_size=SIZE, chunk_overlap=OVERLAP)
    yield "langchain", lambda: splitter.split_text(text)


def _chonkie(text: str) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    try:
        from chonkie import RecursiveChunker as ChonkieRecursiveChunker
    except ImportError as error:
        print(f"left out: pip install chonkie ({error})")
        return
    chunker = ChonkieRecursiveChunker(tokenizer="character", chunk_size=SIZE)
    yield "chonkie", lambda: chunker.chunk(text)


def _agentscope(text: str) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    try:
        from agentscope.message import TextBlock
        from agentscope.rag import ApproxTokenChunker as AgentScopeChunker
        from agentscope.rag import Section
    except ImportError as error:
        print(f"left out: pip install agentscope ({error})")
        return
    chunker = AgentScopeChunker(
        parameters=AgentScopeChunker.Parameters(chunk_size=SIZE // 4, overlap=OVERLAP // 4),
    )
    sections = [Section(content=TextBlock(text=text), source="text.txt", metadata={})]
    yield "agentscope", lambda: asyncio.run(chunker.chunk(sections))


def _table(rows: dict[str, dict[str, Any]]) -> str:
    names = list(next(iter(rows.values())))
    lines = ["| MB/s | " + " | ".join(names) + " | bars |", "|---" * (len(names) + 2) + "|"]
    for text, row in rows.items():
        speeds = " | ".join(str(row[name]["MB/s"]) for name in names)
        lines.append(f"| {text} | {speeds} | {_bars(row)} |")
    return "\n".join(lines) + "\n"


def _bars(row: dict[str, Any]) -> str:
    wall, cpu = (row["RecursiveChunker"][f"times the speed of{kind}"] for kind in ("", ", by CPU time"))
    return ", ".join(
        f"{name} {wall[name]}x, CPU {cpu[name]}x (bar {bar})" for name, bar in BARS.items() if name in wall
    )


if __name__ == "__main__":
    main()
