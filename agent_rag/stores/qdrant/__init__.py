"""Qdrant: embedded on disk or in memory (`edge`), or a server (`server`)."""

from .store import QdrantStore

__all__ = ["QdrantStore"]
