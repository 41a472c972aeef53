"""An exclusive lock on a folder, released by the operating system when its process ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ...errors import StoreLockedError

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderLock:
    """Holds ``<folder>/lock``. Two objects of one process exclude each other too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.descriptor: int | None = None
        """Of the lock file, while it is held."""

    def acquire(self) -> None:
        """Raises: StoreLockedError: someone else holds it."""
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise StoreLockedError(
                f"{self._folder} is in use by another store object, in this process or another one; share that "
                "object, close it first, or run a Qdrant server and use QdrantStore(url=...)"
            ) from error
        self.descriptor = descriptor

    def release(self) -> None:
        """Harmless when it is not held."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)
