"""Databases that a test can back up and put back: what an operator does after a fire."""

from __future__ import annotations

import copy
import shutil
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import delete, insert, select

from aggregator.ports import Store, Transaction
from aggregator.settings import normalise_database_url
from aggregator.storage import MemoryStore, SqlStore, migrate_database
from aggregator.storage.models import Base, Server
from aggregator.storage.sql.engine import create_engine
from tests.aggregator.databases import POSTGRES, create_tables, open_postgres

Fate = Literal["none", "before commit", "after commit"]
"""When the process that serves a request is killed."""


class Killed(BaseException):
    """The process is gone: no handler of the server may answer for it."""


class KillableStore:
    """A store whose process can be killed around its next commit."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.fate: Fate = "none"
        self.is_dead = False

    @property
    def has_one_writer(self) -> bool:
        """Ask the store."""
        return self._inner.has_one_writer

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        """Open a transaction; see the port."""
        if self.is_dead:
            raise Killed
        fate: Fate = "none"
        if write:
            fate, self.fate = self.fate, "none"
        async with self._inner.begin(write=write) as transaction:
            yield transaction
            if fate == "before commit":
                self._die()
        if fate == "after commit":
            self._die()

    def _die(self) -> None:
        # What else the process was doing comes to nothing too.
        self.is_dead = True
        raise Killed

    async def require_ready(self) -> None:
        """Ask the store."""
        await self._inner.require_ready()

    async def close(self) -> None:
        """Close the store."""
        await self._inner.close()


class World(ABC):
    """One database."""

    @abstractmethod
    async def open(self) -> None:
        """Make it, empty and with its tables."""

    @abstractmethod
    def connect(self) -> Store:
        """Return a store over it, as a process that starts has one."""

    @abstractmethod
    async def back_up(self) -> Any:
        """Return a copy of all that it holds now."""

    @abstractmethod
    async def restore(self, backup: Any) -> None:
        """Put a copy in its place; every store over it is closed."""

    @abstractmethod
    async def close(self) -> None:
        """Remove it."""


class MemoryWorld(World):
    """Tables in memory, shared by all stores over them."""

    def __init__(self, make: Callable[[], MemoryStore] = MemoryStore) -> None:
        self._store = make()

    async def open(self) -> None:
        """There is nothing to make."""

    def connect(self) -> Store:
        """Return the one store."""
        return self._store

    async def back_up(self) -> Any:
        """Copy the tables."""
        return copy.deepcopy(self._store._tables)

    async def restore(self, backup: Any) -> None:
        """Put tables in place; the copy stays as it is."""
        self._store._tables = copy.deepcopy(backup)

    async def close(self) -> None:
        """There is nothing to remove."""


class SqliteWorld(World):
    """A SQLite file in a folder of its own."""

    async def open(self) -> None:
        """Make the file."""
        self._folder = Path(tempfile.mkdtemp(prefix="sfumato-machine-"))
        self._path = self._folder / "aggregator.db"
        store = self.connect()
        assert isinstance(store, SqlStore)
        await create_tables(store)
        await store.close()
        self._n_backups = 0

    def connect(self) -> Store:
        """Return a store with connections of its own."""
        return SqlStore(create_engine(normalise_database_url(str(self._path))))

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


class PostgresWorld(World):
    """A schema of its own in the Postgres of the tests."""

    async def open(self) -> None:
        """Make the schema."""
        self._stack = AsyncExitStack()
        self._own = await self._stack.enter_async_context(open_postgres())
        await create_tables(self._own)
        async with self._own.engine.connect() as connection:
            found = await connection.exec_driver_sql("SELECT current_schema()")
            self._schema: str = found.scalar_one()

    def connect(self) -> Store:
        """Return a store with connections of its own."""
        return SqlStore(create_engine(POSTGRES, schema=self._schema))

    async def back_up(self) -> Any:
        """Read every table at one moment, as `pg_dump` does."""
        engine = self._own.engine.execution_options(isolation_level="REPEATABLE READ")
        async with engine.begin() as connection:
            return [
                (table, [dict(row._mapping) for row in await connection.execute(select(table))])
                for table in Base.metadata.sorted_tables
            ]

    async def restore(self, backup: Any) -> None:
        """Make the tables anew, and fill them."""
        await migrate_database(self._own.engine, "base")
        await migrate_database(self._own.engine)
        async with self._own.engine.begin() as connection:
            await connection.execute(delete(Server))
            for table, rows in backup:
                if rows:
                    await connection.execute(insert(table), rows)

    async def close(self) -> None:
        """Drop the schema."""
        await self._stack.aclose()
