"""From an address to a store that is ready to be used."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from aggregator.ports import Store
from aggregator.settings import MEMORY
from aggregator.storage.memory import MemoryStore
from aggregator.storage.schema import is_empty, migrate_database
from aggregator.storage.sql import SqlStore
from aggregator.storage.sql.engine import create_engine, mapped_errors
from shared.errors import ConfigError


def open_store(database_url: str) -> Store:
    """Open a store without touching the database.

    Raises
    ------
    ConfigError
        The address is not one that this release understands.
    """
    if database_url == MEMORY:
        return MemoryStore()
    try:
        return SqlStore(create_engine(database_url))
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise ConfigError(
            "is not an address of a database that this release knows",
            field="database",
            fix="give the path of a SQLite file, or postgresql://user@host/name",
        ) from error


async def prepare_database(store: Store) -> None:
    """Create the tables of an empty SQLite database; check the schema version of any other.

    A shared database is migrated only when its operator says so, for other servers may run on it.

    Raises
    ------
    UnpreparedError
        It is shared, and has no tables yet.
    ConfigError
        The schema is of another version.
    TransportError
        The database does not answer.
    """
    if isinstance(store, SqlStore) and store.engine.dialect.name == "sqlite":
        with mapped_errors():
            if await is_empty(store.engine):
                await migrate_database(store.engine)
    await store.require_ready()
