"""Retrieval quality of the default stack on public sets, and its keyword search against bm25s.

Sets are read in place from ``shared/ir`` beside the checkout: scifact_train, xquad_en, xquad_zh, cmrc2018_zh.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from _common import SHARED, write_result

from agent_rag import Chunk, Document, KnowledgeBase, LocalEmbeddingModel, QdrantStore, TextBlock
from agent_rag.retrieval.lexical import tokenize

Relevance = dict[str, dict[str, int]]


def read(name: str) -> tuple[dict[str, str], dict[str, str], Relevance]:
    """Document id -> text, query id -> text, query id -> document id -> grade."""
    folder = SHARED / "ir" / name
    corpus = {row["_id"]: f"{row.get('title', '')} {row['text']}".strip() for row in rows(folder / "corpus.jsonl")}
    relevant: Relevance = {}
    for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        relevant.setdefault(query, {})[document] = int(grade)
    queries = {row["_id"]: row["text"] for row in rows(folder / "queries.jsonl") if row["_id"] in relevant}
    return corpus, queries, relevant


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def ndcg(found: Sequence[str], relevant: dict[str, int], k: int = 10) -> float:
    """Normalised discounted cumulative gain at `k`, with linear gain."""
    gained = sum(relevant.get(name, 0) / math.log2(rank + 2) for rank, name in enumerate(found[:k]))
    ideal = sum(grade / math.log2(rank + 2) for rank, grade in enumerate(sorted(relevant.values(), reverse=True)[:k]))
    return gained / ideal if ideal else 0.0


def bm25s_rankings(corpus: dict[str, str], queries: dict[str, str], k: int = 10) -> dict[str, list[tuple[str, float]]]:
    """The independent reference: bm25s, method lucene, over the same tokens; ties by document id."""
    names = sorted(corpus)
    model = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    model.index([tokenize(corpus[name]) for name in names], show_progress=False)
    rankings = {}
    for query, text in queries.items():
        tokens = [token for token in tokenize(text) if token in model.vocab_dict]
        scores = model.get_scores(tokens) if tokens else np.zeros(len(names), np.float32)
        order = np.lexsort((np.arange(len(names)), -scores))[:k]
        rankings[query] = [(names[index], float(scores[index])) for index in order if scores[index] > 0]
    return rankings


def same_top(ours: Sequence[tuple[str, float]], theirs: Sequence[tuple[str, float]]) -> bool:
    """The same documents in the same order, except among scores that are equal to five digits."""
    if [name for name, _ in ours] == [name for name, _ in theirs]:
        return True
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(math.isclose(a[1], b[1], rel_tol=1e-5) for a, b in pairs)


async def insert(kb: KnowledgeBase, corpus: dict[str, str]) -> None:
    documents = [
        Document(
            document_id=name,
            chunks=[Chunk(content=TextBlock(text=text), source=name, chunk_index=0, total_chunks=1)],
        )
        for name, text in corpus.items()
    ]
    for start in range(0, len(documents), 500):
        await kb.replace_documents(documents[start : start + 500])


async def search_all(kb: KnowledgeBase, queries: dict[str, str], mode: Any) -> dict[str, list[tuple[str, float]]]:
    return {
        query: [(hit.document_id, hit.score) for hit in await kb.search(text, 10, mode=mode)]
        for query, text in queries.items()
    }


async def measure(name: str) -> dict[str, Any]:
    corpus, queries, relevant = await asyncio.to_thread(read, name)
    quality: Callable[[dict[str, list[tuple[str, float]]]], float] = lambda rankings: float(  # noqa: E731
        np.mean([ndcg([document for document, _ in rankings[query]], relevant[query]) for query in queries])
    )
    with tempfile.TemporaryDirectory() as folder:
        async with QdrantStore(path=folder) as store:
            kb = KnowledgeBase(name, name, LocalEmbeddingModel(), store, name)
            await insert(kb, corpus)
            found = {mode: await search_all(kb, queries, mode) for mode in ("semantic", "keyword", "hybrid")}
            reference = await asyncio.to_thread(bm25s_rankings, corpus, queries)
            gone = sorted(corpus)[::10]
            await kb.delete_documents(gone)
            left = {key: text for key, text in corpus.items() if key not in set(gone)}
            after = await search_all(kb, queries, "keyword")
            reference_after = await asyncio.to_thread(bm25s_rankings, left, queries)
    result: dict[str, Any] = {"documents": len(corpus), "queries": len(queries)}
    result |= {f"ndcg@10 {mode}": round(quality(rankings), 4) for mode, rankings in found.items()}
    result["ndcg@10 bm25s"] = round(quality(reference), 4)
    result["same top 10 as bm25s"] = share(found["keyword"], reference)
    result["same after deleting 10 %"] = share(after, reference_after)
    best = max(result["ndcg@10 semantic"], result["ndcg@10 keyword"])
    result["hybrid / better mode"] = round(result["ndcg@10 hybrid"] / best, 4)
    return result


def share(ours: dict[str, list[tuple[str, float]]], theirs: dict[str, list[tuple[str, float]]]) -> float:
    return round(sum(same_top(ours[query], theirs[query]) for query in ours) / len(ours), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=["scifact_train", "xquad_en", "xquad_zh", "cmrc2018_zh"])
    results = {}
    for name in parser.parse_args().sets:
        results[name] = asyncio.run(measure(name))
        print(name, json.dumps(results[name]))
    write_result("retrieval", {"sets": results}, packages=("bm25s", "wordllama", "qdrant-edge-py", "PyStemmer"))


if __name__ == "__main__":
    main()
