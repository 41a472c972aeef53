"""Whether a file is on a network file system, where the memory that readers of a WAL share does not work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NETWORK = ("nfs", "cifs", "smb", "9p", "virtiofs", "afs", "ceph", "gluster", "lustre", "fuse.sshfs", "fuse.rclone",
            "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "davfs")  # fmt: skip
_MOUNTS = Path("/proc/self/mountinfo")


def network_type(path: Path) -> str | None:
    """Name of the network file system that `path` is on; None for a local one, or where it cannot be told.

    virtiofs, 9p (WSL, Docker Desktop, Podman) and NFS let SQLite switch to a WAL and corrupt it silently.
    """
    if sys.platform == "win32":
        return "a network share" if str(path.absolute()).startswith("\\\\") else None
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return None
    return network_type_in(lines, os.path.realpath(path.parent))


def network_type_in(mounts: list[str], folder: str) -> str | None:
    """As `network_type`, by the lines of a mountinfo file. The longest mount point counts, of equal ones the last."""
    longest, found = -1, ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = fields[4].encode().decode("unicode_escape")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:
            longest, found = len(point), right.split()[0]
    return found if found.startswith(_NETWORK) else None
