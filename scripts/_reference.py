"""Write docs/reference.md: every `__all__` of the package, each name with the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "agent_rag"
PAGE = ROOT / "docs" / "reference.md"
HEAD = """# Reference

Public names by module, with one line each; the docstrings say the rest (`help(agent_rag.KnowledgeBase)`). Made by
`scripts/docs` from each module's `__all__`. Names of `agent_rag` are also in the package that they come from, and are
not repeated there. What is not listed, or begins with an underscore, may change.
"""


def module_name(file: Path) -> str:
    """``agent_rag.filters`` of ``agent_rag/filters/__init__.py``."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def file_of(module: str) -> Path:
    path = ROOT / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def exported(file: Path) -> list[str] | None:
    """`__all__` of a module, read from its source: an adapter cannot be imported without its framework."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


def summary(module: str, name: str) -> str:
    """First sentence of the docstring of `name`, found where it is defined.

    Raises: LookupError: it is defined nowhere, or has no docstring.
    """
    file = file_of(module)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    body = ast.parse(file.read_text("utf-8")).body
    body += [child for node in body if isinstance(node, ast.If) for child in node.body]
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                    return summary(f"{base}.{node.module}" if node.module else base, alias.name)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return sentence(ast.get_docstring(node), module, name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                text = following.value if isinstance(following, ast.Expr) else None
                return sentence(text.value if isinstance(text, ast.Constant) else None, module, name)
    raise LookupError(f"{module}.{name} is exported and not defined")


def sentence(docstring: str | None, module: str, name: str) -> str:
    if not docstring:
        raise LookupError(f"{module}.{name} has no docstring")
    first = " ".join(docstring.strip().split("\n\n")[0].split())
    first = re.split(r"(?<=[.!?]) (?=[A-Z`])", first)[0].replace("``", "`").replace("|", "\\|")
    return first.rstrip(":")


def page() -> str:
    """The whole page."""
    top = exported(PACKAGE / "__init__.py") or []
    parts = [HEAD]
    files = sorted(PACKAGE.rglob("*.py"), key=lambda file: module_name(file).split("."))
    for file in files:
        names = exported(file)
        module = module_name(file)
        if not names or any(part.startswith("_") for part in module.split(".")) or "_contract" in module:
            continue
        # A package gives its modules' names: those that it does not give stand with the module.
        above = set() if module == "agent_rag" else {*top}
        parent = exported(file_of(module.rpartition(".")[0])) if module.count(".") > 1 else None
        above |= set(parent or []) if file.name != "__init__.py" else set()
        shown = [name for name in names if name not in above]
        if shown:
            rows = "\n".join(f"| `{name}` | {summary(module, name)} |" for name in shown)
            parts.append(f"## `{module}`\n\n| name | what it is |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        sys.exit(
            PAGE.read_text("utf-8") != text and "docs/reference.md is not what scripts/docs makes: run scripts/docs"
        )
    PAGE.write_text(text, "utf-8")
