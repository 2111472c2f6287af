"""PgBouncer in transaction mode in front of the Postgres of the tests."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import URL

from tests.ports import hold_port, port_of

_PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


@contextmanager
def pooling(database: URL) -> Iterator[int]:
    """Run a pooler whose clients share two connections to a Postgres; yield its port."""
    if _PGBOUNCER is None:
        pytest.skip("PgBouncer is not installed")
    with TemporaryDirectory(prefix="sfumato-pooler-") as name, hold_port() as held:
        config, log = Path(name, "pgbouncer.ini"), Path(name, "log")
        # It refuses to run as root.
        is_root = os.geteuid() == 0
        config.write_text(
            f"[databases]\n* = {_describe(database)}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port_of(held)}\n"
            "unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
            f"max_client_conn = 200\n{'user = nobody' if is_root else ''}\n"
        )
        with log.open("w") as output:
            process = subprocess.Popen([_PGBOUNCER, config], stdout=output, stderr=output)
        try:
            _wait(process, port_of(held), log)
            yield port_of(held)
        finally:
            process.terminate()
            process.wait()


def _describe(database: URL) -> str:
    parts = {
        "host": database.host or "127.0.0.1",
        "port": database.port or 5432,
        "user": database.username or getpass.getuser(),
        "password": database.password,
    }
    return " ".join(f"{name}={value}" for name, value in parts.items() if value is not None)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(log.read_text())
