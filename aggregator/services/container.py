"""All services over one store."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.records import Clock
from aggregator.services.audit import AuditService
from aggregator.services.devices.enrolment import EnrolmentService
from aggregator.services.devices.roster import ExclusionService, RosterService
from aggregator.services.devices.signed import DeviceService
from aggregator.services.keys import KeyService
from aggregator.services.plans import PlanCache
from aggregator.services.rates import RateLimit
from aggregator.services.readiness import Readiness
from aggregator.services.results.decodes import DecodeService
from aggregator.services.results.jobs import JobService
from aggregator.services.results.snapshots import SnapshotService
from aggregator.services.results.watching import DecodeWatch
from aggregator.services.sketches.merging import Merger
from aggregator.services.sketches.receiving import SketchService
from aggregator.services.studies import StudyService, WithdrawalService
from aggregator.services.tallies import Tallies
from aggregator.storage import Store


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """Limits of the services, see :class:`aggregator.settings.Settings`.

    Rates are requests a second; a burst is the number of requests that may come at once.
    """

    token_seconds: float = 7 * 86400.0
    payload_seconds: float | None = None
    max_body_bytes: int = 1 << 20
    device_rate: float = 20.0
    device_burst: int = 200
    key_rate: float = 200.0
    key_burst: int = 1000


class Services:
    """All services, sharing a store, a clock and a cache of plans.

    Parameters
    ----------
    limits
        ``max_body_bytes`` is for a sketch of a study that does not exist.
    """

    def __init__(self, store: Store, clock: Clock, limits: ServiceLimits | None = None) -> None:
        limits = limits or ServiceLimits()
        plans = PlanCache()
        device_rate = RateLimit(
            per_second=limits.device_rate, burst=limits.device_burst, what="device"
        )
        key_rate = RateLimit(
            per_second=limits.key_rate, burst=limits.key_burst, what="Authorization"
        )
        self.store = store
        self.clock = clock
        self.readiness = Readiness(store)
        self.tallies = Tallies(store)
        self.withdrawals = WithdrawalService(store, clock)
        self.merger = Merger(
            store,
            clock,
            plans,
            self.readiness,
            self.withdrawals,
            payload_seconds=limits.payload_seconds,
        )
        self.studies = StudyService(store, clock, plans, self.tallies)
        self.enrolment = EnrolmentService(store, clock, plans, token_seconds=limits.token_seconds)
        self.devices = DeviceService(store, clock, rate=device_rate)
        self.roster = RosterService(store, clock)
        self.exclusion = ExclusionService(store, clock)
        self.sketches = SketchService(
            store,
            clock,
            plans,
            max_unknown_bytes=limits.max_body_bytes,
            tallies=self.tallies,
            rate=device_rate,
        )
        self.snapshots = SnapshotService(store, clock, plans)
        self.decodes = DecodeService(store, clock, plans, self.snapshots)
        self.keys = KeyService(store, clock, tallies=self.tallies, rate=key_rate)
        self.watch = DecodeWatch(self.decodes, self.keys)
        self.jobs = JobService(store, clock, plans)
        self.audit = AuditService(store)
