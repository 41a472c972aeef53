"""Embeddings of Alibaba Cloud's Model Studio (DashScope), for texts and for texts with images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from .._util.http import secret
from ..chat.base import data_url
from ..content import DataBlock
from .base import EmbeddingMode
from .remote import Answer, RemoteEmbeddingModel, RemoteOptions, counted, known_dimensions, listed, vectors_by_index

BASE_URL = "https://dashscope.aliyuncs.com/api/v1"
_TEXT = {"text-embedding-v4": 1024, "text-embedding-v3": 1024, "text-embedding-v2": 1536, "text-embedding-v1": 1536}
_MULTIMODAL = {
    "multimodal-embedding-v1": 1024,
    "tongyi-embedding-vision-plus": 1152,
    "tongyi-embedding-vision-flash": 768,
}


class DashScopeEmbeddingModel(RemoteEmbeddingModel):
    """Asks DashScope's text embedding. Queries and documents are told apart (``text_type``)."""

    provider = "dashscope"
    key_variable = "DASHSCOPE_API_KEY"
    default_batch_size = 10

    def __init__(
        self,
        model: str = "text-embedding-v4",
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            dimensions: 64 to 2048 for text-embedding-v4 and v3; default: the model's own.
            api_key: Default: DASHSCOPE_API_KEY.
            base_url: Default: the endpoint of mainland China; Singapore's is ``https://dashscope-intl.aliyuncs.com/api/v1``.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        super().__init__(
            model,
            known_dimensions(model, dimensions, _TEXT),
            base_url=base_url or BASE_URL,
            api_key=secret(api_key, self.key_variable),
            **options,
        )
        self._sent = {"dimension": dimensions} if dimensions is not None else {}

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        parameters = {"text_type": mode, **self._sent}
        body = {"model": self.model, "input": {"texts": list(inputs)}, "parameters": parameters}
        return "/services/embeddings/text-embedding/text-embedding", body

    def _read(self, answer: Any, count: int) -> Answer:
        items = listed(answer, "output", "embeddings")
        return Answer(vectors_by_index(items, count, index="text_index"), counted(answer, "usage", "total_tokens"))


class DashScopeMultimodalEmbeddingModel(RemoteEmbeddingModel):
    """Asks DashScope's multimodal embedding: texts and images share one space."""

    provider = "dashscope-multimodal"
    key_variable = "DASHSCOPE_API_KEY"
    supports_multimodal = True
    default_batch_size = 8

    def __init__(
        self,
        model: str = "multimodal-embedding-v1",
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            dimensions: Length of the vectors of a model that is not known here.
            api_key: Default: DASHSCOPE_API_KEY.
            base_url: As for `DashScopeEmbeddingModel`.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        super().__init__(
            model,
            known_dimensions(model, dimensions, _MULTIMODAL),
            base_url=base_url or BASE_URL,
            api_key=secret(api_key, self.key_variable),
            **options,
        )

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        contents = [{"image": data_url(item)} if isinstance(item, DataBlock) else {"text": item} for item in inputs]
        body = {"model": self.model, "input": {"contents": contents}}
        return "/services/embeddings/multimodal-embedding/multimodal-embedding", body

    def _read(self, answer: Any, count: int) -> Answer:
        items = listed(answer, "output", "embeddings")
        return Answer(vectors_by_index(items, count), counted(answer, "usage", "input_tokens"))
