"""Embeddings of Cohere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from .._util.http import secret
from ..chat.base import data_url
from ..content import DataBlock
from .base import EmbeddingMode
from .remote import Answer, RemoteEmbeddingModel, RemoteOptions, counted, known_dimensions, listed, vectors_by_index

_DIMENSIONS = {
    "embed-v4.0": 1536, "embed-english-v3.0": 1024, "embed-multilingual-v3.0": 1024,
    "embed-english-light-v3.0": 384, "embed-multilingual-light-v3.0": 384,
}  # fmt: skip
_INPUT_TYPES = {"query": "search_query", "document": "search_document"}


class CohereEmbeddingModel(RemoteEmbeddingModel):
    """Asks ``/v2/embed``. embed-v4.0 also takes images, in one space with texts."""

    provider = "cohere"
    key_variable = "COHERE_API_KEY"
    default_batch_size = 96

    def __init__(
        self,
        model: str = "embed-v4.0",
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            dimensions: 256, 512, 1024 or 1536 for embed-v4.0 (``output_dimension``); default: the model's own.
            api_key: Default: COHERE_API_KEY.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        super().__init__(
            model,
            known_dimensions(model, dimensions, _DIMENSIONS),
            base_url=base_url or "https://api.cohere.com",
            api_key=secret(api_key, self.key_variable),
            **options,
        )
        self.supports_multimodal = model.startswith("embed-v4")
        self._sent = {"output_dimension": dimensions} if dimensions is not None else {}

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        body: dict[str, Any] = {
            "model": self.model,
            "input_type": _INPUT_TYPES[mode],
            "embedding_types": ["float"],
            "truncate": "NONE",
            **self._sent,
        }
        if self.supports_multimodal:
            body["inputs"] = [{"content": [_part(item)]} for item in inputs]
        else:
            body["texts"] = list(inputs)
        return "/v2/embed", body

    def _read(self, answer: Any, count: int) -> Answer:
        tokens = counted(answer, "meta", "billed_units", "input_tokens")
        return Answer(vectors_by_index(listed(answer, "embeddings", "float"), count), tokens)


def _part(item: str | DataBlock) -> dict[str, Any]:
    if isinstance(item, DataBlock):
        return {"type": "image_url", "image_url": {"url": data_url(item)}}
    return {"type": "text", "text": item}
