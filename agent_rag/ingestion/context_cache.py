"""Lines of context that were paid for once, kept on disk."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from ..embeddings.cached import default_path

logger = logging.getLogger("agent_rag")

_SCHEMA = "CREATE TABLE IF NOT EXISTS contexts (key BLOB PRIMARY KEY, line TEXT NOT NULL, made INTEGER NOT NULL)"
_MOST_LINES = 1_000_000
"""Above this (about 300 MB) the oldest tenth is removed."""


class ContextCache:
    """A SQLite file that any number of processes may share. One that cannot be read or written costs money only."""

    def __init__(self, path: str | Path | None = None, *, most_lines: int = _MOST_LINES) -> None:
        """
        Args:
            path: Default: ``contexts.db`` beside the cache of embeddings.
        """
        self.path = Path(path) if path is not None else default_path().with_name("contexts.db")
        self._most = most_lines

    def read(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """The lines that are there."""
        found: dict[bytes, str] = {}
        if not self.path.exists():
            return found
        try:
            with closing(sqlite3.connect(self.path, timeout=10.0)) as connection:
                for key in keys:
                    row = connection.execute("SELECT line FROM contexts WHERE key = ?", (key,)).fetchone()
                    if row is not None:
                        found[key] = row[0]
        except (sqlite3.Error, OSError) as error:
            logger.warning("the cache %s cannot be read, so the model is asked: %s", self.path, error)
        return found

    def write(self, lines: Mapping[bytes, str]) -> None:
        """Keep lines."""
        now = int(time.time())
        rows = [(key, line, now) for key, line in lines.items()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=10.0)) as connection, connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(_SCHEMA)
                connection.executemany("INSERT OR REPLACE INTO contexts VALUES (?, ?, ?)", rows)
                (count,) = connection.execute("SELECT count(*) FROM contexts").fetchone()
                if count > self._most:
                    connection.execute(
                        "DELETE FROM contexts WHERE key IN (SELECT key FROM contexts ORDER BY made, key LIMIT ?)",
                        (count - self._most + self._most // 10,),
                    )
        except (sqlite3.Error, OSError) as error:
            logger.warning("the cache %s cannot be written, so these lines are not kept: %s", self.path, error)
