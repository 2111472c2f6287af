"""Servers of the benchmark, and their baseline: the same web stack that only checks signatures."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request, Response

from benchmarks.processes import BIN, Process
from benchmarks.service.fleet import BenchDevice
from deploy.demo.cluster import find_port
from sfumato.shared.wire import decode_message

_BARE = "from benchmarks.service.servers import serve_bare; serve_bare()"


class Server(Process):
    """A process that listens on a port of this machine, from its construction on."""

    def __init__(self, command: Sequence[str | Path], port: int) -> None:
        super().__init__(command)
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.wait_until(self._is_open, 0.01)

    def _is_open(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except ConnectionRefusedError:
            return False
        return True


def start_server(database: str, *, workers: int = 0) -> Server:
    """Start `sfumato serve` and wait until it accepts connections."""
    port = find_port()
    options = ["--database", database, "--port", str(port), "--workers", str(workers)]
    return Server([BIN / "sfumato", "serve", *options], port)


def start_bare(n_devices: int) -> Server:
    """Start the bare endpoint."""
    port = find_port()
    return Server([sys.executable, "-c", _BARE, str(port), str(n_devices)], port)


@contextmanager
def running_servers(
    database: str, *, replicas: int = 1, workers: int = 0
) -> Iterator[list[Server]]:
    """Run some servers on one database."""
    with ExitStack() as stack:
        servers = []
        for _ in range(replicas):
            servers.append(start_server(database, workers=workers))
            stack.callback(servers[-1].end)
        yield servers


def create_bare(n_devices: int) -> FastAPI:
    """Return an application that verifies uploads and forgets them."""
    app = FastAPI()
    devices = [BenchDevice(number) for number in range(n_devices)]
    keys = {device.device_id: device.public_key for device in devices}

    @app.put("/v1/studies/{study}/sketches/{sketch}")
    async def verify(study: str, sketch: str, request: Request) -> Response:
        message = decode_message(await request.body())
        message.verify(keys[message.header.device])
        return Response(status_code=201)

    return app


def serve_bare() -> None:
    """Serve the bare endpoint; the arguments are a port and the number of devices."""
    app = create_bare(int(sys.argv[2]))
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, ws="none")
