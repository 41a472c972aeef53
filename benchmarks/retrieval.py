"""Retrieval quality of the default stack on public sets, and its keyword search against bm25s.

Sets are read in place from ``shared/ir`` beside the checkout. `agent_rag.evaluation` asks and measures, so that a user
who runs ``agent-rag eval`` gets the same figures. A figure below its floor ends with exit code 1.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from _common import SHARED, write_result

from agent_rag import (
    Chunk,
    Document,
    KnowledgeBase,
    LocalEmbeddingModel,
    QdrantStore,
    SQLiteStore,
    TextBlock,
    ingest,
)
from agent_rag.evaluation import Configuration, EvaluationReport, Question, evaluate, ndcg
from agent_rag.retrieval.lexical import tokenize

Relevance = dict[str, dict[str, int]]
QUOTED = "chunking_evaluation"
HYBRID = Configuration(name="hybrid", mode="hybrid")
MODES = [Configuration(name="semantic", mode="semantic"), Configuration(name="keyword", mode="keyword")]
FLOORS = {
    "scifact_train": {"ndcg@10 hybrid": 0.709},
    "xquad_en": {"ndcg@10 hybrid": 0.971},
    "xquad_zh": {"ndcg@10 hybrid": 0.961},
    "cmrc2018_zh": {"ndcg@10 hybrid": 0.981},
    QUOTED: {"quoted@5 hybrid": 0.884, "quoted@2000t hybrid": 0.936},
}
"""Set -> figure -> the least that it may be: what was measured, less .003."""


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


def questions_of(name: str) -> tuple[dict[str, str], list[Question]]:
    """Document id -> text, and the questions of a set."""
    corpus, queries, relevant = read(name)
    return corpus, [Question(id=key, question=text, documents=relevant[key]) for key, text in queries.items()]


def quoted_questions() -> list[Question]:
    """Those of chunking_evaluation: each with the passages that answer it, and the file that they stand in."""
    with (SHARED / "ir" / QUOTED / "questions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Question(
            question=row["question"],
            documents=[f"{row['corpus_id']}.md"],
            quotes=[one["content"] for one in json.loads(row["references"])],
        )
        for row in rows
    ]


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
    if name == QUOTED:
        return await measure_quoted()
    corpus, questions = await asyncio.to_thread(questions_of, name)
    queries = {question.id: question.question for question in questions}
    with tempfile.TemporaryDirectory() as folder:
        async with QdrantStore(path=folder) as store:
            kb = KnowledgeBase(name, name, LocalEmbeddingModel(), store, name)
            await insert(kb, corpus)
            report = await evaluate(kb, questions, [HYBRID, *MODES])
            found = await search_all(kb, queries, "keyword")
            reference = await asyncio.to_thread(bm25s_rankings, corpus, queries)
            gone = sorted(corpus)[::10]
            await kb.delete_documents(gone)
            left = {key: text for key, text in corpus.items() if key not in set(gone)}
            after = await search_all(kb, queries, "keyword")
            reference_after = await asyncio.to_thread(bm25s_rankings, left, queries)
    result: dict[str, Any] = {"documents": len(corpus), "queries": len(queries)}
    result |= figures(report, ["ndcg@10"])
    ranked = {key: [name for name, _ in hits] for key, hits in reference.items()}
    scores = [ndcg_of(ranked[question.id], question.documents) for question in questions]
    result["ndcg@10 bm25s"] = round(float(np.mean(scores)), 4)
    result["same top 10 as bm25s"] = share(found, reference)
    result["same after deleting 10 %"] = share(after, reference_after)
    best = max(result["ndcg@10 semantic"], result["ndcg@10 keyword"])
    result["hybrid / better mode"] = round(result["ndcg@10 hybrid"] / best, 4)
    return result


async def measure_quoted() -> dict[str, Any]:
    """Five long documents cut by the default chunker, and two other sizes and weights: 6 configurations."""
    questions = await asyncio.to_thread(quoted_questions)
    files = sorted((SHARED / "ir" / QUOTED).glob("*.md"))
    others = [Configuration(name="weight .5", keyword_weight=0.5), Configuration(name="rrf", fusion="rrf"),
              Configuration(name="600 characters", chunk_size=600)]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        async with SQLiteStore(f"{folder}/index.db") as store:
            kb = KnowledgeBase(QUOTED, QUOTED, LocalEmbeddingModel(), store, QUOTED)
            await ingest(kb, files)
            report = await evaluate(kb, questions, [HYBRID, *MODES, *others], corpus=files)
    result: dict[str, Any] = {"chunks": report.baseline.chunks, "queries": report.questions}
    result |= figures(report, ["ndcg@10", "recall@5", "quoted@5", "quoted@2000t"])
    return result | {"seconds of 6 configurations": round(report.seconds, 1)}


def figures(report: EvaluationReport, metrics: Sequence[str]) -> dict[str, Any]:
    """Each metric of each configuration, and what hybrid gains on each mode, with its interval."""
    told: dict[str, Any] = {}
    for metric in metrics:
        told |= {f"{metric} {one.name}": round(one.metrics[metric], 4) for one in report.configurations}
        for one in report.configurations[1:]:
            told[f"{metric} {one.name} - hybrid"] = str(one.differences[metric])
    return told


def ndcg_of(ranking: Sequence[str], relevant: dict[str, int]) -> float:
    """nDCG@10 of a ranking by document id, by the same function as the evaluation's."""
    gains = [[relevant[name]] if name in relevant else [] for name in ranking]
    return ndcg(gains, list(relevant.values()))


def share(ours: dict[str, list[tuple[str, float]]], theirs: dict[str, list[tuple[str, float]]]) -> float:
    return round(sum(same_top(ours[query], theirs[query]) for query in ours) / len(ours), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", default=[*FLOORS])
    results = {}
    for name in parser.parse_args().sets:
        results[name] = asyncio.run(measure(name))
        print(name, json.dumps(results[name]))
    write_result("retrieval", {"sets": results}, packages=("bm25s", "wordllama", "qdrant-edge-py", "PyStemmer"))
    below = [
        f"{name}: {figure} is {results[name][figure]}, its floor {floor}"
        for name, floors in FLOORS.items()
        for figure, floor in floors.items()
        if name in results and results[name][figure] < floor
    ]
    if below:
        raise SystemExit("\n".join(below))


if __name__ == "__main__":
    main()
