"""LocalEmbeddingModel: offline, deterministic, off the event loop."""

import math

import numpy as np
import pytest

from agent_rag import Base64Source, DataBlock, LocalEmbeddingModel, TextBlock
from agent_rag.errors import EmbeddingError
from agent_rag.testing import EmbeddingContract
from agent_rag.testing.loop import longest_block


class TestContract(EmbeddingContract):
    @pytest.fixture
    def model(self) -> LocalEmbeddingModel:
        return LocalEmbeddingModel()


async def test_gives_unit_vectors_in_order() -> None:
    """Each text gives one 256-dimensional unit vector; a text alone and in a batch gives the same one."""
    model = LocalEmbeddingModel()

    together = (await model(["the cat sleeps", TextBlock(text="stock markets fell")])).embeddings
    alone = (await model(["stock markets fell"])).embeddings

    assert [len(vector) for vector in together] == [256, 256]
    assert all(math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-5) for vector in together)
    assert np.allclose(together[1], alone[0])


async def test_puts_related_texts_nearer_than_unrelated_ones() -> None:
    """A question is nearer to its answer than to another topic."""
    question, answer, other = (
        await LocalEmbeddingModel()(
            ["When do cats sleep?", "Cats sleep 12 to 16 hours a day.", "The bond market fell."]
        )
    ).embeddings

    assert np.dot(question, answer) > np.dot(question, other) + 0.2


async def test_refuses_blanks_and_images() -> None:
    """A blank is a ValueError, an image an EmbeddingError that says what to do."""
    image = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"), caption="a cat")

    with pytest.raises(ValueError, match="blank"):
        await LocalEmbeddingModel()(["a", " "])
    with pytest.raises(EmbeddingError, match="caption"):
        await LocalEmbeddingModel()([image])


async def test_does_not_block_the_event_loop() -> None:
    """While 2,000 long texts are embedded, the loop is never held for 50 ms. (E17)"""
    model = LocalEmbeddingModel()
    await model(["warm up"])

    pauses = [
        await longest_block(model(["the quick brown fox jumps over the lazy dog " * 20] * 2_000)) for _ in range(3)
    ]

    assert min(pauses) < 0.05
