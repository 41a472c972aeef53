"""LocalEmbeddingModel: offline, deterministic, off the event loop."""

import math

import numpy as np
import pytest

from agent_rag import Base64Source, DataBlock, LocalEmbeddingModel, TextBlock
from agent_rag.errors import ConfigurationError, EmbeddingError
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


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ("bert", {}, "no local model 'bert'; use one of wordllama, multilingual-e5-small, all-MiniLM-L6-v2"),
        ("wordllama", {"pooling": "mean"}, "pooling is for path=FOLDER"),
        ("multilingual-e5-small", {"path": "."}, "give one"),
        ("wordllama", {"path": "nowhere"}, "is no folder"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(given: str, options: dict[str, str], message: str) -> None:
    """An unknown name, an option of folders for a named model, both at once."""
    with pytest.raises(ConfigurationError, match=message):
        LocalEmbeddingModel(given, **options)


def test_neural_models_follow_what_a_question_says_in_unseen_words() -> None:
    """Static vectors do not; a weight that is given counts for both."""
    static, neural = LocalEmbeddingModel(), LocalEmbeddingModel("multilingual-e5-small")

    assert (static.keyword_weight, static.coverage_weighting) == (None, False)
    assert (neural.keyword_weight, neural.coverage_weighting, neural.dimensions) == (0.6, True, 384)
    assert LocalEmbeddingModel(keyword_weight=0.3).keyword_weight == 0.3
