"""The client of coroutines: many calls on one loop, and what is left when one is cancelled."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from sfumato.analyst import AsyncClient
from sfumato.analyst.client.connection import Connection
from sfumato.analyst.client.decodes import AsyncDecode
from sfumato.shared.errors import ConfigError
from tests.analyst.test_client import DONE, ID, RESULT, RUNNING, answer_origin

pytestmark = pytest.mark.anyio


class Events(httpx.AsyncByteStream):
    """A stream of events that waits for its turn, and knows whether it was closed."""

    def __init__(self, events: list[tuple[str, object]], turn: asyncio.Event) -> None:
        self.events = events
        self.turn = turn
        self.is_read = asyncio.Event()
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for name, data in self.events:
            yield f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
            self.is_read.set()
            await self.turn.wait()

    async def aclose(self) -> None:
        self.is_closed = True


def connect(streams: dict[str, Events]) -> AsyncClient:
    """Return a client of a server that sends each decode's events."""

    def handle(request: httpx.Request) -> httpx.Response:
        if (origin := answer_origin(request.url.path)) is not None:
            return origin
        decode_id = request.url.path.split("/")[3]
        headers = {"Content-Type": "text/event-stream"}
        return httpx.Response(200, stream=streams[decode_id], headers=headers)

    client = AsyncClient("http://server", patience_s=0.0)
    client._server = Connection("http://server", transport=httpx.MockTransport(handle))
    return client


async def test_decodes_are_followed_at_once_on_one_loop() -> None:
    turn = asyncio.Event()
    ids = [f"{i:02x}" * 32 for i in range(8)]
    streams = {
        each: Events(
            [
                ("progress", RUNNING),
                ("result", DONE | {"decode_id": each, "result": RESULT | {"snr": float(i)}}),
            ],
            turn,
        )
        for i, each in enumerate(ids)
    }
    async with connect(streams) as client:
        waiting = asyncio.gather(*(AsyncDecode(client, each).wait() for each in ids))
        # All are open before the first may end: followed one after the other they would never be.
        await asyncio.gather(*(stream.is_read.wait() for stream in streams.values()))
        turn.set()
        results = await waiting
    assert [result.decode_id for result in results] == ids
    assert [result.snr for result in results] == [float(i) for i in range(8)]
    assert all(stream.is_closed for stream in streams.values())


async def test_whoever_stops_waiting_closes_the_stream() -> None:
    stream = Events([("progress", RUNNING), ("progress", RUNNING)], asyncio.Event())
    async with connect({ID: stream}) as client:
        waiting = asyncio.ensure_future(AsyncDecode(client, ID).wait())
        await stream.is_read.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert stream.is_closed


async def test_a_closed_client_is_refused_as_ours() -> None:
    client = AsyncClient("http://127.0.0.1:9")
    await client.aclose()
    with pytest.raises(ConfigError, match="client: is closed"):
        await client.study("pumps")
    with pytest.raises(ConfigError, match="client: is closed"):
        [study async for study in client.studies()]
    with pytest.raises(ConfigError, match="client: is closed"):
        await AsyncDecode(client, ID).wait()
