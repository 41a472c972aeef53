"""Reranking with a cross-encoder on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._util.extras import needs
from .._util.onnx import OnnxFolder, batches
from ..documents import VectorSearchResult
from ..errors import ConfigurationError, RerankError
from .rerank import Order, RerankerBase

_BATCH = 16
_FLAT = 30.0
"""Beyond it the logistic function gives 0 or 1 to 13 digits."""


class CrossEncoderReranker(RerankerBase):
    """Scores each (query, candidate) pair with a cross-encoder: a folder in ONNX, or one of sentence-transformers.

    A pair over the model's length is cut at its longer part.
    """

    def __init__(
        self,
        model: str | Any = None,
        *,
        path: str | Path | None = None,
        timeout_s: float | None = 60.0,
        max_candidate_characters: int = 4_000,
        local_files_only: bool = True,
        **options: Any,
    ) -> None:
        """
        Args:
            path: Folder with an ONNX model of one score and its ``tokenizer.json`` (extra ``onnx``); nothing is
                fetched.
            model: Instead, the path of a folder for sentence-transformers, or an object with ``predict(pairs)`` giving
                one number a pair.
            local_files_only: False lets sentence-transformers download a model that is named instead of a folder.
            options: Further arguments of `CrossEncoder`, such as ``backend="onnx"``; of a folder ``model_file``,
                ``max_tokens`` and ``threads``, as in `LocalEmbeddingModel`.

        Raises: MissingExtraError: sentence-transformers is not installed. ConfigurationError: neither or both of
            `model` and `path` are given, or the folder lacks a file.
        """
        if (model is None or model == "") == (path is None):
            raise ConfigurationError("CrossEncoderReranker takes a model or path=FOLDER, one of them")
        if path is not None:
            model = _OnnxCrossEncoder(Path(path), **options)
        if isinstance(model, str):
            module = needs("cross-encoder", "sentence_transformers", purpose="CrossEncoderReranker")
            model = module.CrossEncoder(model, local_files_only=local_files_only, **options)
        self._predict: Callable[[list[tuple[str, str]]], Any] = model.predict
        # One at a time: the model keeps no lock of its own, and two threads would only share the cores.
        self._busy = asyncio.Semaphore(1)
        self.timeout_s = timeout_s
        self.max_candidate_characters = max_candidate_characters

    async def order(self, query: str, candidates: Sequence[VectorSearchResult], *, top_n: int) -> Order:
        pairs = [(query, self.judged_text(candidate)) for candidate in candidates]
        async with self._busy:
            scores = await asyncio.to_thread(self._predict, pairs)
        if len(scores) != len(pairs):
            raise RerankError(f"the cross-encoder answered {len(scores)} scores for {len(pairs)} candidates")
        return [(position, float(score)) for position, score in enumerate(scores)]


class _OnnxCrossEncoder:
    """A folder as `CrossEncoder` of sentence-transformers scores it: one number a pair, between 0 and 1."""

    def __init__(
        self,
        folder: Path,
        *,
        model_file: str | None = None,
        max_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._files = OnnxFolder(folder, model=model_file, max_tokens=max_tokens, threads=threads)

    def predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        scores: list[float] = []
        for part in batches(pairs, _BATCH):
            answer = next(iter(self._files.run(part).outputs.values()))
            if answer.size != len(part):
                raise ConfigurationError(
                    f"{self._files.model} gives an output of shape {answer.shape} for {len(part)} pairs; "
                    "a reranker gives one score a pair"
                )
            logits = np.clip(answer.reshape(-1).astype(np.float64), -_FLAT, _FLAT)
            scores += (1 / (1 + np.exp(-logits))).tolist()
        return scores
