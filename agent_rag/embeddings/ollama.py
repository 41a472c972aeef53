"""Embeddings of a local Ollama server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

from ..content import DataBlock
from .base import EmbeddingMode
from .remote import Answer, RemoteEmbeddingModel, RemoteOptions, counted, known_dimensions, listed, vectors_by_index

_DIMENSIONS = {
    "nomic-embed-text": 768, "mxbai-embed-large": 1024, "bge-m3": 1024, "all-minilm": 384,
    "snowflake-arctic-embed2": 1024, "embeddinggemma": 768,
}  # fmt: skip


class OllamaEmbeddingModel(RemoteEmbeddingModel):
    """Asks ``/api/embed``. Models are not fetched: ``ollama pull`` them first."""

    provider = "ollama"

    def __init__(
        self,
        model: str = "nomic-embed-text",
        *,
        dimensions: int | None = None,
        base_url: str | None = None,
        truncate: bool = False,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            dimensions: Length of the vectors of a model that is not known here.
            base_url: Default: OLLAMA_HOST, else ``http://127.0.0.1:11434``.
            truncate: Let the server cut a text that is longer than the model's context; else that is an error.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        host = base_url or os.environ.get("OLLAMA_HOST") or "http://127.0.0.1:11434"
        super().__init__(
            model,
            known_dimensions(model.partition(":")[0], dimensions, _DIMENSIONS),
            base_url=host if "://" in host else f"http://{host}",
            api_key=None,
            **options,
        )
        self._truncate = truncate

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        return "/api/embed", {"model": self.model, "input": list(inputs), "truncate": self._truncate}

    def _read(self, answer: Any, count: int) -> Answer:
        return Answer(vectors_by_index(listed(answer, "embeddings"), count), counted(answer, "prompt_eval_count"))
