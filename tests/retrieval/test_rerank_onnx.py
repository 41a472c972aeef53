"""A cross-encoder in a folder, in ONNX: the score of a pair is the sum of the scores of its words, here."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from agent_rag import Chunk, TextBlock, VectorSearchResult
from agent_rag.errors import ConfigurationError
from agent_rag.retrieval import CrossEncoderReranker
from tests.embeddings.onnx_models import WORDS, save_cross_encoder, save_encoder

pytest.importorskip("onnxruntime", reason="pip install -r requirements/test.txt")

SCORES = dict.fromkeys(WORDS, 0.0) | {"cat": 1.0, "dog": -2.0, "pump": 3.0, "valve": -100.0}


def results(*texts: str) -> list[VectorSearchResult]:
    return [
        VectorSearchResult(
            score=1 / number,
            document_id=str(number),
            chunk=Chunk(content=TextBlock(text=text), source="a", chunk_index=0, total_chunks=1),
        )
        for number, text in enumerate(texts, 1)
    ]


async def test_orders_by_the_model_with_its_logistic_score(tmp_path: Path) -> None:
    """cat + dog -1, cat + pump 4, cat + cat 2, and one far below: 1 / (1 + exp(-x)), padding counts nothing."""
    save_cross_encoder(tmp_path, scores=list(SCORES.values()))

    found = await CrossEncoderReranker(path=tmp_path).rerank("cat", results("dog", "pump", "cat", "valve"), top_n=3)

    assert not found.degraded
    assert [hit.chunk.text for hit in found.results] == ["pump", "cat", "dog"]
    assert [hit.signals.rerank for hit in found.results] == [
        pytest.approx(1 / (1 + math.exp(-score)), abs=1e-6) for score in (4, 2, -1)
    ]


async def test_more_candidates_than_a_batch_keep_their_places(tmp_path: Path) -> None:
    """40 candidates, the best of which is the last."""
    save_cross_encoder(tmp_path, scores=list(SCORES.values()))

    found = await CrossEncoderReranker(path=tmp_path).rerank("cat", results(*["dog"] * 39, "pump"), top_n=2)

    assert [hit.document_id for hit in found.results] == ["40", "1"]


async def test_a_long_pair_is_cut_to_the_model_s_length(tmp_path: Path) -> None:
    """16 tokens: of 100 pumps 12 remain beside the query and three special tokens."""
    save_cross_encoder(tmp_path, scores=[*[0.0] * 6, 0.1, 0.0])

    found = await CrossEncoderReranker(path=tmp_path).rerank("cat", results("pump " * 100))

    assert found.results[0].signals.rerank == pytest.approx(1 / (1 + math.exp(-1.2)), abs=1e-6)


async def test_a_model_of_another_kind_degrades_with_a_reason(tmp_path: Path) -> None:
    """An encoder gives states, no score: the order stays."""
    save_encoder(tmp_path)

    found = await CrossEncoderReranker(path=tmp_path).rerank("cat", results("dog", "pump"))

    assert found.degraded
    assert [hit.document_id for hit in found.results] == ["1", "2"]
    assert "one score a pair" in str(found.reason)


def test_a_wrong_folder_is_refused_at_once(tmp_path: Path) -> None:
    """No folder, a folder without a model, none or both given."""
    (tmp_path / "config.json").write_text(json.dumps({}))

    for options, message in (
        ({"path": tmp_path / "none"}, "is no folder"),
        ({"path": tmp_path}, "no .onnx file"),
        ({}, "one of them"),
        ({"model": "m", "path": tmp_path}, "one of them"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            CrossEncoderReranker(**options)  # type: ignore[arg-type]
