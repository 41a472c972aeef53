"""Ingesting a folder of real mixed files: time, CPU, what is found, what is dropped, and what a second run costs.

The files are those that installed packages ship, and the handbook of the examples; libraries take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks._common import ROOT, write_result

ENDINGS = (".md", ".rst", ".txt", ".html", ".json", ".csv", ".xml", ".yaml", ".py", ".toml", ".pdf", ".docx", ".xlsx",
           ".pptx", ".ipynb", ".png", ".eml")  # fmt: skip
NEEDS = {
    "agent_rag": "agent_rag", "kreuzberg": "kreuzberg", "langchain": "langchain_chroma", "agentscope": "agentscope",
    "llama_index": "llama_index.vector_stores.chroma", "haystack": "haystack_integrations.document_stores.chroma",
}  # fmt: skip
PHASES = ("first", "unchanged", "one changed", "one deleted")


def corpus(folder: Path, count: int) -> None:
    """`count` files, an even share of each ending as far as there are any, always the same on one machine."""
    packages = Path(sysconfig.get_path("purelib"))
    by_ending: dict[str, list[Path]] = {ending: [] for ending in ENDINGS}
    for path in sorted((*packages.rglob("*"), *(ROOT / "examples/handbook").rglob("*"))):
        if path.suffix in by_ending and path.is_file() and 200 < path.stat().st_size < 300_000:
            by_ending[path.suffix].append(path)
    rng = random.Random(1)
    for paths in by_ending.values():
        rng.shuffle(paths)
    chosen: list[Path] = []
    while len(chosen) < count and any(by_ending.values()):
        chosen += [paths.pop() for paths in by_ending.values() if paths][: count - len(chosen)]
    for number, path in enumerate(chosen):
        target = folder / path.suffix[1:] / f"{number:03}-{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def rare_words(folder: Path, count: int) -> list[str]:
    """Words that one text file of the corpus has, and no other."""
    seen: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.md")) + sorted(folder.rglob("*.rst")) + sorted(folder.rglob("*.txt")):
        seen.update(set(re.findall(r"\b[a-z]{7,14}\b", path.read_text("utf-8", "ignore"))))
    rare = sorted(word for word, number in seen.items() if number == 1)
    return random.Random(2).sample(rare, min(count, len(rare)))


def run(name: str, folder: Path, store: Path, words: list[str]) -> dict[str, Any]:
    """One run in a child: wall and CPU seconds (its own children included), and what it says."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "benchmarks/_ingest_child.py", name, str(folder), str(store), json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, **json.loads(done.stdout.splitlines()[-1])}


def phases(name: str, original: Path, words: list[str]) -> dict[str, dict[str, Any]]:
    """The four runs of one library over a copy of the corpus, into a store of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder, store = Path(place) / "files", Path(place) / "store"
        shutil.copytree(original, folder)
        victim = sorted(folder.rglob("*.md"))[0]
        told = {"first": run(name, folder, store, words), "unchanged": run(name, folder, store, [])}
        victim.write_text("# Changed\n\nzyxwvutsrq is new here.\n", encoding="utf-8")
        told["one changed"] = run(name, folder, store, ["zyxwvutsrq"])
        victim.unlink()
        told["one deleted"] = run(name, folder, store, ["zyxwvutsrq"])
        return told


def killed(original: Path, words: list[str]) -> dict[str, Any]:
    """agent_rag killed after two seconds, and then run to its end: as many documents as without the kill?"""
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "store"
        command = [sys.executable, "benchmarks/_ingest_child.py", "agent_rag", str(original), str(store), "[]"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        time.sleep(2)
        child.send_signal(signal.SIGKILL)
        child.wait()
        after = run("agent_rag", original, store, words)
    return {"documents": len(after["documents"]), "found": len(after["found"]), "counts": after["counts"]}


async def slow_provider() -> dict[str, float]:
    """1,600 chunks of 16 texts, 100 ms a request of 8, 8 in flight: seconds, and those of the requests alone."""
    from agent_rag import EmbeddingResponse, KnowledgeBase, MemoryStore, ParserPool, TextSource, sync
    from agent_rag.testing import HashEmbedding

    class Provider(HashEmbedding):
        async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
            await asyncio.sleep(0.1)
            return EmbeddingResponse.model_construct(embeddings=[[1.0] + [0.0] * 63] * len(inputs), tokens=None)

    def text(number: int) -> str:
        return "\n\n".join(f"text {number} paragraph {part} " + "word " * 150 for part in range(100))

    texts = {f"{number}.txt": text(number) for number in range(16)}
    async with MemoryStore() as store, ParserPool() as pool:
        kb = KnowledgeBase("bench", "files", Provider(), store, "bench")
        await sync(kb, TextSource({"warm.txt": "warm"}, name="warm"), pool=pool)
        started = time.perf_counter()
        report = await sync(kb, TextSource(texts), pool=pool, embedding_batch_size=8, max_concurrency=8)
        seconds = time.perf_counter() - started
    gate = asyncio.Semaphore(8)

    async def request() -> None:
        async with gate:
            await asyncio.sleep(0.1)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(-(-report.embedded // 8)):
            group.create_task(request())
    return {"seconds": seconds, "the same requests alone": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    names = [name for name, package in NEEDS.items() if importlib.util.find_spec(package) is not None]
    rounds: dict[str, list[dict[str, dict[str, Any]]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "corpus"
        corpus(folder, options.files)
        words, files = rare_words(folder, 100), sum(path.is_file() for path in folder.rglob("*"))
        for _ in range(options.repeats):
            for name in names:
                rounds[name].append(phases(name, folder, words))
        crash = killed(folder, words)
    table = {}
    for name, told in rounds.items():
        first = told[0]["first"]
        table[name] = {
            "files": files,
            "documents": len(first["documents"]),
            "reported": len(first["reported"]),
            "silently dropped": files - len(set(first["documents"]) | set(first["reported"])),
            "words found of 100": len(first["found"]),
            "changed text found": bool(told[0]["one changed"]["found"]),
            "deleted text found": bool(told[0]["one deleted"]["found"]),
            **{
                phase: {
                    unit: round(statistics.median(one[phase][unit] for one in told), 2) for unit in ("wall_s", "cpu_s")
                }
                for phase in PHASES
            },
        }
    provider = asyncio.run(slow_provider())
    print(json.dumps({"libraries": table, "killed and run again": crash, "slow provider": provider}, indent=2))
    write_result(
        "ingest",
        {"libraries": table, "killed and run again": crash, "slow provider": provider},
        packages=("kreuzberg", "chromadb", "langchain-chroma", "langchain-text-splitters"),
    )


if __name__ == "__main__":
    main()
