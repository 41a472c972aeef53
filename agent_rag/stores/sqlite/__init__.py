"""One SQLite file: the default store."""

from .store import SQLiteStore

__all__ = ["SQLiteStore"]
