"""`agent-rag mcp` twice, `ingest`, `search` and a program of the library: on one store, all at once."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from agent_rag import Chunk, KnowledgeBase, LocalEmbeddingModel, SQLiteStore, TextBlock

pytest.importorskip("mcp", reason="pip install 'agent-rag-middleware[mcp]' to run this")

PROGRAM = [sys.executable, "-c", "from agent_rag.cli import main; main()"]


async def run(folder: Path, *arguments: str) -> str:
    """Standard output of a command that ends well."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *arguments, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


@pytest.mark.slow
async def test_programs_use_one_store_at_once(tmp_path: Path) -> None:
    """Two MCP servers stay open while files are ingested, searched from the command line, and read and written by a
    program; each sees what the others have written."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    docs = tmp_path / "docs"
    docs.mkdir()
    for number in range(120):
        (docs / f"{number}.md").write_text(f"# Device {number}\n\nThe torque of device {number} is {number * 3} Nm.\n")
    first = tmp_path / "first.md"
    first.write_text("# Canteen\n\nThe canteen opens at noon.\n")
    await run(tmp_path, "ingest", "first.md")
    parameters = StdioServerParameters(
        command=PROGRAM[0], args=[*PROGRAM[1:], "mcp"], cwd=tmp_path, env=dict(os.environ)
    )

    async with (
        stdio_client(parameters) as one,
        stdio_client(parameters) as two,
        ClientSession(*one) as left,
        ClientSession(*two) as right,
    ):
        await asyncio.gather(left.initialize(), right.initialize())

        async def ask(session: ClientSession, question: str) -> str:
            answer = await session.call_tool("search_knowledge", {"query": question})
            return json.dumps([content.model_dump(mode="json") for content in answer.content])

        async def notebook() -> list[int]:
            counts = []
            async with SQLiteStore(tmp_path / ".agent-rag/store.db") as store:
                kb = KnowledgeBase("default", "Notes.", LocalEmbeddingModel(), store, "default")
                for number in range(10):
                    chunk = Chunk(
                        content=TextBlock(text=f"The notebook wrote line {number}."),
                        source=f"note{number}",
                        chunk_index=0,
                        total_chunks=1,
                    )
                    await kb.insert_document([chunk], document_id=f"note{number}")
                    counts.append(await kb.count())
            return counts

        ingested, searched, counts, *asked = await asyncio.gather(
            run(tmp_path, "ingest", "docs", "--json"),
            run(tmp_path, "search", "When does the canteen open?", "--json"),
            notebook(),
            *(ask(session, "When does the canteen open?") for session in (left, right) for _ in range(5)),
        )
        after = await asyncio.gather(*(ask(session, "What is the torque of device 77?") for session in (left, right)))
        notes = await ask(left, "Which line did the notebook write?")

    listed = json.loads(await run(tmp_path, "list", "--json"))
    checked = json.loads(await run(tmp_path, "check", "--json"))

    assert json.loads(ingested.splitlines()[-1])["ok"]
    assert "noon" in json.loads(searched)[0]["chunk"]["content"]["text"]
    assert counts == sorted(counts)
    assert all("noon" in answer for answer in asked)
    assert all("231 Nm" in answer for answer in after)
    assert "notebook wrote line" in notes
    assert len(listed) == 131
    assert checked["problems"] == []
