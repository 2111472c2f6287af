"""The version of the database schema: reading it, checking it, and migrating."""

from __future__ import annotations

from sqlalchemy import Connection, column, inspect, select, table
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.errors import ConfigError, UnpreparedError

LATEST_REVISION = "0001"
"""The schema version that this release works with."""
GENERATION_BYTES = 16
_VERSIONS = table("alembic_version", column("version_num"))


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


async def require_latest(engine: AsyncEngine) -> None:
    """Check the schema version of a database against this release's.

    Raises
    ------
    UnpreparedError
        It has no table at all.
    ConfigError
        It has another version, or tables of something else.
    """
    async with engine.connect() as connection:
        found, is_bare = await connection.run_sync(
            lambda sync: (find_revision(sync), not inspect(sync).get_table_names())
        )
    if is_bare:
        raise UnpreparedError(
            f"has no tables yet, and this release needs schema version {LATEST_REVISION}",
            field="database",
            fix="run `sfumato migrate`",
        )
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
