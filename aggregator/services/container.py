"""All services over one store."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.ports import Clock, Store
from aggregator.services.decodes import DecodeService
from aggregator.services.enrolment import EnrolmentService
from aggregator.services.jobs import JobService
from aggregator.services.keys import KeyService
from aggregator.services.plans import PlanCache
from aggregator.services.sketches import SketchService
from aggregator.services.snapshots import SnapshotService
from aggregator.services.studies import StudyService


@dataclass(frozen=True, kw_only=True)
class Services:
    """One of each, sharing a store, a clock and a cache of plans."""

    store: Store
    clock: Clock
    studies: StudyService
    enrolment: EnrolmentService
    sketches: SketchService
    snapshots: SnapshotService
    decodes: DecodeService
    jobs: JobService
    keys: KeyService


def create_services(
    store: Store, clock: Clock, *, token_seconds: float = 7 * 86400.0, max_body_bytes: int = 1 << 20
) -> Services:
    """Make all services.

    Parameters
    ----------
    store, clock
        The outside.
    token_seconds
        How long an enrolment token is valid.
    max_body_bytes
        Largest sketch message for a study that does not exist.
    """
    plans = PlanCache()
    snapshots = SnapshotService(store, clock, plans)
    return Services(
        store=store,
        clock=clock,
        studies=StudyService(store, clock, plans),
        enrolment=EnrolmentService(store, clock, plans, token_seconds=token_seconds),
        sketches=SketchService(store, clock, plans, max_unknown_bytes=max_body_bytes),
        snapshots=snapshots,
        decodes=DecodeService(store, clock, plans, snapshots),
        jobs=JobService(store, clock, plans),
        keys=KeyService(store, clock),
    )
