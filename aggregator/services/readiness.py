"""Readiness: whether the database can be used."""

from __future__ import annotations

import asyncio

import structlog

from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.records import wait_for_stop
from sfumato.aggregator.storage import Store, prepare_database
from sfumato.shared.errors import ConfigError, SketchError, TransportError, UnpreparedError

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0

log = structlog.get_logger("aggregator.readiness")


class Readiness:
    """Closed from a failed start until the database can be used.

    It stays open if the database fails later: each request then fails by itself.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reason: SketchError | None = None

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
            await prepare_database(self._store)
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
            await self._store.require_ready()
        except ConfigError as error:
            raise _as_unavailable(error) from error


def _as_unavailable(reason: SketchError) -> TransportError:
    return TransportError(reason.rule, field=reason.field, fix=reason.fix)
