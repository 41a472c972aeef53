"""SQLiteStore beside LanceDB, Chroma and exact numpy: writing, searching, opening, waiting.

Texts are those of `_stores_data` where the corpus is there (English), vectors random and of length 1. LanceDB syncs
nothing and finds new words only after `optimize`; SQLiteStore syncs each call and finds words at once. Each ratio comes
from medians of interleaved repeats; `--size`, `--parts` and `--repeats` bound a run.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _common import SHARED, write_result

from agent_rag.documents import DocumentSummary, VectorRecord
from agent_rag.retrieval.fusion import convex_combination
from agent_rag.stores import QdrantStore, SQLiteStore
from agent_rag.stores.base import RetrieveRequest, Scored
from agent_rag.testing.records import document, record

DIMENSIONS, PER_DOCUMENT, PER_CALL, TOP_K = 256, 20, 500, 10
PARTS = ("write", "document", "search", "open", "loop", "wait")
_FRESH = """
import asyncio, sys, time
from agent_rag.stores.base import RetrieveRequest
from agent_rag.stores.sqlite import SQLiteStore
import numpy, pydantic

async def main():
    started = time.perf_counter()
    async with SQLiteStore(sys.argv[1]) as store:
        vector = [1.0] + [0.0] * 255
        request = RetrieveRequest(texts=["protein expression cancer cells"]) if sys.argv[2] == "keyword" else (
            RetrieveRequest(vectors=[vector]))
        hits = await store.retrieve("bench", request)
        print(time.perf_counter() - started, len(hits))

