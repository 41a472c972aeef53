"""Connections to one file: many that read, one that writes when it is its turn."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from ...errors import StoreDamagedError, StoreError
from . import schema
from .errors import read_only, translated
from .files import Files
from .filesystem import network_type
from .gate import Gate
from .schema import State

logger = logging.getLogger("agent_rag.stores.sqlite")

_CHECKPOINT_BYTES = 8 * 1_048_576
"""A WAL above this is copied into the file. (8 MB: longest commit 17 ms; 32 MB: 45 ms; 1 MB: 4 % slower writes.)"""
_LOW_BYTES = 64 * 1_048_576
"""With less room on the disk each commit is copied at once: the file could not take up a large WAL on a full one."""
_CACHE_KIB = 16_384
_SETTLE_WAIT_MS = 500
"""How long emptying the WAL waits for readers of an older state."""


class Database:
    """Opened at once; `reading` and `writing` are for threads, any number of them."""

    def __init__(self, path: Path, *, synced: bool, wait_s: float) -> None:
        """
        Raises: StoreDamagedError: the file, or a WAL with acknowledged commits, is missing or cut. StoreError: it is no
            store, or of a newer format. StoreReadOnlyError: there is none, and none can be made.
        """
        self.files = Files(path)
        self._synced, self._wait_s = synced, wait_s
        self._process = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._turn = threading.Lock()
        self._gate: Gate | None = None
        self._writer: sqlite3.Connection | None = None
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._query = "mode=rw"
        self.read_only: str | None = None
        """Why nothing can be written; None where it can."""
        self._network = network_type(path)
        with translated(path):
            self._open()
        self._inode = self.files.inode(path)

    # --- use ---

    @property
    def is_local(self) -> bool:
        """Whether readers never wait for a writer."""
        return self._network is None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection within a transaction, which shows one state from its first statement on."""
        with self.connected() as connection:
            connection.execute("begin")
            yield connection

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses meanwhile, in no transaction."""
        self.check_process()
        with translated(self.files.path):
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
                self._idle.append(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection within a transaction that is committed and synced at the end, or rolled back after an error.

        Raises: StoreLockedError: others wrote for longer than `wait_s`. StoreFullError, StoreReadOnlyError.
        """
        with self._turned() as connection:
            self._go_live(connection)
            connection.execute("begin immediate")
            try:
                yield connection
                state = State.load(connection)
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
            self._acknowledge(connection, state)

    @contextmanager
    def exclusively(self) -> Iterator[sqlite3.Connection]:
        """The writing connection at its turn, in no transaction: for maintenance."""
        with self._turned() as connection:
            self._go_live(connection)
            yield connection

    def settle(self) -> bool:
        """Copy the whole WAL into the file and empty it. False while a reader holds an older state."""
        with self._turned() as connection:
            return self._settle(connection)

    def close(self) -> None:
        """Leave the file so that it is whole without its WAL, where nobody else needs it."""
        if self._writer is not None or (self.read_only is None and self._was_left_unmarked()):
            with suppress(StoreError, sqlite3.Error):
                self.settle()
        for connection in (*self._idle, self._writer, self._gate):
            if connection is not None:
                connection.close()
        self._idle.clear()
        self._writer = self._gate = None
        if self._copy is not None:
            self._copy.cleanup()

    # --- opening ---

    def _open(self) -> None:
        path = self.files.path
        if not path.exists():
            self._check_remains()
            self._create()
        try:
            made = self._try_open()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
            self._open_read_only(str(error))
            made = self._try_open()
        if not made:
            self._check_remains()
            self._create()
        self.read_only = self._why_read_only()
        self._check_complete()

    def _try_open(self) -> bool:
        """Whether the file is a store; an empty one is none yet."""
        connection = self._connect()
        try:
            made = schema.is_made(connection, str(self.files.path))
            if made and self._network and connection.execute("pragma journal_mode").fetchone()[0] == "wal":
                raise StoreError(
                    f"{self.files.path} is on a network file system ({self._network}) where several machines would "
                    "corrupt it; move it to a local disk, or use a server store"
                )
            return made
        finally:
            self._idle.append(connection)

    def _create(self) -> None:
        if not os.access(self.files.path.parent, os.W_OK):
            raise read_only(self.files.path, f"folder {self.files.path.parent} does not exist or is read-only")
        if self._network:
            logger.warning(
                "%s is on a network file system (%s): without a WAL readers and writers wait for each other",
                self.files.path,
                self._network,
            )
        gate = Gate(self.files)
        try:
            gate.enter(self._wait_s)
            connection = sqlite3.connect(self.files.path, isolation_level=None, timeout=self._wait_s)
            try:
                if not schema.is_made(connection, str(self.files.path)):
                    schema.create(connection, wal=not self._network)
            finally:
                connection.close()
            gate.leave()
        finally:
            gate.close()

    def _check_remains(self) -> None:
        """Raises: StoreDamagedError: there was a store here."""
        mark = self.files.read_sequence()
        if mark is not None and mark[0]:
            raise StoreDamagedError(
                f"{self.files.path} is missing or empty, but {self.files.beside('-seq').name} says that it had "
                f"{mark[0]:,} changes; restore it, or remove the files {self.files.path.name}-* to start anew"
            )

    def _open_read_only(self, why: str) -> None:
        """A folder without write permission: SQLite can make no file that readers share, so it reads the file as one
        that nobody changes; with a WAL beside it, which it would ignore then, a copy."""
        path = self.files.path
        if self._why_read_only() is None:
            raise StoreError(f"{path} cannot be opened ({why}); check that it is a file that you may read")
        if self.files.wal_bytes() == 0:
            self._query = "immutable=1"
            return
        self._copy = tempfile.TemporaryDirectory(prefix="agent-rag-")
        # Closing these handles drops locks of this process on the file, but none that could not write it has any.
        for name in (path, self.files.wal):
            shutil.copy(name, self._copy.name)

    def _why_read_only(self) -> str | None:
        if not os.access(self.files.path.parent, os.W_OK):
            return f"folder {self.files.path.parent} is read-only"
        return None if os.access(self.files.path, os.W_OK) else "the file is read-only"

    def _check_complete(self) -> None:
        """Raises: StoreDamagedError: acknowledged commits are gone."""
        mark = self.files.read_sequence()  # first, since others may be writing
        with self.reading() as connection:
            state = State.load(connection)
        sequence = mark[0] if mark is not None and mark[1] == state.id else None
        if sequence is not None and sequence > state.seq:
            raise StoreDamagedError(
                f"{self.files.path} has {state.seq:,} changes, {sequence:,} were acknowledged: its WAL "
                f"({self.files.wal.name}) is missing, cut or damaged. Restore a backup; or remove "
                f"{self.files.beside('-seq').name} to go on with what is left"
            )
        if sequence is None and state.live and self._synced and not self.files.wal_bytes():
            raise StoreDamagedError(
                f"{self.files.path} was copied or left while it was written, and its WAL ({self.files.wal.name}) is "
                "missing: changes may be gone. Copy all its files, or use 'agent-rag backup'"
            )

    def _connect(self) -> sqlite3.Connection:
        path = self.files.path if self._copy is None else Path(self._copy.name) / self.files.path.name
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{self._query}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=self._wait_s,
        )
        connection.execute("pragma trusted_schema = off")
        connection.execute(f"pragma cache_size = -{_CACHE_KIB}")
        return connection

    # --- writing ---

    @contextmanager
    def _turned(self) -> Iterator[sqlite3.Connection]:
        self.check_process()
        if self.read_only is not None:
            raise read_only(self.files.path, self.read_only)
        with self._turn, translated(self.files.path):
            connection = self._writer or self._make_writer()
            gate = self._gate
            assert gate is not None
            gate.enter(self._wait_s)
            try:
                self._check_identity()
                yield connection
            finally:
                gate.leave()

    def _make_writer(self) -> sqlite3.Connection:
        self._gate = self._gate or Gate(self.files)
        connection = self._connect()
        # fullfsync: on macOS a plain fsync does not reach the disk. secure_delete: "fast" leaves deleted text.
        for setting in (
            f"synchronous = {'full' if self._synced else 'normal'}",
            "fullfsync = on",
            "checkpoint_fullfsync = on",
            "secure_delete = on",
            "wal_autocheckpoint = 0",
        ):
            connection.execute(f"pragma {setting}")
        self._writer = connection
        return connection

    def _go_live(self, connection: sqlite3.Connection) -> None:
        """Say in the file itself that its WAL counts from now on."""
        state = State.load(connection)
        if state.live or self._network:
            return
        # A backup has no WAL yet, nor has a file that comes from a network share.
        connection.execute("pragma journal_mode = wal")
        connection.execute("begin immediate")
        state.live = 1
        state.save(connection)
        connection.execute("commit")
        connection.execute("pragma wal_checkpoint(passive)")

    def _acknowledge(self, connection: sqlite3.Connection, state: State) -> None:
        if not self._network and not self.files.wal.exists():
            raise StoreDamagedError(
                f"{self.files.wal} was removed while {self.files.path} was written: the last change may be lost. Did "
                "this process open and close the file itself? Closing such a handle drops SQLite's locks"
            )
        with suppress(OSError):  # too low a number is harmless
            if self._synced:
                self.files.write_sequence(state.seq, state.id)
            else:
                self.files.beside("-seq").unlink()
        self.files.keep_spare()
        if self.files.wal_bytes() > (0 if self.files.free_bytes() < _LOW_BYTES else _CHECKPOINT_BYTES):
            with suppress(sqlite3.OperationalError):  # on a full disk; what was committed stays in the WAL
                connection.execute("pragma wal_checkpoint(passive)")

    def _settle(self, connection: sqlite3.Connection) -> bool:
        connection.execute(f"pragma busy_timeout = {_SETTLE_WAIT_MS}")
        state = State.load(connection)
        busy = connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
        if state.live and not busy:
            connection.execute("begin immediate")
            state.live = 0
            state.save(connection)
            connection.execute("commit")
            busy = connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
        connection.execute(f"pragma busy_timeout = {int(self._wait_s * 1000)}")
        return not busy

    def _was_left_unmarked(self) -> bool:
        """Whether a process that does not sync ended without closing: then nothing but `live` speaks of the WAL, which
        SQLite removes when the last connection is closed."""
        if self.files.read_sequence() is not None:
            return False
        with suppress(StoreError, sqlite3.Error), self.reading() as connection:
            return bool(State.load(connection).live)
        return False

    def check_process(self) -> None:
        """Raises: StoreError: this is a forked child of the process that opened the file."""
        if os.getpid() != self._process:
            raise StoreError("this store was opened before its process was forked; open one in the child instead")

    def _check_identity(self) -> None:
        if self.files.inode(self.files.path) != self._inode:
            raise StoreDamagedError(
                f"{self.files.path} was removed or replaced while it was open; close the store and open it again"
            )
