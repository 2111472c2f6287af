"""Databases that a test can back up and put back: what an operator does after a fire."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

from sqlalchemy import delete, event, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from sfumato.aggregator.base.engine import create_engine
from sfumato.aggregator.base.generation import SERVER
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.database.tables import METADATA
from sfumato.aggregator.settings import normalise_database_url
from tests.aggregator.databases import address_of, copy_sqlite, create_postgres, drop_postgres

Fate = Literal["none", "before commit", "after commit"]
"""When the process that serves a request is killed."""


class Killed(BaseException):
    """The process is gone: no handler of the server may answer for it."""


class KillableStore(Store):
    """A store whose process can be killed around its next commit."""

    def __init__(self, engine: AsyncEngine) -> None:
        super().__init__(engine)
        self.fate: Fate = "none"
        self.is_dead = False

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        """Open a transaction."""
        if self.is_dead:
            raise Killed
        fate: Fate = "none"
        if write:
            fate, self.fate = self.fate, "none"
        async with super().begin(write=write) as transaction:
            yield transaction
            if fate == "before commit":
                self._die()
        if fate == "after commit":
            self._die()

    def _die(self) -> None:
        # What else the process was doing comes to nothing too.
        self.is_dead = True
        raise Killed


class World(Protocol):
    """One database, which is opened empty, and the processes that connect to it."""

    async def open(self) -> None: ...

    def connect(self) -> KillableStore: ...

    async def back_up(self) -> Any: ...

    async def restore(self, backup: Any) -> None: ...

    async def close(self) -> None: ...


class SqliteWorld:
    """A SQLite file in a folder of its own; a process makes a kind of store of it."""

    def __init__(self, make_store: Callable[[AsyncEngine], KillableStore] = KillableStore) -> None:
        self._make_store = make_store

    async def open(self) -> None:
        """Make the file."""
        self._folder = Path(tempfile.mkdtemp(prefix="sfumato-machine-"))
        self._path = self._folder / "aggregator.db"
        await copy_sqlite(self._path)
        self._n_backups = 0

    def connect(self) -> KillableStore:
        """Return a store over the file."""
        engine = create_engine(normalise_database_url(str(self._path)))

        @event.listens_for(engine.sync_engine, "connect")
        def write_without_waiting(connection: Any, _record: Any) -> None:
            # No machine loses power here, and most of the time would go to waiting for the disk.
            connection.execute("PRAGMA synchronous=OFF")

        return self._make_store(engine)

    async def back_up(self) -> Any:
        """Copy the file while it is in use, as SQLite's own backup does."""
        self._n_backups += 1
        path = self._folder / f"backup{self._n_backups}.db"
        source, target = sqlite3.connect(self._path), sqlite3.connect(path)
        source.backup(target)
        source.close()
        target.close()
        return path

    async def restore(self, backup: Any) -> None:
        """Put the copy in the file's place."""
        for path in self._folder.glob("aggregator.db*"):
            path.unlink()
        shutil.copy(backup, self._path)

    async def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder)


class PostgresWorld:
    """A database of its own in the Postgres of the tests."""

    async def open(self) -> None:
        """Make the database."""
        self._name = await create_postgres()

    def connect(self) -> KillableStore:
        """Return a store over the database."""
        return KillableStore(create_engine(address_of(self._name)))

    async def back_up(self) -> Any:
        """Read every table at one moment, as `pg_dump` does."""
        async with self._connect(isolation_level="REPEATABLE READ") as connection:
            return [
                (table, [dict(row._mapping) for row in await connection.execute(select(table))])
                for table in METADATA.sorted_tables
            ]

    async def restore(self, backup: Any) -> None:
        """Make the database anew, and fill its tables."""
        drop_postgres(self._name)
        await create_postgres(self._name)
        async with self._connect() as connection:
            await connection.execute(delete(SERVER))
            for table, rows in backup:
                if rows:
                    await connection.execute(insert(table), rows)

    @asynccontextmanager
    async def _connect(self, **options: Any) -> AsyncIterator[AsyncConnection]:
        engine = create_engine(address_of(self._name))
        async with engine.execution_options(**options).begin() as connection:
            yield connection
        await engine.dispose()

    async def close(self) -> None:
        """Drop the database."""
        drop_postgres(self._name)
