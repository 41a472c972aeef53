"""What one process of `stores.py` measures; prints a JSON object per line: progress, and at the end the result."""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

from _stores_data import DIMENSIONS, FILTERS, PER_DOCUMENT, TOP_K, Corpus, Truth, index_of, load
from _stores_places import Place, started

from agent_rag.retrieval.fusion import convex_combination
from agent_rag.stores.base import RetrieveRequest, Scored, VectorStoreBase
from agent_rag.testing.records import record

COLLECTION, BATCH, WARM, SINGLE = "bench", 1_000, 5, 20
ENOUGH_CALLS, ENOUGH_MS = 50, 15_000
"""What only a latency is read from ends after so many calls once it took that long."""


def say(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


async def timed(action: Awaitable[Any]) -> tuple[float, Any]:
    """Milliseconds, and the answer."""
    began = time.perf_counter()
    answer = await action
    return 1_000 * (time.perf_counter() - began), answer


def is_enough(milliseconds: list[float]) -> bool:
    return len(milliseconds) >= ENOUGH_CALLS and sum(milliseconds) >= ENOUGH_MS


def quantiles(milliseconds: list[float]) -> dict[str, float]:
    ordered = sorted(milliseconds)
    return {
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
        "calls": len(ordered),
    }


# --- an engine by itself ---


async def engine(place: Place, corpus: Corpus, queries: int) -> dict[str, Any]:
    truth = Truth(corpus, queries)
    say("baseline")
    result: dict[str, Any] = {}
    store = place.store()
    await store.__aenter__()
    await store.create_collection(COLLECTION, DIMENSIONS)
    result["insert_per_s"] = await _load(store, corpus)
    closing, _ = await timed(store.__aexit__(None, None, None))
    result["close_s"] = round(closing / 1_000, 2)
    say("progress", text=f"inserted {result['insert_per_s']}/s, closed in {result['close_s']} s")

    opening = time.perf_counter()
    store = place.store()
    await store.__aenter__()
    result["open_ms"] = round(1_000 * (time.perf_counter() - opening), 1)
    first, _ = await timed(store.search(COLLECTION, corpus.asked[-1].tolist(), TOP_K))
    word, _ = await timed(store.retrieve(COLLECTION, RetrieveRequest(texts=[corpus.questions[-1]], limit=TOP_K)))
    result["first_search_ms"], result["first_keyword_ms"] = round(first, 1), round(word, 1)

    result |= await _searches(store, corpus, truth, queries)
    say("progress", text=" ".join(f"{kind} {result[kind]['p50_ms']}" for kind in ("plain", *FILTERS)))
    result["list"] = quantiles([(await timed(store.list_documents(COLLECTION)))[0] for _ in range(5)])
    some = {"customer": "c7"}
    result["list 1 %"] = quantiles([(await timed(store.list_documents(COLLECTION, some)))[0] for _ in range(5)])
    result["disk_mb"] = _megabytes(await place.disk_bytes())
    result |= await _writes(store, corpus)
    await store.__aexit__(None, None, None)
    return result


async def _load(store: VectorStoreBase, corpus: Corpus) -> int:
    """Chunks per second of `insert`, 1,000 to a call; making the records is not counted."""
    spent = 0.0
    for start in range(0, corpus.size, BATCH):
        records = corpus.records(start, min(start + BATCH, corpus.size))
        spent += (await timed(store.insert(COLLECTION, records)))[0]
        if start and start % 25_000 == 0:
            say("progress", text=f"{start:,} inserted, {1_000 * start / spent:.0f}/s")
    return round(1_000 * corpus.size / spent)


async def _searches(store: VectorStoreBase, corpus: Corpus, truth: Truth, queries: int) -> dict[str, Any]:
    """All kinds take turns at each question."""
    kinds: dict[str, Callable[[int], Awaitable[Any]]] = {
        "plain": lambda n: store.search(COLLECTION, corpus.asked[n].tolist(), TOP_K)
    }
    for kind in FILTERS:
        kinds[kind] = lambda n, kind=kind: store.search(
            COLLECTION, corpus.asked[n].tolist(), TOP_K, corpus.condition(kind, n)
        )
    kinds["keyword"] = lambda n: store.retrieve(COLLECTION, RetrieveRequest(texts=[corpus.questions[n]], limit=TOP_K))
    kinds["hybrid"] = lambda n: store.retrieve(
        COLLECTION,
        RetrieveRequest(vectors=[corpus.asked[n].tolist()], texts=[corpus.questions[n]], limit=TOP_K, rank=_fuse),
    )
    for n in range(len(corpus.asked) - WARM, len(corpus.asked)):
        for run in kinds.values():
            await run(n)
    spent: dict[str, list[float]] = {kind: [] for kind in kinds}
    recall: dict[str, list[float]] = {kind: [] for kind in ("plain", *FILTERS)}
    for n in range(queries):
        for kind, run in kinds.items():
            if kind not in recall and is_enough(spent[kind]):
                continue
            taken, hits = await timed(run(n))
            spent[kind].append(taken)
            if kind in recall:
                recall[kind].append(truth.recall(kind, n, [_index(hit) for hit in hits]))
    found = {kind: quantiles(values) for kind, values in spent.items()}
    for kind, values in recall.items():
        found[kind]["recall"] = round(statistics.mean(values), 4)
    return found


async def _writes(store: VectorStoreBase, corpus: Corpus) -> dict[str, Any]:
    """Documents of 20 chunks, one to a call, and ten documents in one call."""
    documents = corpus.size // PER_DOCUMENT
    chosen = [n * documents // (3 * SINGLE) for n in range(3 * SINGLE)]
    replaced, deleted = chosen[:SINGLE], chosen[SINGLE : 2 * SINGLE]
    together = [corpus.document_id(n) for n in chosen[2 * SINGLE : 2 * SINGLE + 10]]
    inserts = [corpus.records(0, PER_DOCUMENT, f"doc-9{n:05}") for n in range(SINGLE)]
    result = {
        "insert document": quantiles([(await timed(store.insert(COLLECTION, one)))[0] for one in inserts]),
        "replace document": quantiles(
            [
                (
                    await timed(
                        store.replace(
                            COLLECTION,
                            [corpus.summary(n)],
                            corpus.records(n * PER_DOCUMENT, (n + 1) * PER_DOCUMENT),
                        )
                    )
                )[0]
                for n in replaced
            ]
        ),
    }
    answers = [await timed(store.delete(COLLECTION, corpus.document_id(n))) for n in deleted]
    assert {count for _, count in answers} == {PER_DOCUMENT}, answers
    result["delete document"] = quantiles([taken for taken, _ in answers])
    taken, count = await timed(store.delete_documents(COLLECTION, together))
    assert count == 10 * PER_DOCUMENT
    result["delete 10 documents"] = quantiles([taken])
    return result


def _fuse(semantic: Any, keyword: Any, _: Any) -> list[Scored]:
    return [Scored(*pair) for pair in convex_combination(keyword[0], semantic[0])]


def _index(hit: Any) -> int:
    return index_of(hit.document_id, hit.chunk.chunk_index)


def _megabytes(count: int | None) -> float | None:
    return None if count is None else round(count / 1e6, 1)


# --- keyword search against bm25s ---


async def keyword(place: Place, name: str, limit: int | None) -> dict[str, Any]:
    """Share of queries with the same top 10 as bm25s, method lucene, over the same tokens; also after deletions."""
    from retrieval import bm25s_rankings, read, share

    corpus, queries, _ = read(name)
    if limit:
        queries = dict(list(queries.items())[:: max(1, len(queries) // limit)])
    gone = sorted(corpus)[::10]
    left = {key: text for key, text in corpus.items() if key not in set(gone)}
    result: dict[str, Any] = {"documents": len(corpus), "queries": len(queries)}
    async with place.store() as store:

        async def found() -> dict[str, list[tuple[str, float]]]:
            return {
                key: [
                    (hit.document_id, hit.score)
                    for hit in await store.retrieve(name, RetrieveRequest(texts=[text], limit=TOP_K))
                ]
                for key, text in queries.items()
            }

        await store.create_collection(name, 0)
        records = [record(key, text=text, vector=()) for key, text in corpus.items()]
        for start in range(0, len(records), BATCH):
            await store.insert(name, records[start : start + BATCH])
        result["same top 10"] = share(await found(), bm25s_rankings(corpus, queries))
        await store.delete_documents(name, gone)
        result["same after deleting 10 %"] = share(await found(), bm25s_rankings(left, queries))
    say("progress", text=f"{name}: {result['same top 10']}, {result['same after deleting 10 %']}")
    return result


def main() -> None:
    job = json.loads(sys.argv[1])
    warnings.filterwarnings("ignore")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # stops the server, too
    with started(job["engine"], keyword=job["section"] != "langchain") as place:
        if place.server:
            say("server", pid=place.server)
        if job["section"] == "engines":
            result = asyncio.run(engine(place, load(job["size"]), job["queries"]))
        elif job["section"] == "keyword":
            result = {name: asyncio.run(keyword(place, name, job["queries"])) for name in job["sets"]}
        else:
            from _stores_langchain import compare

            result = asyncio.run(compare(job["engine"], place, load(job["size"]), job["queries"]))
        say("result", result=result)


if __name__ == "__main__":
    main()
