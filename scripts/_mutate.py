"""Change one guard at a time and see whether a test notices.

`scripts/mutate [FILE ...] [--limit N] [--list]`: for each module of `TARGETS` its comparisons (`<` against `<=`), its
`and`/`or`/`not`, its whole-number constants and its refusals (`raise`) are changed one by one in a copy of the
checkout, and the tests named beside it run until the first failure. Prints the survivors and the share killed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Module -> the tests that guard it. Code that waits, retries or measures time is left out: it has no right answer.
TARGETS = {
    "agent_rag/filters/language.py": "tests/filters",
    "agent_rag/filters/matching.py": "tests/filters tests/stores/test_memory.py",
    "agent_rag/filters/nodes.py": "tests/filters",
    "agent_rag/filters/fields.py": "tests/filters tests/middleware/test_agentic.py",
    "agent_rag/knowledge/search.py": "tests/knowledge tests/test_knowledge.py",
    "agent_rag/knowledge/writing.py": "tests/knowledge tests/test_knowledge.py",
    "agent_rag/knowledge/embedder.py": "tests/knowledge tests/test_knowledge.py",
    "agent_rag/knowledge/handle.py": "tests/knowledge tests/test_knowledge.py",
    "agent_rag/knowledge/reading.py": "tests/knowledge tests/test_knowledge.py",
    "agent_rag/knowledge/changing.py": "tests/knowledge tests/test_knowledge.py",
    "agent_rag/knowledge/knowledge_base.py": "tests/knowledge tests/test_knowledge.py",
    "agent_rag/retrieval/fusion.py": "tests/retrieval/test_rank.py tests/retrieval/test_fusion.py",
    "agent_rag/retrieval/rank.py": "tests/retrieval/test_rank.py tests/retrieval/test_fusion.py tests/knowledge",
    "agent_rag/retrieval/fence.py": "tests/middleware/test_fence.py tests/retrieval",
    "agent_rag/stores/seven.py": "tests/stores/test_seven_methods.py tests/knowledge tests/test_knowledge.py",
    "agent_rag/middleware/core/arguments.py": "tests/middleware",
    "agent_rag/middleware/core/search.py": "tests/middleware",
    "agent_rag/middleware/core/pipeline.py": "tests/middleware",
    "agent_rag/middleware/core/render.py": "tests/middleware",
    "agent_rag/_util/http.py": "tests/test_http.py",
}
_SWAPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


class Mutant(ast.NodeTransformer):
    """Changes the `number`-th place that can be changed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen = 0
        self.what = ""

    def _is_it(self, node: ast.expr | ast.stmt, what: str) -> bool:
        self.seen += 1
        if self.seen - 1 == self.number:
            self.what = f"line {node.lineno}: {what}"
            return True
        return False

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        swap = _SWAPS[type(node.ops[0])]
        if self._is_it(node, f"{ast.unparse(node)} compares by {swap.__name__}"):
            node.ops[0] = swap()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._is_it(node, f"{ast.unparse(node)} with the other operator"):
            node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) and self._is_it(node, f"{ast.unparse(node)} without not"):
            return node.operand
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int and self._is_it(node, f"{node.value} is {node.value + 1}"):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.exc is not None and self._is_it(node, f"{ast.unparse(node)[:60]} does nothing"):
            return ast.copy_location(ast.Pass(), node)
        return node  # texts of messages are no guards

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node


def places(source: str) -> int:
    """How many mutants a module has."""
    counter = Mutant(-1)
    counter.visit(ast.parse(source))
    return counter.seen


def mutants(files: list[str], limit: int) -> Iterator[tuple[str, int]]:
    """(file, number) of at most `limit` mutants, spread evenly and always the same."""
    every = [(file, number) for file in files for number in range(places((ROOT / file).read_text("utf-8")))]
    yield from sorted(random.Random(1).sample(every, min(limit, len(every))))


def copy_of_the_checkout() -> Path:
    """A folder beside a link to the shared data, so that tests find what they find here."""
    top = Path(tempfile.mkdtemp(prefix="mutate-"))
    ignore = shutil.ignore_patterns(".git", ".venv*", "*_cache", "__pycache__", "dist")
    shutil.copytree(ROOT, top / "checkout", ignore=ignore)
    if (ROOT.parent / "shared").is_dir():
        (top / "shared").symlink_to(ROOT.parent / "shared")
    return top / "checkout"


def passes(folder: Path, tests: str, timeout_s: float) -> bool:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return False  # a loop without end is noticed
    return run.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="modules of TARGETS; default: all of them")
    parser.add_argument("--limit", type=int, default=150, help="mutants in all (default 150)")
    parser.add_argument("--list", action="store_true", help="only say what would be changed")
    arguments = parser.parse_args()
    files = arguments.files or [file for file in TARGETS if (ROOT / file).exists()]
    folder = copy_of_the_checkout()
    survivors: list[str] = []
    killed = 0
    started: dict[str, float] = {}
    try:
        for file, number in mutants(files, arguments.limit):
            path = folder / file
            original = path.read_text("utf-8")
            mutant = Mutant(number)
            changed = ast.unparse(mutant.visit(ast.parse(original)))
            if arguments.list:
                print(f"{file} {mutant.what}")
                continue
            tests = " ".join(test for test in TARGETS[file].split() if (folder / test.split("::")[0]).exists())
            if tests not in started:
                begun = time.monotonic()
                if not passes(folder, tests, 900):
                    print(f"{tests} fails without a change", file=sys.stderr)
                    return 2
                started[tests] = time.monotonic() - begun
            path.write_text(changed, "utf-8")
            survived = passes(folder, tests, 60 + 5 * started[tests])
            path.write_text(original, "utf-8")
            killed += not survived
            if survived:
                survivors.append(f"{file} {mutant.what}")
                print(f"SURVIVED {survivors[-1]}", flush=True)
    finally:
        shutil.rmtree(folder.parent, ignore_errors=True)
    if not arguments.list:
        tried = killed + len(survivors)
        print(f"{killed} of {tried} mutants killed ({killed / max(tried, 1):.0%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
