"""Counts that may wait: gathered in memory and written together, about once a second.

A refusal must be countable without a write transaction of its own, or whoever can reach the server
could hold up every writer with nonsense. The counts of the last second are lost with a process that
is killed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import structlog

from aggregator.logs import describe_cause
from aggregator.storage import Store
from shared.errors import TransportError

_PERIOD_S = 1.0

log = structlog.get_logger("aggregator.tallies")


class Tallies:
    """Refusals of studies by problem, and when keys were last used."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._refusals: Counter[tuple[bytes, str]] = Counter()
        self._uses: dict[str, float] = {}

    def note_refusal(self, study_id: bytes, problem: str) -> None:
        """Count a refusal for a study that exists."""
        self._refusals[study_id, problem] += 1

    def note_use(self, key_id: str, now: float) -> None:
        """Note that a key was used."""
        self._uses[key_id] = now

    async def flush(self) -> None:
        """Write what was noted; what a database that is away cannot take is kept.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        if not self._refusals and not self._uses:
            return
        refusals, uses = self._refusals, self._uses
        self._refusals, self._uses = Counter(), {}
        try:
            async with self._store.begin(write=True) as transaction:
                # In one order everywhere: replicas that write the same rows must not deadlock.
                for (study_id, problem), count in sorted(refusals.items()):
                    await transaction.count_refusal(study_id, problem, count=count)
                for key_id, now in sorted(uses.items()):
                    await transaction.touch_key(key_id, now=now)
        except BaseException:
            self._refusals.update(refusals)
            self._uses = uses | self._uses
            raise

    async def run(self, stop: asyncio.Event) -> None:
        """Write every second until ``stop``, and once more then."""
        is_last = False
        while not is_last:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _PERIOD_S)
            is_last = stop.is_set()
            try:
                await self.flush()
            except TransportError as error:
                log.warning("counts wait for the database", reason=describe_cause(error))
