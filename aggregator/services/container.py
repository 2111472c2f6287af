"""All services over one store."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.records import Clock
from aggregator.services.audit import AuditService
from aggregator.services.decodes import DecodeService
from aggregator.services.devices import DeviceService
from aggregator.services.enrolment import EnrolmentService
from aggregator.services.jobs import JobService
from aggregator.services.keys import KeyService
from aggregator.services.merging import Merger
from aggregator.services.plans import PlanCache
from aggregator.services.rates import RateLimit
from aggregator.services.readiness import Readiness
from aggregator.services.roster import ExclusionService, RosterService
from aggregator.services.sketches import SketchService
from aggregator.services.snapshots import SnapshotService
from aggregator.services.studies import StudyService, WithdrawalService
from aggregator.services.tallies import Tallies
from aggregator.services.watching import DecodeWatch
from aggregator.storage import Store


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """Limits of the services; see :class:`aggregator.settings.Settings` for each.

    Rates are requests a second; a burst is how many may come at once before they count.
    """

    token_seconds: float = 7 * 86400.0
    payload_seconds: float | None = None
    max_body_bytes: int = 1 << 20
    device_rate: float = 20.0
    device_burst: int = 200
    key_rate: float = 200.0
    key_burst: int = 1000


@dataclass(frozen=True, kw_only=True)
class Services:
    """One of each, sharing a store, a clock and a cache of plans."""

    store: Store
    clock: Clock
    readiness: Readiness
    tallies: Tallies
    merger: Merger
    withdrawals: WithdrawalService
    studies: StudyService
    enrolment: EnrolmentService
    devices: DeviceService
    roster: RosterService
    exclusion: ExclusionService
    sketches: SketchService
    snapshots: SnapshotService
    decodes: DecodeService
    watch: DecodeWatch
    jobs: JobService
    keys: KeyService
    audit: AuditService


def create_services(store: Store, clock: Clock, limits: ServiceLimits | None = None) -> Services:
    """Make all services.

    Parameters
    ----------
    store, clock
        The outside.
    limits
        What they allow; ``max_body_bytes`` is for a sketch of a study that does not exist.
    """
    limits = limits or ServiceLimits()
    plans = PlanCache()
    tallies = Tallies(store)
    readiness = Readiness(store)
    withdrawals = WithdrawalService(store, clock)
    snapshots = SnapshotService(store, clock, plans)
    decodes = DecodeService(store, clock, plans, snapshots)
    devices = RateLimit(per_second=limits.device_rate, burst=limits.device_burst, what="device")
    keys = RateLimit(per_second=limits.key_rate, burst=limits.key_burst, what="Authorization")
    key_service = KeyService(store, clock, tallies=tallies, rate=keys)
    return Services(
        store=store,
        clock=clock,
        readiness=readiness,
        tallies=tallies,
        merger=Merger(
            store, clock, plans, readiness, withdrawals, payload_seconds=limits.payload_seconds
        ),
        withdrawals=withdrawals,
        studies=StudyService(store, clock, plans, tallies),
        enrolment=EnrolmentService(store, clock, plans, token_seconds=limits.token_seconds),
        devices=DeviceService(store, clock, rate=devices),
        roster=RosterService(store, clock),
        exclusion=ExclusionService(store, clock),
        sketches=SketchService(
            store,
            clock,
            plans,
            max_unknown_bytes=limits.max_body_bytes,
            tallies=tallies,
            rate=devices,
        ),
        snapshots=snapshots,
        decodes=decodes,
        watch=DecodeWatch(decodes, key_service),
        jobs=JobService(store, clock, plans),
        keys=key_service,
        audit=AuditService(store),
    )
