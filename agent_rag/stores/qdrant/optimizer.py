"""Optimising a shard in a process of its own, since the engine holds the interpreter lock meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_OPTIMIZE = "import sys, qdrant_edge as e; s = e.EdgeShard.load(sys.argv[1]); s.optimize(); s.close()"
# The end of its input is the end of this process, however it ends; the optimising process has no thread to see it.
_WATCH = """
import subprocess, sys, threading
shared = [int(number) for number in sys.argv[3:]]
child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:3]], stdin=subprocess.DEVNULL, pass_fds=shared)
threading.Thread(target=lambda: (sys.stdin.read(), child.kill()), daemon=True).start()
sys.exit(child.wait())
"""


def optimize(shard: Path, lock: int | None) -> str | None:
    """Optimise a shard that nobody has open. It ends with this process, and the shard stays whole.

    Args:
        lock: Descriptor of the folder's lock, which is held as long as the shard is in use; None for none.

    Returns: None when it is done, else the error.
    """
    shared = () if lock is None or sys.platform == "win32" else (lock,)
    command = [sys.executable, "-c", _WATCH, _OPTIMIZE, str(shard), *map(str, shared)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=shared
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
    return said.strip()[-500:] or f"exit code {process.returncode}" if process.returncode else None