asyncio.run(main())
"""
Row = dict[str, Any]


class Corpus:
    """Texts of about 800 characters with vectors, in documents of 20."""

    def __init__(self, size: int, *, mixed: bool = False) -> None:
        sources = sorted((SHARED / "ir").glob("*/corpus.jsonl"))
        self.texts = list(_texts(sources, size, mixed))
        rng = np.random.default_rng(4)
        vectors = rng.standard_normal((size, DIMENSIONS)).astype(np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def call(self, start: int, size: int = PER_CALL, tag: str = "") -> tuple[list[DocumentSummary], list[VectorRecord]]:
        """Documents and records of chunks from `start` on."""
        names = [f"d{tag}{number // PER_DOCUMENT}" for number in range(start, start + size)]
        records = [
            record(
                name, number % PER_DOCUMENT, self.texts[number], vector=self.vectors[number].tolist(),
                metadata={"tag": number % 100}, total=PER_DOCUMENT,
            )
            for name, number in zip(names, range(start, start + size), strict=True)
        ]  # fmt: skip
        return [document(name) for name in dict.fromkeys(names)], records


def _texts(sources: list[Path], size: int, mixed: bool) -> Iterator[str]:
    import json

    found = 0
    while True:
        for source in sources:
            if not mixed and "scifact" not in source.parent.name:
                continue
            for line in source.open(encoding="utf-8"):
                entry = json.loads(line)
                text = f"{entry.get('title', '')} {entry.get('text', '')}".strip()[:800]
                if len(text) > 200 and (mixed or text.isascii()):
                    yield f"{found} {text}"
                    found += 1
                    if found == size:
                        return


async def _timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    answer = call()
    if asyncio.iscoroutine(answer):
        await answer
    return time.perf_counter() - started


def _lance(folder: Path) -> Any:
    import lancedb

    return lancedb.connect(str(folder / "lance"))


def _lance_rows(corpus: Corpus, start: int, size: int, tag: str = "") -> list[Row]:
    return [
        {
            "document": f"d{tag}{number // PER_DOCUMENT}", "index": number % PER_DOCUMENT,
            "text": corpus.texts[number], "vector": corpus.vectors[number], "tag": number % 100,
        }
        for number in range(start, start + size)
    ]  # fmt: skip


async def write(size: int, repeats: int) -> Row:
    """Chunks a second, ours synced and found at once; in calls of 500 chunks."""
    english, mixed = Corpus(size), Corpus(size, mixed=True)
    seconds: dict[str, list[float]] = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for label, corpus, store in (
                ("english", english, SQLiteStore(folder / "a.db")),
                ("mixed", mixed, SQLiteStore(folder / "b.db")),
                ("mixed, embedded Qdrant", mixed, QdrantStore(path=str(folder / "q"))),
            ):
                calls = [corpus.call(start) for start in range(0, size, PER_CALL)]
                async with store:
                    await store.create_collection("bench", DIMENSIONS)
                    taken = [
                        await _timed(lambda call=call, store=store: store.replace("bench", *call)) for call in calls
                    ]
                seconds.setdefault(label, []).append(sum(taken))
            batches = [_lance_rows(english, start, PER_CALL) for start in range(0, size, PER_CALL)]
            started = time.perf_counter()
            table = _lance(folder).create_table("bench", batches[0])
            for batch in batches[1:]:
                table.add(batch)
            seconds.setdefault("LanceDB", []).append(time.perf_counter() - started)
            table.create_fts_index("text", use_tantivy=False)
            seconds.setdefault("LanceDB with its words", []).append(time.perf_counter() - started)
            seconds.setdefault("store's part", []).append(await _alone(folder / "c.db", english, size))
    rates = {label: size / statistics.median(taken) for label, taken in seconds.items()}
    return {
        "chunks_per_second": {label: round(rate) for label, rate in rates.items()},
        "mixed / embedded Qdrant (bar 3)": rates["mixed"] / rates["mixed, embedded Qdrant"],
        "english / LanceDB with its words (bar .5)": rates["english"] / rates["LanceDB with its words"],
        "store's part / LanceDB (bar .45)": rates["store's part"] / rates["LanceDB"],
    }


async def _alone(path: Path, corpus: Corpus, size: int) -> float:
    """Seconds of the store's part: of what is prepared already."""
    from agent_rag.stores.engine.records import prepare_replace
    from agent_rag.stores.sqlite import jobs
    from agent_rag.stores.sqlite.database import Database
    from agent_rag.stores.sqlite.prepare import as_stored, prepare_batch

    async with SQLiteStore(path) as store:
        await store.create_collection("bench", DIMENSIONS)
    batches = []
    for start in range(0, size, PER_CALL):
        summaries, prepared = prepare_replace("bench", DIMENSIONS, *corpus.call(start))
        batches.append(prepare_batch(summaries, prepared.records, as_stored(prepared.matrix, "Cosine")))
    database = Database(path, synced=True, wait_s=30)
    started = time.perf_counter()
    for batch in batches:
        jobs.replace(database, "bench", batch)
    taken = time.perf_counter() - started
    database.close()
    return taken


async def single(size: int, repeats: int) -> Row:
    """Adding, and replacing, a document of 20 chunks in a filled store, in milliseconds."""
    import chromadb

    corpus = Corpus(size + 40 * PER_DOCUMENT)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = SQLiteStore(folder / "a.db")
        lance = _lance(folder).create_table("bench", _lance_rows(corpus, 0, size))
        chroma = chromadb.PersistentClient(str(folder / "chroma")).create_collection("bench")
        for start in range(0, size, PER_CALL):
            _chroma_add(chroma, corpus, start, PER_CALL)
        async with store:
            await store.create_collection("bench", DIMENSIONS)
            for start in range(0, size, PER_CALL):
                await store.replace("bench", *corpus.call(start))
            for turn in range(10 * repeats):
                start = size + turn % 40 * PER_DOCUMENT
                adds = _writes(store, chroma, lance, corpus, start, f"n{turn}-")
                for label, run in adds.items():
                    found.setdefault(label, []).append(await _timed(run) * 1e3)
    ms = {label: statistics.median(taken) for label, taken in found.items()}
    return {
        "ms": {label: round(value, 2) for label, value in ms.items()},
        "ours add / Chroma add (bar .1)": ms["ours add"] / ms["Chroma add"],
        "ours replace / LanceDB replace (bar .33)": ms["ours replace"] / ms["LanceDB replace"],
    }


