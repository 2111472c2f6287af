"""What the device agent needs: memory, time to start, processor while reading, bytes for a window.

Run as ``python -m benchmarks.agent [--quick] [--json]``. Everything is measured on the daemon as a
process of its own, which speaks TLS with a real aggregator on this machine. It runs as on a device,
where nothing is installed that only other extras bring: httpx loads click, rich and pygments where
it finds them, for a command line of its own.
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
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from analyst import Client
from benchmarks.agent_installed import measure_packages
from benchmarks.rows import Row, run_benchmark
from shared.plan import SketchPlan, plan_from_spec

NAME = "agent"
ROOT = Path(__file__).parents[1]
_BIN = Path(sys.executable).parent
_DAEMON = (
    "import sys; sys.modules.update(click=None, rich=None, pygments=None);"
    "from device_agent.cli import main; sys.exit(main())"
)
# Without what an environment for development hooks into the interpreter; else as the unit does it.
_INSTALLED = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")]),
    "PYTHONOPTIMIZE": "2",
}
_RATE = 100_000
_TICK_S = 0.05
_CONFIG = """
state_dir = "state"
server = "{url}"
study = "{study}"
[[streams]]
name = "points"
[streams.source]
kind = "csv"
path = "records.csv"
"""


@dataclass(frozen=True, kw_only=True)
class Aggregator:
    """A running aggregator's address, and an operator's key."""

    url: str
    key: str


@dataclass(frozen=True, kw_only=True)
class _Device:
    """An enrolled device in a folder of its own."""

    folder: Path
    d: int

    @property
    def records(self) -> Path:
        return self.folder / "records.csv"

    def append(self, lines: str) -> None:
        with self.records.open("a") as file:
            file.write(lines)

    def query(self, statement: str) -> int:
        connection = sqlite3.connect(self.folder / "state" / "agent.sqlite", timeout=30)
        try:
            return int(connection.execute(statement).fetchone()[0] or 0)
        finally:
            connection.close()

    def wait_until_sent(self, n_records: int) -> None:
        while self.query("SELECT SUM(n_records) FROM outbox WHERE state = 'sent'") < n_records:
            time.sleep(0.02)


@dataclass(frozen=True, kw_only=True)
class _Daemon:
    process: subprocess.Popen[bytes]
    seconds: float
    """From its start to its word that it is ready."""

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise ProcessLookupError(self.process.pid)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(quick: bool) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    yield from measure_installed()
    with tempfile.TemporaryDirectory() as name, running_aggregator(Path(name)) as aggregator:
        yield from measure_size(Path(name), aggregator, runs=3 if quick else 9)
        yield from _measure_tail(Path(name), aggregator, seconds=5 if quick else 30)


def measure_installed() -> Iterator[Row]:
    """Tell what the agent takes on the disk, each package and their sum; Python itself apart."""
    packages = list(measure_packages())
    for name, n_bytes in packages:
        yield _row(f"installed {name}", "mb", n_bytes / 1e6, "MB", 1, "none")
    total = sum(n_bytes for _, n_bytes in packages)
    yield _row("installed", "mb", total / 1e6, "MB", 1, "Telegraf 245")


def measure_size(folder: Path, aggregator: Aggregator, runs: int) -> Iterator[Row]:
    """Measure a small device: its memory, its start, and what it uploads."""
    device = _enrol(folder / "small", aggregator, d=2, m=500, length=1000)
    seconds, idle, used = [], [], []
    # The first run compiles.
    for run in range(runs + 1):
        with _running_daemon(device) as daemon:
            seconds.append(daemon.seconds)
            time.sleep(1.0)
            idle.append(daemon.rss_mb())
            device.append(_make_lines(1000, device.d))
            device.wait_until_sent(1000 * (run + 1))
            used.append(daemon.rss_mb())
    seconds, idle, used = seconds[1:], idle[1:], used[1:]
    yield _row("idle", "rss_mb", max(idle), "MB", runs, "Telegraf 70, Collector 83")
    yield _row("after-first-upload", "rss_mb", max(used), "MB", runs, "at most 55")
    yield _row("start", "seconds", float(np.median(seconds)), "s", runs, "at most 0.4")
    n_bytes = device.query("SELECT MAX(n_bytes) FROM outbox")
    yield _row("window m=500", "bytes", n_bytes, "B", runs, "less than 5000")


def _measure_tail(folder: Path, aggregator: Aggregator, seconds: int) -> Iterator[Row]:
    case, n_records = "tail-csv d=10 m=1000", _RATE * seconds
    device = _enrol(folder / "tail", aggregator, d=10, m=1000, length=n_records)
    lines = _make_lines(int(_RATE * _TICK_S), device.d)
    n_parts = round(seconds / _TICK_S)
    with device.records.open("a") as file:
        file.writelines(lines for _ in range(n_parts))
    with _running_daemon(device) as daemon:
        before = time.perf_counter()
        device.wait_until_sent(n_records)
        took = time.perf_counter() - before
        yield _row(case, "records_per_second", n_records / took, "1/s", 1, "at least 1e5")
        cpu, start = daemon.cpu_seconds(), time.perf_counter()
        for i in range(n_parts):
            device.append(lines)
            time.sleep(max(0.0, start + (i + 1) * _TICK_S - time.perf_counter()))
        device.wait_until_sent(2 * n_records)
        took = time.perf_counter() - start
        share = (daemon.cpu_seconds() - cpu) / took
        yield _row(case, "cpu_fraction", share, "of a core at 1e5 records/s", 1, "less than 0.6")
        yield _row(case, "rss_mb", daemon.rss_mb(), "MB", 1, "at most 55")


def _row(case: str, figure: str, value: float, unit: str, runs: int, baseline: str) -> Row:
    return Row(
        benchmark=NAME,
        case=case,
        figure=figure,
        value=value,
        unit=unit,
        runs=runs,
        baseline=baseline,
    )


def _make_lines(n_records: int, d: int) -> str:
    values = np.random.default_rng(3).normal(size=(n_records, d))
    return "".join(",".join(f"{v:.4f}" for v in record) + "\n" for record in values.tolist())


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


def _enrol(folder: Path, aggregator: Aggregator, *, d: int, m: int, length: int) -> _Device:
    folder.mkdir()
    device = _Device(folder=folder, d=d)
    device.append(",".join(f"x{i}" for i in range(d)) + "\n")
    with Client(aggregator.url, key=aggregator.key) as client:
        study = str(client.create_study(folder.name, _make_plan(d, m, length))["study_id"])
        token = client.create_token(study)
    config = folder / "agent.toml"
    config.write_text(_CONFIG.format(url=aggregator.url, study=study))
    command: list[str | Path] = [
        _BIN / "sfumato-agent",
        "init",
        "--config",
        config,
        "--token",
        token,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return device


@contextmanager
def _running_daemon(device: _Device) -> Iterator[_Daemon]:
    address = str(device.folder / "notify")
    environment = {**os.environ, **_INSTALLED, "NOTIFY_SOCKET": address}
    # Compiled as an installation is, and kept from one run to the next.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(device.folder.parent / "compiled")
    config = str(device.folder / "agent.toml")
    command = [sys.executable, "-S", "-c", _DAEMON, "run", "--config", config]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        before = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            manager.settimeout(60)
            assert manager.recv(100) == b"READY=1"
            yield _Daemon(process=process, seconds=time.perf_counter() - before)
        finally:
            process.terminate()
            process.wait()
            os.unlink(address)


@contextmanager
def running_aggregator(folder: Path) -> Iterator[Aggregator]:
    """Run an aggregator that speaks TLS, under a certificate that this process trusts."""
    certificate, key = _make_certificate(folder)
    before = os.environ.get("SSL_CERT_FILE")
    # For the clients in this process and for those that it starts.
    os.environ["SSL_CERT_FILE"] = str(certificate)
    database = ["--database", str(folder / "aggregator.sqlite")]
    create: list[str | Path] = [
        _BIN / "sfumato",
        "key",
        "create",
        "--scope",
        "operator",
        "--name",
        "bench",
        "--json",
    ]
    created = subprocess.run([*create, *database], check=True, capture_output=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve: list[str | Path] = [_BIN / "sfumato", "serve", *database, "--port", str(port)]
    serve += ["--tls-cert", certificate, "--tls-key", key]
    process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    aggregator = Aggregator(url=f"https://127.0.0.1:{port}", key=json.loads(created.stdout)["key"])
    try:
        with Client(aggregator.url) as client:
            while not client.is_ready():
                time.sleep(0.1)
        yield aggregator
    finally:
        process.terminate()
        process.wait()
        os.environ.pop("SSL_CERT_FILE")
        if before is not None:
            os.environ["SSL_CERT_FILE"] = before


def _make_certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of 127.0.0.1 that signs itself."""
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


if __name__ == "__main__":
    run_benchmark(NAME, "Measure the device agent.", measure)
