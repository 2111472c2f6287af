"""The helper's database: plans, batches, reports, and the keys of leaders."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    inspect,
    make_url,
)
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from sfumato.shared.errors import ConfigError, TransportError
from sfumato.shared.system import describe_readers

_LOG = logging.getLogger("sfumato.helper")

metadata = MetaData()

plans = Table(
    "plans",
    metadata,
    Column("digest", LargeBinary(32), primary_key=True),
    Column("plan", LargeBinary, nullable=False),
    Column("accepted", Float, nullable=False),
    Column("retired", Float),
    Column("leader", String(64)),
    Column("closed_before", BigInteger, nullable=False, server_default="0"),
)
"""Plans that this helper has accepted; no other exists for it. Only keys with the name of
``leader`` reach its batches; null is any. The rows of slots that begin before ``closed_before``
were removed: their reports are late for ever, also where a clock goes back."""

batches = Table(
    "batches",
    metadata,
    Column("batch_id", LargeBinary(32), primary_key=True),
    Column("plan_digest", LargeBinary(32), nullable=False, index=True),
    Column("slot", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("members", LargeBinary(32)),
    Column("n_reports", BigInteger),
    Column("n_records", BigInteger),
    Column("body", LargeBinary),
)
"""States: ``open``, ``answered`` (body: masks plus noise), ``acknowledged`` (body: the total)."""

reports = Table(
    "reports",
    metadata,
    Column("sketch_id", LargeBinary(32), primary_key=True),
    Column("report", LargeBinary(32), nullable=False),
    Column("report_id", LargeBinary(16), nullable=False),
    Column("batch_id", LargeBinary(32), nullable=False, index=True),
    Column("plan_digest", LargeBinary(32), nullable=False, index=True),
    Column("slot", BigInteger, nullable=False),
    Column("n_records", BigInteger),
    Column("seed", LargeBinary(32)),
    Column("state", String(16), nullable=False),
)
"""States: ``accepted`` (its seed is here), ``spent``, ``dropped``. A row stays after its seed: it
keeps the sketch from joining another batch."""

leader_keys = Table(
    "leader_keys",
    metadata,
    Column("key_hash", LargeBinary(32), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("created", Float, nullable=False),
    Column("revoked", Float),
)

server = Table(
    "server",
    metadata,
    Column("one", Integer, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("burnt_before", Float, nullable=False),
)
"""One row: how often a backup was restored, and the time before which no slot counts any more."""

_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    # A seed that was erased must not stay readable in the file.
    "PRAGMA secure_delete=ON",
    "PRAGMA busy_timeout=30000",
    "PRAGMA foreign_keys=ON",
)


_NOT_WRITTEN = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def open_database(address: str) -> Engine:
    """Open the database, and create its tables.

    Parameters
    ----------
    address
        Path of a SQLite file, or ``postgresql://user@host/name``.

    Raises
    ------
    ConfigError
        The folder does not exist, the driver is not installed, or it is an aggregator's database.
    TransportError
        The database does not answer.
    """
    url = _read_address(address)
    # Behind a pooler in transaction mode, another connection has what this one prepared.
    arguments = {} if url.startswith("sqlite") else {"prepare_threshold": None}
    try:
        engine = create_engine(
            url, pool_pre_ping=True, connect_args=arguments, hide_parameters=True
        )
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"needs the module {error.name}",
            field="database",
            fix="install it: pip install 'psycopg[binary]', or use a SQLite file",
        ) from error
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
        _make_private(engine.url.database)
    with _mapped_errors():
        _require_apart(engine)
        metadata.create_all(engine)
    with write(engine) as connection:
        if connection.execute(server.select()).first() is None:
            connection.execute(server.insert().values(one=1, generation=0, burnt_before=0.0))
    return engine


def _require_apart(engine: Engine) -> None:
    """Refuse the database of an aggregator: with both halves in one place, nothing is private."""
    if inspect(engine).has_table("studies"):
        raise ConfigError(
            "is that of an aggregator",
            field="database",
            fix="use another database, which the aggregator's operator cannot read",
        )


def _read_address(address: str) -> str:
    if "://" not in address:
        path = Path(address).absolute()
        if not path.parent.is_dir():
            raise ConfigError(
                f"would lie in {path.parent}, which is not a folder",
                field="database",
                fix="make the folder, or correct the path",
            )
        return f"sqlite:///{path}"
    url = make_url(address)
    if url.get_backend_name() == "postgresql" and url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    return url.render_as_string(hide_password=False)


def _make_private(database: str | None) -> None:
    """Make a missing file for its owner alone; SQLite gives the files beside it the same mode."""
    if database:
        with suppress(OSError):  # SQLite will say so
            Path(database).touch(mode=0o600)
        if warning := describe_readers(Path(database)):
            _LOG.warning("%s", warning)


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, _record: Any) -> None:
        # The driver would begin transactions late.
        connection.isolation_level = None
        for pragma in _PRAGMAS:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer locks at once: one that began by reading cannot wait for the lock.
        is_writing = connection.get_execution_options().get("helper_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


@contextmanager
def write(engine: Engine) -> Iterator[Connection]:
    """Run one transaction, and leave nothing of it in a log that outlives it.

    Raises
    ------
    TransportError
        The database does not answer.
    """
    with _mapped_errors():
        with engine.execution_options(helper_write=True).begin() as connection:
            yield connection
        if engine.dialect.name == "sqlite":
            # Erased seeds would stay in the write-ahead log.
            with engine.connect() as connection:
                raw = connection.connection.driver_connection
                if raw is not None:
                    connection.rollback()
                    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise _unavailable(error) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise _unavailable(error) from error
        raise


def _unavailable(error: DBAPIError) -> TransportError:
    if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _NOT_WRITTEN:
        return TransportError(
            f"cannot be written ({error.orig})",
            field="database",
            fix="let its operator free space on its disk, then send the same again; nothing was "
            "stored",
        )
    return TransportError(
        "does not answer", field="database", fix="check that it is running, and its disk"
    )
