"""Milvus: a Milvus Lite file, or an endpoint."""

from .store import MilvusLiteStore

__all__ = ["MilvusLiteStore"]
