"""Embedding models: texts and images to vectors, one file per provider."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingModelLike, EmbeddingResponse

if TYPE_CHECKING:
    from .local import LocalEmbeddingModel
    from .openai import OpenAIEmbeddingModel

__all__ = [
    "EmbeddingInput",
    "EmbeddingMode",
    "EmbeddingModelBase",
    "EmbeddingModelLike",
    "EmbeddingResponse",
    "LocalEmbeddingModel",
    "OpenAIEmbeddingModel",
]

_LAZY = {"LocalEmbeddingModel": ".local", "OpenAIEmbeddingModel": ".openai"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
