"""The house: each room uses only what stands left of it, and importing the package stays light."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import agent_rag
from tests.shared import ROOT

PACKAGE = Path(agent_rag.__file__).parent
# Each line may import from itself and from the lines above it.
ORDER = [
    ["errors"],
    ["content", "limits", "places"],
    ["documents", "events"],
    ["filters"],
    ["_util"],
    ["chat"],
    ["retrieval"],
    ["answers"],
    ["workers"],
    ["parsers", "chunkers", "embeddings", "stores"],
    ["tables"],
    ["sources"],
    ["knowledge"],
    ["ingestion"],
    ["evaluation"],
    ["middleware"],
    ["config"],
    ["mcp"],
    ["cli"],
]
# The model that only quotes is a chat model and ranks sentences by BM25.
LATE = {("chat", "retrieval")}
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
SIBLINGS = {"parsers", "chunkers", "embeddings", "stores"}


def test_nothing_is_raised_in_except_star() -> None:
    """Python 3.11.2, which Debian 12 has, wraps an error raised there in another group; catch the group instead."""
    for path in PACKAGE.rglob("*.py"):
        assert not any(isinstance(node, ast.TryStar) for node in ast.walk(ast.parse(path.read_text("utf-8")))), path


def name_of(path: Path) -> str:
    """``agent_rag.filters`` of ``agent_rag/filters/__init__.py``."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(module: str) -> set[str]:
    """Modules of the package that a module imports: at the top, late, and for type checkers."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        parts = package.split(".")
        base = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
        found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names}
    return found - {module}


def room_of(module: str) -> str:
    """The folder or module directly below the package."""
    return [*module.split("."), "__init__"][1]


@pytest.mark.parametrize("module", MODULES)
def test_rooms_use_only_what_stands_left_of_them(module: str) -> None:
    """No module imports from a room to its right; parsers, chunkers, embeddings and stores do not know each other."""
    room = room_of(module)
    if room in ("__init__", "testing"):
        return

    for used in {room_of(other) for other in imports(module)} - {room, "testing", "__init__"}:
        assert (room, used) in LATE or RANK[used] <= RANK[room], f"{room} imports {used}"
        assert not {room, used} <= SIBLINGS, f"{room} imports {used}"


def test_no_module_imports_itself_in_a_circle() -> None:
    """Neither late nor for type checkers."""
    left = {module: imports(module) & MODULES.keys() for module in MODULES}
    while free := [module for module in left if not left[module] & left.keys()]:
        for module in free:
            del left[module]
    assert sorted(left) == []


def test_a_room_keeps_its_private_modules() -> None:
    """`_module` is imported by its own folder only; `_util` is the package's own."""
    for module in MODULES:
        folder = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        for used in imports(module):
            home, _, name = used.rpartition(".")
            assert not name.startswith("_") or used == "agent_rag._util" or home == folder, f"{module} imports {used}"


def test_no_folder_is_too_large_to_read() -> None:
    """At most 20 modules in a folder, and no loose module at the top beyond the nouns."""
    loose = {path.stem for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__", "content", "documents", "errors", "events", "limits", "places"}
    for folder in {path.parent for path in MODULES.values()}:
        assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= 20, folder.name


def test_the_middleware_core_knows_no_framework() -> None:
    """Adapters translate; the core imports neither them nor their frameworks."""
    adapters = {path.stem.removeprefix("test_") for path in (ROOT / "tests/adapters").glob("test_*.py")}
    own = set(sys.stdlib_module_names) | {"pydantic", "regex"}
    for path in sorted((PACKAGE / "middleware").glob("*.py")):
        if path.stem in adapters:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        used = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        used |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0}
        assert {name.split(".")[0] for name in used} <= own, path.name


def test_importing_loads_no_parser_store_or_framework() -> None:
    """`import agent_rag` leaves optional and heavy libraries alone. (G01)"""
    heavy = (
        "qdrant_client qdrant_edge pypdf pypdfium2 docx pptx openpyxl python_calamine lxml PIL tokenizers wordllama "
        "pymilvus asyncpg elasticsearch pymongo langchain torch transformers pandas typer rich httpx numpy"
    )
    code = f"import sys, agent_rag; print([name for name in {heavy.split()!r} if name in sys.modules])"

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "[]"


def test_works_without_the_libraries_nobody_ordered() -> None:
    """With torch, transformers, pandas and the optional clients blocked, text goes in and is found. (G01)"""
    code = """
import asyncio, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "transformers", "pandas", "pymilvus", "asyncpg", "elasticsearch", "pymongo"}:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
from agent_rag import KnowledgeBase, LocalEmbeddingModel, QdrantStore, TextSource, sync
async def main():
    async with QdrantStore(location=":memory:") as store:
        kb = KnowledgeBase("kb", "d", LocalEmbeddingModel(), store, "kb")
        await sync(kb, TextSource({"a.txt": "the gateway timeout is thirty seconds"}))
        print((await kb.search("what is the gateway timeout?"))[0].chunk.text)
asyncio.run(main())
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert result.stdout.strip() == "the gateway timeout is thirty seconds", result.stderr


def test_import_time() -> None:
    """`import agent_rag` takes at most 1.5 times `import pydantic, httpx, numpy` (medians of 5 interleaved runs)."""

    def seconds(statement: str) -> float:
        code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(run.stdout)

    pairs = [(seconds("import agent_rag"), seconds("import pydantic, httpx, numpy")) for _ in range(5)]

    ours, base = (statistics.median(values) for values in zip(*pairs, strict=True))
    assert ours <= 1.5 * base


def test_public_names_are_sorted_and_documented() -> None:
    """Every name of `__all__` exists and has a docstring; the list is sorted."""
    assert agent_rag.__all__ == sorted(agent_rag.__all__)
    assert set(agent_rag.__all__) >= set(agent_rag._MODULE_OF)
    optional = {"ElasticsearchStore", "MilvusLiteStore", "MongoDBStore", "PostgresStore", "TcVectorStore"}
    for name in set(agent_rag.__all__) - optional:
        assert getattr(agent_rag, name).__doc__, name
