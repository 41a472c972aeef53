"""HashEmbedding: deterministic vectors without weights."""

import math

import pytest

from agent_rag.content import Base64Source, DataBlock, TextBlock
from agent_rag.testing import HashEmbedding

IMAGE = DataBlock(source=Base64Source(data="AAAA", media_type="image/png"), caption="a red pear")


async def test_equal_texts_have_equal_unit_vectors() -> None:
    """One vector per input, in order, of length 1, the same in every process."""
    model = HashEmbedding()

    response = await model(["a red pear", TextBlock(text="a red pear"), "something else"])

    first, second, third = response.embeddings
    assert len(first) == model.dimensions == 64
    assert first == second != third
    assert math.hypot(*first) == pytest.approx(1.0)
    # crc32(b"pear") = 0xC68A3CBD: axis 0xBD % 8 = 5, and the high bit is set, so +1.
    assert HashEmbedding(dimensions=8).vector("pear") == [0, 0, 0, 0, 0, 1, 0, 0]


async def test_shared_words_make_texts_near() -> None:
    """The cosine grows with the share of common words."""
    question, near, far = (await HashEmbedding()(["red pears", "the red pear tree", "database index"])).embeddings

    assert sum(a * b for a, b in zip(question, near, strict=True)) > 0.7
    assert abs(sum(a * b for a, b in zip(question, far, strict=True))) < 0.3


async def test_it_counts_what_it_is_asked() -> None:
    """Calls, and texts in order."""
    model = HashEmbedding()

    await model(["one", "two"])
    await model(["three"], mode="query")

    assert (model.calls, model.texts) == (2, ["one", "two", "three"])


async def test_images_need_a_multimodal_model() -> None:
    """A text-only one refuses them, as providers do; blank text is refused by both."""
    model = HashEmbedding(supports_multimodal=True, name="multi")

    assert (await model([IMAGE])).embeddings == [model.vector("a red pear")]
    assert model.fingerprint == "multi:64"
    with pytest.raises(ValueError, match="text only"):
        await HashEmbedding()([IMAGE])
    with pytest.raises(ValueError, match="blank"):
        await model(["  "])
