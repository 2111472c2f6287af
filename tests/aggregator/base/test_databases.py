"""A Postgres database that serves several tests is a new one to each."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.database.tables import METADATA
from tests.aggregator.databases import find_address, open_postgres
from tests.aggregator.fleet import Device
from tests.aggregator.serving import open_server

pytestmark = pytest.mark.anyio
_NUMBER = "SELECT oid FROM pg_database WHERE datname = current_database()"
_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
_DISABLED = "SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'"


async def read(store: Store, *statements: str) -> list[Any]:
    async with store.engine.connect() as connection:
        return [(await connection.execute(text(each))).scalar() for each in statements]


async def read_rows(store: Store) -> list[Any]:
    async with store.engine.connect() as connection:
        return [(await connection.execute(each.select())).all() for each in METADATA.sorted_tables]


async def test_what_a_test_has_stored_is_gone_and_its_processes_are_cut_off() -> None:
    async with open_postgres() as store:
        new, number = await read_rows(store), await read(store, _NUMBER)
        async with open_server(store) as server:
            await server.desk.open(Device(1))
        assert await read_rows(store) != new
        other = open_store(find_address(store))
        connected = await other.engine.connect()
        await connected.execute(text(_NUMBER))
    with pytest.raises(OperationalError):
        await connected.execute(text(_NUMBER))
    await connected.close()
    async with open_postgres() as store:
        assert await read(store, _NUMBER) == number
        assert await read_rows(store) == new
    with pytest.raises(OperationalError, match="does not exist"):
        await read(other, _NUMBER)
    await other.close()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE audit_entries DISABLE TRIGGER ALL",
        "DROP TABLE devices CASCADE",
        "CREATE TABLE another (number INTEGER)",
        "ALTER TABLE devices ADD COLUMN another TEXT",
    ],
)
async def test_a_database_with_other_tables_serves_no_other_test(change: str) -> None:
    async with open_postgres() as store:
        new = await read(store, _NUMBER, _TABLES, _DISABLED)
        async with store.engine.begin() as connection:
            await connection.execute(text(change))
    async with open_postgres() as store:
        number, *same = await read(store, _NUMBER, _TABLES, _DISABLED)
        assert number != new[0]
        assert same == new[1:]
