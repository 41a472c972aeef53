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


def test_links_lead_somewhere() -> None:
    """Relative links in README and docs name files that exist."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
