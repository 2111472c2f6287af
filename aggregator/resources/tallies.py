"""Tallies: counts gathered in memory and written together, about once a second.

A write transaction for each refusal would let anyone block all writers with invalid requests. A
killed process loses the counts of its last second.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import structlog

from sfumato.aggregator.base.clock import wait_for_stop
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.keys.store import touch_key
from sfumato.aggregator.resources.sketches.store.sketches import count_refusal
from sfumato.shared.errors import TransportError

_PERIOD_S = 1.0

log = structlog.get_logger("aggregator.tallies")


class Tallies:
    """Refusals by study and problem, and the last use of each key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._refusals: Counter[tuple[bytes, str]] = Counter()
        self._uses: dict[str, float] = {}

    def note_refusal(self, study_id: bytes, problem: str) -> None:
        """Count a refusal of an existing study."""
        self._refusals[study_id, problem] += 1

    def note_use(self, key_id: str, now: float) -> None:
        """Note that a key was used."""
        self._uses[key_id] = now

    async def flush(self) -> None:
        """Write all tallies; they are kept if the database does not answer.

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
                # Sorted, so that replicas that write the same rows cannot deadlock.
                for (study_id, problem), count in sorted(refusals.items()):
                    await count_refusal(transaction, study_id, problem, count=count)
                for key_id, now in sorted(uses.items()):
                    await touch_key(transaction, key_id, now=now)
        except BaseException:
            self._refusals.update(refusals)
            self._uses = uses | self._uses
            raise

    async def run(self, stop: asyncio.Event) -> None:
        """Write every second until ``stop``, and once more at the end."""
        is_last = False
        while not is_last:
            await wait_for_stop(stop, _PERIOD_S)
            is_last = stop.is_set()
            try:
                await self.flush()
            except TransportError as error:
                log.warning("counts wait for the database", reason=describe_cause(error))
