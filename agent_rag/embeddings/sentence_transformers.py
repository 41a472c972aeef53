"""Local models through sentence-transformers. Needs the extra ``sentence-transformers`` (torch, about 1 GB)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from .._util.extras import needs
from ..content import DataBlock
from ..errors import ConfigurationError, EmbeddingError
from .base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse
from .inputs import texts_of


class SentenceTransformersEmbeddingModel(EmbeddingModelBase):
    """Any SentenceTransformer, in a thread. A model named by its hub id is downloaded by that library at first use; one
    in a folder needs no network."""

    def __init__(
        self,
        model: str | Any,
        *,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        batch_size: int = 32,
        keyword_weight: float = 0.7,
        **options: Any,
    ) -> None:
        """
        Args:
            model: Name or folder of a model, or a SentenceTransformer.
            query_prompt, document_prompt: Put before each text, as models such as e5 and bge want.
            options: Of SentenceTransformer, such as ``device`` and ``truncate_dim``.

        Raises: MissingExtraError: the extra is not installed. ConfigurationError: the model does not say its size.
        """
        if isinstance(model, str):
            library = needs("sentence-transformers", "sentence_transformers", purpose=type(self).__name__)
            self.name, self._model = model, library.SentenceTransformer(model, **options)
        else:
            self.name, self._model = str(getattr(model, "model_name_or_path", type(model).__name__)), model
        size = self._model.get_sentence_embedding_dimension()
        if not size:
            raise ConfigurationError(f"{self.name!r} does not say how long its vectors are; give it a pooling layer")
        self.dimensions = int(size)
        self.keyword_weight = keyword_weight
        self._prompts = {"query": query_prompt or "", "document": document_prompt or ""}
        self._batch_size = batch_size
        # A tokenizer of the library must not be used by two threads at once ("Already borrowed").
        self._turn = threading.Lock()

    @property
    def fingerprint(self) -> str:
        prompt = self._prompts["document"]
        return f"sentence-transformers/{self.name}:{self.dimensions}" + (f"|{prompt}" if prompt else "")

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        if any(isinstance(item, DataBlock) for item in inputs):
            raise EmbeddingError(f"{self.name} embeds text only; give it the caption of an image")
        texts = [self._prompts[mode] + text for text in texts_of(inputs)]
        vectors = await asyncio.to_thread(self._encode, texts) if texts else []
        return EmbeddingResponse.model_construct(embeddings=vectors, tokens=None)

    def _encode(self, texts: list[str]) -> list[list[float]]:
        with self._turn:
            vectors = self._model.encode(texts, batch_size=self._batch_size, show_progress_bar=False)
        return [[float(number) for number in vector] for vector in vectors]
