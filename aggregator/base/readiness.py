"""Readiness: whether the database can be used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import structlog

from sfumato.aggregator.base.clock import wait_for_stop
from sfumato.aggregator.logs import describe_cause
from sfumato.shared.errors import ConfigError, SketchError, TransportError, UnpreparedError

T = TypeVar("T")
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

log = structlog.get_logger("aggregator.readiness")


class Readiness:
    """Closed from a failed start until the database can be used.

    It stays open if the database fails later: each request then fails by itself.

    Parameters
    ----------
    prepare, require
        Make the database ready, and check that it is.
    """

    patience_s = 3.0
    """Seconds that a monitor waits for the database."""

    def __init__(
        self, prepare: Callable[[], Awaitable[None]], require: Callable[[], Awaitable[None]]
    ) -> None:
        self._prepare = prepare
        self._require = require
        self._reason: SketchError | None = None
        self._queries: dict[str, asyncio.Task[Any]] = {}

    @property
    def is_open(self) -> bool:
        """True if requests get through."""
        return self._reason is None

    async def prepare(self) -> bool:
        """Prepare the database; false, and no request gets through, if that has to wait.

        Raises
        ------
        ConfigError
            Its schema is of another version.
        """
        try:
            await self._prepare()
        except (TransportError, UnpreparedError) as error:
            log.warning("waiting for the database", reason=describe_cause(error))
            self._reason = error
        else:
            self._reason = None
        return self.is_open

    async def wait(self, stop: asyncio.Event) -> None:
        """Retry until the database can be used, with back-off."""
        pause = _FIRST_PAUSE_S
        while not (self.is_open or stop.is_set()):
            await wait_for_stop(stop, pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            try:
                if await self.prepare():
                    log.info("the database answers")
            except ConfigError as error:
                log.error("the database cannot be used", reason=str(error))
                self._reason = error

    def require_open(self) -> None:
        """Refuse a request while the database cannot be used.

        Raises
        ------
        TransportError
            The database cannot be used.
        """
        if self._reason is not None:
            raise _as_unavailable(self._reason)

    async def require(self) -> None:
        """Query the database.

        Raises
        ------
        TransportError
            It does not answer, or its schema is not of this release.
        """
        self.require_open()
        try:
            await self._require()
        except ConfigError as error:
            raise _as_unavailable(error) from error

    async def share(self, name: str, query: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what a monitor's query gives; monitors that ask at once share one query.

        A query that takes too long goes on: it would not end before the database answers, cancelled
        or not. So a database that hangs holds one connection, and not one for each request.

        Raises
        ------
        TransportError
            The database does not answer in time, or as ``query`` says.
        """
        task = self._queries.get(name)
        if task is None:
            task = self._queries[name] = asyncio.create_task(query())
            task.add_done_callback(lambda done: self._end(name, done))
        await asyncio.wait({task}, timeout=self.patience_s)
        if not task.done():
            raise TransportError(
                f"the database does not answer within {self.patience_s:g} s",
                fix="send the same again later; see the database's log",
            )
        found: T = await task
        return found

    def _end(self, name: str, task: asyncio.Task[Any]) -> None:
        del self._queries[name]
        if not task.cancelled():
            task.exception()  # or asyncio would complain where nobody waits any more


def _as_unavailable(reason: SketchError) -> TransportError:
    return TransportError(reason.rule, field=reason.field, fix=reason.fix)
