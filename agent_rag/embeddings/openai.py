"""Embeddings of OpenAI, Azure, and every server that speaks their ``/embeddings``: vLLM, LM Studio, LiteLLM, Ollama."""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from .._util.http import secret
from ..content import DataBlock
from ..errors import ConfigurationError
from .base import EmbeddingMode
from .remote import Answer, RemoteEmbeddingModel, RemoteOptions, counted, known_dimensions, listed, vectors_by_index

_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


class _OpenAIShape(RemoteEmbeddingModel):
    """Requests and answers as OpenAI documents them."""

    _path = "/embeddings"
    _optional: dict[str, Any]
    """Fields that a server may refuse."""

    def _ask_for(self, dimensions: int | None) -> None:
        self._optional = {"encoding_format": "float"}
        if dimensions is not None:
            self._optional["dimensions"] = dimensions

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        return self._path, {"model": self.model, "input": list(inputs), **self._optional}

    def _adapt(self, message: str) -> bool:
        refused = [name for name in self._optional if name in message]
        for name in refused:
            del self._optional[name]
        return bool(refused)

    def _read(self, answer: Any, count: int) -> Answer:
        # OpenAI answers `data`; Ollama's own endpoints `embeddings`, or one `embedding`.
        name = "embeddings" if isinstance(answer, dict) and "embeddings" in answer else "data"
        items = [answer] if isinstance(answer, dict) and "embedding" in answer else listed(answer, name)
        return Answer(
            vectors_by_index([_decoded(item) for item in items], count), counted(answer, "usage", "total_tokens")
        )


class OpenAIEmbeddingModel(_OpenAIShape):
    """Asks an OpenAI-compatible endpoint. Texts and only texts leave the machine."""

    provider = "openai"
    key_variable = "OPENAI_API_KEY"

    def __init__(
        self,
        model: str | None = None,
        *,
        dimensions: int | None = None,
        api_key: str | SecretStr | None = None,
        base_url: str | None = None,
        headers: dict[str, str] | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            model: Default: environment variable OPENAI_EMBEDDING_MODEL, else ``text-embedding-3-small``.
            dimensions: Length of the vectors. Needed for a model that is not OpenAI's. Where it is given it is sent,
                and shortens the vectors of models that can; a server that refuses the field is asked without it.
            api_key: Default: OPENAI_API_KEY. Servers without keys need none.
            base_url: Default: OPENAI_BASE_URL, else OpenAI's.
            headers: Further headers of each request.

        Raises: ConfigurationError: dimensions are unknown, or a number is not positive.
        """
        name = model or os.environ.get("OPENAI_EMBEDDING_MODEL") or "text-embedding-3-small"
        super().__init__(
            name,
            known_dimensions(name, dimensions, _DIMENSIONS),
            base_url=base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1",
            api_key=secret(api_key, self.key_variable),
            headers=headers,
            **options,
        )
        self._ask_for(dimensions)


class AzureOpenAIEmbeddingModel(_OpenAIShape):
    """Asks a deployment of Azure OpenAI."""

    provider = "azure"
    key_variable = "AZURE_OPENAI_API_KEY"

    def __init__(
        self,
        deployment: str,
        *,
        dimensions: int,
        endpoint: str | None = None,
        api_key: str | SecretStr | None = None,
        api_version: str = "2024-10-21",
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            deployment: Name of the deployment, which stands for the model.
            dimensions: Length of the vectors of that model.
            endpoint: ``https://NAME.openai.azure.com``; default: AZURE_OPENAI_ENDPOINT.
            api_key: Default: AZURE_OPENAI_API_KEY.
            api_version: Of the service.

        Raises: ConfigurationError: no endpoint, or a number is not positive.
        """
        address = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not address:
            raise ConfigurationError("AzureOpenAIEmbeddingModel needs endpoint=... or AZURE_OPENAI_ENDPOINT")
        key = secret(api_key, self.key_variable)
        super().__init__(
            deployment,
            dimensions,
            base_url=address,
            api_key=None,
            headers={"api-key": key.get_secret_value()} if key is not None else None,
            **options,
        )
        self._ask_for(dimensions)
        self._path = f"/openai/deployments/{deployment}/embeddings?api-version={api_version}"


def _decoded(item: Any) -> Any:
    """A vector that was sent in base64, as some servers do whatever is asked, as numbers."""
    value = item.get("embedding") if isinstance(item, dict) else None
    if not isinstance(value, str):
        return item
    data = base64.b64decode(value)
    numbers = struct.unpack(f"<{len(data) // 4}f", data[: len(data) // 4 * 4])
    return {**item, "embedding": list(numbers)}
