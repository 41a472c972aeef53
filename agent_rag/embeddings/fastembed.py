"""Local models through fastembed (ONNX, no torch). Needs the extra ``fastembed``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from .._util.extras import needs
from ..content import DataBlock
from ..errors import EmbeddingError
from .base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse
from .inputs import texts_of


class FastEmbedEmbeddingModel(EmbeddingModelBase):
    """A model of fastembed's list, in a thread. fastembed downloads its weights at first use; ``cache_dir`` and
    ``local_files_only=True`` among the options make it work offline afterwards."""

    def __init__(
        self,
        model: str | Any = "BAAI/bge-small-en-v1.5",
        *,
        batch_size: int = 64,
        keyword_weight: float = 0.7,
        **options: Any,
    ) -> None:
        """
        Args:
            model: Name of a model, or a fastembed TextEmbedding.
            options: Of TextEmbedding, such as ``cache_dir``, ``threads`` and ``providers``.

        Raises: MissingExtraError: the extra is not installed.
        """
        if isinstance(model, str):
            library = needs("fastembed", "fastembed", purpose=type(self).__name__)
            self.name, self._model = model, library.TextEmbedding(model, **options)
        else:
            self.name, self._model = str(model.model_name), model
        self.dimensions = int(self._model.embedding_size)
        self.keyword_weight = keyword_weight
        self._batch_size = batch_size
        self._turn = threading.Lock()

    @property
    def fingerprint(self) -> str:
        return f"fastembed/{self.name}:{self.dimensions}"

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        if any(isinstance(item, DataBlock) for item in inputs):
            raise EmbeddingError(f"{self.name} embeds text only; give it the caption of an image")
        texts = texts_of(inputs)
        vectors = await asyncio.to_thread(self._encode, texts, mode) if texts else []
        return EmbeddingResponse.model_construct(embeddings=vectors, tokens=None)

    def _encode(self, texts: list[str], mode: EmbeddingMode) -> list[list[float]]:
        encode = self._model.query_embed if mode == "query" else self._model.passage_embed
        with self._turn:
            vectors = list(encode(texts, batch_size=self._batch_size) if mode == "document" else encode(texts))
        return [[float(number) for number in vector] for vector in vectors]
