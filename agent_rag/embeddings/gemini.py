"""Embeddings of Google's Gemini API."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from .._util.http import secret
from ..content import DataBlock
from .base import EmbeddingMode
from .remote import Answer, RemoteEmbeddingModel, RemoteOptions, known_dimensions, listed, vectors_by_index

_DIMENSIONS = {"gemini-embedding-001": 3072, "text-embedding-004": 768}


class GeminiEmbeddingModel(RemoteEmbeddingModel):
    """Asks ``batchEmbedContents``, with a task type for queries and one for documents."""

    provider = "gemini"
    key_variable = "GEMINI_API_KEY"
    default_batch_size = 100

    def __init__(
        self,
        model: str = "gemini-embedding-001",
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        query_task: str = "RETRIEVAL_QUERY",
        document_task: str = "RETRIEVAL_DOCUMENT",
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            dimensions: Shorter vectors (``outputDimensionality``); default: the model's own.
            api_key: Default: GEMINI_API_KEY, else GOOGLE_API_KEY.
            query_task, document_task: Task types; ``QUESTION_ANSWERING`` and ``CODE_RETRIEVAL_QUERY`` are others for
                queries.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        key = secret(api_key, "GEMINI_API_KEY" if os.environ.get("GEMINI_API_KEY") else "GOOGLE_API_KEY")
        super().__init__(
            model,
            known_dimensions(model, dimensions, _DIMENSIONS),
            base_url=base_url or "https://generativelanguage.googleapis.com/v1beta",
            api_key=None,
            headers={"x-goog-api-key": key.get_secret_value()} if key is not None else None,
            **options,
        )
        self._tasks = {"query": query_task, "document": document_task}
        self._sent = {"outputDimensionality": dimensions} if dimensions is not None else {}

    @property
    def fingerprint(self) -> str:
        return f"{super().fingerprint}|{self._tasks['document']}"

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        one = {"model": f"models/{self.model}", "taskType": self._tasks[mode], **self._sent}
        requests = [{**one, "content": {"parts": [{"text": text}]}} for text in inputs]
        return f"/models/{self.model}:batchEmbedContents", {"requests": requests}

    def _read(self, answer: Any, count: int) -> Answer:
        return Answer(vectors_by_index(listed(answer, "embeddings"), count))
