"""Sensors that sign messages, and a relay in front of a small server."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sfumato.shared.plan import compute_plan_digest
from sfumato.shared.wire import (
    SKETCH_MEDIA_TYPE,
    SketchHeader,
    device_id_of,
    encode_message,
    sign_request,
)
from tests.device_agent.serving import Server
from tests.forking import Forked
from tests.ports import hold_port, port_of

COMMAND = [sys.executable, "-m", "sfumato.device_agent.cli", "relay"]


@dataclass(frozen=True, kw_only=True)
class Signed:
    """A finished message and the path that it is sent to."""

    path: str
    sketch_id: bytes
    data: bytes


@dataclass(frozen=True)
class Sensor:
    """A device that is enrolled at a small server."""

    server: Server
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def __post_init__(self) -> None:
        self.server.devices[self.device] = (self.public_key, {})

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)

    @property
    def device(self) -> bytes:
        return device_id_of(self.public_key)

    def sign(self, sequence: int, *, study: bytes | None = None) -> Signed:
        """Sign a message of random bytes; twice the same number gives two releases."""
        payload = os.urandom(64)
        header = SketchHeader(
            study=study or self.server.study,
            plan_digest=compute_plan_digest(self.server.plan),
            device=self.device,
            stream="meter",
            sequence=sequence,
            slots=(sequence, sequence),
            n_records=3,
            n_public=True,
            report_id=os.urandom(16),
            payload_length=len(payload),
            payload_digest=hashlib.sha256(payload).digest(),
        )
        path = f"/v1/studies/{header.study.hex()}/sketches/{header.sketch_id.hex()}"
        data = encode_message(header, payload, self.key.sign)
        return Signed(path=path, sketch_id=header.sketch_id, data=data)

    def sign_request(self) -> dict[str, str]:
        """Return the headers of its request what the server has."""
        return sign_request(
            method="GET",
            path="/v1/devices/me",
            body=b"",
            device=self.device,
            created=int(time.time()),
            sign=self.key.sign,
        )

    def write_request(self) -> bytes:
        """Return the same request as HTTP writes it."""
        lines = [f"{name}: {value}" for name, value in self.sign_request().items()]
        return "\r\n".join(["GET /v1/devices/me HTTP/1.1", *lines, "", ""]).encode()


@dataclass(kw_only=True)
class Relay:
    """A relay's configuration, and the address where its devices find it."""

    folder: Path
    url: str
    process: subprocess.Popen[str] | None = None

    @property
    def config(self) -> Path:
        return self.folder / "relay.toml"

    @property
    def log(self) -> str:
        path = self.folder / "relay.log"
        return path.read_text() if path.exists() else ""

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self.folder / "relay.log").open("a") as log:
            self.process = Forked([*COMMAND, f"--config={self.config}"], stderr=log, text=True)
        while not self.listens():
            assert self.process.poll() is None, self.log
            time.sleep(0.02)

    def listens(self) -> bool:
        try:
            return httpx.get(f"{self.url}/").status_code == 404
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """End it as a power cut does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """End it in order, and return its status."""
        assert self.process is not None
        self.process.terminate()
        status = self.process.wait()
        self.process = None
        return status

    def put(self, signed: Signed, *, data: bytes | None = None) -> httpx.Response:
        """Send a message as a device does."""
        headers = {"Content-Type": SKETCH_MEDIA_TYPE}
        return httpx.put(self.url + signed.path, content=data or signed.data, headers=headers)


@contextmanager
def relay_in(
    folder: Path, server: str, *, wait_s: float = 600, more: str = "", **top: Any
) -> Iterator[Relay]:
    """Configure a relay with a spool and an HTTP address; end it at last.

    Parameters
    ----------
    wait_s
        Seconds that an upload waits for the server.
    more
        Further tables.
    top
        Further keys at the top, as TOML writes them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with hold_port() as held:
        listen = f"127.0.0.1:{port_of(held)}"
        lines = [
            'state_dir = "queue"',
            f'server = "{server}"',
            *(f"{key} = {value}" for key, value in top.items()),
            "[spool]",
            'folder = "spool"',
            "poll_s = 0.05",
            "[http]",
            f'listen = "{listen}"',
            f"wait_s = {wait_s}",
            more,
        ]
        relay = Relay(folder=folder, url=f"http://{listen}")
        relay.config.write_text("\n".join(lines))
        try:
            yield relay
        finally:
            relay.kill()
