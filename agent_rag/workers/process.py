"""One worker process, seen from the parent: start it, give it a job, watch it, end it."""

from __future__ import annotations

import json
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from ..errors import ParserCrashedError
from .worker import Reply, read_frame, write_frame

_MIB = 1024 * 1024
_STARTUP_S = 60.0
_WATCH_S = 0.05
_PIPE_BYTES = 1024 * 1024
# A start costs .45 s of CPU, mostly imports; memory retires a process long before this (see `Reply.retire`).
_JOBS_PER_PROCESS = 5_000
"""Libraries leak; a fresh process after this many files costs a second."""

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    "from agent_rag.workers.worker import main; main(int(sys.argv[2]), sys.argv[3])"
)
_OUT_OF_MEMORY = ("memory allocation", "out of memory", "bad_alloc", "MemoryError", "failed to allocate")


@dataclass
class Outcome:
    """What became of a job."""

    kind: Literal["result", "error", "memory", "unloadable", "timeout", "crash", "cancelled"]
    value: Any = None
    detail: str = ""
    log: list[tuple[str, int, str]] = field(default_factory=list)
    retire: bool = False


class Job:
    """A call for a worker, ``(folder, function, arguments)``, which another thread may cancel."""

    def __init__(self, call: tuple[Any, ...], timeout_s: float) -> None:
        self._call = call
        self.timeout_s = timeout_s
        self.cancelled = False
        self._worker: WorkerProcess | None = None
        self._lock = threading.Lock()

    def frame(self) -> bytes:
        """Raises: what pickle raises for a call that cannot travel."""
        return pickle.dumps(self._call, protocol=5)

    def attach(self, worker: WorkerProcess) -> bool:
        """Returns: False when the job was cancelled before it began."""
        with self._lock:
            self._worker = worker
            return not self.cancelled

    def detach(self) -> None:
        with self._lock:
            self._worker = None

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
            if self._worker is not None:
                self._worker.kill()


class WorkerProcess:
    """A Python process that runs `_worker.main`. Used by one thread at a time; `kill` may come from any."""

    def __init__(self, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._folder = Path(tempfile.mkdtemp(prefix="agent-rag-worker-"))
        self._jobs = 0
        self._ready = False
        self._ended_by: Literal["timeout", "memory"] | None = None
        with (self._folder / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                # -P keeps the current folder off sys.path, where a file called logging.py would be run
                [sys.executable, "-P", "-W", "ignore", "-c", _BOOT, json.dumps(sys.path), str(memory_mb), self._folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,  # a buffer could hold the start of an answer while poll waits for it
                env={**os.environ, "TMPDIR": str(self._folder), "PYTHONUTF8": "1", "OMP_THREAD_LIMIT": "1"},
                start_new_session=True,
            )
        self._stdin = cast(BinaryIO, self._process.stdin)
        self._stdout = cast(BinaryIO, self._process.stdout)
        _widen(self._stdout)

    def alive(self) -> bool:
        return self._process.poll() is None

    def reusable(self, outcome: Outcome) -> bool:
        served = outcome.kind in ("result", "error", "unloadable") and not outcome.retire
        return served and self._jobs < _JOBS_PER_PROCESS and self.alive()

    def run(self, job: Job, frame: bytes) -> Outcome:
        """Send the job and wait for its outcome; never longer than its time limit."""
        try:
            self._wait_until_ready(job)
            return self._run(job, frame)
        finally:
            job.detach()

    def _wait_until_ready(self, job: Job) -> None:
        if self._ready:
            return
        job.attach(self)
        if self._exchange(None, _STARTUP_S) is None and not job.cancelled:
            raise ParserCrashedError(f"a parser worker cannot start: {self._last_words() or 'no message'}")
        self._ready = True

    def _run(self, job: Job, frame: bytes) -> Outcome:
        if not job.attach(self):
            return Outcome("cancelled")
        self._jobs += 1
        self._ended_by = None
        answer = self._exchange(frame, job.timeout_s)
        if job.cancelled:
            return Outcome("cancelled")
        if answer is None:
            return self._post_mortem()
        reply: Reply = pickle.loads(answer)
        detail = reply.value if isinstance(reply.value, str) else ""
        return Outcome(cast(Any, reply.kind), reply.value, detail, reply.log, reply.retire)

    def _exchange(self, frame: bytes | None, timeout_s: float) -> bytes | None:
        """Returns: the answer, or None when the process ended first."""
        deadline = time.monotonic() + timeout_s
        try:
            if frame is not None:
                write_frame(self._stdin, frame)
            if hasattr(select, "poll"):
                self._wait_for_answer(deadline)
                return read_frame(self._stdout)
            return self._read_watched(deadline)
        except (OSError, ValueError):
            return None

    def _wait_for_answer(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        while not poll.poll(_WATCH_S * 1000):
            if self._killed_over_limit(deadline):
                return

    def _read_watched(self, deadline: float) -> bytes | None:
        """Windows cannot wait for a pipe with a timeout: another thread watches."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_WATCH_S) and not self._killed_over_limit(deadline):
                pass

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            return read_frame(self._stdout)
        finally:
            done.set()
            watcher.join()

    def _killed_over_limit(self, deadline: float) -> bool:
        if time.monotonic() > deadline:
            self._ended_by = "timeout"
        elif self._resident_mb() > self._memory_mb:
            self._ended_by = "memory"
        else:
            return False
        self.kill()
        return True

    def _resident_mb(self) -> int:
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE") // _MIB

    def _post_mortem(self) -> Outcome:
        if self._ended_by is not None:
            return Outcome(self._ended_by)
        code = self._process.wait()
        words = self._last_words()
        if any(sign in words for sign in _OUT_OF_MEMORY):
            return Outcome("memory", detail=words)
        return Outcome("crash", detail=f"{_exit_reason(code)}{': ' + words if words else ''}")

    def _last_words(self) -> str:
        try:
            return (self._folder / "stderr").read_bytes()[-400:].decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def kill(self) -> None:
        """End the process and what it started, now."""
        if self._process.poll() is not None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (AttributeError, OSError):
            self._process.kill()

    def stop(self) -> None:
        """`kill`, and wait until nothing is left: no process, no pipe, no folder."""
        self.kill()
        self._process.wait()
        for stream in (self._stdin, self._stdout):
            try:
                stream.close()
            except OSError:
                pass  # a frame that was never read is still in the buffer
        shutil.rmtree(self._folder, ignore_errors=True)


def _widen(pipe: BinaryIO) -> None:
    """Let a long answer through in one piece instead of 64 KiB at a time, each a switch between the processes."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (ImportError, AttributeError, OSError):
        return  # not Linux, or the user has too many: it only takes longer


def _exit_reason(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
