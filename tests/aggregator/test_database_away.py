"""A database that is away, at the start and later: a real Postgres behind a proxy of this test."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from sfumato.aggregator.app import create_app
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.database.schema import migrate_database
from sfumato.aggregator.settings import Settings
from tests.aggregator.databases import POSTGRES, find_address, open_postgres
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan

MONITOR = {"Authorization": f"Bearer {'k' * 16}"}
pytestmark = pytest.mark.anyio


class Proxy:
    """Passes bytes on to a server while it is open; closing it breaks every connection."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._streams: set[asyncio.StreamWriter] = set()
        self.is_flowing = asyncio.Event()
        self.is_flowing.set()
        self.port = 0

    async def open(self) -> None:
        """Listen, at the same port each time."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections and break those that there are."""
        if self._server is not None:
            self._server.close()
            for stream in self._streams:
                stream.transport.abort()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        both = {writer, there_writer}
        self._streams |= both
        with contextlib.suppress(OSError):
            await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))
        for stream in both:
            stream.transport.abort()
        self._streams -= both

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await self.is_flowing.wait()
            writer.write(data)
            await writer.drain()
        writer.transport.abort()


@pytest.fixture
async def bare() -> AsyncIterator[tuple[Store, str]]:
    """Give a Postgres without tables, with its address."""
    async with open_postgres(is_empty=True) as store:
        yield store, find_address(store)


@pytest.fixture
async def proxied() -> AsyncIterator[tuple[Proxy, str]]:
    """Give a Postgres with all tables, by way of a proxy that is closed."""
    async with open_postgres() as store:
        proxy = Proxy(POSTGRES.host or "127.0.0.1", POSTGRES.port or 5432)
        await proxy.open()
        await proxy.close()
        yield proxy, find_address(store, host="127.0.0.1", port=proxy.port)
        await proxy.close()


@contextlib.asynccontextmanager
async def serving(url: str) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    """Run a server over a database that may not be there."""
    app = create_app(Settings(database_url=url, n_workers=0, metrics_key="k" * 16))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://aggregator") as http,
    ):
        yield app, http


async def wait_until(http: httpx.AsyncClient, status: int) -> httpx.Response:
    """Ask whether the server is ready until it answers so."""
    while True:
        answer = await http.get("/readyz")
        if answer.status_code == status:
            return answer
        await asyncio.sleep(0.05)


async def require_unavailable(http: httpx.AsyncClient, study: str) -> None:
    """Check that every kind of request is told to come again."""
    calls: list[Callable[[], object]] = [
        lambda: http.get("/readyz"),
        lambda: http.get(f"/v1/studies/{study}/plan"),
        lambda: http.get(
            "/v1/studies", headers={"Authorization": f"Bearer sfk_{'ab' * 8}_{43 * 'x'}"}
        ),
        lambda: http.put(
            f"/v1/studies/{study}/sketches/{'cd' * 32}",
            content=b"x",
            headers={"Content-Type": "application/vnd.sfumato.sketch+cbor"},
        ),
    ]
    for call in calls:
        answer = await call()  # type: ignore[misc]
        assert_problem(answer, "unavailable", 503)
        assert int(answer.headers["retry-after"]) > 0
    assert (await http.get("/healthz")).status_code == 200
    assert "sfumato_database_up 0.0" in (await http.get("/metrics", headers=MONITOR)).text


async def test_a_database_that_is_down_at_the_start_and_later_is_waited_for(
    proxied: tuple[Proxy, str],
) -> None:
    proxy, url = proxied
    async with serving(url) as (app, http):
        await require_unavailable(http, "ab" * 32)
        await proxy.open()
        await wait_until(http, 200)
        key, _ = await app.state.services.keys.create(name="op", scope="operator")
        desk, plan = Desk(http, key, key), make_plan()
        study = await desk.open(Device(1), plan=plan, name=uuid.uuid4().hex)
        sketch, body = Device(1).message(study, plan)

        await proxy.close()
        await require_unavailable(http, study.hex())
        assert_problem(await desk.put(study, sketch, body), "unavailable", 503)

        await proxy.open()
        # No restart and no patience is needed: the very next request finds the database.
        assert (await desk.put(study, sketch, body)).status_code == 201
        assert (await desk.put(study, sketch, body)).status_code == 200
        assert (await http.get("/readyz")).status_code == 200
        assert "sfumato_database_up 1.0" in (await http.get("/metrics", headers=MONITOR)).text


async def test_monitors_are_answered_while_the_database_hangs(proxied: tuple[Proxy, str]) -> None:
    """As under SIGSTOP: connections stay open, and nothing comes."""
    proxy, url = proxied
    await proxy.open()
    async with serving(url) as (app, http):
        app.state.services.readiness.patience_s = 0.3
        await wait_until(http, 200)
        proxy.is_flowing.clear()
        async with asyncio.timeout(10):
            for answer in await asyncio.gather(*(http.get("/readyz") for _ in range(30))):
                assert_problem(answer, "unavailable", 503)
                assert "does not answer within 0.3 s" in answer.text
            assert "sfumato_database_up 0.0" in (await http.get("/metrics", headers=MONITOR)).text
        proxy.is_flowing.set()
        await wait_until(http, 200)
        assert "sfumato_database_up 1.0" in (await http.get("/metrics", headers=MONITOR)).text


async def test_a_folder_that_appears_later_is_used(tmp_path: Path) -> None:
    """The same for SQLite: a file system that is mounted late."""
    database = tmp_path / "late.db"
    database.mkdir()
    async with serving(str(database)) as (_, http):
        assert_problem(await http.get("/readyz"), "unavailable", 503)
        assert_problem(await http.get(f"/v1/studies/{'ab' * 32}/plan"), "unavailable", 503)
        database.rmdir()
        await wait_until(http, 200)
        answer = await http.get(f"/v1/studies/{'ab' * 32}/plan")
        assert_problem(answer, "not-found", 404, "study")


async def test_a_shared_database_without_tables_is_waited_for_until_it_is_migrated(
    bare: tuple[Store, str],
) -> None:
    store, url = bare
    async with serving(url) as (_, http):
        answer = await http.get("/readyz")
        assert_problem(answer, "unavailable", 503, "database")
        assert "sfumato migrate" in answer.json()["detail"]
        await migrate_database(store.engine)
        await wait_until(http, 200)
