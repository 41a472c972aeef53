"""Embeddings of Voyage AI, for texts and for texts with images."""

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
    "voyage-3.5": 1024, "voyage-3.5-lite": 1024, "voyage-3-large": 1024, "voyage-code-3": 1024,
    "voyage-multimodal-3": 1024, "voyage-multimodal-3.5": 1024,
}  # fmt: skip


class VoyageEmbeddingModel(RemoteEmbeddingModel):
    """Asks ``/embeddings``; a model with ``multimodal`` in its name ``/multimodalembeddings``, which takes images."""

    provider = "voyage"
    key_variable = "VOYAGE_API_KEY"
    default_batch_size = 128

    def __init__(
        self,
        model: str = "voyage-3.5",
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            dimensions: 256, 512, 1024 or 2048 where the model can (``output_dimension``); default: the model's own.
            api_key: Default: VOYAGE_API_KEY.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        super().__init__(
            model,
            known_dimensions(model, dimensions, _DIMENSIONS),
            base_url=base_url or "https://api.voyageai.com/v1",
            api_key=secret(api_key, self.key_variable),
            **options,
        )
        self.supports_multimodal = "multimodal" in model
        self._sent = {"output_dimension": dimensions} if dimensions is not None else {}

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        common = {"model": self.model, "input_type": mode, "truncation": False, **self._sent}
        if self.supports_multimodal:
            return "/multimodalembeddings", {**common, "inputs": [{"content": [_part(item)]} for item in inputs]}
        return "/embeddings", {**common, "input": list(inputs)}

    def _read(self, answer: Any, count: int) -> Answer:
        return Answer(vectors_by_index(listed(answer, "data"), count), counted(answer, "usage", "total_tokens"))


def _part(item: str | DataBlock) -> dict[str, Any]:
    if not isinstance(item, DataBlock):
        return {"type": "text", "text": item}
    url = data_url(item)
    kind = "image_base64" if url.startswith("data:") else "image_url"
    return {"type": kind, kind: url}
