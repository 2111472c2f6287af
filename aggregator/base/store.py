"""The store: one database behind transactions, on SQLite and Postgres alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from sfumato.aggregator.base.engine import (
    create_engine,
    empty_log,
    mapped_errors,
    require_same_file,
)
from sfumato.aggregator.base.transaction import Transaction
from sfumato.shared.errors import ConfigError


@dataclass(eq=False)
class _Unit:
    """A block of one task, whose transactions are one from its first write on."""

    store: Store
    task: asyncio.Task[Any] | None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    transaction: Transaction | None = None


_UNIT: ContextVar[_Unit | None] = ContextVar("sfumato_unit", default=None)


class Store:
    """A store in a database.

    Parameters
    ----------
    engine
        From :func:`sfumato.aggregator.base.engine.create_engine`.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine
        # A reader sees one moment, so that cells and pending sketches fit together. A writer sees
        # what others commit meanwhile, and locks what must not change. SQLite does so by itself.
        self._reading = (
            {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
        )
        # Writers of one SQLite file wait by sleeping, in no order. Those of this process queue.
        is_file = engine.dialect.name == "sqlite"
        self._turn: asyncio.Lock | None = asyncio.Lock() if is_file else None
        # From the beginning: a process that died may have left erased bytes in the log.
        self._is_log_full = is_file

    @property
    def has_one_writer(self) -> bool:
        """True if writers wait for each other: SQLite locks the file, Postgres rows."""
        return self._turn is not None

    def begin(self, *, write: bool = False) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction: it commits at the end of the block, and not at all on an error.

        What it erases is gone from SQLite's log too, as soon as nobody reads what was before.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        unit = _UNIT.get()
        if unit is None or unit.store is not self or unit.task is not asyncio.current_task():
            return self._begin(write=write)
        return self._join(unit) if write or unit.transaction else self._begin(write=False)

    @asynccontextmanager
    async def unite(self) -> AsyncIterator[None]:
        """Make one transaction of all in the block, from the first write on."""
        unit = _Unit(self, asyncio.current_task())
        token = _UNIT.set(unit)
        try:
            async with unit.stack:
                yield
        finally:
            _UNIT.reset(token)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Commit what the block writes at once, also inside :meth:`unite`.

        For what may stay if the rest fails, and is followed by long work: a unit that has written
        holds back all other writers of a SQLite file.
        """
        unit = _UNIT.get()
        token = _UNIT.set(unit if unit is not None and unit.transaction else None)
        try:
            yield
        finally:
            _UNIT.reset(token)

    @asynccontextmanager
    async def _join(self, unit: _Unit) -> AsyncIterator[Transaction]:
        if unit.transaction is None:
            unit.transaction = await unit.stack.enter_async_context(self._begin(write=True))
        # A block that fails is undone, even where its caller goes on.
        with mapped_errors():
            async with unit.transaction.connection.begin_nested():
                yield unit.transaction

    @asynccontextmanager
    async def _begin(self, *, write: bool) -> AsyncIterator[Transaction]:
        turn = self._turn if write and self._turn is not None else nullcontext()
        with mapped_errors():
            async with turn, self.engine.connect() as opened:
                connection = await opened.execution_options(
                    sfumato_write=write, **({} if write else self._reading)
                )
                require_same_file(connection)
                transaction = Transaction(connection)
                async with connection.begin():
                    yield transaction
                if write:
                    # Again: the commit is acknowledged after this.
                    require_same_file(connection)
                    await self._empty_log(connection, transaction.has_erased)

    async def _empty_log(self, connection: AsyncConnection, has_erased: bool) -> None:
        if not self.has_one_writer:
            return
        self._is_log_full = self._is_log_full or has_erased
        if self._is_log_full:
            self._is_log_full = not await empty_log(connection)

    async def empty_log(self) -> None:
        """Try again to remove from SQLite's log what was erased, if somebody stood in the way.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        if self._is_log_full:
            async with self.begin(write=True):
                pass

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()


def open_store(database_url: str) -> Store:
    """Open a store without touching the database.

    Raises
    ------
    ConfigError
        The address is of no supported database.
    """
    try:
        return Store(create_engine(database_url))
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise ConfigError(
            "must be the address of a SQLite or Postgres database",
            field="database",
            fix="give the path of a SQLite file, or postgresql://user@host/name",
        ) from error
