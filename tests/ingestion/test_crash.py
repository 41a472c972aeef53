"""kill -9 during ingestion: nothing acknowledged is lost, nothing is half there, the rest is done by the next run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_rag import KnowledgeBase, QdrantStore
from agent_rag.testing import HashEmbedding
from tests.shared import ROOT

DOCUMENTS = 2_000
TRIALS = int(os.environ.get("AGENT_RAG_CRASH_TRIALS", "3"))
SEED = 20261129


def start(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ingestion.crash_child", str(folder), str(DOCUMENTS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)


async def stored(folder: Path) -> dict[str, tuple[int, int]]:
    """Document id -> (chunks its summary names, chunks that are there)."""
    async with QdrantStore(path=folder) as store:
        kb = KnowledgeBase("kb", "crash test", HashEmbedding(), store, "kb")
        return {
            summary.document_id: (summary.chunk_count, len(await kb.list_chunks(summary.document_id)))
            for summary in await kb.list_documents()
        }


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(TRIALS))
async def test_kill_during_ingest(trial: int, tmp_path: Path) -> None:
    """A child is killed at a random moment; acknowledged documents are whole, and the rerun embeds what is missing."""
    delay = random.Random(SEED + trial).uniform(0.05, 4.0)
    child = start(tmp_path / "store")
    assert child.stdout is not None
    assert child.stdout.readline() == "start\n"
    time.sleep(delay)

    child.send_signal(signal.SIGKILL)
    acknowledged = {line.strip() for line in child.stdout if line.startswith("d")}
    child.wait()
    child.stdout.close()
    found = await stored(tmp_path / "store")
    rerun = subprocess.run(
        [sys.executable, "-m", "tests.ingestion.crash_child", str(tmp_path / "store"), str(DOCUMENTS)],
        capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    after = await stored(tmp_path / "store")

    assert acknowledged <= found.keys()
    assert all(named == there for named, there in found.values())
    embedded = int(rerun.stdout.splitlines()[-1].removeprefix("embedded ")) if "embedded" in rerun.stdout else 0
    missing = sum(count for name, (count, _) in after.items() if name not in found)
    assert embedded <= missing
    assert len(after) == DOCUMENTS
    assert all(named == there > 0 for named, there in after.values())
