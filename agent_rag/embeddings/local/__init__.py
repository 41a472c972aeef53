"""Embedding models that run in this process, without a network: the default, and better ones as extras."""

from __future__ import annotations

from .model import LocalEmbeddingModel, model_of

__all__ = ["LocalEmbeddingModel", "model_of"]
