"""The agent's tools: how quick `find` is, how much a result takes, and what they solve that the search alone does not.

Speed: 100,000 chunks of 800 characters in the default store; medians, and the computing time of this process, which
says more on a busy machine. Tasks: 200, see `_instruments_tasks`; both agents may read 4,000 tokens of results for
each. Bars: a text .3 s, an expression 2 s; 100 hits in 1,000 tokens; 2,500 documents in pages of 2,000; the four
schemas in 800; under 2 ms of middleware a turn; lists and counts .98, single facts not below the search alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from _common import ROOT, write_result
from _instruments_tasks import KINDS, Task, by_search, by_tools, generated, handbook, scores

from agent_rag import KnowledgeBase, LocalEmbeddingModel, MemoryStore, SQLiteStore, TextSource, ingest, sync
from agent_rag.chat import user
from agent_rag.errors import PatternError
from agent_rag.middleware import Parameters, RAGMiddleware
from agent_rag.middleware.core.render import approximate_tokens
from agent_rag.middleware.loop import run_agent
from agent_rag.testing import ScriptedChatModel
from agent_rag.testing.knowledge import ShelfBase
from agent_rag.testing.records import document, record

CHUNKS, PER_DOCUMENT, CHARACTERS = 100_000, 20, 800
REPEATS = 5
LOOKED_FOR = {
    "a text of 500 documents": ("whnihhse", {}),
    "a text that is nowhere": ("zzzqx", {}),
    "two words": ("whnihhse wdo", {}),
    "an expression": (r"\bwhn\w+se\b", {"regex": True}),
    "an expression with digits": (r"[A-Z]{2,4}-\d{3,}", {"regex": True, "ignore_case": False}),
    "a text of every chunk": ("wd", {}),
}


async def filled(path: Path, size: int) -> None:
    """A store of random words."""
    chance = random.Random(1)
    words = ["w" + "".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(20_000)]
    async with SQLiteStore(path, synced=False) as store:
        await store.open_collection("bench", 0)
        for start in range(0, size, 1_000):
            records = [
                record(
                    f"d{number // PER_DOCUMENT}",
                    number % PER_DOCUMENT,
                    " ".join(chance.choices(words, k=150))[:CHARACTERS],
                    vector=(),
                    total=PER_DOCUMENT,
                )
                for number in range(start, start + 1_000)
            ]
            names = dict.fromkeys(one.document_id for one in records)
            await store.replace("bench", [document(name) for name in names], records)


async def speed(size: int) -> dict[str, Any]:
    """Seconds of each search: wall and computing, after one to warm up."""
    found: dict[str, Any] = {"chunks": size}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        await filled(path, size)
        async with SQLiteStore(path) as store:
            base = KnowledgeBase("bench", "Random words.", None, store, "bench")
            for name, (pattern, options) in LOOKED_FOR.items():
                wall, computing = await timed(lambda p=pattern, o=options: base.find(p, **o))
                total = (await base.find(pattern, **options)).total
                found[name] = {"total": total, "wall_s": wall, "computing_s": computing}
                print(name, found[name], flush=True)
            await base.insert_document([record(text="a" * 40 + "!").chunk], "hostile")
            started = time.perf_counter()
            try:
                await base.find("(a+)+$", regex=True, document_id="hostile")
            except PatternError:
                found["hostile expression refused after s"] = round(time.perf_counter() - started, 3)
    return found


async def timed(work: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Medians of wall and of computing time of this process."""
    await work()
    wall, computing = [], []
    for _ in range(REPEATS):
        started, used = time.perf_counter(), time.process_time()
        await work()
        wall.append(time.perf_counter() - started)
        computing.append(time.process_time() - used)
    return round(statistics.median(wall), 3), round(statistics.median(computing), 3)


async def sizes() -> dict[str, Any]:
    """Tokens of schemas and results."""
    shelf = ShelfBase({f"log-{number:04}.md": f"The pump said ERR-4711-{number:04}." for number in range(2_500)})
    rag = RAGMiddleware(shelf, Parameters(tools="all"))
    schemas = {
        tool.name: approximate_tokens(json.dumps([tool.name, tool.description, tool.parameters])) for tool in rag.tools
    }
    found = await rag.call_tool({"pattern": "ERR-4711"}, rag.start_turn(), name="find_text")
    listed = await rag.call_tool({}, rag.start_turn(), name="list_documents")
    return {
        "schemas": schemas,
        "all schemas": sum(schemas.values()),
        "find_text: hits shown": len(found.citations),
        "find_text: tokens": approximate_tokens(found.text),
        "list_documents: documents a page": listed.text.count("\n- "),
        "list_documents: tokens a page": approximate_tokens(listed.text),
    }


async def overhead(turns: int = 200) -> dict[str, float]:
    """Milliseconds that offering the tools adds to a turn of one model call."""
    history = [user("What about the pump?"), user("And the valve?")] * 10
    rag = RAGMiddleware(ShelfBase({"a.md": "text"}), Parameters(tools="all"))

    async def run(middleware: list[RAGMiddleware]) -> float:
        started = time.process_time()
        for number in range(turns):
            await run_agent(ScriptedChatModel("done"), [*history, user(f"ask {number}")], middleware=middleware)
        return (time.process_time() - started) / turns * 1_000

    seconds = [(await run([rag])) - (await run([])) for _ in range(5)]
    return {"ms a turn": round(statistics.median(seconds), 3)}


async def solved() -> dict[str, Any]:
    """Mean score of each kind of task, for both agents."""
    questions = [
        (row["question"], row["answer_contains"][0])
        for line in (ROOT / "tests/data/handbook_questions.jsonl").read_text("utf-8").splitlines()
        if line and (row := json.loads(line))["answerable"]
    ]
    texts, made = generated()
    results: dict[str, Any] = {}
    async with MemoryStore() as store:
        files = KnowledgeBase("files", "Generated files.", LocalEmbeddingModel(), store, "files")
        await sync(files, TextSource(texts, name="files"))
        book = KnowledgeBase("handbook", "The handbook.", LocalEmbeddingModel(), store, "handbook")
        await ingest(book, ROOT / "examples/handbook")
        known: list[tuple[KnowledgeBase, list[Task]]] = [
            (files, made),
            (book, await handbook(ROOT / "examples/handbook", questions)),
        ]
        for name, tools, solve in (("search alone", "search", by_search), ("four tools", "all", by_tools)):
            gathered: dict[str, list[float]] = {}
            for base, tasks in known:
                for kind, values in (await scores(base, tasks, tools, solve)).items():
                    gathered.setdefault(kind, []).extend(values)
            results[name] = {
                kind: {"tasks": len(gathered[kind]), "score": round(statistics.mean(gathered[kind]), 3)}
                for kind in KINDS
            }
            print(name, results[name], flush=True)
    return results


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=CHUNKS, help="chunks of the speed part")
    parser.add_argument("--parts", nargs="*", default=["tasks", "sizes", "overhead", "speed"])
    arguments = parser.parse_args()
    data: dict[str, Any] = {}
    if "tasks" in arguments.parts:
        data["tasks"] = await solved()
    if "sizes" in arguments.parts:
        data["tokens"] = await sizes()
    if "overhead" in arguments.parts:
        data["overhead"] = await overhead()
    if "speed" in arguments.parts:
        data["speed"] = await speed(arguments.size)
    write_result("instruments", data)


if __name__ == "__main__":
    asyncio.run(main())
