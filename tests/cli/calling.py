"""How tests call the command line."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from agent_rag.cli.app import app


def run(*arguments: str, **options: Any) -> Any:
    return CliRunner().invoke(app, list(arguments), **options)


def lines(*arguments: str) -> list[Any]:
    """Each line that `--json` prints."""
    return [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]


def result(*arguments: str) -> Any:
    """The last of `lines`."""
    return lines(*arguments)[-1]
