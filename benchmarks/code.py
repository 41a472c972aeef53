"""Code as a source: how whole functions stay, and whether a function is found by what its author says it does.

`--tree LANGUAGE=FOLDER` adds a tree; without one the standard library and the installed packages of this Python are
read. Functions are counted by `ast` and by braces, not by the grammars that cut. A question is the first sentence of a
function's documentation, which is removed from the text; the answer is the first chunk that overlaps the function.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import re
import sysconfig
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _code_functions import brace_functions, python_functions
from _code_peers import PEERS, Cut, peers, spans_of
from _common import write_result

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, MemoryStore
from agent_rag._util.languages import language_of
from agent_rag.chunkers import CodeChunker
from agent_rag.chunkers._syntax_tree import syntax_tree
from agent_rag.documents import text_section
from agent_rag.workers import mark_as_isolated

SIZE = 1000
_KINDS = {"go": "go", "rust": "rust", "javascript": "javascript", "typescript": "javascript", "tsx": "javascript"}
FUNCTIONS: dict[str, Callable[[str], Iterator[tuple[int, int, int]]]] = {
    "python": python_functions, "c": brace_functions, "cpp": brace_functions,
    **{name: partial(brace_functions, kind=kind) for name, kind in _KINDS.items()},
}  # fmt: skip
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n\s*\n|\n\s*@")


def read(folder: Path, language: str, most: int, rng: random.Random) -> list[tuple[str, str]]:
    """(path, text) of at most `most` files of 1 to 100 kB in a language, drawn by chance; none that is minified."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and 1_000 < path.stat().st_size < 100_000]
    rng.shuffle(found)
    files: list[tuple[str, str]] = []
    for path in found:
        if language_of(path.name) is None or len(files) == most:
            continue
        try:
            text = path.read_text("utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        if len(text) > 110 * (text.count("\n") + 1):  # what GitHub Linguist calls minified
            continue
        if language_of(path.name, text) == language and "\f" not in text and "\r" not in text:
            files.append((path.relative_to(folder).as_posix(), text))
    return files


def cut(name: str, text: str, language: str) -> list[Chunk]:
    return CodeChunker(chunk_size=SIZE)._chunk([text_section(text, name, format="code", language=language)])


def ours(text: str, language: str) -> list[str]:
    return [chunk.text for chunk in cut(f"a.{language}", text, language)]


def wholeness(files: Sequence[tuple[str, str]], language: str, peer: Cut = ours) -> dict[str, Any] | None:
    """Shares of functions that fit the size and are whole in one chunk, and what the chunks are like; None where a
    library does not take the language."""
    fitting = whole = fitting_lead = whole_lead = mid_line = over = small = count = size = lost = 0
    seconds = 0.0
    for name, text in files:
        started = time.process_time()
        try:
            chunks = peer(text, language)
        except Exception as error:
            print(f"{name}: {error}"[:200])
            return None
        seconds += time.process_time() - started
        spans = spans_of(text, chunks)
        lost += len(chunks) - len(spans)
        size += len(text.encode())
        starts = [start for start, _ in spans]
        lines = np.cumsum([0, *(len(line) + 1 for line in text.split("\n"))]).tolist()
        for start, end in spans:
            count += 1
            mid_line += bool(text[text.rfind("\n", 0, start) + 1 : start].strip())
            over += end - start > SIZE
            small += end - start < 100
        try:
            functions = list(FUNCTIONS[language](text)) if language in FUNCTIONS else []
        except SyntaxError:
            continue
        for lead, first, stop in functions:
            end = lines[stop] - 1
            for begin, is_lead in ((lines[first], False), (lines[lead], True)):
                if end - begin > SIZE:
                    continue
                solid = begin + len(text[begin:end]) - len(text[begin:end].lstrip())
                place = bisect_right(starts, solid) - 1
                held = place >= 0 and spans[place][1] >= end
                fitting_lead, whole_lead = fitting_lead + is_lead, whole_lead + (held and is_lead)
                fitting, whole = fitting + (not is_lead), whole + (held and not is_lead)
    return {
        "files": len(files), "functions": fitting, "whole": whole / max(fitting, 1),
        "whole_with_lead": whole_lead / max(fitting_lead, 1), "begin_mid_line": mid_line / max(count, 1), "over": over,
        "under_100": small / max(count, 1), "mean": size / max(count, 1),
        "not_as_it_stands": lost / max(count + lost, 1), "mb_per_cpu_s": size / 1e6 / max(seconds, 1e-9),
    }  # fmt: skip


@dataclass
class Questioned:
    """A file without the documentation of some functions, and the questions that this documentation answers."""

    name: str
    text: str
    language: str
    questions: list[tuple[str, int, int]] = field(default_factory=list)
    """(question, first line, last line) from 1."""


def questioned(name: str, text: str, language: str, rng: random.Random, seen: set[str]) -> Questioned | None:
    """None when no function of the file says in a sentence of 4 to 40 words what it does."""
    tree = syntax_tree(text, language)
    if tree is None:
        return None
    lines = text.split("\n")
    found: list[tuple[str, range, int, int]] = []
    for node in tree.definitions():
        if not re.search("function|method|constructor", node.type):
            continue
        first, last = node.start_point.row, node.end_point.row
        rows = _documented_rows(lines, node, language)
        if rows is None or last - first - len(rows) < 2:
            continue
        said = " ".join(line.strip().strip("\"'/*#! ") for line in lines[rows.start : rows.stop])
        question = " ".join(_SENTENCE.split(said.strip())[0].split())
        if 4 <= len(question.split()) <= 40 and question not in seen and "<" not in question:
            found.append((question, rows, first, last))
    rng.shuffle(found)
    found = found[:4]
    gone = {row for _, rows, _, _ in found for row in rows}
    if not found:
        return None
    seen.update(question for question, *_ in found)
    kept = np.cumsum([row not in gone for row in range(len(lines))])
    new = "\n".join(line for row, line in enumerate(lines) if row not in gone)
    questions = [(question, int(kept[first]), int(kept[last])) for question, _, first, last in found]
    return Questioned(name, new, language, questions)


def _documented_rows(lines: list[str], node: Any, language: str) -> range | None:
    if language == "python":
        body = node.child_by_field_name("body")
        first = body.named_children[0] if body is not None and body.named_children else None
        text = first.named_children[0] if first is not None and first.named_children else None
        if first is None or text is None or text.type != "string" or len(body.named_children) < 2:
            return None
        return range(first.start_point.row, first.end_point.row + 1)
    stop = node.start_point.row
    start = stop
    marks = r"\s*//" if language == "go" else r"\s*(?:/\*\*|\*|\*/|///)"  # Go has no other documentation
    while start and re.match(marks, lines[start - 1]):
        start -= 1
    return range(start, stop) if start < stop else None


async def gains(files: Sequence[Questioned], chunks: Sequence[list[Chunk]], *, with_symbols: bool) -> list[float]:
    """DCG@10 of the first chunk that overlaps the function, question by question."""
    async with MemoryStore() as store:
        kb = KnowledgeBase("code", "code", LocalEmbeddingModel(), store, "code")
        records: list[Chunk] = []
        for number, own in enumerate(chunks):
            for chunk in own:
                without = {} if with_symbols else {"heading_path": [], "embed_context": None}
                metadata = {**chunk.metadata, "file": number}
                records.append(chunk.model_copy(update={**without, "metadata": metadata, "chunk_index": len(records)}))
        await kb.insert_document(records, "all")
        scores = []
        for number, file in enumerate(files):
            for question, first, last in file.questions:
                score = 0.0
                for rank, hit in enumerate(await kb.search(question, 10)):
                    place = hit.chunk.metadata
                    if place["file"] == number and place["line_start"] <= last and place["line_end"] >= first:
                        score = 1 / math.log2(rank + 2)
                        break
                scores.append(score)
        return scores


def interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean difference, by paired bootstrap."""
    difference = np.array(after) - np.array(before)
    rng = np.random.default_rng(0)
    means = [difference[rng.integers(0, len(difference), len(difference))].mean() for _ in range(1000)]
    return float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))


async def retrieval(trees: Sequence[tuple[str, Path]], questions: int, rng: random.Random) -> dict[str, Any]:
    files: list[Questioned] = []
    for language, folder in trees:
        seen: set[str] = set()
        asked = 0
        for name, text in read(folder, language, 10_000, rng):
            if asked >= questions:
                break
            if (file := questioned(name, text, language, rng, seen)) is not None:
                files.append(file)
                asked += len(file.questions)
    chunks = [cut(file.name, file.text, file.language) for file in files]
    without = await gains(files, chunks, with_symbols=False)
    with_symbols = await gains(files, chunks, with_symbols=True)
    languages = [file.language for file in files for _ in file.questions]
    rows = {}
    for name in ["all", *dict.fromkeys(languages)]:
        chosen = [place for place, language in enumerate(languages) if name in ("all", language)]
        before, after = [without[place] for place in chosen], [with_symbols[place] for place in chosen]
        rows[name] = {
            "questions": len(chosen), "without": float(np.mean(before)), "with": float(np.mean(after)),
            "interval": interval(before, after),
        }  # fmt: skip
    return {"chunks": sum(map(len, chunks)), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", action="append", default=[], metavar="LANGUAGE=FOLDER")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--questions", type=int, default=1500, help="for each tree")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    mark_as_isolated()
    paths = sysconfig.get_paths()
    given = [tuple(tree.split("=", 1)) for tree in options.tree] or [
        ("python", paths["stdlib"]), ("python", paths["purelib"])
    ]  # fmt: skip
    trees = [(language, Path(folder)) for language, folder in given]
    rng = random.Random(options.seed)
    table = {}
    cutters = {"agent-rag": ours, **peers(SIZE)}
    for number, (language, folder) in enumerate(trees):
        files = read(folder, language, options.files, rng)
        for name, cutter in cutters.items():
            ours(files[0][1], language) if files else None
            table[f"{language} {number} {name}"] = wholeness(files, language, cutter)
            print(language, number, name, table[f"{language} {number} {name}"], flush=True)
    if options.questions == 0:
        write_result("code-wholeness", {"wholeness": table, "seed": options.seed}, packages=PEERS)
        return
    found = asyncio.run(retrieval(trees, options.questions, rng))
    for name, row in found["rows"].items():
        print(name, row, flush=True)
    write_result("code", {"wholeness": table, "retrieval": found, "seed": options.seed})


if __name__ == "__main__":
    main()
