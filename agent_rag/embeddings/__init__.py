"""Embedding models: texts and images to vectors, one file per provider."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingModelLike, EmbeddingResponse

if TYPE_CHECKING:
    from .cached import CachedEmbeddingModel, CacheStats, cache_stats, clear_cache
    from .cohere import CohereEmbeddingModel
    from .dashscope import DashScopeEmbeddingModel, DashScopeMultimodalEmbeddingModel
    from .fastembed import FastEmbedEmbeddingModel
    from .gemini import GeminiEmbeddingModel
    from .jina import JinaEmbeddingModel
    from .local import LocalEmbeddingModel
    from .ollama import OllamaEmbeddingModel
    from .openai import AzureOpenAIEmbeddingModel, OpenAIEmbeddingModel
    from .registry import embedding_model
    from .remote import RemoteEmbeddingModel, RemoteOptions
    from .sentence_transformers import SentenceTransformersEmbeddingModel
    from .tei import TEIEmbeddingModel
    from .voyage import VoyageEmbeddingModel

__all__ = [
    "AzureOpenAIEmbeddingModel",
    "CacheStats",
    "CachedEmbeddingModel",
    "CohereEmbeddingModel",
    "DashScopeEmbeddingModel",
    "DashScopeMultimodalEmbeddingModel",
    "EmbeddingInput",
    "EmbeddingMode",
    "EmbeddingModelBase",
    "EmbeddingModelLike",
    "EmbeddingResponse",
    "FastEmbedEmbeddingModel",
    "GeminiEmbeddingModel",
    "JinaEmbeddingModel",
    "LocalEmbeddingModel",
    "OllamaEmbeddingModel",
    "OpenAIEmbeddingModel",
    "RemoteEmbeddingModel",
    "RemoteOptions",
    "SentenceTransformersEmbeddingModel",
    "TEIEmbeddingModel",
    "VoyageEmbeddingModel",
    "cache_stats",
    "clear_cache",
    "embedding_model",
]

_LAZY = {
    "AzureOpenAIEmbeddingModel": "openai",
    "CacheStats": "cached",
    "CachedEmbeddingModel": "cached",
    "CohereEmbeddingModel": "cohere",
    "DashScopeEmbeddingModel": "dashscope",
    "DashScopeMultimodalEmbeddingModel": "dashscope",
    "FastEmbedEmbeddingModel": "fastembed",
    "GeminiEmbeddingModel": "gemini",
    "JinaEmbeddingModel": "jina",
    "LocalEmbeddingModel": "local",
    "OllamaEmbeddingModel": "ollama",
    "OpenAIEmbeddingModel": "openai",
    "RemoteEmbeddingModel": "remote",
    "RemoteOptions": "remote",
    "SentenceTransformersEmbeddingModel": "sentence_transformers",
    "TEIEmbeddingModel": "tei",
    "VoyageEmbeddingModel": "voyage",
    "cache_stats": "cached",
    "clear_cache": "cached",
    "embedding_model": "registry",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
