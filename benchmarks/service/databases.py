"""Databases for measurements: a SQLite file, and an own database on a Postgres server."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psycopg

from benchmarks.processes import find_parent, list_children, read_cpu_seconds
from sfumato.aggregator.base.engine import create_engine
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.database.schema import migrate_database
from sfumato.aggregator.settings import normalise_database_url

T = TypeVar("T")
_DURABILITY = """
SELECT concat('fsync=', current_setting('fsync'),
              ' synchronous_commit=', current_setting('synchronous_commit'))
"""
POSTGRES = os.environ.get("SFUMATO_TEST_POSTGRES", "postgresql://127.0.0.1:5432/test")


@dataclass(frozen=True, kw_only=True)
class BenchDatabase:
    """A database with the tables of this release.

    Parameters
    ----------
    url
        As `sfumato serve` takes it.
    durability
        The settings that make a commit survive a power cut, as the database itself reports them.
    """

    url: str
    kind: str
    durability: str

    async def use(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Run some work on the database's store."""
        store = Store(create_engine(normalise_database_url(self.url)))
        try:
            return await work(store)
        finally:
            await store.close()

    def run(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Run some work on the database's store, in a loop of its own."""
        return asyncio.run(self.use(work))

    def cpu_seconds(self) -> float:
        """Return the processor time of a Postgres server on this machine; SQLite has none."""
        if self.kind == "sqlite":
            return 0.0
        with psycopg.connect(self.url) as connection:
            postmaster = find_parent(connection.info.backend_pid)
            children = sum(map(read_cpu_seconds, list_children(postmaster)))
        return children + read_cpu_seconds(postmaster, ended=True)

    def size_mb(self) -> float:
        """Return its size on disk, in MB."""
        if self.kind == "sqlite":
            return sum(p.stat().st_size for p in Path(self.url).parent.glob("bench.db*")) / 1e6
        with psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert found is not None
        return int(found[0]) / 1e6


def is_postgres_there() -> bool:
    """Return whether a Postgres server answers."""
    try:
        psycopg.connect(POSTGRES, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def open_database(kind: str, folder: Path) -> Iterator[BenchDatabase]:
    """Open an empty database, and drop it at the end."""
    if kind == "sqlite":
        database = BenchDatabase(
            url=str(folder / "bench.db"), kind=kind, durability="WAL synchronous=FULL"
        )
        database.run(_migrate)
        yield database
        for left in folder.glob("bench.db*"):
            left.unlink()
        return
    name = f"sfumato_bench_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        found = connection.execute(_DURABILITY).fetchone()
        url = POSTGRES.rsplit("/", 1)[0] + f"/{name}"
        database = BenchDatabase(url=url, kind=kind, durability=str(found and found[0]))
        try:
            database.run(_migrate)
            yield database
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def _migrate(store: Store) -> None:
    await migrate_database(store.engine)
