"""Room on the disk. The engine writes through memory maps: where the disk is full, the process dies of SIGBUS."""

from __future__ import annotations

import shutil
from pathlib import Path

from ...errors import StoreFullError

_WRITING = 32 << 20
"""Some times what one operation writes: to the log, the storage and the indexes."""
_DELETING = 4 << 20


def has_room(folder: Path) -> bool:
    """Whether an operation may write."""
    return shutil.disk_usage(folder).free >= _WRITING


def check_room(folder: Path, *, deleting: bool = False) -> None:
    """Raises: StoreFullError: too little is free."""
    free, needed = shutil.disk_usage(folder).free, _DELETING if deleting else _WRITING
    if free < needed:
        raise StoreFullError(
            f"{free >> 20} MiB are free on the disk of {folder}, and a write needs {needed >> 20}; make room there. "
            "What was written is there, and can be read and deleted"
        )
