"""Processes that use a local file of Milvus Lite."""

from __future__ import annotations

import subprocess
import sys


def start_process(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Python code in a process of its own; its output can be read."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
