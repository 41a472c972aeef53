"""What lies beside the database: its WAL, the gate of writers, who writes, how far the store has come, and spare room.

The database file itself is never opened but by SQLite: closing a handle of our own would drop the locks of this
process on it (POSIX), and another process would then remove a WAL with commits that were acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

_SPARE_BYTES = 1_048_576
_SEQUENCE = struct.Struct("<q8s")
_CRC = struct.Struct("<I")


@dataclass(frozen=True)
class Files:
    """Paths of one store."""

    path: Path

    def beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    @property
    def wal(self) -> Path:
        return self.beside("-wal")

    @property
    def gate(self) -> Path:
        return self.beside("-gate")

    # --- how far the store has come ---

    def write_sequence(self, sequence: int, store_id: bytes) -> None:
        """Remember the last acknowledged sequence number, not synced: after a power cut it may be too low, never too
        high. SQLite itself says nothing when a WAL is missing or cut."""
        data = _SEQUENCE.pack(sequence, store_id)
        _overwrite(self.beside("-seq"), data + _CRC.pack(zlib.crc32(data)))

    def read_sequence(self) -> tuple[int, bytes] | None:
        """The last acknowledged sequence number, and of which store it is; None where it is not known."""
        try:
            data = self.beside("-seq").read_bytes()
        except OSError:
            return None
        if len(data) != _SEQUENCE.size + _CRC.size or zlib.crc32(data[:-4]) != _CRC.unpack(data[-4:])[0]:
            return None
        sequence, store_id = _SEQUENCE.unpack(data[:-4])
        return sequence, store_id

    # --- who writes ---

    def write_writer(self) -> None:
        """Say that this process writes, for those who wait too long."""
        with contextlib.suppress(OSError):
            _overwrite(self.beside("-writer"), f"{os.getpid()} {time.time():.3f}".ljust(40).encode())

    def writer(self) -> str:
        """Who writes and since when, in words."""
        try:
            pid, since = self.beside("-writer").read_text().split()
            return f"process {pid} has been writing for {max(0.0, time.time() - float(since)):.1f} s"
        except (OSError, ValueError):
            return "another process is writing"

    # --- room for deletes on a full disk ---

    def keep_spare(self) -> None:
        """Reserve room that `free_spare` gives back; nothing happens where there is none."""
        spare = self.beside("-spare")
        if spare.exists():
            return
        try:
            spare.write_bytes(bytes(_SPARE_BYTES))
        except OSError:
            self.free_spare()

    def free_spare(self) -> None:
        with contextlib.suppress(OSError):
            self.beside("-spare").unlink()

    # --- identity ---

    def inode(self, path: Path) -> int | None:
        """Number of the file at `path`; None where there is none."""
        try:
            return path.stat().st_ino
        except OSError:
            return None

    def bytes(self) -> int:
        """Size of the database and its WAL."""
        return _size(self.path) + self.wal_bytes()

    def free_bytes(self) -> int:
        """Room that is left on the disk."""
        return shutil.disk_usage(self.path.parent).free

    def wal_bytes(self) -> int:
        return _size(self.wal)

    def scratch(self) -> BinaryIO:
        """A new file without a name on the same disk, which goes when it is closed or the process ends."""
        return cast(BinaryIO, tempfile.TemporaryFile(dir=self.path.parent))


def _overwrite(path: Path, data: bytes) -> None:
    """Write a file that always has the same length; emptying it first would make ext4 flush it (3 ms)."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
