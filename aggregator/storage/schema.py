"""The version of the database schema: reading it, checking it, and migrating.

The migrations are found beside this file, so they work from a wheel and from any directory.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from aggregator.storage.models import Server
from shared.errors import ConfigError

GENERATION_BYTES = 16
_MIGRATIONS = Path(__file__).parent / "migrations"
# Any number that no other program locks: two servers that start together migrate one by one.
_ADVISORY_LOCK = 0x5F0A70


def create_config(connection: Connection | None = None) -> Config:
    """Return the configuration of Alembic; there is no ``alembic.ini``."""
    config = Config()
    # Percent signs would be taken for interpolation.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def latest_revision() -> str:
    """Return the schema version that this release works with."""
    revision = ScriptDirectory.from_config(create_config()).get_current_head()
    if revision is None:
        raise ConfigError("has no migrations: the installation is incomplete", field="database")
    return revision


async def read_revision(engine: AsyncEngine) -> str | None:
    """Return the schema version of a database; None if it has none."""
    async with engine.connect() as connection:
        return await connection.run_sync(_current_revision)


async def is_empty(engine: AsyncEngine) -> bool:
    """Tell whether a database has no table."""
    async with engine.connect() as connection:
        return not await connection.run_sync(lambda sync: inspect(sync).get_table_names())


async def migrate_database(engine: AsyncEngine, revision: str = "head") -> str | None:
    """Bring a database to a schema version, in one transaction; return that version.

    ``revision`` may be earlier than the present one: every migration has a way down. ``base`` is
    the empty database.
    """
    async with engine.connect() as opened:
        connection = await opened.execution_options(sfumato_write=True)
        async with connection.begin():
            await connection.run_sync(_migrate, revision)
            return await connection.run_sync(_current_revision)


def require_same_revision(found: str | None) -> None:
    """Check a schema version against this release's.

    Raises
    ------
    ConfigError
        It is another.
    """
    wanted = latest_revision()
    if found != wanted:
        raise ConfigError(
            f"has schema version {found or 'none'}, and this release needs {wanted}",
            field="database",
            fix="stop every server on it, make a backup, and run `sfumato migrate`",
        )


def _current_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _migrate(connection: Connection, revision: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
    config = create_config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    present = _current_revision(connection)
    if present is not None and present not in known:
        raise ConfigError(
            f"has schema version {present}, which this release does not know",
            field="database",
            fix="use the release that wrote it, or a later one",
        )
    if revision == "base" or (revision in known and _is_earlier(config, revision, present)):
        command.downgrade(config, revision)
        return
    command.upgrade(config, revision)
    _add_server_row(connection)


def _is_earlier(config: Config, revision: str, present: str | None) -> bool:
    if present is None or present == revision:
        return False
    scripts = ScriptDirectory.from_config(config)
    return any(script.revision == revision for script in scripts.iterate_revisions(present, "base"))


def _add_server_row(connection: Connection) -> None:
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    row = {"row": 1, "generation": secrets.token_bytes(GENERATION_BYTES)}
    connection.execute(insert(Server).values(row).on_conflict_do_nothing())
