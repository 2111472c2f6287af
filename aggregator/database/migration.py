"""Migrations of the schema, by Alembic.

A module of its own because Alembic takes 12 MB, and a server needs it only to migrate. The
migrations lie beside this file, so they work from a wheel and from any directory.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from sfumato.aggregator.base.generation import GENERATION_BYTES, SERVER
from sfumato.aggregator.database.schema import find_revision
from sfumato.shared.errors import ConfigError

_MIGRATIONS = Path(__file__).parent / "migrations"
# Any number that no other program locks: two servers that start together migrate in turn.
_ADVISORY_LOCK = 0x5F0A70


def create_config(connection: Connection | None = None) -> Config:
    """Return the configuration of Alembic, which has no ``alembic.ini``."""
    config = Config()
    # A percent sign means interpolation.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def migrate(connection: Connection, revision: str) -> None:
    """Bring a database to a schema version; ``base`` is the empty one.

    Raises
    ------
    ConfigError
        This release does not know the present or the wanted version.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
    config = create_config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    present = find_revision(connection)
    if present is not None and present not in known:
        raise ConfigError(
            f"has schema version {present}, which this release does not know",
            field="database",
            fix="use the release that wrote it, or a later one",
        )
    if revision not in known | {"base", "head"}:
        raise ConfigError(
            f"{revision!r} is not a version of this release",
            field="to",
            fix=f"use base, head or one of: {', '.join(sorted(known))}",
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
    connection.execute(insert(SERVER).values(row).on_conflict_do_nothing())
