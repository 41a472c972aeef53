"""Reranking with a cross-encoder on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from .._util.extras import needs
from ..documents import VectorSearchResult
from ..errors import RerankError
from .rerank import Order, RerankerBase


class CrossEncoderReranker(RerankerBase):
    """Scores each (query, candidate) pair with a sentence-transformers CrossEncoder (PyTorch, ONNX or OpenVINO)."""

    def __init__(
        self,
        model: str | Any,
        *,
        timeout_s: float | None = 60.0,
        max_candidate_characters: int = 4_000,
        local_files_only: bool = True,
        **options: Any,
    ) -> None:
        """
        Args:
            model: Path of a model folder, or an object with ``predict(pairs)`` giving one number a pair.
            local_files_only: False lets sentence-transformers download a model that is named instead of a folder.
            options: Further arguments of `CrossEncoder`, such as ``backend="onnx"``.

        Raises: MissingExtraError: sentence-transformers is not installed.
        """
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
