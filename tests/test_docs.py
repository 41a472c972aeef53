"""The Python blocks of README and docs run, page by page, in a folder that has examples/handbook."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import agent_rag
import agent_rag.errors
from tests.shared import ROOT

_BLOCK = re.compile(r"(<!-- not run: [^\n]+ -->\n)?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[str]:
    """Code that is to be run: everything but blocks behind a comment that says why not."""
    return [code for marker, code in _BLOCK.findall(page.read_text("utf-8")) if not marker]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_code_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Each page's blocks run one after the other in one namespace."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "docs"}

    for code in blocks(page):
        # A page shows asyncio.run once; inside this test the loop already runs.
        code = re.sub(r"asyncio\.run\((.+)\)", r"await \1", code)
        compiled = compile(code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = types.FunctionType(compiled, names)()
        if inspect.isawaitable(result):
            await result

    for value in list(names.values()):
        if hasattr(value, "vector_store"):
            await value.vector_store.__aexit__(None, None, None)
    capsys.readouterr()


def test_every_page_is_linked() -> None:
    """A page under docs/ that nothing links to would not be found."""
    texts = "".join(page.read_text("utf-8") for page in PAGES)
    for page in PAGES[1:]:
        assert page.name in texts, page.name


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    """Relative links in README and docs name files and headings that exist."""
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
            file = page.parent / target if target else page
            assert file.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(file), f"{page.name}: {target}#{anchor}"


# --- the reference page ---


def test_the_reference_is_what_the_code_says() -> None:
    """`scripts/docs` would write the same page: every name of each `__all__`, each with a docstring."""
    subprocess.run([sys.executable, "scripts/_reference.py", "--check"], check=True, cwd=ROOT)


SEEDS = ROOT / "../shared/seeds"
_NO_PAGE_IMPORTS = {
    # Types of arguments and answers that a program meets without importing them, to annotate or to catch.
    "AgentRAGError", "Base64Source", "ChatModel", "Heading", "IngestReport", "ParserPool", "Signals",
    "URLSource", "run_sync",
    # One of a kind whose others the pages import.
    "AutoChunker", "CodeChunker", "FixedSizeChunker", "JSONChunker", "PostgresStore", "SQLiteStore", "TcVectorStore",
}  # fmt: skip


def test_the_package_gives_what_the_pages_import_from_it() -> None:
    """The rule of `agent_rag.__all__`: what README, docs, examples and the seeds import, and little more."""
    seeds = dict.fromkeys(SEEDS.glob("*.txt"), r"^\s*(?:>>> )?from agentscope\.rag import (\([^)]*\)|[^\n#]*)")
    pages = dict.fromkeys(
        [*PAGES, *(ROOT / "examples").rglob("*.py")], r"^\s*from agent_rag import (\([^)]*\)|[^\n#]*)"
    )
    imported: set[str] = set()
    for path, pattern in {**pages, **seeds}.items():
        for names in re.findall(pattern, path.read_text("utf-8"), re.MULTILINE):
            imported.update(re.findall(r"\w+", names))

    assert imported <= set(agent_rag.__all__)
    assert set(agent_rag.__all__) - imported <= _NO_PAGE_IMPORTS


# --- the maps from other systems ---

_PLAIN = {
    "agentscope": (
        "agentscope-rag.txt",
        r"`([A-Z]\w+|[a-z]\w*_\w+|\w+(?=\())",
        {"True", "False", "None", "len"},
    ),
    "harnest": ("harnest-rag-extension.txt", r"`(\w+)", {"True", "double", "async"}),
    "trpc_agent_go": (
        "trpc-agent-go-knowledge.txt",
        r"\b((?:New\w+SearchTool|With|Get)(?:[A-Z]\w+)|Source[A-Z]\w+|OPENAI_\w+)\b",
        {"WithSessionService", "WithModel", "NewKnowledgeSearchTool", "Sources", "SourceConcurrency", "SourceSync"},
    ),
}


@pytest.mark.parametrize("system", _PLAIN)
def test_every_name_of_a_seed_is_mapped(system: str) -> None:
    """The page of a system has each name that its documentation shows."""
    file, pattern, others = _PLAIN[system]
    if not (SEEDS / file).exists():
        pytest.skip(f"{SEEDS / file} is not here; it comes with the project's shared folder")
    seed = re.sub(r"^```.*?^```", "", (SEEDS / file).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    page = (ROOT / f"docs/coming_from/{system}.md").read_text("utf-8")

    missing = sorted(name for name in set(re.findall(pattern, seed)) - others if not re.search(rf"\b{name}\b", page))

    assert missing == []


def test_every_error_has_its_place_on_the_page() -> None:
    """`error.page` leads to a heading, also for errors of other packages below ours."""
    headings = anchors(ROOT / "docs/errors.md")

    for name in agent_rag.errors.__all__:
        kind = getattr(agent_rag.errors, name)
        if isinstance(kind, type):
            file, _, anchor = kind("x").page.partition("#")
            assert (ROOT / file).exists()
            assert anchor in headings, name
    assert type("Mine", (agent_rag.errors.ParseError,), {})("x").page == "docs/errors.md#parseerror"


def test_every_page_is_in_the_site() -> None:
    """The navigation names each page of docs/; `scripts/docs site` checks the rest."""
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")

    for page in PAGES[1:]:
        assert page.relative_to(ROOT / "docs").as_posix() in navigation, page.name
