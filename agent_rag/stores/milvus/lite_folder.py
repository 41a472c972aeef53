"""The folder that Milvus Lite keeps of one collection: what must hold before it is opened, its log, and whose it is."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...errors import StoreError
from ..versions.stored_info import StoredInfo

_REMEDY = "restore the file from a copy, or ingest into a new one"


class LiteFolder:
    """All calls block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._info = path / "agent_rag.json"

    def check(self) -> None:
        """Milvus Lite opens a collection that lacks files with the rows that are left, and then removes more of them.

        Raises: StoreError: files are missing, or it cannot be known which ones there should be.
        """
        manifest = self.path / "manifest.json"
        if manifest.exists():
            missing = next((one for one in _named(manifest) if not one.exists()), None)
            if missing is not None:
                raise StoreError(f"{missing} is missing, so rows of this collection are lost; {_REMEDY}")
        elif (self.path / "manifest.json.prev").exists() or (
            self._has("partitions/*/data/*") and not self._has("wal/*")
        ):
            raise StoreError(f"{manifest} is missing, so the rows of this collection cannot be found; {_REMEDY}")

    def _has(self, pattern: str) -> bool:
        return next(self.path.glob(pattern), None) is not None

    # --- the log ---

    def log_sizes(self) -> dict[str, int]:
        """Size in bytes of each file of the log."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path / "wal") as found:
            return {one.path: one.stat().st_size for one in found}
        return {}

    def cut_log(self, sizes: Mapping[str, int]) -> None:
        """Take away what was appended since `log_sizes`; nobody may have the log open."""
        for path, size in self.log_sizes().items():
            if path not in sizes:
                os.unlink(path)
            elif size > sizes[path]:
                os.truncate(path, sizes[path])

    def sync_log(self) -> None:
        """Have the log on the disk."""
        for path in self.log_sizes():
            _sync(path)
        _sync_folder(self.path / "wal")

    # --- whose it is ---

    def read_info(self) -> StoredInfo | None:
        """None: it was made by something else, by an early version, or was not made whole."""
        try:
            return StoredInfo.model_validate_json(self._info.read_bytes())
        except (OSError, ValueError):
            return None

    def write_info(self, info: StoredInfo) -> None:
        """On the disk when this returns."""
        new = self._info.with_suffix(".tmp")
        new.write_text(info.model_dump_json(), encoding="utf-8")
        _sync(new)
        os.replace(new, self._info)
        _sync_folder(self.path)

    def remove(self) -> None:
        """Harmless when it is not there."""
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.path)


def _named(manifest: Path) -> Iterator[Path]:
    """The files that a manifest names. It is replaced as a whole, so one that cannot be read was damaged; Milvus Lite
    would take the one before, and delete what that one does not name."""
    try:
        partitions = json.loads(manifest.read_bytes())["partitions"]
        files = [
            manifest.parent / "partitions" / name / one.replace("\\", "/")
            for name, kinds in partitions.items()
            for kind in ("data_files", "delta_files")
            for one in kinds.get(kind, [])
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{manifest} cannot be read ({error}); {_REMEDY}") from error
    yield from files


def _sync(path: str | Path) -> None:
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    if os.name == "nt":  # which cannot open folders
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
