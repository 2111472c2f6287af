"""The database engine: durable SQLite settings, and driver errors mapped to ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, TimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sfumato.aggregator.base.sqlite import connector_of, identify_file
from sfumato.shared.errors import ConfigError, TransportError

_BUSY_TIMEOUT_MS = 15_000
# A database server that vanishes is noticed within seconds, not after two hours.
_KEEPALIVE = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_CONNECTIONS = 15
"""The most connections of a process to its database."""
_FILE = "sfumato_file"
_PRAGMAS = (
    # First: switching to WAL then waits for another process that does the same.
    f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}",
    "PRAGMA journal_mode=WAL",
    # An upload answered with 201 survives a power cut; NORMAL may roll it back.
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    # Or a backup, which copies free pages too, would hold masked sums that were dropped.
    "PRAGMA secure_delete=ON",
)


def create_engine(database_url: str) -> AsyncEngine:
    """Create the engine of a SQLite or Postgres database; nothing is opened yet.

    Errors are logged, so they never show the values of a statement.

    Parameters
    ----------
    database_url
        With its driver, as :func:`sfumato.aggregator.settings.normalise_database_url` gives it.

    Raises
    ------
    ConfigError
        The folder of a SQLite file does not exist.
    """
    if database_url.startswith("sqlite"):
        _require_folder(database_url)
        engine = create_async_engine(
            database_url,
            async_creator=connector_of(database_url),
            hide_parameters=True,
            # Kept: to open one, with its thread and its settings, costs more than most requests.
            pool_size=_CONNECTIONS,
            max_overflow=0,
        )
        _prepare_sqlite(engine)
        return engine
    # Texts come as text, also from a database whose own encoding is SQL_ASCII.
    encoding = {"client_encoding": "utf8"}
    arguments: dict[str, Any] = {
        "connect_timeout": 5,
        # Behind a pooler in transaction mode, another connection has what this one prepared.
        "prepare_threshold": None,
        **encoding,
        **_KEEPALIVE,
    }
    return create_async_engine(
        database_url,
        pool_pre_ping=True,
        connect_args=arguments,
        hide_parameters=True,
        # Kept: Postgres starts a process for each.
        pool_size=_CONNECTIONS,
        max_overflow=0,
    )


def _require_folder(database_url: str) -> None:
    path = make_url(database_url).database
    if path and not Path(path).parent.is_dir():
        raise ConfigError(
            f"would lie in {Path(path).parent}, which is not a folder",
            field="database",
            fix="make the folder, or correct the path",
        )


def _prepare_sqlite(engine: AsyncEngine) -> None:
    path = Path(engine.url.database or "").absolute()

    @event.listens_for(engine.sync_engine, "connect")
    def set_pragmas(connection: Any, record: Any) -> None:
        # The driver would begin transactions late, and none at all before a DDL statement.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.close()
        record.info[_FILE] = (path, connection.driver_connection.file)

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer locks at once: a transaction that began by reading cannot wait for the lock.
        write = connection.get_execution_options().get("sfumato_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def require_same_file(connection: AsyncConnection) -> None:
    """Check that a connection writes to the file that the address names.

    A commit to a file that was removed or replaced is lost.

    Raises
    ------
    TransportError
        The file is another one; the connection is closed.
    """
    opened = connection.sync_connection
    if opened is None or opened.dialect.name != "sqlite":
        return
    path, identity = opened.info[_FILE]
    if identity == identify_file(path):
        return
    opened.invalidate()
    raise _unavailable() from FileNotFoundError(f"{path} was removed, or another file is there")


async def empty_log(connection: AsyncConnection) -> bool:
    """Move SQLite's write-ahead log into the file, and empty it.

    False if somebody still reads what only the log has: nobody waits for that here.
    """
    raw = (await connection.get_raw_connection()).driver_connection
    assert raw is not None
    cursor = raw.cursor()
    await cursor.execute("PRAGMA busy_timeout=0")
    try:
        await cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        is_busy, *_ = await cursor.fetchone()
    finally:
        await cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
        await cursor.close()
    return not is_busy


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Map the errors of a database that does not answer.

    Raises
    ------
    TransportError
        The database is away, locked for too long, out of connections, or damaged.
    """
    try:
        yield
    except (OperationalError, InterfaceError, TimeoutError) as error:
        raise _unavailable() from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise _unavailable() from error
        if is_damage(error.orig):
            raise _damaged() from error
        raise
    except UnicodeDecodeError as error:
        if is_damage(error):
            raise _damaged() from error
        raise
    except sqlite3.DatabaseError as error:  # while a connection was made ready
        raise (_damaged() if is_damage(error) else _unavailable()) from error


def is_damage(error: object) -> bool:
    """Return whether an error says that a SQLite file is damaged, or another kind of file."""
    if isinstance(error, UnicodeDecodeError):
        # The message itself, which quotes the schema, is no text.
        return error.object.startswith(b"malformed database schema")
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _damaged() -> TransportError:
    return TransportError(
        "the database is damaged",
        fix="send the same again later; its operator must stop the servers and restore a backup",
    )


def _unavailable() -> TransportError:
    return TransportError(
        "the database does not answer", fix="send the same again later; see the server's log"
    )
