import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from sfumato.aggregator.base.engine import create_engine
from sfumato.aggregator.base.store import Store
from sfumato.shared.errors import TransportError

pytestmark = pytest.mark.anyio

COUNTED = (
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :n)"
    " SELECT i FROM n"
)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    path = tmp_path / "data.sqlite"
    path.touch()
    engine = create_engine(f"sqlite+aiosqlite:///{path}")
    yield engine
    await engine.dispose()


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 600, 1024])
async def test_every_row_comes_once_and_in_order_however_it_is_fetched(
    engine: AsyncEngine, n: int
) -> None:
    async with engine.connect() as connection:
        given = {"n": n}
        whole = await connection.execute(text(COUNTED + " WHERE i < :n"), given)
        assert whole.scalars().all() == list(range(n))
        async with connection.stream(text(COUNTED + " WHERE i < :n"), given) as result:
            first = await result.fetchone()
            parts = [[row.i for row in rows] async for rows in result.partitions(100)]
        assert [first.i] if first else list(range(min(n, 1))) == []
        assert [i for part in parts for i in part] == list(range(1, n))
        assert all(len(part) <= 100 for part in parts)


async def test_a_stream_holds_no_more_rows_than_come_at_once(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[int | None] = []

    class Watched(sqlite3.Cursor):
        def fetchmany(self, size: int | None = None) -> list[object]:
            fetched.append(size)
            return super().fetchmany(size or 1)

        def fetchall(self) -> list[object]:
            raise AssertionError("all at once")

    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = None) -> Any:
            return super().cursor(factory or Watched)

    monkeypatch.setattr(
        "sfumato.aggregator.base.sqlite.sqlite3.connect",
        lambda *given, **options: connect(*given, **options, factory=Connection),
    )
    async with (
        engine.connect() as connection,
        connection.stream(text(COUNTED), {"n": 2000}) as result,
    ):
        fetched.clear()
        n_rows = 0
        async for rows in result.partitions(64):
            n_rows += len(rows)
    assert n_rows == 2000
    assert set(fetched) == {256}


async def test_a_statement_that_fails_leaves_the_connection_in_use(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE t (i INTEGER PRIMARY KEY)"))
        await connection.execute(text("INSERT INTO t VALUES (1)"))
        with pytest.raises(IntegrityError):
            await connection.execute(text("INSERT INTO t VALUES (1)"))
        added = await connection.execute(text("INSERT INTO t VALUES (:i) RETURNING i"), {"i": 2})
        assert added.scalars().all() == [2]
        assert (await connection.execute(text("SELECT count(*) FROM t"))).scalar_one() == 2


async def test_who_leaves_while_a_statement_runs_is_only_cancelled(engine: AsyncEngine) -> None:
    async def count() -> None:
        async with engine.connect() as connection:
            await connection.execute(text(f"SELECT sum(i) FROM ({COUNTED})"), {"n": 2_000_000})

    for _ in range(3):
        task = asyncio.create_task(count())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1


async def test_what_was_not_committed_is_gone_and_the_rest_is_on_the_disk(
    engine: AsyncEngine, tmp_path: Path
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE t (i INTEGER)"))
        await connection.execute(text("INSERT INTO t VALUES (1)"))
    async with engine.connect() as connection:
        await connection.execute(text("INSERT INTO t VALUES (2)"))
        await connection.rollback()
    with sqlite3.connect(tmp_path / "data.sqlite") as other:
        assert other.execute("SELECT i FROM t").fetchall() == [(1,)]
    other.close()


async def test_rows_are_those_that_the_driver_by_itself_returns(
    engine: AsyncEngine, tmp_path: Path
) -> None:
    plain = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'data.sqlite'}")
    statement = text("SELECT 1 AS a, 'x' AS b, NULL AS c, X'00ff' AS d, 1.5 AS e")
    try:
        async with engine.connect() as ours, plain.connect() as theirs:
            mine, its = await ours.execute(statement), await theirs.execute(statement)
            assert tuple(mine.keys()) == tuple(its.keys())
            assert mine.all() == its.all()
    finally:
        await plain.dispose()


async def test_no_block_begins_on_a_file_that_was_replaced_while_it_was_opened(
    engine: AsyncEngine,
) -> None:
    path = Path(engine.url.database or "")

    @event.listens_for(engine.sync_engine, "connect", insert=True, once=True)
    def replace(*_: object) -> None:
        path.rename(path.with_name("removed.sqlite"))
        path.touch()

    store = Store(engine)
    with pytest.raises(TransportError, match="does not answer"):
        async with store.begin(write=True):
            pass
    async with store.begin(write=True) as transaction:
        await transaction.connection.execute(text("CREATE TABLE kept (i)"))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("kept",)]
    connection.close()
