"""Devices and aggregators of the agent's benchmarks, in the processes that operators run.

The daemon runs as on a device, with only the agent's extra: httpx imports click, rich and pygments
where it finds them, for its own command line.
"""

from __future__ import annotations

import datetime
import ipaddress
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
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from benchmarks.rows import Row
from deploy.demo.cluster import find_port
from sfumato.analyst import Client
from sfumato.shared.plan import SketchPlan, plan_from_spec

NAME = "agent"
row = partial(Row, NAME)
"""A row of the agent's benchmark."""

ROOT = Path(__file__).parents[1]
_BIN = Path(sys.executable).parent
_DAEMON = (
    "import sys; sys.modules.update(click=None, rich=None, pygments=None);"
    "from sfumato.device_agent.cli import main; sys.exit(main())"
)
# A development environment hooks into the interpreter; leave that out. Otherwise as the unit does.
_INSTALLED = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
    "PYTHONOPTIMIZE": "2",
    "PYTHONNODEBUGRANGES": "1",
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
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.process = subprocess.Popen(
            self.command,
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with Client(self.url) as client:
            while not client.is_ready():
                _require_running(self.process, "the aggregator")
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop it; its stored data stay."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
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

    @property
    def records(self) -> Path:
        """The file that it reads by default."""
        return self.folder / "records.csv"

    def append(self, lines: str) -> None:
        """Append lines to its file of records."""
        with self.records.open("a") as file:
            file.write(lines)

    def run(self, *arguments: str | Path, allowed: tuple[int, ...] = (0,)) -> None:
        """Run one of the agent's commands."""
        command = [_BIN / "sfumato-agent", *arguments, "--config", self.config]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in allowed:
            raise RuntimeError(f"sfumato-agent {arguments[0]}: {done.stderr}")

    def query(self, statement: str) -> int:
        """Query its database for one number."""
        connection = sqlite3.connect(self.folder / "state" / "agent.sqlite", timeout=30)
        try:
            return int(connection.execute(statement).fetchone()[0] or 0)
        finally:
            connection.close()


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """A running daemon."""

    process: subprocess.Popen[bytes]
    seconds: float
    """Time from its start until it reports that it is ready."""
    device: Device = field(repr=False)

    def rss_mb(self) -> float:
        """Return its resident memory, in 10^6 bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise ProcessLookupError(self.process.pid)

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_until_sent(self, n: int, *, what: str = "SUM(n_records)") -> None:
        """Wait until the server has acknowledged a number of records, or of other items."""
        while self.device.query(f"SELECT {what} FROM outbox WHERE state = 'sent'") < n:
            _require_running(self.process, "the agent")
            time.sleep(0.02)


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
def running_daemon(device: Device, *, stdin: Path | None = None) -> Iterator[Daemon]:
    """Run the daemon of a device from readiness on; ``stdin`` is a file to feed it."""
    address = str(device.folder / "notify")
    environment = {**os.environ, **_INSTALLED, "NOTIFY_SOCKET": address}
    # Compiled as an installation is, and kept from one run to the next.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(device.folder.parent / "compiled")
    command = [sys.executable, "-S", "-c", _DAEMON, "run", "--config", str(device.config)]
    with (
        Path(stdin or os.devnull).open("rb") as fed,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
    ):
        manager.bind(address)
        before = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdin=fed, stderr=subprocess.DEVNULL)
        try:
            manager.settimeout(60)
            assert manager.recv(100) == b"READY=1"
            yield Daemon(process=process, seconds=time.perf_counter() - before, device=device)
        finally:
            process.terminate()
            process.wait()
            os.unlink(address)


@contextmanager
def running_aggregator(folder: Path, **environment: str) -> Iterator[Aggregator]:
    """Run an aggregator that speaks TLS, with a certificate that this process trusts."""
    certificate, key = _make_certificate(folder)
    before = os.environ.get("SSL_CERT_FILE")
    # For the clients in this process and in its children.
    os.environ["SSL_CERT_FILE"] = str(certificate)
    database = ["--database", str(folder / "aggregator.sqlite")]
    create: list[str | Path] = [_BIN / "sfumato", "operator-key", "--name", "bench", "--json"]
    created = subprocess.run([*create, *database], check=True, capture_output=True)
    port = find_port()
    serve: list[str | Path] = [_BIN / "sfumato", "serve", *database, "--port", str(port)]
    serve += ["--tls-cert", certificate, "--tls-key", key]
    aggregator = Aggregator(
        url=f"https://127.0.0.1:{port}",
        key=json.loads(created.stdout)["key"],
        command=serve,
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


def _require_running(process: subprocess.Popen[bytes], what: str) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"{what} ended with status {process.returncode}")


def _make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate of 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, SHA256())
    )
    paths = folder / "server.crt", folder / "server.key"
    paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return paths
