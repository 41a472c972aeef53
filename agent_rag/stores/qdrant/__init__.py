"""Qdrant: embedded on disk or in memory (`edge`), or a server (`remote`)."""

from .store import QdrantStore

__all__ = ["QdrantStore"]
