"""Embedding models by name, for the configuration and the command line."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from ..errors import ConfigurationError
from .base import EmbeddingModelBase


class _Entry(NamedTuple):
    module: str
    name: str
    paid: bool
    """Each text costs money, so its vectors are worth keeping."""


_PROVIDERS = {
    "local": _Entry("local", "LocalEmbeddingModel", paid=False),
    "openai": _Entry("openai", "OpenAIEmbeddingModel", paid=True),
    "azure": _Entry("openai", "AzureOpenAIEmbeddingModel", paid=True),
    "cohere": _Entry("cohere", "CohereEmbeddingModel", paid=True),
    "dashscope": _Entry("dashscope", "DashScopeEmbeddingModel", paid=True),
    "dashscope-multimodal": _Entry("dashscope", "DashScopeMultimodalEmbeddingModel", paid=True),
    "fastembed": _Entry("fastembed", "FastEmbedEmbeddingModel", paid=False),
    "gemini": _Entry("gemini", "GeminiEmbeddingModel", paid=True),
    "jina": _Entry("jina", "JinaEmbeddingModel", paid=True),
    "ollama": _Entry("ollama", "OllamaEmbeddingModel", paid=False),
    "sentence-transformers": _Entry("sentence_transformers", "SentenceTransformersEmbeddingModel", paid=False),
    "tei": _Entry("tei", "TEIEmbeddingModel", paid=False),
    "voyage": _Entry("voyage", "VoyageEmbeddingModel", paid=True),
}
NAMES = (*sorted(_PROVIDERS), "none")
"""Names that `embedding_model` knows, without a model behind a colon."""


def embedding_model(name: str, **options: Any) -> EmbeddingModelBase | None:
    """The embedding model of a name: ``local``, ``PROVIDER``, ``PROVIDER:MODEL``, or ``none`` (keyword search only).

    Args:
        options: Of the model's class, such as `dimensions` and `base_url`; None stands for its default.

    Raises: ConfigurationError: the name is unknown, or an option does not fit.
    """
    provider, _, model = name.partition(":")
    if provider == "none":
        return None
    entry = _PROVIDERS.get(provider)
    if entry is None:
        raise ConfigurationError(f"embedding {name!r} is unknown; use one of {', '.join(NAMES)}, or PROVIDER:MODEL")
    make = getattr(importlib.import_module(f".{entry.module}", __package__), entry.name)
    given = {key: value for key, value in options.items() if value is not None}
    if provider == "local":
        given.pop("dimensions", None)  # each has one size
    try:
        made: EmbeddingModelBase = make(*([model] if model else []), **given)
    except TypeError as error:
        raise ConfigurationError(f"embedding {name!r}: {error}") from error
    return made


def is_paid(name: str) -> bool:
    """Whether each text costs money at the provider of a name."""
    entry = _PROVIDERS.get(name.partition(":")[0])
    return entry is not None and entry.paid
