"""Every example runs as it is, offline."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import ROOT
from tests.stores.servers import qdrant

EXPECTED = {
    "quickstart.py": r"17 added, 1 skipped.*lumo-installation-guide\.pdf 4",
    "demo.py": r"2\.4 Nm.*page 4.*Radek Hudeček.*sheet Capex.*1,250 EUR",
    "folder_sync.py": r"17 added",
    "two_tenants.py": r"\['Acme ships on Mondays\.'\].*\['Globex ships on Fridays\.'\].*acme keeps: 1",
    "custom_parts.py": r"1 added.*1 'Tuesday\\nvalve replaced",
    "agent_loop.py": r"\[1\]",
}


def run(name: str, folder: Path, **environment: str) -> str:
    """Run an example in an empty working directory that has `examples`."""
    (folder / "examples").symlink_to(ROOT / "examples")
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI_", "AGENT_RAG_"))}
    command = [sys.executable, f"examples/{name}"]
    result = subprocess.run(
        command, cwd=folder, env={**keep, **environment}, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, tmp_path: Path) -> None:
    """The example runs and prints what it promises."""
    assert re.search(EXPECTED[name], run(name, tmp_path), re.DOTALL)


def test_demo_twice(tmp_path: Path) -> None:
    """A second run of the demo says unchanged and embeds nothing."""
    run("demo.py", tmp_path)
    (tmp_path / "examples").unlink()

    assert "17 unchanged, 1 skipped; 0 chunks embedded" in run("demo.py", tmp_path)


def test_remote_qdrant(tmp_path: Path) -> None:
    """The remote example works over HTTP."""
    with qdrant() as servers:
        output = run("remote_qdrant.py", tmp_path, AGENT_RAG_QDRANT_URL=servers[0].url)

    assert "2 added" in output
    assert "cats.txt Cats sleep 12 to 16 hours a day." in output


def test_every_example_is_run() -> None:
    """No example is left out; those of frameworks run in their own environments."""
    tested = {*EXPECTED, "remote_qdrant.py", "fastapi_service.py"}  # test_service_example.py

    assert {path.name for path in (ROOT / "examples").glob("*.py")} == tested
