"""CachedEmbeddingModel: nothing is paid for twice, nothing is confused, and a broken cache is no broken run."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from pathlib import Path

import pytest

from agent_rag import Base64Source, DataBlock
from agent_rag.embeddings import CachedEmbeddingModel, EmbeddingModelBase, cache_stats, clear_cache
from agent_rag.errors import ConfigurationError
from agent_rag.testing import EmbeddingContract, HashEmbedding


class TestContract(EmbeddingContract):
    @pytest.fixture
    def model(self, tmp_path: Path) -> EmbeddingModelBase:
        return CachedEmbeddingModel(HashEmbedding(), tmp_path / "cache.db")


async def test_a_text_is_embedded_once(tmp_path: Path) -> None:
    """Also in another object, and for an image; what is new in a call is embedded alone."""
    inner = HashEmbedding(supports_multimodal=True)
    picture = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"))

    first = await CachedEmbeddingModel(inner, tmp_path / "c.db")(["a", "b", picture, "a"])
    again = CachedEmbeddingModel(inner, tmp_path / "c.db")
    second = await again(["b", "c", picture, "a"])

    assert inner.texts == ["a", "b", "AAAA", "c"]
    assert again.hits == 3
    assert second.embeddings[3] == pytest.approx(first.embeddings[0], abs=1e-6)
    assert (await again([])).embeddings == []


async def test_keys_do_not_collide(tmp_path: Path) -> None:
    """E11: texts that join to the same, other models, sizes and modes each miss once."""
    path = tmp_path / "c.db"
    models = [HashEmbedding(4), HashEmbedding(8), HashEmbedding(4, name="other")]

    for model in models:
        cached = CachedEmbeddingModel(model, path)
        for inputs in (["ab", "cd"], ["ab-cd"], ["ab\ncd"], ["abcd"]):
            await cached(inputs)
            await cached(inputs, mode="query")

        assert len(model.texts) == 10
        await cached(["ab", "ab-cd"])
        assert len(model.texts) == 10


async def test_a_cache_that_is_damaged_costs_nothing_but_the_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The model is asked, the log says why, the file stays."""
    path = tmp_path / "c.db"
    path.write_bytes(b"this is no database, and long enough to be looked at as one" * 50)
    inner = HashEmbedding()

    with caplog.at_level(logging.WARNING):
        answer = await CachedEmbeddingModel(inner, path)(["a"])

    assert len(answer.embeddings) == 1
    assert "cannot be read" in caplog.text
    assert "cannot be written" in caplog.text
    with pytest.raises(ConfigurationError, match="no cache of embeddings"):
        clear_cache(path)


async def test_the_size_is_bounded(tmp_path: Path) -> None:
    """The oldest go first."""
    path = tmp_path / "c.db"
    cached = CachedEmbeddingModel(HashEmbedding(64), path, max_bytes=200 * (256 + 80))

    for start in range(0, 1_000, 50):
        await cached([f"text {number}" for number in range(start, start + 50)])

    assert 100 < cache_stats(path).vectors <= 200


def _embed(path: str, start: int) -> None:
    cached = CachedEmbeddingModel(HashEmbedding(), path)
    for number in range(start, start + 20):
        asyncio.run(cached([f"text {number}"]))


def test_processes_share_a_cache(tmp_path: Path) -> None:
    """Four that write at once lose nothing."""
    path = str(tmp_path / "c.db")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_embed, args=(path, 20 * number)) for number in range(4)]

    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert cache_stats(path).vectors == 80
    assert clear_cache(path) == 80
    assert cache_stats(path).vectors == 0
