"""The contract of an embedding model, as tests.

A model's test file is a fixture and what only it has::

    from agent_rag.testing import EmbeddingContract

    class TestMyModel(EmbeddingContract):
        @pytest.fixture
        def model(self):
            return MyModel()
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest

from ..content import Base64Source, DataBlock, TextBlock
from ..embeddings.base import EmbeddingModelBase

TEXTS = ["the pump is loud", "今天下雨。", "x", "line one\nline two", "Größe " * 400]
PICTURE = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"))


class EmbeddingContract:
    """What a KnowledgeBase relies on; subclass it and give it the fixture `model`."""

    pytestmark = pytest.mark.asyncio

    tolerance = 1e-4
    """Greatest difference of a number when a text is embedded with other batch mates."""

    @pytest.fixture
    def model(self) -> EmbeddingModelBase:
        """The model under test."""
        raise NotImplementedError("a subclass of EmbeddingContract defines the fixture 'model'")

    async def test_gives_one_finite_vector_of_its_size_per_input(self, model: EmbeddingModelBase) -> None:
        """In both modes, for any language and length, and for a TextBlock as for its text."""
        for mode in ("document", "query"):
            vectors = (await model([*TEXTS, TextBlock(text=TEXTS[0])], mode=mode)).embeddings

            assert [len(vector) for vector in vectors] == [model.dimensions] * (len(TEXTS) + 1)
            assert all(math.isfinite(number) for vector in vectors for number in vector)
            assert all(any(vector) for vector in vectors)
            self.same(vectors[-1], vectors[0])

    async def test_the_order_is_that_of_the_inputs(self, model: EmbeddingModelBase) -> None:
        """A text alone, in a batch and in another place of it has the same vector."""
        together = (await model(TEXTS)).embeddings
        turned = (await model(TEXTS[::-1])).embeddings

        for position, text in enumerate(TEXTS):
            self.same((await model([text])).embeddings[0], together[position])
            self.same(turned[len(TEXTS) - 1 - position], together[position])

    async def test_no_inputs_give_no_vectors(self, model: EmbeddingModelBase) -> None:
        """An empty list is a valid input."""
        assert (await model([])).embeddings == []

    async def test_a_blank_input_is_an_error(self, model: EmbeddingModelBase) -> None:
        """A vector of nothing would match everything a little."""
        for blank in ("", " \n"):
            with pytest.raises(ValueError):
                await model(["a", blank])

    async def test_an_image_needs_a_model_that_takes_it(self, model: EmbeddingModelBase) -> None:
        """One that reads text only refuses an image without a caption; the other embeds it."""
        if model.supports_multimodal:
            assert len((await model([PICTURE])).embeddings[0]) == model.dimensions
            return
        with pytest.raises(Exception, match=r"(?i)image|caption|text"):
            await model([PICTURE])

    async def test_calls_may_run_at_once(self, model: EmbeddingModelBase) -> None:
        """Ten calls together give what ten calls one after another give."""
        alone = [(await model([text])).embeddings for text in TEXTS * 2]

        together = await asyncio.gather(*(model([text]) for text in TEXTS * 2))

        for one, other in zip(alone, together, strict=True):
            self.same(one[0], other.embeddings[0])

    async def test_the_fingerprint_stays(self, model: EmbeddingModelBase) -> None:
        """It is text that is not empty, and embedding does not change it."""
        before = model.fingerprint

        await model(["a"])

        assert before
        assert model.fingerprint == before

    def same(self, left: Sequence[float], right: Sequence[float]) -> None:
        """Raises: AssertionError: numbers differ by more than `tolerance`."""
        assert list(left) == pytest.approx(list(right), abs=self.tolerance)
