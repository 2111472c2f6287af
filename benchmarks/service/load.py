"""The load client, in its own process.

It writes HTTP/1.1 to sockets directly: a client library would use more of this machine than the
server does.
"""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import uvloop

_LONGEST_PAUSE_S = 2.0
_COMMAND = "from benchmarks.service.load import main; main()"


@dataclass(frozen=True, kw_only=True)
class Job:
    """The requests to send.

    Parameters
    ----------
    ports
        Ports of servers on this machine; connections are assigned to them in turn.
    requests
        Heads of requests, each with the number of the payload that ends it.
    payloads
        Ends of requests.
    connections
        Number of connections.
    rate
        Requests a second, each sent when it is due whatever the state of earlier ones, and timed
        from that moment; None sends the next request on a connection after the last answer.
    seconds
        Time after which to stop; None to stop after the last request.
    insist
        Retry after 429 and 503, when Retry-After has passed, as devices do.
    """

    ports: Sequence[int]
    requests: Sequence[tuple[bytes, int]]
    payloads: Sequence[bytes]
    connections: int
    rate: float | None = None
    seconds: float | None = None
    insist: bool = False


@dataclass
class Outcome:
    """The result of a job.

    Parameters
    ----------
    answered
        For each answer: seconds since the start, status, seconds it took, number of the request.
    cpu_seconds, wall_seconds
        Time that the client used.
    n_refused
        Answers that led to a retry.
    """

    answered: list[tuple[float, int, float, int]] = field(default_factory=list)
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    n_refused: int = 0


class Connection(asyncio.Protocol):
    """One connection with at most one request on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._waiting: asyncio.Future[tuple[int, float]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the pending request."""
        self._transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Complete the request when its whole answer is there."""
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found or self._waiting is None:
            return
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        if len(body) < int(fields.get(b"content-length", b"0")):
            return
        self._buffer = b""
        if fields.get(b"connection") == b"close" and self._transport is not None:
            self._transport.close()
            self._transport = None
        if not self._waiting.done():
            self._waiting.set_result((int(head[9:12]), float(fields.get(b"retry-after", b"0"))))

    async def send(self, port: int, head: bytes, payload: bytes) -> tuple[int, float]:
        """Send a request, and return the status and the seconds of Retry-After."""
        loop = asyncio.get_running_loop()
        if self._transport is None:
            await loop.create_connection(lambda: self, "127.0.0.1", port)
        self._waiting = loop.create_future()
        assert self._transport is not None
        self._transport.write(head + payload)
        return await self._waiting


async def run_job(job: Job) -> Outcome:
    """Send the requests of a job."""
    outcome = Outcome()
    cpu, start = time.process_time(), time.perf_counter()
    due: asyncio.Queue[tuple[float, int]] = asyncio.Queue()
    numbers = iter(range(len(job.requests)))
    is_over = asyncio.Event()

    async def take() -> tuple[float, int] | None:
        if job.seconds is not None and time.perf_counter() - start >= job.seconds:
            return None
        if job.rate is None:
            number = next(numbers, None)
            return None if number is None else (time.perf_counter(), number)
        if is_over.is_set() and due.empty():
            return None
        try:
            return await asyncio.wait_for(due.get(), 0.2)
        except TimeoutError:
            return 0.0, -1

    async def work(index: int) -> None:
        connection, port = Connection(), job.ports[index % len(job.ports)]
        while (taken := await take()) is not None:
            scheduled, number = taken
            if number < 0:
                continue
            head, payload = job.requests[number]
            status = await _send(job, outcome, connection, port, head, job.payloads[payload])
            now = time.perf_counter()
            outcome.answered.append((now - start, status, now - scheduled, number))

    async def schedule(rate: float) -> None:
        for number in numbers:
            moment = start + number / rate
            await asyncio.sleep(max(0.0, moment - time.perf_counter()))
            if job.seconds is not None and time.perf_counter() - start >= job.seconds:
                break
            due.put_nowait((moment, number))
        is_over.set()

    tasks = [asyncio.create_task(work(index)) for index in range(job.connections)]
    if job.rate is not None:
        tasks.append(asyncio.create_task(schedule(job.rate)))
    await asyncio.gather(*tasks)
    outcome.cpu_seconds = time.process_time() - cpu
    outcome.wall_seconds = time.perf_counter() - start
    return outcome


async def _send(
    job: Job, outcome: Outcome, connection: Connection, port: int, head: bytes, payload: bytes
) -> int:
    pause = 0.05
    while True:
        retry_after = 0.0
        try:
            status, retry_after = await connection.send(port, head, payload)
            if not job.insist or status not in (429, 503):
                return status
        except OSError:
            if not job.insist:
                raise
        outcome.n_refused += 1
        await asyncio.sleep(max(retry_after, pause))
        pause = min(2.0 * pause, _LONGEST_PAUSE_S)


def run_client(job: Job, folder: Path) -> Outcome:
    """Run a job in its own process, and wait for it."""
    written, result = folder / "job.pickle", folder / "outcome.pickle"
    written.write_bytes(pickle.dumps(job))
    command = [sys.executable, "-c", _COMMAND, str(written), str(result)]
    subprocess.run(command, check=True)
    outcome: Outcome = pickle.loads(result.read_bytes())
    written.unlink()
    return outcome


def main() -> None:
    """Read a job from the first file, run it, and write its outcome to the second."""
    outcome = uvloop.run(run_job(pickle.loads(Path(sys.argv[1]).read_bytes())))
    Path(sys.argv[2]).write_bytes(pickle.dumps(outcome))
