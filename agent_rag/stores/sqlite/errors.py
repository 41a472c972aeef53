"""What SQLite's errors mean here."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...errors import StoreDamagedError, StoreError, StoreFullError, StoreLockedError, StoreReadOnlyError

_SHORT_READ = sqlite3.SQLITE_IOERR | 2 << 8
CURE = "run 'agent-rag check' to see what is affected; restore a backup, or ingest again into a new file"


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what SQLite reports as an error of this package that names `path`."""
    try:
        yield
    except StoreDamagedError as error:
        if str(path) in str(error):
            raise
        raise StoreDamagedError(f"{path}: {error}; {CURE}") from error
    except sqlite3.Error as error:
        raise _meaning(path, error) from error
    except OSError as error:  # of a file beside it
        if error.errno != errno.ENOSPC:
            raise
        raise _full(path) from error


def _meaning(path: Path, error: sqlite3.Error) -> StoreError:
    text = str(error)[:200]  # SQLite quotes what it could not decode
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    match code & 0xFF:
        case _ if code == _SHORT_READ:
            return StoreDamagedError(f"{path} is shorter than it was ({text}); {CURE}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreDamagedError(f"{path} is damaged or no store ({text}); {CURE}")
        case sqlite3.SQLITE_FULL:
            return _full(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return read_only(path, error)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreLockedError(f"{path} is locked by another program ({text}); close that program")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreError(f"{path} cannot be opened ({text}); check that the folder exists and its permissions")
        case sqlite3.SQLITE_ERROR if "no such" in text or "Could not decode" in text:
            return StoreDamagedError(f"{path} is damaged: {text}; {CURE}")
    return StoreError(f"{path}: SQLite failed: {text} ({getattr(error, 'sqlite_errorname', code)})")


def _full(path: Path) -> StoreFullError:
    return StoreFullError(
        f"the disk of {path} is full; nothing was written, and all that was acknowledged is there. "
        "Delete documents, or make room on the disk"
    )


def read_only(path: Path, why: object) -> StoreReadOnlyError:
    """The error for a write where none is possible."""
    return StoreReadOnlyError(
        f"{path} cannot be written ({why}); searching works. Make the file and its folder writable, or copy the store"
    )
