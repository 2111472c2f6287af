"""Server processes, and their use of memory and processor.

The baseline is a bare endpoint: the same web stack, and only the check of the signature.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request, Response

from benchmarks.service.fleet import BenchDevice
from deploy.demo.cluster import find_port
from sfumato.shared.wire import decode_message

_BIN = Path(sys.executable).parent
_BARE = "from benchmarks.service.processes import serve_bare; serve_bare()"


@dataclass(frozen=True, kw_only=True)
class ServerProcess:
    """A process that listens on a port of this machine."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def list_pids(self) -> list[int]:
        """Return its process id and those of its workers."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def rss_mb(self) -> float:
        """Return the resident memory of server and workers, in MB."""
        return sum(_read_rss(pid) for pid in self.list_pids()) / 1e6

    def cpu_seconds(self) -> float:
        """Return the processor time of the server itself, without its workers."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def _read_rss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def start_server(database: str, *, port: int | None = None, workers: int = 0) -> ServerProcess:
    """Start `sfumato serve` and wait until it accepts connections."""
    port = port or find_port()
    command = [str(_BIN / "sfumato"), "serve", "--database", database, "--port", str(port)]
    command += ["--workers", str(workers)]
    return _start(command, port)


def _start(command: list[str], port: int) -> ServerProcess:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    server = ServerProcess(process=process, port=port)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server
        except ConnectionRefusedError:
            if process.poll() is not None:
                raise RuntimeError(f"{command} ended with {process.returncode}") from None
            time.sleep(0.01)


def stop_server(server: ServerProcess) -> None:
    """Stop it as an operator would."""
    if server.process.poll() is None:
        server.process.terminate()
    server.process.wait()


@contextmanager
def running_servers(
    database: str, *, replicas: int = 1, workers: int = 0
) -> Iterator[list[ServerProcess]]:
    """Run some servers on one database."""
    with ExitStack() as stack:
        servers = []
        for _ in range(replicas):
            servers.append(start_server(database, workers=workers))
            stack.callback(stop_server, servers[-1])
        yield servers


@contextmanager
def running_bare(n_devices: int, *, replicas: int = 1) -> Iterator[list[ServerProcess]]:
    """Run some servers of the bare endpoint."""
    with ExitStack() as stack:
        servers = []
        for _ in range(replicas):
            port = find_port()
            servers.append(_start([sys.executable, "-c", _BARE, str(port), str(n_devices)], port))
            stack.callback(stop_server, servers[-1])
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
