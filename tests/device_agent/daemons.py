"""The daemon as the process that an operator runs."""

import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.forking import Forked

COMMAND = [sys.executable, "-m", "sfumato.device_agent.cli"]

_daemons: list[tuple[subprocess.Popen[str], Path]] = []


@contextmanager
def daemon(
    config: Path, environment: Mapping[str, str] | None = None, *, more: Sequence[Path] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Run the daemon; it is killed at the end if it is still there."""
    path = config.parent / "daemon.log"
    with path.open("a") as log:
        process = Forked(
            [*COMMAND, "run", *(f"--config={one}" for one in (config, *more))],
            stdin=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
        _daemons.append((process, path))
        try:
            yield process
        finally:
            _daemons.remove((process, path))
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
    """Ask the daemon to stop and return its exit status."""
    process.send_signal(number)
    return process.wait()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, or fail when a daemon that nobody has stopped has ended."""
    while not holds():
        for process, log in _daemons:
            ends_now = process.returncode is None and process.poll() is not None
            assert not ends_now or process.returncode < 0, log.read_text()[-4000:]
        time.sleep(0.02)


def accept(listener: socket.socket) -> socket.socket:
    """Wait until a daemon connects, and return the connection."""
    wait_until(lambda: bool(select.select([listener], [], [], 0)[0]))
    return listener.accept()[0]


def query(
    state: Path, statement: str, values: Sequence[object] = (), *, name: str = "agent.sqlite"
) -> list[tuple[Any, ...]]:
    """Run a statement on the daemon's database, or on another one."""
    with closing(sqlite3.connect(state / name, timeout=30)) as connection, connection:
        return connection.execute(statement, values).fetchall()