def _writes(
    store: SQLiteStore, chroma: Any, lance: Any, corpus: Corpus, start: int, tag: str
) -> dict[str, Callable[[], Any]]:
    call, rows = corpus.call(start, PER_DOCUMENT, tag), _lance_rows(corpus, start, PER_DOCUMENT, tag)
    return {
        "ours add": lambda: store.replace("bench", *call),
        "Chroma add": lambda: _chroma_add(chroma, corpus, start, PER_DOCUMENT, tag),
        "LanceDB add": lambda: lance.add(rows),
        "ours replace": lambda: store.replace("bench", *call),
        "LanceDB replace": lambda: _lance_replace(lance, rows),
    }


def _chroma_add(chroma: Any, corpus: Corpus, start: int, size: int, tag: str = "") -> None:
    numbers = range(start, start + size)
    chroma.add(
        ids=[f"{tag}{number}" for number in numbers],
        embeddings=corpus.vectors[start : start + size],
        documents=[corpus.texts[number] for number in numbers],
        metadatas=[{"tag": number % 100} for number in numbers],
    )


def _lance_replace(table: Any, rows: list[Row]) -> None:
    table.delete(f"document = '{rows[0]['document']}'")
    table.add(rows)


async def search(path: Path, corpus: Corpus, repeats: int) -> Row:
    """Milliseconds of a search, interleaved with exact numpy over the same vectors."""
    rng = np.random.default_rng(5)
    tags = np.arange(len(corpus.vectors)) % 100
    found: dict[str, list[float]] = {}
    async with SQLiteStore(path) as store:
        for turn in range(20 * repeats):
            query = rng.standard_normal(DIMENSIONS).astype(np.float32)
            query /= np.linalg.norm(query)
            tag = int(rng.integers(100))
            question = " ".join(corpus.texts[int(rng.integers(len(corpus.texts)))].split()[5:11])
            cases = _searches(store, corpus.vectors, query, tags == tag, tag, question)
            for label, run in cases.items():
                taken = await _timed(run) * 1e3
                if turn >= 3:  # the first ones load
                    found.setdefault(label, []).append(taken)
    ms = {label: statistics.median(taken) for label, taken in found.items()}
    return {
        "ms": {label: round(value, 3) for label, value in ms.items()},
        "semantic / numpy (bar 1.2)": ms["semantic"] / ms["numpy"],
        "1 % filter / numpy on 1 % (bar 8)": ms["1 % filter"] / ms["numpy on 1 %"],
        "hybrid / semantic (bar 3)": ms["hybrid"] / ms["semantic"],
        "keyword ms (bar 15)": ms["keyword"],
    }


def _searches(
    store: SQLiteStore, vectors: np.ndarray, query: np.ndarray, tagged: np.ndarray, tag: int, question: str
) -> dict[str, Callable[[], Any]]:
    vector = query.tolist()
    both = RetrieveRequest(vectors=[vector], texts=[question], limit=TOP_K, rank=_fuse)
    return {
        "numpy": lambda: _exact(vectors, query),
        "semantic": lambda: store.search("bench", vector, TOP_K),
        "numpy on 1 %": lambda: _exact(vectors[tagged], query),
        "1 % filter": lambda: store.search("bench", vector, TOP_K, {"tag": tag}),
        "keyword": lambda: store.retrieve("bench", RetrieveRequest(texts=[question], limit=TOP_K)),
        "hybrid": lambda: store.retrieve("bench", both),
    }


def _exact(matrix: np.ndarray, query: np.ndarray) -> Any:
    scores = matrix @ query
    best = np.argpartition(-scores, TOP_K)[:TOP_K]
    return best[np.argsort(-scores[best])]


