"""Vectors that were paid for once, kept on disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..content import DataBlock, TextBlock
from ..errors import ConfigurationError
from .base import EmbeddingInput, EmbeddingMode, EmbeddingModelBase, EmbeddingResponse

logger = logging.getLogger("agent_rag")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS vectors_used ON vectors (used);
"""
_DAY_S = 86_400
_ROW_BYTES = 80
"""Of a row beside its vector, index included."""
_EVICTED_SHARE = 0.1


class CacheStats(NamedTuple):
    """What a cache holds."""

    path: Path
    vectors: int
    bytes: int
    """Of the file."""


class CachedEmbeddingModel(EmbeddingModelBase):
    """Another model whose vectors are kept in a SQLite file, so that the same text is never paid for twice.

    A vector is found by the model's fingerprint, its size, the mode and the text or image. Any number of processes may
    share a file. A cache that cannot be read or written costs time and money only: the model is asked, and a warning
    says why.
    """

    def __init__(self, model: EmbeddingModelBase, path: str | Path | None = None, *, max_bytes: int = 2**30) -> None:
        """
        Args:
            path: Default: AGENT_RAG_CACHE, else ``agent-rag/embeddings.db`` in the user's cache folder.
            max_bytes: Above this the vectors that were not used for the longest time are removed (default 1 GiB).

        Raises: ConfigurationError: the model has no fingerprint, or `max_bytes` is not positive.
        """
        if not model.fingerprint:
            raise ConfigurationError(f"{type(model).__name__} has no fingerprint, so its vectors cannot be told apart")
        if max_bytes < 1:
            raise ConfigurationError(f"max_bytes is {max_bytes}; it is positive")
        self.model = model
        self.dimensions = model.dimensions
        self.supports_multimodal = model.supports_multimodal
        self.keyword_weight = model.keyword_weight
        self.coverage_weighting = model.coverage_weighting
        self.path = Path(path) if path is not None else default_path()
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self.hits = 0
        """Inputs answered from the cache since this object was made."""

    def __repr__(self) -> str:
        return f"CachedEmbeddingModel({self.model!r}, {str(self.path)!r})"

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    async def __call__(
        self, inputs: Sequence[EmbeddingInput], *, mode: EmbeddingMode = "document"
    ) -> EmbeddingResponse:
        if isinstance(inputs, str):
            return await self.model(inputs, mode=mode)  # says what is wrong
        keys = [self._key(item, mode) for item in inputs]
        found = await asyncio.to_thread(self._read, set(keys))
        self.hits += sum(key in found for key in keys)
        missing = {key: item for key, item in zip(keys, inputs, strict=True) if key not in found}
        tokens: int | None = 0
        if missing:
            answer = await self.model(list(missing.values()), mode=mode)
            tokens = answer.tokens
            new = dict(zip(missing, answer.embeddings, strict=True))
            await asyncio.to_thread(self._write, new)
            found.update(new)
        return EmbeddingResponse.model_construct(embeddings=[found[key] for key in keys], tokens=tokens)

    def _key(self, item: EmbeddingInput, mode: EmbeddingMode) -> bytes:
        if isinstance(item, DataBlock):
            content = ["data", item.model_dump_json()]
        else:
            content = ["text", item.text if isinstance(item, TextBlock) else item]
        parts = json.dumps([self.fingerprint, self.dimensions, mode, *content])
        return hashlib.sha256(parts.encode()).digest()

    def _read(self, keys: set[bytes]) -> dict[bytes, list[float]]:
        found: dict[bytes, list[float]] = {}
        if not self.path.exists():
            return found
        today = int(time.time()) // _DAY_S
        try:
            with self._lock, closing(_open(self.path)) as connection, connection:
                for key in keys:
                    row = connection.execute("SELECT vector, used FROM vectors WHERE key = ?", (key,)).fetchone()
                    if row is None or len(row[0]) != 4 * self.dimensions:
                        continue
                    found[key] = np.frombuffer(row[0], "<f4").tolist()
                    if row[1] != today:
                        connection.execute("UPDATE vectors SET used = ? WHERE key = ?", (today, key))
        except (sqlite3.Error, OSError) as error:
            logger.warning("the cache %s cannot be read, so the model is asked: %s", self.path, error)
        return found

    def _write(self, vectors: dict[bytes, list[float]]) -> None:
        today = int(time.time()) // _DAY_S
        rows = [(key, np.asarray(vector, "<f4").tobytes(), today) for key, vector in vectors.items()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock, closing(_open(self.path)) as connection, connection:
                connection.executescript(_SCHEMA)
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
                self._make_room(connection)
        except (sqlite3.Error, OSError) as error:
            logger.warning("the cache %s cannot be written, so these vectors are not kept: %s", self.path, error)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Remove what was not used for the longest time, more than is needed now, so that not each write does it."""
        count, size = connection.execute("SELECT count(*), coalesce(sum(length(vector)), 0) FROM vectors").fetchone()
        total = size + count * _ROW_BYTES
        if total > self._max_bytes:
            kept = int(count * self._max_bytes / total * (1 - _EVICTED_SHARE))
            connection.execute(
                "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY used, key LIMIT ?)", (count - kept,)
            )


def default_path() -> Path:
    """The cache of this user: AGENT_RAG_CACHE, else a file in the user's cache folder."""
    if given := os.environ.get("AGENT_RAG_CACHE"):
        return Path(given)
    folder = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(folder) / "agent-rag" / "embeddings.db"


def cache_stats(path: str | Path | None = None) -> CacheStats:
    """What a cache holds; zeros where there is none.

    Raises: ConfigurationError: the file is no cache.
    """
    file = Path(path) if path is not None else default_path()
    if not file.exists():
        return CacheStats(file, 0, 0)
    try:
        with closing(_open(file)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
    except sqlite3.Error as error:
        raise ConfigurationError(f"{file} is no cache of embeddings ({error}); delete it or choose another") from error
    return CacheStats(file, count, file.stat().st_size)


def clear_cache(path: str | Path | None = None) -> int:
    """Delete a cache. Returns how many vectors it held.

    Raises: ConfigurationError: the file is no cache; it stays.
    """
    stats = cache_stats(path)
    for ending in ("", "-wal", "-shm"):
        Path(f"{stats.path}{ending}").unlink(missing_ok=True)
    return stats.vectors


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=10.0)
    # A cache that loses its last writes in a power cut is asked again.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection
