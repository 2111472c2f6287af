"""A small deployment of real processes: one aggregator, and one agent per airport."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from sfumato.shared.errors import SketchError
from sfumato.shared.http_client import open_client

BIN = Path(sys.executable).parent
SEND_FOR_S = 60
COLUMNS = {
    "temperature": "temp",
    "dew point": "dewp",
    "wind speed": "wind_speed",
    "visibility": "visib",
}
"""Column of the stations' files for each dimension of the demo's plan."""


class DemoError(SketchError):
    """A process of the demo failed; the message holds its output."""


def run_command(*arguments: str) -> str:
    """Run a command of the project and return its output."""
    program = str(BIN / arguments[0])
    done = subprocess.run([program, *arguments[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(f"`{' '.join(arguments[:2])}` failed: {done.stderr.strip()}")
    return done.stdout


@dataclass(kw_only=True)
class Aggregator:
    """A running aggregator process with an operator's key."""

    process: subprocess.Popen[bytes]
    url: str
    key: str
    log: Path

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        key: str | None = None,
        worker: bool = True,
    ) -> Aggregator:
        """Start an aggregator on the loopback address, on SQLite in ``folder``.

        Parameters
        ----------
        port
            Any free one by default.
        settings
            Environment variables besides those of this process.
        key
            An operator's key of its database; by default one is made.
        worker
            Whether it also decodes.
        """
        database = str(folder / "aggregator.sqlite")
        if key is None:
            created = run_command(
                "sfumato", "operator-key", "--name", "demo", "--database", database, "--json",
            )  # fmt: skip
            key = str(json.loads(created)["key"])
        port, log = port or find_port(), folder / "aggregator.log"
        options = ["--database", database, "--port", str(port)]
        if not worker:
            options.append("--no-worker")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [BIN / "sfumato", "serve", *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(settings or {})},
            )
        aggregator = cls(
            process=process,
            url=f"http://127.0.0.1:{port}",
            key=key,
            log=log,
        )
        aggregator.wait_until_ready(worker=worker)
        return aggregator

    def wait_until_ready(self, *, worker: bool) -> None:
        """Wait until the server and its database answer, and its worker too if it has one."""
        with open_client(self.url) as client:
            # As long as it takes: on a busy machine that is more than a minute.
            while self.process.poll() is None:
                with contextlib.suppress(httpx.TransportError):
                    answer = client.get("/readyz")
                    if answer.is_success and answer.json()["n_workers"] >= int(worker):
                        return
                time.sleep(0.1)
        raise DemoError(f"the aggregator did not start: {self.log.read_text()[-2000:]}")

    def stop(self) -> None:
        """End the server and its workers."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
            self.process.wait()


def enrol_device(
    folder: Path,
    *,
    airport: str,
    data: Path,
    aggregator: Aggregator,
    study_id: str,
    token: str,
    columns: Mapping[str, str] = COLUMNS,
    per_record: int = 1,
) -> Path:
    """Write an agent's configuration, enrol it, and return the configuration's path.

    Parameters
    ----------
    columns
        Column of the file for each dimension of the plan.
    per_record
        Epsilon that the owner lets a record lose over all studies of the folder.
    """
    home = folder / airport.lower()
    home.mkdir(exist_ok=True)
    config = home / f"study-{study_id[:12]}.toml"
    config.write_text(
        _CONFIG.format(
            state_dir=home / "state",
            ledger=folder / "owner.ledger",
            server=aggregator.url,
            study=study_id,
            airport=airport,
            path=data,
            columns="\n".join(f'"{name}" = "{column}"' for name, column in columns.items()),
            per_record=per_record,
        )
    )
    run_command("sfumato-agent", "init", "--config", str(config), "--token", token)
    return config


def start_agent(config: Path) -> subprocess.Popen[str]:
    """Start ``sfumato-agent once``, which reads, releases and sends."""
    return subprocess.Popen(
        [
            BIN / "sfumato-agent",
            "once",
            "--value-counts",
            "--config",
            config,
            "--json",
            "--send-for",
            str(SEND_FOR_S),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish_agent(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for an agent and return its report."""
    output, complaints = process.communicate()
    if process.returncode:
        raise DemoError(f"sfumato-agent ended with {process.returncode}: {complaints.strip()}")
    report: dict[str, Any] = json.loads(output)
    return report


def run_agents(configs: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Run agents at the same time and return their reports, by the names of the configurations."""
    running = {name: start_agent(config) for name, config in configs.items()}
    return {name: finish_agent(process) for name, process in running.items()}


def find_port() -> int:
    """Find a free port of the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


_CONFIG = """\
state_dir = "{state_dir}"
server = "{server}"
study = "{study}"

[labels]
airport = "{airport}"

[budget]
per_record = "{per_record}"
ledger = "{ledger}"

[[streams]]
name = "weather"

[streams.source]
kind = "csv"
path = "{path}"
timestamp = "time_hour"
timestamp_format = "iso8601"

[streams.columns]
{columns}
"""
