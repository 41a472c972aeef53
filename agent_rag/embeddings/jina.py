"""Embeddings of Jina AI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from .._util.http import secret
from ..content import Base64Source, DataBlock
from .base import EmbeddingMode
from .remote import Answer, RemoteEmbeddingModel, RemoteOptions, counted, known_dimensions, listed, vectors_by_index

_DIMENSIONS = {"jina-embeddings-v3": 1024, "jina-embeddings-v4": 2048, "jina-clip-v2": 1024}
_IMAGES = ("jina-embeddings-v4", "jina-clip")
_TASKS = {"query": "retrieval.query", "document": "retrieval.passage"}


class JinaEmbeddingModel(RemoteEmbeddingModel):
    """Asks ``/v1/embeddings``. jina-embeddings-v4 and jina-clip also take images, in one space with texts."""

    provider = "jina"
    key_variable = "JINA_API_KEY"

    def __init__(
        self,
        model: str = "jina-embeddings-v3",
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            dimensions: Shorter vectors; default: the model's own.
            api_key: Default: JINA_API_KEY.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        super().__init__(
            model,
            known_dimensions(model, dimensions, _DIMENSIONS),
            base_url=base_url or "https://api.jina.ai/v1",
            api_key=secret(api_key, self.key_variable),
            **options,
        )
        self.supports_multimodal = model.startswith(_IMAGES)
        self._sent = {"dimensions": dimensions} if dimensions is not None else {}

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        given = [_input(item) for item in inputs] if self.supports_multimodal else list(inputs)
        body = {"model": self.model, "input": given, "task": _TASKS[mode], "embedding_type": "float", **self._sent}
        return "/embeddings", body

    def _read(self, answer: Any, count: int) -> Answer:
        return Answer(vectors_by_index(listed(answer, "data"), count), counted(answer, "usage", "total_tokens"))


def _input(item: str | DataBlock) -> dict[str, str]:
    if not isinstance(item, DataBlock):
        return {"text": item}
    source = item.source
    return {"image": source.data if isinstance(source, Base64Source) else str(source.url)}
