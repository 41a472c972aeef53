"""MongoDB with Vector Search."""

from .store import MongoDBStore

__all__ = ["MongoDBStore"]
