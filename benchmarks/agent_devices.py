"""Devices and aggregators of the agent's benchmarks, in the processes that operators run.

The daemon runs as on a device, with only the agent's extra: httpx imports click, rich and pygments
where it finds them, for its own command line.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.processes import BIN, ROOT, Process
from deploy.demo.cluster import find_port, run_command
from sfumato.analyst import Client
from sfumato.shared.plan import SketchPlan, plan_from_spec

_DAEMON = (
    "import sys; sys.modules.update(click=None, rich=None, pygments=None);"
    "from sfumato.device_agent.cli import main; sys.exit(main())"
)
# A development environment hooks into the interpreter; leave that out. Otherwise as the unit does.
_INSTALLED = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
    "PYTHONOPTIMIZE": "2",
    "PYTHONNODEBUGRANGES": "1",
    # Compiled as an installation is, and kept from one run to the next.
    "PYTHONDONTWRITEBYTECODE": "",
}
_CONFIG = """
state_dir = "state"
server = "{url}"
study = "{study}"
[budget]
per_record = "1000000000"
ledger = "owner.ledger"
[[streams]]
name = "points"
[streams.source]
{source}
"""
_CSV = 'kind = "csv"\npath = "records.csv"'


@dataclass(kw_only=True)
class Aggregator:
    """An aggregator that can be stopped and started again, and an operator's key."""

    url: str
    key: str
    command: list[str | Path]
    environment: Mapping[str, str]
    process: Process | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = Process(self.command, self.environment)
        with Client(self.url) as client:
            self.process.wait_until(client.is_ready, 0.1)

    def stop(self) -> None:
        """Stop it; its stored data stay."""
        if self.process is not None:
            self.process.end()
            self.process = None


@dataclass(frozen=True, kw_only=True)
class Device:
    """An enrolled device in its own folder."""

    folder: Path
    study: str

    @property
    def config(self) -> Path:
        """Path of its configuration."""
        return self.folder / "agent.toml"

    def append(self, lines: str) -> None:
        """Append lines to its file of records."""
        with (self.folder / "records.csv").open("a") as file:
            file.write(lines)

    def run(self, *arguments: str) -> None:
        """Run one of the agent's commands."""
        run_command("sfumato-agent", *arguments, "--config", str(self.config))

    def query(self, statement: str) -> int:
        """Query its database for one number."""
        connection = sqlite3.connect(self.folder / "state" / "agent.sqlite", timeout=30)
        try:
            return int(connection.execute(statement).fetchone()[0] or 0)
        finally:
            connection.close()

    def has_sent(self, n: int, what: str = "SUM(n_records)") -> Callable[[], bool]:
        """Return whether the server has acknowledged a number of records, or of other items."""
        return lambda: self.query(f"SELECT {what} FROM outbox WHERE state = 'sent'") >= n


def make_lines(n_records: int, d: int) -> str:
    """Return records as lines of CSV."""
    return "".join(",".join(record) + "\n" for record in make_texts(n_records, d))


def make_texts(n_records: int, d: int) -> list[list[str]]:
    """Return the values of some records as texts; shape ``(n_records, d)``."""
    values = np.random.default_rng(3).normal(size=(n_records, d))
    return [[f"{v:.4f}" for v in record] for record in values.tolist()]


def make_header(d: int) -> str:
    """Return the first line of a CSV file."""
    return ",".join(f"x{i}" for i in range(d)) + "\n"


def enrol(
    folder: Path,
    aggregator: Aggregator,
    *,
    d: int,
    m: int,
    length: int,
    source: str = _CSV,
    write: Callable[[Path], None] = lambda folder: None,
) -> Device:
    """Publish a study with windows of ``length`` records, and enrol a device in it.

    ``write`` puts records into the device's folder first, because ``init`` looks at the source.
    """
    folder.mkdir()
    with Client(aggregator.url, key=aggregator.key) as client:
        plan = _make_plan(d, m, length)
        study = client.create_study(folder.name, plan, allow_same_plan=True).study_id
        token = client.create_token(study)
    device = Device(folder=folder, study=study)
    device.append(make_header(d))
    write(folder)
    device.config.write_text(_CONFIG.format(url=aggregator.url, study=study, source=source))
    device.run("init", "--token", token)
    return device


def _make_plan(d: int, m: int, length: int) -> SketchPlan:
    dimensions = [
        {"name": f"x{i}", "unit": "1", "lower": -6.0, "upper": 6.0, "scale": 0.5} for i in range(d)
    ]
    return plan_from_spec(
        {
            "dimensions": dimensions,
            "n_frequencies": m,
            "seed": "benchmark of the agent",
            "epsilon": "1",
            "window": {"kind": "count", "length": length},
            "most_records": length,
        }
    )


@contextmanager
def running_daemon(device: Device, *, stdin: str | None = None) -> Iterator[tuple[Process, float]]:
    """Run the daemon of a device from readiness on; yield it, and the seconds until then.

    ``stdin`` names a file of the device to feed it.
    """
    address, cache = device.folder / "notify", str(device.folder.parent / "compiled")
    environment = {**_INSTALLED, "NOTIFY_SOCKET": str(address), "PYTHONPYCACHEPREFIX": cache}
    command = [sys.executable, "-S", "-c", _DAEMON, "run", "--config", str(device.config)]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        before = time.perf_counter()
        process = Process(command, environment, device.folder / stdin if stdin else None)
        try:
            assert manager.recv(100) == b"READY=1"
            yield process, time.perf_counter() - before
        finally:
            process.end()
            address.unlink()


@contextmanager
def running_aggregator(folder: Path, **environment: str) -> Iterator[Aggregator]:
    """Run an aggregator that speaks TLS, with a certificate that this process trusts."""
    authority, maker = str(folder / "authority.pem"), ROOT / "deploy/cluster/make_certificate.py"
    names = ["localhost", "--authority", authority, "--folder", str(folder)]
    subprocess.run([sys.executable, str(maker), *names], check=True)
    before = os.environ.get("SSL_CERT_FILE")
    # For the clients in this process and in its children.
    os.environ["SSL_CERT_FILE"] = authority
    database = ["--database", str(folder / "aggregator.sqlite")]
    created = run_command("sfumato", "operator-key", "--name", "bench", "--json", *database)
    port = find_port()
    options = ["--port", str(port), "--no-worker"]
    serve: list[str | Path] = [BIN / "sfumato", "serve", *database, *options]
    aggregator = Aggregator(
        url=f"https://localhost:{port}",
        key=json.loads(created)["key"],
        command=[*serve, "--tls-cert", folder / "server.pem", "--tls-key", folder / "server.key"],
        environment=environment,
    )
    try:
        aggregator.start()
        yield aggregator
    finally:
        aggregator.stop()
        os.environ.pop("SSL_CERT_FILE")
        if before is not None:
            os.environ["SSL_CERT_FILE"] = before
