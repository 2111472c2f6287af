"""The store over SQLAlchemy, for SQLite and Postgres alike; importable as ``storage`` is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from aggregator.ports import Transaction
from aggregator.storage.schema import require_latest
from aggregator.storage.sql.decodes import DecodeRows
from aggregator.storage.sql.devices import DeviceRows
from aggregator.storage.sql.engine import mapped_errors, require_same_file
from aggregator.storage.sql.exclusion import ExclusionRows
from aggregator.storage.sql.inspection import InspectionRows
from aggregator.storage.sql.keys import KeyRows
from aggregator.storage.sql.merging import MergeRows
from aggregator.storage.sql.sketches import SketchRows
from aggregator.storage.sql.snapshots import SnapshotRows
from aggregator.storage.sql.studies import StudyRows
from aggregator.storage.sql.withdrawal import WithdrawalRows

__all__ = ["SqlStore", "SqlTransaction"]


class SqlTransaction(
    StudyRows,
    DeviceRows,
    SketchRows,
    ExclusionRows,
    MergeRows,
    WithdrawalRows,
    SnapshotRows,
    DecodeRows,
    KeyRows,
    InspectionRows,
):
    """One database transaction."""

    @property
    def connection(self) -> AsyncConnection:
        """The connection that it is on."""
        return self._connection


class SqlStore:
    """A store in a database.

    Parameters
    ----------
    engine
        From :func:`aggregator.storage.sql.engine.create_engine`.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        # Reads of one transaction see one moment: cells, and what is not yet in them. A writer
        # takes what others committed meanwhile, and locks what it must not lose. SQLite is so.
        self._reading = (
            {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        )
        # Writers of one SQLite file wait for each other by sleeping, and the luckiest goes next.
        # Those of this process queue here, so that the first comes first.
        is_file = engine.dialect.name == "sqlite"
        self._turn: asyncio.Lock | None = asyncio.Lock() if is_file else None

    @property
    def has_one_writer(self) -> bool:
        """A SQLite file has one; Postgres locks rows."""
        return self._turn is not None

    @asynccontextmanager
    async def begin(self, *, write: bool = False) -> AsyncIterator[Transaction]:
        """Open a transaction; see the port."""
        turn = self._turn if write and self._turn is not None else nullcontext()
        with mapped_errors():
            async with turn, self.engine.connect() as opened:
                connection = await opened.execution_options(
                    sfumato_write=write, **({} if write else self._reading)
                )
                require_same_file(connection)
                async with connection.begin():
                    yield SqlTransaction(connection)
                if write:
                    # Once more, for what is committed is acknowledged after this.
                    require_same_file(connection)

    async def require_ready(self) -> None:
        """Check that the database answers with the schema of this release; see the port."""
        with mapped_errors():
            await require_latest(self.engine)

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()
