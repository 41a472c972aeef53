"""One writer at a time, in any process: commits and checkpoints of all connections come one after the other.

SQLite allows several at once, but every version from 3.7.0 to 3.51.2, and so nearly every Python, can lose a commit
when a writer and a checkpoint meet (sqlite.org/wal.html, "the WAL-reset bug"). Its busy handler also sleeps up to
100 ms: a writer beside an ingest without gaps waited 1.3 s; asking every few milliseconds, 35 ms.
"""

from __future__ import annotations

import random
import sqlite3
import time

from ...errors import StoreLockedError
from .files import Files

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.005


class Gate:
    """The exclusive lock of an empty SQLite file, which ends with its process. For one thread at a time."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._lock = sqlite3.connect(files.gate, isolation_level=None, check_same_thread=False, timeout=0)

    def enter(self, wait_s: float) -> None:
        """Wait for the turn.

        Raises: StoreLockedError: somebody else still writes after `wait_s`; says who.
        """
        started = time.monotonic()
        pause = _FIRST_PAUSE_S
        while True:
            try:
                self._lock.execute("begin exclusive")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                if time.monotonic() - started > wait_s:
                    raise StoreLockedError(
                        f"{self._files.path} could not be written within {wait_s:g} s: {self._files.writer()}; "
                        "wait for it, or raise wait_s"
                    ) from error
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 1.5, _LONGEST_PAUSE_S)
        self._files.write_writer()

    def leave(self) -> None:
        if self._lock.in_transaction:
            self._lock.execute("rollback")

    def close(self) -> None:
        self._lock.close()
