"""What the containers of the cluster run, run here without containers."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.demo.cluster import BIN
from tests.forking import put_programs
from tests.ports import hold_port, port_of

DEPLOY = Path(__file__).parents[2] / "deploy"
CLUSTER = DEPLOY / "cluster"
FOLDERS = ("operator", "tokens", "authority", "certificate")


def make_certificate(shared: Path) -> None:
    subprocess.run(
        [
            sys.executable, CLUSTER / "make_certificate.py", "proxy", "localhost",
            "--authority", shared / "authority/ca.pem", "--folder", shared / "certificate",
        ],
        check=True,
    )  # fmt: skip


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    return folder


@contextmanager
def running(
    command: list[str | Path], log: Path, *, env: dict[str, str], **options: Any
) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=env, stdout=output, stderr=subprocess.STDOUT, **options
        )
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


def test_the_certificate_is_made_once_and_its_key_is_private(shared: Path) -> None:
    make_certificate(shared)
    files = [shared / "authority/ca.pem", *sorted((shared / "certificate").iterdir())]
    before = [file.read_bytes() for file in files]
    make_certificate(shared)
    assert [file.name for file in files] == ["ca.pem", "server.key", "server.pem"]
    assert [file.read_bytes() for file in files] == before
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o644, 0o600, 0o644]


def test_operator_and_station_bring_the_first_sketches_in_over_https(
    shared: Path, tmp_path: Path
) -> None:
    make_certificate(shared)
    # A copy: an agent locks what it reads, and the demo's agents read the same files elsewhere.
    data = shutil.copytree(DEPLOY / "demo/data", tmp_path / "data")
    held = hold_port()
    url = f"https://localhost:{port_of(held)}"
    (programs := tmp_path / "programs").mkdir()
    options = put_programs(programs)
    options["env"] = {
        **{name: value for name, value in options["env"].items() if name[:8] != "SFUMATO_"},
        "PYTHON": sys.executable,
        "SHARED": str(shared),
        "PLAN": str(DEPLOY / "demo/plan.toml"),
        "DATA": str(data),
        "STATIONS": "EWR JFK",
        "STATION": "JFK",
        "CONFIG": str(tmp_path / "agent.toml"),
        "SFUMATO_LEDGER": str(tmp_path / "owner.ledger"),
        "SSL_CERT_FILE": str(shared / "authority/ca.pem"),
        "SFUMATO_DATABASE_URL": str(tmp_path / "server.sqlite"),
        "SFUMATO_URL": url,
        "SFUMATO_AGENT_SERVER": url,
    }
    server: list[str | Path] = [
        BIN / "sfumato", "serve", "--port", str(port_of(held)), "--no-worker",
        "--tls-cert", shared / "certificate/server.pem",
        "--tls-key", shared / "certificate/server.key",
    ]  # fmt: skip
    with (
        held,
        running(server, tmp_path / "server.log", **options),
        running([CLUSTER / "station.sh"], tmp_path / "station.log", **options),
    ):
        for _ in range(2):  # a container that is started again changes nothing
            subprocess.run([CLUSTER / "operator.sh"], check=True, **options)
            made = {file.name: file.read_text() for file in (shared / "tokens").iterdir()}
        assert sorted(made) == ["EWR", "JFK", "study"]
        trust = ssl.create_default_context(cafile=str(shared / "authority/ca.pem"))
        with httpx.Client(
            base_url=url,
            verify=trust,
            headers={"Authorization": f"Bearer {(shared / 'operator/key').read_text().strip()}"},
        ) as client:
            sketches: list[object] = []
            while len(sketches) < 4:
                time.sleep(0.2)
                answer = client.get(f"/v1/studies/{made['study'].strip()}/sketches")
                sketches = answer.raise_for_status().json()["items"]
        shown = subprocess.run(
            [CLUSTER / "analyst.sh", "study", "list"],
            check=True, capture_output=True, text=True, **options,
        )  # fmt: skip
    assert "weather of a year" in shown.stdout


def test_helper_and_leader_know_each_other_over_https(shared: Path, tmp_path: Path) -> None:
    (shared / "helper").mkdir()
    own = tmp_path / "own"
    (own / "certificate").mkdir(parents=True)
    held = hold_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SFUMATO_")},
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "SHARED": str(shared),
        "HOME_OF_HELPER": str(own),
        "JOURNAL": str(tmp_path / "helper.journal"),
        "HOST": "127.0.0.1",
        "PORT": str(port_of(held)),
        "SFUMATO_HELPER_URL": f"https://localhost:{port_of(held)}",
    }
    asking = (
        "import os, ssl, httpx, time\n"
        "trust = ssl.create_default_context(cafile=os.environ['SFUMATO_HELPER_CA'])\n"
        "key = {'Authorization': 'Bearer ' + os.environ['SFUMATO_HELPER_API_KEY']}\n"
        "with httpx.Client(verify=trust, headers=key) as http:\n"
        "    while True:\n"
        "        try:\n"
        "            answer = http.get(os.environ['SFUMATO_HELPER_URL'] + '/metrics')\n"
        "            break\n"
        "        except httpx.TransportError:\n"
        "            time.sleep(0.1)\n"
        "print(answer.status_code)\n"
    )
    with held, running([CLUSTER / "helper.sh"], tmp_path / "helper.log", env=environment):
        asked = subprocess.run(
            [CLUSTER / "leader.sh", sys.executable, "-c", asking],
            env=environment, check=True, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert asked.stdout.strip() == "200"
    assert "fingerprint" in (tmp_path / "helper.log").read_text()
    assert stat.S_IMODE((shared / "helper/key").stat().st_mode) == 0o600
