"""The example of the plain agent loop."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.shared import ROOT


def test_the_agent_loop_example_answers_in_both_modes() -> None:
    """Offline, with hints and tool calls reported and sources cited; a number of the first turn stays its passage's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}

    result = subprocess.run(
        [sys.executable, ROOT / "examples/agent_loop.py"], capture_output=True, text=True, check=True, env=environment
    )

    assert result.stdout.count("A ticket costs 14 EUR.") == 2
    assert "[3] garden.md" in result.stdout
    assert result.stdout.count("] garden.md") == 2
    assert "hint: 3 passages" in result.stdout
    assert "tool: search_knowledge('Where are dogs welcome?') found 3" in result.stdout
