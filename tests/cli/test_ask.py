"""What ask shows of an answer, from a model on loopback HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.http_stub import HTTPStub
from tests.test_chat_streaming import events

from .calling import lines, run


def model(answer: str) -> Any:
    """Calls the search first, then answers; not streamed before it has searched."""

    def respond(path: str, body: Any) -> Any:
        if any(message["role"] == "tool" for message in body["messages"]):
            return events(*({"content": word} for word in answer.split(" ")))
        call = {
            "id": "1",
            "type": "function",
            "function": {"name": "search_knowledge", "arguments": '{"query": "gateway"}'},
        }
        return {"choices": [{"message": {"role": "assistant", "content": "Let me look.", "tool_calls": [call]}}]}

    return respond


@pytest.fixture
def ready(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run("ingest", "docs")
    monkeypatch.setenv("OPENAI_MODEL", "m")
    return files


def test_the_answer_comes_in_pieces(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --json a line for each piece and last the answer; else the text once, and its sources."""
    with HTTPStub(model("Thirty_seconds [1]")) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{stub.url}/v1")
        *pieces, answer = lines("ask", "What is the gateway timeout?")
        shown = run("ask", "What is the gateway timeout?").stdout

    assert pieces == [{"event": "text", "text": "Thirty_seconds"}, {"event": "text", "text": "[1]"}]
    assert (answer["text"], answer["citations"][0]["document_id"]) == ("Thirty_seconds[1]", "gateway.md")
    assert shown.count("Thirty_seconds") == 1
    assert "Let me look" not in shown
    assert "[1] gateway.md" in shown


def test_an_answer_without_a_source_is_marked(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a streamed one, and one with a number that no passage has."""
    with HTTPStub(model("Nine_hours [77]")) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{stub.url}/v1")
        told = run("ask", "What is the gateway timeout?")

    assert "Nine_hours" in told.stdout
    assert "this answer names no source of the documents: check it" in told.stderr


def test_a_server_that_is_down_is_no_traceback(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 3, and one JSON line for programs."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    (ready / "agent-rag.toml").write_text("[chat]\nmax_attempts = 1\n")

    told = run("ask", "What?", "--json")

    assert told.exit_code == 3
    assert "127.0.0.1:9" in json.loads(told.stdout)["error"]
