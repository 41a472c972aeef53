"""Embeddings of a HuggingFace text-embeddings-inference server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from pydantic import SecretStr

from .._util.http import secret
from ..content import DataBlock
from .base import EmbeddingMode
from .remote import Answer, RemoteEmbeddingModel, RemoteOptions, listed, vectors_by_index


class TEIEmbeddingModel(RemoteEmbeddingModel):
    """Asks ``/embed``. The server holds one model, whose name it is told here for the fingerprint."""

    provider = "tei"
    key_variable = "HF_TOKEN"
    default_batch_size = 32

    def __init__(
        self,
        model: str,
        *,
        dimensions: int,
        base_url: str = "http://127.0.0.1:8080",
        api_key: str | SecretStr | None = None,
        normalize: bool = True,
        truncate: bool = False,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        """
        Args:
            model: Name of the model that the server runs.
            dimensions: Length of its vectors.
            api_key: Default: HF_TOKEN. Servers without keys need none.
            normalize: Vectors of length 1.
            truncate: Let the server cut a text that is longer than the model's context; else that is an error.
            query_prompt, document_prompt: Names of prompts of the model's configuration (``prompt_name``).

        Raises: ConfigurationError: a number is not positive.
        """
        super().__init__(model, dimensions, base_url=base_url, api_key=secret(api_key, self.key_variable), **options)
        self._sent = {"normalize": normalize, "truncate": truncate}
        self._prompts = {"query": query_prompt, "document": document_prompt}

    @property
    def fingerprint(self) -> str:
        prompt = self._prompts["document"]
        return super().fingerprint + (f"|{prompt}" if prompt else "")

    def _request(self, inputs: Sequence[str | DataBlock], mode: EmbeddingMode) -> tuple[str, dict[str, Any]]:
        prompt = {"prompt_name": self._prompts[mode]} if self._prompts[mode] else {}
        return "/embed", {"inputs": list(inputs), **self._sent, **prompt}

    def _read(self, answer: Any, count: int) -> Answer:
        return Answer(vectors_by_index(listed(answer), count))
