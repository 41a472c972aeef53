"""A hook of MkDocs: pages made from the code and from files beside docs/, and links to them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).resolve().parent))

from _reference import PACKAGE, exported, module_name  # noqa: E402

BESIDE = {"SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
_LINK = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, BESIDE))})(#[^)]*)?\)")
_API = """# `{name}`

::: {name}
    options:
      show_root_heading: false
      show_root_toc_entry: false
{more}"""
_INHERITED = "      inherited_members: true\n"
"""The KnowledgeBase is in four files."""
_MODULE = re.compile(r"^## `(agent_rag[\w.]*)`$", re.MULTILINE)


def public_modules() -> list[str]:
    """Modules with an `__all__`, but for the contracts that stores share."""
    names = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = module_name(file)
        if exported(file) and not any(part.startswith("_") for part in name.split(".")) and "_contract" not in name:
            names.append(name)
    return names


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each public module, and the files beside docs/."""
    for name in public_modules():
        files.append(
            File.generated(
                config,
                f"api/{name}.md",
                content=_API.format(name=name, more=_INHERITED if name == "agent_rag.knowledge" else ""),
            )
        )
    for beside, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / beside).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links out of docs/ to the pages that `on_files` made, and module names to their pages."""
    up = "../" * page.file.src_uri.count("/")
    markdown = _LINK.sub(lambda found: f"]({up}{BESIDE[found[1]]}{found[2] or ''})", markdown)
    if page.file.src_uri == "reference.md":
        return _MODULE.sub(r"## [`\1`](api/\1.md)", markdown)
    return markdown
