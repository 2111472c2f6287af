"""The parts that all services share."""

from __future__ import annotations

from sfumato.aggregator.base.clock import Clock
from sfumato.aggregator.base.rates import RateLimit
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.plans import PlanCache
from sfumato.aggregator.resources.tallies import Tallies
from sfumato.aggregator.settings import Settings


class Parts:
    """A store, a clock and settings, with the caches and counts of one process."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self.store = store
        self.clock = clock
        self.settings = settings
        self.plans = PlanCache()
        self.tallies = Tallies(store)
        self.device_rate = RateLimit(
            per_second=settings.device_rate, burst=settings.device_burst, what="device"
        )


class Service:
    """A service over shared parts."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._clock = parts.clock
        self._plans = parts.plans
        self._tallies = parts.tallies
        self._settings = parts.settings
        self._device_rate = parts.device_rate
