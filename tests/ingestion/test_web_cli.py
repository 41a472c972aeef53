"""Addresses of the web on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_rag.cli.app import app

from .page_server import Page, PageServer


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageServer]:
    """A server, and an empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    for variable in ("AGENT_RAG_STORE", "AGENT_RAG_CONFIG", "AGENT_RAG_KNOWLEDGE_BASE"):
        monkeypatch.delenv(variable, raising=False)
    with PageServer({"/gateway": Page(b"<p>The gateway timeout is thirty seconds.</p>")}) as running:
        yield running


def test_files_and_pages_go_in_together(server: PageServer) -> None:
    """`agent-rag ingest FILE https://...`; a second time nothing changes, and the address deletes the page."""
    Path("canteen.txt").write_text("The canteen opens at noon.")
    address = f"{server.url}/gateway"
    command = ["ingest", "canteen.txt", address, "--allow-private", "--json"]

    first = json.loads(CliRunner().invoke(app, command).stdout.splitlines()[-1])
    second = json.loads(CliRunner().invoke(app, command).stdout.splitlines()[-1])
    (hit,) = json.loads(CliRunner().invoke(app, ["search", "gateway timeout?", "-n", "1", "--json"]).stdout)
    deleted = json.loads(CliRunner().invoke(app, ["delete", address, "--json"]).stdout)

    assert (first["counts"], second["counts"]) == ({"added": 2}, {"unchanged": 2})
    assert hit["document_id"] == address
    assert deleted == {address: 1}


def test_a_private_address_needs_its_option(server: PageServer) -> None:
    """The failure names it, and the exit code is 1. The password is not in the output."""
    address = f"{server.url}/gateway".replace("//", "//ann:hunter2@")

    result = CliRunner().invoke(app, ["ingest", address, "--json"])

    assert result.exit_code == 1
    assert "--allow-private" in result.output
    assert "hunter2" not in result.output
    assert server.requests == []
