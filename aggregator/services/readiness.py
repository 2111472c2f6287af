"""Readiness: whether the database can be used."""

from __future__ import annotations

from aggregator.storage import Store
from shared.errors import ConfigError, SketchError, TransportError


class Readiness:
    """Closed from a failed start until the database can be used.

    It stays open if the database fails later: each request then fails by itself.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reason: SketchError | None = None

    def close(self, reason: SketchError) -> None:
        """Refuse requests with this reason."""
        self._reason = reason

    def open(self) -> None:
        """Let requests through."""
        self._reason = None

    @property
    def is_open(self) -> bool:
        """True if requests get through."""
        return self._reason is None

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
