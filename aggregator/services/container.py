"""All services over one store."""

from __future__ import annotations

from aggregator.job_records import AnalysisRecord, DecodeRecord
from aggregator.records import Clock
from aggregator.services.advising import AdviceService
from aggregator.services.alarms.alarming import AlarmService
from aggregator.services.alarms.delivering import Deliverer
from aggregator.services.alarms.running import Scheduler
from aggregator.services.alarms.scheduling import ScheduleService
from aggregator.services.analyses.accepting import AcceptService
from aggregator.services.analyses.service import AnalysisService
from aggregator.services.audit import AuditService
from aggregator.services.batches.opening import BatchOpener
from aggregator.services.batches.service import BatchService
from aggregator.services.devices.enrolment import EnrolmentService
from aggregator.services.devices.roster import RosterService
from aggregator.services.devices.signed import DeviceService
from aggregator.services.keys import KeyService
from aggregator.services.readiness import Readiness
from aggregator.services.references import ReferenceService
from aggregator.services.results.decodes import DecodeService
from aggregator.services.results.jobs import JobService
from aggregator.services.results.publishing import PublishingService
from aggregator.services.results.snapshots import SnapshotService
from aggregator.services.results.statistics import StatisticService
from aggregator.services.results.watching import JobWatch
from aggregator.services.service import Parts
from aggregator.services.sketches.merging import Merger
from aggregator.services.sketches.receiving import SketchService
from aggregator.services.studies import StudyService
from aggregator.settings import Settings
from aggregator.storage import Store


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
