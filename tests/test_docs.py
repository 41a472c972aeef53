"""The Python blocks of README and docs run, page by page, in a folder that has examples/handbook."""

from __future__ import annotations

import ast
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pytest

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

PACKAGE = ROOT / "agent_rag"


def exported(file: Path) -> list[str] | None:
    """`__all__` of a module, read from its source: an adapter cannot be imported without its framework."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def module_name(file: Path) -> str:
    """``agent_rag.filters`` of ``agent_rag/filters/__init__.py``."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def reference() -> dict[str, list[str]]:
    """Module -> the names that the reference page gives it."""
    text = (ROOT / "docs/reference.md").read_text("utf-8")
    parts = re.split(r"^##+ `([\w.]+)`$", text, flags=re.MULTILINE)
    return {
        name: re.findall(r"^\| `(\w+)` \| [^|\n]{3,} \|$", body, re.MULTILINE)
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_the_reference_is_complete() -> None:
    """It has every name of each `__all__`, with a line, once; those of `agent_rag` stand there only."""
    listed = reference()
    top = exported(PACKAGE / "__init__.py") or []
    files = [
        file
        for file in sorted(PACKAGE.rglob("*.py"))
        if not re.search(r"/_\w+(?<!__init__)\.py$|_contract/", str(file))
    ]

    for file in files:
        names = exported(file)
        if names is None:
            continue
        here = names if file.name != "__init__.py" or file.parent == PACKAGE else [n for n in names if n not in top]
        assert listed.get(module_name(file), []) == here, module_name(file)


def test_the_reference_names_what_exists() -> None:
    """Modules without `__all__` are listed by choice; what is listed is defined there and has a docstring."""
    for module, names in reference().items():
        file = ROOT / (module.replace(".", "/") + ".py")
        if not file.exists() or exported(file) is not None:
            continue
        body = ast.parse(file.read_text("utf-8")).body
        documented = {
            node.name
            for node in body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node)
        }
        aliases = {ast.unparse(node.targets[0]) for node in body if isinstance(node, ast.Assign)}
        assert set(names) <= documented | aliases, module


def test_every_public_name_has_a_docstring() -> None:
    """Classes and functions in an `__all__`, wherever they are defined."""
    documented: set[str] = set()
    plain: set[str] = set()
    for file in PACKAGE.rglob("*.py"):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                (documented if ast.get_docstring(node) else plain).add(node.name)

    public = {name for file in PACKAGE.rglob("*.py") for name in exported(file) or []}
    assert not sorted(public & plain - documented)


# --- the maps from other systems ---

SEEDS = ROOT / "../shared/seeds"
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
