"""A proxy between agent and server that does what networks do, one request at a time."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

FAULTS = (
    "reset before the request",
    "reset in the request",
    "reset before the response",
    "reset in the response",
    "end in the response",
    "half-open",
    "latency",
    "slow response",
    "429",
    "503",
    "duplicate",
)
_BUSY = "HTTP/1.1 {} Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class FaultyProxy:
    """Passes requests on to a server; ``choose`` names the fault that each meets, None for none."""

    def __init__(self, port: int, choose: Callable[[str], str | None]) -> None:
        self._upstream = port
        self._choose = choose
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._ready = threading.Event()
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0
        self.met: list[str] = []

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        finally:
            await _close(writer)
            self._serving.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            fault = self._choose(head.split(b"\r\n", 1)[0].decode())
            if fault is not None:
                self.met.append(fault)
            if fault == "reset before the request":
                _reset(writer)
                return
            if fault == "half-open":
                await reader.read()  # until the agent gives up
            elif fault in ("429", "503"):
                await reader.readexactly(_length(head))
                writer.write(_BUSY.format(fault).encode())
                await writer.drain()
            else:
                await self._pass(head, await reader.readexactly(_length(head)), writer, fault)

    async def _pass(
        self, head: bytes, body: bytes, writer: asyncio.StreamWriter, fault: str | None
    ) -> None:
        request = head[:-2] + b"Connection: close\r\n\r\n" + body
        if fault == "reset in the request":
            await self._ask(request[: len(request) - len(body) // 2 - 1], breaks_off=True)
            _reset(writer)
            return
        if fault == "latency":
            await asyncio.sleep(0.3)
        if fault == "duplicate":
            await self._ask(request)
        answer = await self._ask(request)
        if fault == "reset before the response":
            _reset(writer)
            return
        if fault in ("reset in the response", "end in the response"):
            writer.write(answer[: len(answer) - 20])
            await writer.drain()
            if fault == "reset in the response":
                _reset(writer)
            return
        step = 7 if fault == "slow response" else len(answer)
        for start in range(0, len(answer), step):
            writer.write(answer[start : start + step])
            await writer.drain()
            if fault == "slow response":
                await asyncio.sleep(0.005)

    async def _ask(self, request: bytes, *, breaks_off: bool = False) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        try:
            writer.write(request)
            await writer.drain()
            if breaks_off:
                await asyncio.sleep(0.05)
                _reset(writer)
                return b""
            return await reader.read()
        finally:
            await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection before its loop ends; one that was reset is closed already."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _reset(writer: asyncio.StreamWriter) -> None:
    found = writer.get_extra_info("socket")
    # Without lingering, closing sends a reset.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
