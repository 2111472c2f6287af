import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, event, inspect, text

from sfumato.aggregator.base.generation import get_generation
from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.database import migrations
from sfumato.aggregator.database.migration import create_config
from sfumato.aggregator.database.schema import (
    LATEST_REVISION,
    find_revision,
    migrate_database,
    prepare_database,
    require_ready,
)
from sfumato.aggregator.database.tables import METADATA
from sfumato.aggregator.resources.keys.record import KeyRecord
from sfumato.shared.errors import ConfigError, TransportError, UnpreparedError
from tests.aggregator.databases import open_postgres

pytestmark = pytest.mark.anyio


async def list_tables(store: Store) -> set[str]:
    async with store.engine.connect() as connection:
        return set(await connection.run_sync(lambda sync: inspect(sync).get_table_names()))


async def test_migrations_make_exactly_the_tables_of_the_records(store: Store) -> None:
    def compare(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, METADATA))

    async with store.engine.connect() as connection:
        assert await connection.run_sync(compare) == []


def test_every_table_of_a_resource_is_in_the_schema_and_none_loads_scipy() -> None:
    # In a process of its own: in this one the tests import every store.
    script = """
import sys
from importlib import import_module
from pkgutil import walk_packages

import sfumato.aggregator
from sfumato.aggregator.database.tables import METADATA

known = set(METADATA.tables)
for module in walk_packages(sfumato.aggregator.__path__, "sfumato.aggregator."):
    if ".resources." in module.name or ".base." in module.name:
        import_module(module.name)
assert known == set(METADATA.tables), set(METADATA.tables) - known
assert "scipy" not in sys.modules  # a worker would start a quarter of a second later
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_latest_version_is_that_of_the_last_migration() -> None:
    scripts = ScriptDirectory.from_config(create_config())
    assert scripts.get_current_head() == LATEST_REVISION


def test_a_new_migration_is_written_after_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "migrations"
    shutil.copytree(Path(migrations.__path__[0]), folder)
    monkeypatch.setattr("sfumato.aggregator.database.migration._MIGRATIONS", folder)
    scripts = ScriptDirectory.from_config(create_config())
    made = scripts.generate_revision("0002", "add a column", head="head")
    assert isinstance(made, Script)
    assert made.down_revision == LATEST_REVISION


async def test_migrations_go_down_to_nothing_and_up_again(store: Store) -> None:
    up = await list_tables(store)
    assert await migrate_database(store.engine, "base") is None
    assert await list_tables(store) == {"alembic_version"}
    assert await migrate_database(store.engine) == LATEST_REVISION
    assert await list_tables(store) == up
    await require_ready(store)


async def test_a_migration_that_is_done_already_changes_nothing(store: Store) -> None:
    async with store.begin() as transaction:
        before = await get_generation(transaction)
    assert await migrate_database(store.engine) == LATEST_REVISION
    async with store.begin() as transaction:
        assert await get_generation(transaction) == before


async def test_a_database_without_tables_is_not_ready(empty_store: Store) -> None:
    with pytest.raises(UnpreparedError, match="sfumato migrate"):
        await require_ready(empty_store)


async def test_a_postgres_database_of_no_encoding_serves() -> None:
    options = "TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
    async with open_postgres(is_empty=True, options=options) as store:
        assert await migrate_database(store.engine) == LATEST_REVISION
        await require_ready(store)


async def test_a_database_with_other_tables_is_no_unprepared_one(empty_store: Store) -> None:
    async with empty_store.engine.begin() as connection:
        await connection.execute(text("CREATE TABLE something_else (number INTEGER)"))
    with pytest.raises(ConfigError, match="sfumato migrate") as caught:
        await prepare_database(empty_store)
    assert not isinstance(caught.value, UnpreparedError)


async def test_an_empty_file_is_migrated_at_the_start_and_a_server_is_not(
    empty_store: Store,
) -> None:
    if empty_store.engine.dialect.name == "sqlite":
        await prepare_database(empty_store)
        await require_ready(empty_store)
        return
    with pytest.raises(UnpreparedError, match="sfumato migrate"):
        await prepare_database(empty_store)
    assert await list_tables(empty_store) == set()


async def test_a_schema_of_another_version_is_refused(store: Store) -> None:
    async with store.engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigError, match="9999"):
        await prepare_database(store)
    with pytest.raises(ConfigError, match="does not know"):
        await migrate_database(store.engine)
    async with store.engine.connect() as connection:
        assert await connection.run_sync(find_revision) == "9999"


async def test_a_sqlite_file_is_durable_and_keeps_references(tmp_path: Path) -> None:
    path = tmp_path / "durable.db"
    path.touch()
    store = open_store(f"sqlite+aiosqlite:///{path}")
    async with store.engine.connect() as connection:
        found = [
            (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    await store.close()
    assert found == ["wal", 2, 1]


async def test_what_is_dropped_stays_in_no_backup_whatever_sqlite_was_built_for(
    tmp_path: Path,
) -> None:
    """A backup copies free pages; builds of SQLite differ in whether those are overwritten."""
    path, backup, payload = tmp_path / "erased.db", tmp_path / "backup.db", b"masked sum" * 1000
    path.touch()
    store = open_store(f"sqlite+aiosqlite:///{path}")

    def be_another_build(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA secure_delete=OFF")
        cursor.close()

    event.listen(store.engine.sync_engine, "connect", be_another_build, insert=True)
    async with store.engine.begin() as connection:
        await connection.execute(text("CREATE TABLE kept (payload BLOB)"))
        await connection.execute(text("INSERT INTO kept VALUES (:it)"), {"it": payload})
    async with store.engine.begin() as connection:
        await connection.execute(text("UPDATE kept SET payload = NULL"))
    with closing(sqlite3.connect(path)) as whole, closing(sqlite3.connect(backup)) as copy:
        whole.backup(copy)
    await store.close()

    assert payload[:100] not in backup.read_bytes()


async def test_a_database_that_is_away_is_said_to_be() -> None:
    store = open_store("postgresql+psycopg://127.0.0.1:1/none")
    with pytest.raises(TransportError):
        await require_ready(store)
    with pytest.raises(TransportError):
        async with store.begin() as transaction:
            await transaction.list_all(KeyRecord)
    await store.close()


async def test_a_file_needs_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a folder"):
        open_store(f"sqlite+aiosqlite:///{tmp_path}/none/none.db")


async def test_a_file_that_cannot_be_made_is_named_with_the_fix() -> None:
    # Nobody, root neither, makes a file there.
    store = open_store("sqlite+aiosqlite:////proc/sfumato.db")
    with pytest.raises(ConfigError, match=r"database: /proc/sfumato\.db cannot be made \("):
        await migrate_database(store.engine)
    await store.close()


@pytest.mark.parametrize("url", ["nonsense://x", "sqlite+nonsense:///x", "://"])
async def test_an_address_of_no_known_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        open_store(url)
