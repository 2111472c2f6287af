"""All services over one store."""

from __future__ import annotations

from sfumato.aggregator.job_records import AnalysisRecord, DecodeRecord
from sfumato.aggregator.records import Clock
from sfumato.aggregator.services.advice import AdviceService
from sfumato.aggregator.services.alarms.delivery import Deliverer
from sfumato.aggregator.services.alarms.scheduler import Scheduler
from sfumato.aggregator.services.alarms.schedules import ScheduleService
from sfumato.aggregator.services.alarms.service import AlarmService
from sfumato.aggregator.services.analyses.acceptance import AcceptService
from sfumato.aggregator.services.analyses.service import AnalysisService
from sfumato.aggregator.services.audit import AuditService
from sfumato.aggregator.services.batches.opener import BatchOpener
from sfumato.aggregator.services.batches.service import BatchService
from sfumato.aggregator.services.devices.enrolment import EnrolmentService
from sfumato.aggregator.services.devices.roster import RosterService
from sfumato.aggregator.services.devices.signed import DeviceService
from sfumato.aggregator.services.keys import KeyService
from sfumato.aggregator.services.readiness import Readiness
from sfumato.aggregator.services.references import ReferenceService
from sfumato.aggregator.services.results.decodes import DecodeService
from sfumato.aggregator.services.results.jobs import JobService
from sfumato.aggregator.services.results.publications import PublishingService
from sfumato.aggregator.services.results.snapshots import SnapshotService
from sfumato.aggregator.services.results.statistics import StatisticService
from sfumato.aggregator.services.results.watch import JobWatch
from sfumato.aggregator.services.service import Parts
from sfumato.aggregator.services.sketches.merger import Merger
from sfumato.aggregator.services.sketches.service import SketchService
from sfumato.aggregator.services.studies import StudyService
from sfumato.aggregator.settings import Settings
from sfumato.aggregator.storage import Store


class Services:
    """All services, sharing a store, a clock, settings and a cache of plans."""

    def __init__(self, store: Store, clock: Clock, settings: Settings | None = None) -> None:
        parts = Parts(store, clock, settings or Settings())
        self.store = store
        self.clock = clock
        self.readiness = Readiness(store)
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
        self.analyses = AnalysisService(parts, self.snapshots)
        self.advising = AdviceService(parts)
        self.accepting = AcceptService(parts)
        self.schedules = ScheduleService(parts)
        self.scheduler = Scheduler(
            parts, self.readiness, self.decodes, self.analyses, self.publishing
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
