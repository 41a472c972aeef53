"""Ingestion on a Ray cluster: the same stages, report and store, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="scripts/test adapters ray installs it")

import ray

from agent_rag import KnowledgeBase, MemoryStore, SQLiteStore, ingest
from agent_rag.errors import ConfigurationError, EmbeddingError, ParserCrashedError
from agent_rag.ingestion.ray import RayEmbeddingModel, RayPool
from agent_rag.parsers import TextParser
from agent_rag.testing import HashEmbedding

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Older versions of Ray leave the logs of their processes open."""

FILES = int(os.environ.get("AGENT_RAG_RAY_FILES", "300"))


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Two workers on this machine."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    yield
    ray.shutdown()


def folder(root: Path, count: int) -> Path:
    for number in range(count):
        path = root / f"d{number % 7}" / f"n{number:04}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {number}\n\n" + f"Pear number {number} is ripe. " * (1 + number % 40))
    return root


async def content(store: Any) -> dict[tuple[str, int], tuple[str, list[float]]]:
    return {
        (record.document_id, record.chunk.chunk_index): (record.chunk.text, [round(x, 5) for x in record.vector])
        async for record in store.iterate("kb")
    }


def kill_a_worker() -> int:
    """Kill -9 a process of Ray that is at a call. Returns how many were there."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if line.startswith((b"ray::_on_node", b"ray::_embed_on_node")):
            found.append(int(entry.name))
    for pid in found[:1]:
        os.kill(pid, signal.SIGKILL)
    return len(found)


async def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    """The store holds exactly what an undisturbed run without Ray writes; the report names no failure."""
    source = folder(tmp_path / "docs", FILES)
    killed = seen = 0

    def on_event(event: object) -> None:
        nonlocal killed, seen
        seen += 1
        if killed < 3 and seen % 25 == 0 and kill_a_worker():
            killed += 1

    async with SQLiteStore(tmp_path / "a.db") as quiet, SQLiteStore(tmp_path / "b.db") as disturbed:
        kb = KnowledgeBase("kb", "notes", HashEmbedding(), quiet, "kb")
        await ingest(kb, source)
        on_ray = KnowledgeBase("kb", "notes", RayEmbeddingModel(HashEmbedding()), disturbed, "kb")
        async with RayPool() as pool:
            report = await ingest(on_ray, source, pool=pool, embedding_batch_size=16, on_event=on_event)
        again = await ingest(kb, source)
        expected, found = await content(quiet), await content(disturbed)

    assert killed
    assert report.counts == {"added": FILES}
    assert found == expected
    assert again.counts == {"unchanged": FILES}


async def test_a_file_that_ends_its_process(tmp_path: Path) -> None:
    """It costs that file, as it does without Ray; the node and the others go on."""
    (tmp_path / "good.txt").write_text("pears are ripe")
    (tmp_path / "bad.txt").write_text("BOOM")

    async with MemoryStore() as store, RayPool(2) as pool:
        kb = KnowledgeBase("kb", "notes", HashEmbedding(), store, "kb")
        report = await ingest(kb, tmp_path, pool=pool, parser_for=lambda item: Fragile())

    assert report.counts == {"added": 1, "failed": 1}
    (failed,) = report.of("failed")
    assert "ended while it parsed" in (failed.reason or "")


async def test_errors_keep_their_types() -> None:
    """What a parser or a model raises on a node is what the caller sees."""
    async with RayPool(1) as pool:
        with pytest.raises(ParserCrashedError, match="bad"):
            await pool.parse(Fragile(), b"BOOM", "bad.txt")
    with pytest.raises(EmbeddingError, match="no vector today"):
        await RayEmbeddingModel(Sulky())(["text"])


async def test_what_a_model_is() -> None:
    """Size, fingerprint and vectors are the model's own, wherever it computes."""
    model = HashEmbedding()
    there = RayEmbeddingModel(model)

    assert (there.fingerprint, there.dimensions) == (model.fingerprint, model.dimensions)
    for neural in (True, False):
        model.coverage_weighting = neural
        assert RayEmbeddingModel(model).coverage_weighting is neural
    assert (await there(["pear"])).embeddings == (await model(["pear"])).embeddings
    assert (await there(["pear"], mode="query")).embeddings == (await model(["pear"], mode="query")).embeddings
    with pytest.raises(ConfigurationError, match="num_cpus"):
        RayEmbeddingModel(model, num_cpus=-1)


class Fragile(TextParser):
    """Ends its process at a word."""

    async def parse(self, file: Any, filename: str) -> Any:
        if b"BOOM" in (file if isinstance(file, bytes) else Path(file).read_bytes()):
            os._exit(3)
        return await super().parse(file, filename)


class Sulky(HashEmbedding):
    async def __call__(self, inputs: Any, *, mode: Any = "document") -> Any:
        raise EmbeddingError("no vector today")
