"""A working directory and a way to call the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

VARIABLES = (
    "AGENT_RAG_STORE", "AGENT_RAG_CONFIG", "AGENT_RAG_KNOWLEDGE_BASE", "OPENAI_API_KEY", "OPENAI_BASE_URL",
    "OPENAI_MODEL",
)  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a folder of two files, and no variable of ours set."""
    monkeypatch.chdir(tmp_path)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/gateway.md").write_text("# Gateway\n\nThe gateway timeout is thirty seconds.\n")
    (tmp_path / "docs/canteen.txt").write_text("The canteen opens at noon.\n")
    return tmp_path
