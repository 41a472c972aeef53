"""An embedding model with its answers checked."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..content import DataBlock
from ..documents import Chunk, is_blank
from ..embeddings.base import EmbeddingInput, EmbeddingMode, EmbeddingModelLike, default_fingerprint
from ..errors import (
    ConfigurationError,
    EmbeddingError,
)
from .document import WriteReport

_EMBED_BATCH = 512


class Embedder:
    """An embedding model, ours or duck-typed or none, with its answers checked."""

    def __init__(self, model: EmbeddingModelLike | None) -> None:
        self.model = model
        self._takes_mode = model is not None and "mode" in inspect.signature(model.__call__).parameters

    @property
    def dimensions(self) -> int:
        """0 without a model."""
        return int(self.model.dimensions) if self.model is not None else 0

    @property
    def fingerprint(self) -> str | None:
        """Names the vector space, for a model that names none by its class, name and size; None without a model."""
        if self.model is None:
            return None
        fingerprint = getattr(self.model, "fingerprint", None)
        return fingerprint if isinstance(fingerprint, str) else default_fingerprint(self.model, self.dimensions)

    @property
    def multimodal(self) -> bool:
        return bool(getattr(self.model, "supports_multimodal", False))

    def can_index(self, chunk: Chunk) -> bool:
        """Whether a chunk can be found: it has text, or is an image that the model embeds."""
        return not (is_blank(chunk.text) and is_blank(chunk.embed_text or "")) or (
            isinstance(chunk.content, DataBlock) and self.multimodal
        )

    def key_of(self, chunk: Chunk) -> str:
        """What tells whether two chunks have one vector: the text that is embedded, or the hash of an image."""
        if isinstance(chunk.content, DataBlock) and self.multimodal:
            return f"\x00{hashlib.sha256(chunk.content.model_dump_json().encode()).hexdigest()}"
        return chunk.indexed_text

    def wanted(self, chunks: Sequence[Chunk], known: Mapping[str, Sequence[float]]) -> dict[str, EmbeddingInput]:
        """What is to be embedded for `chunks`, by `key_of`, each once; without what is known or cannot be found."""
        wanted: dict[str, EmbeddingInput] = {}
        for chunk in chunks if self.model is not None else ():
            if self.can_index(chunk) and (key := self.key_of(chunk)) not in known:
                wanted.setdefault(key, chunk.content if key.startswith("\x00") else key)
        return wanted

    async def vectors(
        self, chunks: Sequence[Chunk], known: Mapping[str, Sequence[float]] | None, report: WriteReport
    ) -> list[Sequence[float]]:
        """One vector per chunk; what is known, or occurs twice, is embedded once."""
        if self.model is None:
            return [[] for _ in chunks]
        given = known or {}
        vectors: dict[str, Sequence[float]] = {}
        names = [self.key_of(chunk) for chunk in chunks]
        wanted = self.wanted(chunks, given)
        todo = list(wanted)
        for start in range(0, len(todo), _EMBED_BATCH):
            part = todo[start : start + _EMBED_BATCH]
            try:
                embedded = await self.embed([wanted[name] for name in part], "document")
            except EmbeddingError as error:
                raise _with_place(error, chunks[names.index(part[0])], chunks[names.index(part[-1])]) from error
            vectors.update(zip(part, embedded, strict=True))
        report.embedded += len(todo)
        return [vectors[name] if name in vectors else given[name] for name in names]

    async def embed(self, inputs: Sequence[EmbeddingInput], mode: EmbeddingMode) -> list[list[float]]:
        """Vectors of `inputs`, in order.

        Raises: EmbeddingError: wrong count or size, or a number that is not finite. ConfigurationError: no model.
        """
        model: Any = self.model  # its call may take `mode`
        if model is None:
            raise ConfigurationError("there is no embedding model; only keyword search works")
        response = await (model(list(inputs), mode=mode) if self._takes_mode else model(list(inputs)))
        vectors: list[list[float]] = [list(vector) for vector in response.embeddings]
        if len(vectors) != len(inputs):
            raise EmbeddingError(f"the embedding model answered {len(vectors)} vectors for {len(inputs)} inputs")
        for vector in vectors:
            if len(vector) != self.dimensions:
                raise EmbeddingError(
                    f"the embedding model answered a vector of {len(vector)} numbers, not {self.dimensions}"
                )
            if not math.isfinite(sum(vector)):
                raise EmbeddingError("the embedding model answered a vector with a number that is not finite")
            if not any(vector):
                raise EmbeddingError("the embedding model answered a vector of zeros, which nothing can be near to")
        return vectors


def _with_place(error: EmbeddingError, first: Chunk, last: Chunk) -> EmbeddingError:
    return type(error)(
        f"embedding failed between chunk {first.document_id}:{first.chunk_index} "
        f"and {last.document_id}:{last.chunk_index}: {error}"
    )
