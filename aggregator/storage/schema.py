"""The version of the database schema: reading it, checking it, and migrating."""

from __future__ import annotations

from sqlalchemy import Connection, column, inspect, select, table
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import ConfigError

LATEST_REVISION = "0001"
"""The schema version that this release works with."""
GENERATION_BYTES = 16
_VERSIONS = table("alembic_version", column("version_num"))


async def read_revision(engine: AsyncEngine) -> str | None:
    """Return the schema version of a database; None if it has none."""
    async with engine.connect() as connection:
        return await connection.run_sync(find_revision)


async def is_empty(engine: AsyncEngine) -> bool:
    """Tell whether a database has no table."""
    async with engine.connect() as connection:
        return not await connection.run_sync(lambda sync: inspect(sync).get_table_names())


async def migrate_database(engine: AsyncEngine, revision: str = "head") -> str | None:
    """Bring a database to a schema version, in one transaction; return that version.

    ``revision`` may be earlier than the present one: every migration has a way down. ``base`` is
    the empty database.
    """
    from aggregator.storage.migrating import migrate  # noqa: PLC0415 - servers do without it

    async with engine.connect() as opened:
        connection = await opened.execution_options(sfumato_write=True)
        async with connection.begin():
            await connection.run_sync(migrate, revision)
            return await connection.run_sync(find_revision)


def require_same_revision(found: str | None) -> None:
    """Check a schema version against this release's.

    Raises
    ------
    ConfigError
        It is another.
    """
    if found != LATEST_REVISION:
        raise ConfigError(
            f"has schema version {found or 'none'}, and this release needs {LATEST_REVISION}",
            field="database",
            fix="stop every server on it, make a backup, and run `sfumato migrate`",
        )


def find_revision(connection: Connection) -> str | None:
    """Return the schema version of a database; None if it has none."""
    if not inspect(connection).has_table(_VERSIONS.name):
        return None
    return connection.execute(select(_VERSIONS.c.version_num)).scalar()
