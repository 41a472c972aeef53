"""PostgreSQL, with or without pgvector."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
