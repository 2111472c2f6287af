"""Servers as processes: one, or one that is started again whenever it ends, as by systemd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx

from deploy.demo.cluster import BIN, Aggregator, find_port
from sfumato.shared import command
from tests.commands import run_inside
from tests.device_agent.daemons import wait_until
from tests.forking import Forked
from tests.ports import hold_port, port_of

_PROGRAM = (
    "import sys; from sfumato.shared.command import main; sys.exit(main(['serve', *sys.argv[1:]]))"
)
_PAUSE_S = 0.1


def start_server(folder: Path, *, port: int | None = None, worker: bool = False) -> Aggregator:
    """Start an aggregator with a new operator's key; most tests decode nothing."""
    database = str(folder / "aggregator.sqlite")
    key = ["operator-key", "--name", "demo", "--database", database, "--json"]
    done = run_inside(command.main, key)
    assert done.returncode == 0, done.stderr
    port, log = port or find_port(), folder / "aggregator.log"
    options = ["--database", database, "--port", str(port), *([] if worker else ["--no-worker"])]
    with log.open("wb") as output:
        process: subprocess.Popen[bytes] = Forked(
            [BIN / "sfumato", "serve", *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    aggregator = Aggregator(
        process=process,
        url=f"http://127.0.0.1:{port}",
        key=json.loads(done.stdout)["key"],
        log=log,
    )
    aggregator.wait_until_ready(worker=worker)
    return aggregator


class KeptServer:
    """`sfumato serve` with its worker, in a loop.

    Parameters
    ----------
    database
        Address of the database.
    log
        Where its standard error is appended.
    """

    def __init__(self, database: str, log: Path) -> None:
        self.n_starts = 0
        self._held = hold_port()  # between two starts, too
        self._port = port_of(self._held)
        self._command = [
            sys.executable, "-c", _PROGRAM, "--database", database, "--port", str(self._port),
        ]  # fmt: skip
        self._log = log
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address, the same after each start."""
        return f"http://127.0.0.1:{self._port}"

    def _keep(self) -> None:
        environment = os.environ | {"SFUMATO_LEASE_S": "2", "SFUMATO_POLL_S": "0.05"}
        with self._log.open("ab") as log:
            while not self._stopping.is_set():
                self._process = Forked(self._command, stdout=log, stderr=log, env=environment)
                self.n_starts += 1
                if self._stopping.is_set():  # since the loop asked: `stop` ended the one before
                    self._process.terminate()
                self._process.wait()
                self._stopping.wait(_PAUSE_S)

    def is_ready(self) -> bool:
        """Tell whether it answers, and its database too."""
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def wait_until_ready(self) -> None:
        """Wait until it serves."""
        wait_until(self.is_ready)

    def workers(self) -> list[int]:
        """Return the process ids of its workers."""
        if self._process is None:
            return []
        pid = self._process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        except OSError:  # it has just ended
            return []
        return [int(child) for child in children.split()]

    def kill(self) -> None:
        """Kill the server; its workers notice by themselves."""
        if self._process is not None:
            self._process.kill()

    def kill_a_worker(self) -> None:
        """Kill one of its workers, if one runs."""
        for pid in self.workers()[:1]:
            os.kill(pid, signal.SIGKILL)

    def stop(self) -> int:
        """End it in order, for good; return its exit status."""
        self._stopping.set()
        assert self._process is not None
        self._process.terminate()
        self._thread.join()
        self._held.close()
        return self._process.returncode