def _fuse(semantic: list[list[Scored]], keyword: list[list[Scored]], signals: Any) -> list[Scored]:
    pairs = convex_combination([(hit.key, hit.score) for hit in keyword[0]], [(h.key, h.score) for h in semantic[0]])
    return [Scored(key, score) for key, score in pairs]


def fresh(path: Path, repeats: int) -> Row:
    """Seconds from opening to the first answer of a new process, after its imports."""
    found: dict[str, list[float]] = {"keyword": [], "semantic": []}
    for _ in range(2 * repeats):
        for kind, seconds in found.items():
            done = subprocess.run(
                [sys.executable, "-c", _FRESH, str(path), kind], capture_output=True, text=True, check=True
            )
            seconds.append(float(done.stdout.split()[0]))
    return {f"first {kind} answer, s": statistics.median(seconds) for kind, seconds in found.items()}


async def wait(path: Path, corpus: Corpus) -> Row:
    """How long a writer of one document waits beside a process that ingests without pause."""
    program = "import asyncio, sys; from benchmarks.sqlite import ingest_on; asyncio.run(ingest_on(sys.argv[1]))"
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert child.stdout is not None
    taken = []
    try:
        await asyncio.to_thread(child.stdout.readline)
        async with SQLiteStore(path) as store:
            for turn in range(100):
                call = corpus.call(0, PER_DOCUMENT, f"w{turn}-")
                taken.append(await _timed(partial(store.replace, "bench", *call)) * 1e3)
    finally:
        child.kill()
        child.communicate()
    return {"p50 ms": statistics.median(taken), "p95 ms (bar 100)": sorted(taken)[94]}


async def ingest_on(path: str) -> None:
    """Replace documents without end."""
    corpus = Corpus(5_000)
    async with SQLiteStore(path) as store:
        print("ready", flush=True)
        turn = 0
        while True:
            await store.replace("bench", *corpus.call(turn * PER_CALL % 4_500, PER_CALL, "i"))
            turn += 1


async def loop_gap(corpus: Corpus, repeats: int) -> Row:
    """Longest time that the event loop stands still during writes of 1,000 chunks, less that of an idle loop."""
    gaps = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as name:
            async with SQLiteStore(Path(name) / "a.db") as store:
                await store.create_collection("bench", DIMENSIONS)
                call = corpus.call(0, 1_000)
                idle = await _longest(asyncio.sleep(0.3))
                gaps.append((await _longest(store.replace("bench", *call)) - idle) * 1e3)
    return {"longest gap, ms (bar 50)": statistics.median(gaps)}


async def _longest(work: Any) -> float:
    running = asyncio.ensure_future(work)
    longest, last = 0.0, time.perf_counter()
    while not running.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await running
    return longest


async def fill(path: Path, corpus: Corpus) -> None:
    async with SQLiteStore(path) as store:
        await store.create_collection("bench", DIMENSIONS)
        for start in range(0, len(corpus.texts), PER_CALL):
            await store.replace("bench", *corpus.call(start))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=100_000, help="Chunks in the store that is searched.")
    parser.add_argument("--written", type=int, default=10_000, help="Chunks that are written.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parts", nargs="*", default=list(PARTS))
    options = parser.parse_args()
    result: Row = {"size": options.size, "written": options.written}
    if "write" in options.parts:
        result["write"] = await write(options.written, options.repeats)
    if "document" in options.parts:
        result["document"] = await single(options.written, options.repeats)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "store.db"
        corpus = Corpus(options.size)
        await fill(path, corpus)
        if "search" in options.parts:
            result["search"] = await search(path, corpus, options.repeats)
        if "open" in options.parts:
            result["open"] = fresh(path, options.repeats)
        if "loop" in options.parts:
            result["loop"] = await loop_gap(corpus, options.repeats)
        if "wait" in options.parts:
            result["wait"] = await wait(path, corpus)
    for part, row in result.items():
        print(part, row)
    write_result("sqlite", result, packages=("agent-rag-middleware", "lancedb", "chromadb", "numpy"))


if __name__ == "__main__":
    asyncio.run(main())
