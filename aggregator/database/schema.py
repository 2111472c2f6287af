"""The version of the database schema: read, check, migrate."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection, column, inspect, select, table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from sfumato.aggregator.base.engine import mapped_errors
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.database.tables import digest_tables
from sfumato.shared.errors import ConfigError, UnpreparedError

# With the digest, a database made by another state of the code is refused, not misread.
LATEST_REVISION = f"0001_{digest_tables()}"
"""The schema version of this release."""
_OF_HELPER = "leader_keys"
"""A table that only the second server of secure sums has."""
_VERSIONS = table("alembic_version", column("version_num"))


def require_file(engine: AsyncEngine) -> None:
    """Check that the file of a SQLite database exists.

    Raises
    ------
    UnpreparedError
        The file is missing.
    """
    missing = _find_missing_file(engine)
    if missing is not None:
        # Commands and logs show the cause, with the path; answers to requests do not.
        raise UnpreparedError(
            "is missing",
            field="database",
            fix="correct the path; `sfumato serve` makes a new database",
        ) from FileNotFoundError(str(missing))


def _find_missing_file(engine: AsyncEngine) -> Path | None:
    path = engine.url.database
    if engine.dialect.name != "sqlite" or not path or path.startswith("file:"):
        return None
    return None if Path(path).exists() else Path(path)


@asynccontextmanager
async def _connect(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    # Left to SQLite: its locks would go if its file were opened beside it, and closed.
    try:
        async with engine.connect() as connection:
            yield connection
    except (DBAPIError, sqlite3.DatabaseError) as error:
        code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None) or 0
        if code & 0xFF != sqlite3.SQLITE_NOTADB:
            raise
        raise ConfigError(
            f"{engine.url.database} is not a SQLite database",
            field="database",
            fix="correct the path; if a database was damaged, move it away and run "
            "`sfumato restore`",
        ) from error


async def is_empty(engine: AsyncEngine) -> bool:
    """Return whether a database has no table, or no file yet."""
    if _find_missing_file(engine):
        return True
    async with _connect(engine) as connection:
        return not await connection.run_sync(lambda sync: inspect(sync).get_table_names())


async def migrate_database(engine: AsyncEngine, revision: str = "head") -> str | None:
    """Migrate a database to a schema version, in one transaction; return that version.

    ``revision`` may be an earlier one, or ``base`` for the empty database. A missing SQLite file is
    created.

    Raises
    ------
    ConfigError
        The file cannot be created.
    """
    from sfumato.aggregator.database.migration import migrate  # noqa: PLC0415 - servers do without it

    missing = _find_missing_file(engine)
    if missing is not None:
        # Its secrets are for its owner alone. SQLite gives the files beside it the same mode.
        try:
            missing.touch(mode=0o600)
        except OSError as error:
            raise ConfigError(
                f"{missing} cannot be made ({error.strerror})",
                field="database",
                fix="let this user write in its folder, or choose another path",
            ) from error
    async with _connect(engine) as opened:
        connection = await opened.execution_options(sfumato_write=True)
        async with connection.begin():
            await connection.run_sync(migrate, revision)
            return await connection.run_sync(find_revision)


async def require_latest(engine: AsyncEngine) -> None:
    """Check the schema version of a database against this release's.

    Raises
    ------
    UnpreparedError
        It has no table at all, or no file.
    ConfigError
        It has another version, or tables of something else, such as a helper's; or the file is not
        a SQLite database.
    """
    require_file(engine)
    async with _connect(engine) as connection:
        found, names = await connection.run_sync(
            lambda sync: (find_revision(sync), inspect(sync).get_table_names())
        )
    if _OF_HELPER in names:
        raise ConfigError(
            "holds the tables of a helper: with both halves of every sum in one place, nothing "
            "would be private",
            field="database",
            fix="give the helper another database, run by another organisation",
        )
    if not names:
        raise UnpreparedError(
            f"has no tables yet; this release needs schema version {LATEST_REVISION}",
            field="database",
            fix="run `sfumato migrate`",
        )
    if found != LATEST_REVISION:
        raise ConfigError(
            f"has schema version {found or 'none'}; this release needs {LATEST_REVISION}",
            field="database",
            fix="stop every server on it, make a backup, and run `sfumato migrate`",
        )


def find_revision(connection: Connection) -> str | None:
    """Return the schema version of a database; None if it has none."""
    if not inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.execute(select(_VERSIONS.c.version_num)).scalar()


async def require_ready(store: Store) -> None:
    """Check that the database answers and has the schema of this release.

    Raises
    ------
    TransportError
        It does not answer.
    UnpreparedError
        It has no tables yet.
    ConfigError
        Its schema is of another version.
    """
    with mapped_errors():
        await require_latest(store.engine)


async def prepare_database(store: Store) -> None:
    """Create the tables of an empty SQLite database; check the schema version of any other.

    Other servers may run on a Postgres database, so its operator migrates it.

    Raises
    ------
    UnpreparedError
        It is on Postgres, and has no tables yet.
    ConfigError
        The schema is of another version, or the file is not a SQLite database.
    TransportError
        The database does not answer.
    """
    if store.engine.dialect.name == "sqlite":
        with mapped_errors():
            if await is_empty(store.engine):
                await migrate_database(store.engine)
    await require_ready(store)
