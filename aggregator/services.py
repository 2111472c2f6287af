"""All services over one store; they know neither HTTP nor SQL."""

from __future__ import annotations

from functools import partial

from sfumato.aggregator.base.clock import Clock
from sfumato.aggregator.base.readiness import Readiness
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.database.references import ReferenceService
from sfumato.aggregator.database.schema import prepare_database, require_ready
from sfumato.aggregator.resources.alarms.service.alarms import AlarmService
from sfumato.aggregator.resources.alarms.service.delivery import Deliverer
from sfumato.aggregator.resources.alarms.service.scheduler import Scheduler
from sfumato.aggregator.resources.alarms.service.schedules import ScheduleService
from sfumato.aggregator.resources.batches.service.batches import BatchService
from sfumato.aggregator.resources.batches.service.opener import BatchOpener
from sfumato.aggregator.resources.campaigns.service.campaigns import CampaignService
from sfumato.aggregator.resources.campaigns.service.following import FollowingPlans
from sfumato.aggregator.resources.devices.service.enrolment import EnrolmentService
from sfumato.aggregator.resources.devices.service.roster import RosterService
from sfumato.aggregator.resources.devices.service.signed import DeviceService
from sfumato.aggregator.resources.jobs.record import AnalysisRecord, DecodeRecord
from sfumato.aggregator.resources.jobs.service.acceptance import AcceptService
from sfumato.aggregator.resources.jobs.service.analyses import AnalysisService
from sfumato.aggregator.resources.jobs.service.decodes import DecodeService
from sfumato.aggregator.resources.jobs.service.jobs import JobService
from sfumato.aggregator.resources.jobs.service.publications import PublishingService
from sfumato.aggregator.resources.jobs.service.watch import JobWatch
from sfumato.aggregator.resources.keys.service.audit import AuditService
from sfumato.aggregator.resources.keys.service.idempotency import IdempotencyService
from sfumato.aggregator.resources.keys.service.keys import KeyService
from sfumato.aggregator.resources.keys.service.sign_in import SignInService
from sfumato.aggregator.resources.parts import Parts
from sfumato.aggregator.resources.sketches.service.merger import Merger
from sfumato.aggregator.resources.sketches.service.sketches import SketchService
from sfumato.aggregator.resources.snapshots.service.snapshots import SnapshotService
from sfumato.aggregator.resources.snapshots.service.statistics import StatisticService
from sfumato.aggregator.resources.studies.service.advice import AdviceService
from sfumato.aggregator.resources.studies.service.studies import StudyService
from sfumato.aggregator.settings import Settings


class Services:
    """All services, sharing a store, a clock, settings and a cache of plans."""

    def __init__(self, store: Store, clock: Clock, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        parts = Parts(store, clock, self.settings)
        self.store = store
        self.clock = clock
        self.readiness = Readiness(partial(prepare_database, store), partial(require_ready, store))
        self.tallies = parts.tallies
        self.studies = StudyService(parts)
        self.references = ReferenceService(parts)
        self.merger = Merger(parts, self.readiness, self.studies)
        self.enrolment = EnrolmentService(parts)
        self.devices = DeviceService(parts)
        self.roster = RosterService(parts)
        self.sketches = SketchService(parts)
        self.snapshots = SnapshotService(parts)
        self.statistics = StatisticService(parts, self.snapshots)
        self.decodes = DecodeService(parts, self.snapshots)
        self.publishing = PublishingService(parts)
        self.keys = KeyService(parts)
        self.sign_in = SignInService(parts, self.keys)
        self.idempotency = IdempotencyService(parts)
        self.analyses = AnalysisService(parts, self.snapshots)
        self.advising = AdviceService(parts)
        self.accepting = AcceptService(parts)
        self.schedules = ScheduleService(parts)
        self.campaigns = CampaignService(
            parts,
            self.studies,
            FollowingPlans(parts, self.snapshots, self.statistics, self.decodes),
        )
        self.scheduler = Scheduler(
            parts,
            self.readiness,
            self.decodes,
            self.analyses,
            self.publishing,
            self.campaigns,
        )
        self.alarms = AlarmService(parts)
        self.deliverer = Deliverer(parts, self.readiness)
        self.watch = JobWatch(
            {DecodeRecord: self.decodes.get, AnalysisRecord: self.analyses.get}, self.keys
        )
        self.jobs = JobService(
            parts,
            {DecodeRecord: self.decodes.prepare, AnalysisRecord: self.analyses.prepare},
        )
        self.batches = BatchService(parts)
        self.opener = BatchOpener(parts)
        self.audit = AuditService(parts)
