"""Tencent Cloud VectorDB."""

from .store import TcVectorStore

__all__ = ["TcVectorStore"]
