"""The clockwork of schedules: a background task of each server.

A schedule is leased, its job queued, and the next start set. Any number of servers may run this: of
two, one gets each schedule. A server that is killed in between leaves a lease, after which another
queues the same job, which has the same identity and so is not queued twice. Starts that were
missed, while no server ran or the schedule was paused, are made up by one.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import Any

import structlog

from sfumato.aggregator.base.clock import wait_for_stop
from sfumato.aggregator.base.readiness import Readiness
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.alarms.record import ScheduleRecord
from sfumato.aggregator.resources.alarms.service.events import find_events
from sfumato.aggregator.resources.alarms.service.outbox import queue_events
from sfumato.aggregator.resources.alarms.store import (
    finish_schedule,
    has_due_schedule,
    lease_schedule,
    list_running_schedules,
)
from sfumato.aggregator.resources.campaigns.service.campaigns import CampaignService
from sfumato.aggregator.resources.jobs.record import AnalysisRecord, DecodeRecord, JobRecord
from sfumato.aggregator.resources.jobs.service.analyses import AnalysisService
from sfumato.aggregator.resources.jobs.service.decodes import DecodeService
from sfumato.aggregator.resources.jobs.service.publications import PublishingService
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import NotFoundError, SketchError, TransportError
from sfumato.shared.plan import WindowRule
from sfumato.shared.structure import structure
from sfumato.shared.wire import problem_document
from sfumato.shared.wire.objects.analyses import TimelineRequest

_PERIOD_S = 1.0
_LEASE_S = 60.0
_TOKEN_BYTES = 16
_FINAL = ("succeeded", "failed", "cancelled")

log = structlog.get_logger("aggregator.alarms")


class Scheduler(Service):
    """Starts the jobs of schedules, queues the events of those that ended, and leads campaigns."""

    def __init__(
        self,
        parts: Parts,
        readiness: Readiness,
        decodes: DecodeService,
        analyses: AnalysisService,
        publishing: PublishingService,
        campaigns: CampaignService,
    ) -> None:
        super().__init__(parts)
        self._readiness = readiness
        self._decodes = decodes
        self._analyses = analyses
        self._publishing = publishing
        self._campaigns = campaigns

    async def run(self, stop: asyncio.Event) -> None:
        """Start jobs when they are due until ``stop``, while the database can be used."""
        while not stop.is_set():
            await wait_for_stop(stop, _PERIOD_S)
            if stop.is_set() or not self._readiness.is_open:
                continue
            try:
                await self.run_due()
            except TransportError as error:
                log.warning("schedules wait for the database", reason=describe_cause(error))
            except Exception as error:
                # Or the task would end, and with it all schedules.
                log.error("unforeseen error", exc_info=error)

    async def run_due(self) -> int:
        """Note the jobs that have ended, and start those that are due; return the number started.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        await self._note_ended()
        await self._campaigns.advance_due()
        n_started = 0
        while (schedule := await self._take()) is not None:
            await self._start(schedule)
            n_started += 1
        return n_started

    async def _take(self) -> ScheduleRecord | None:
        now = self._clock.now()
        async with self._store.begin() as transaction:
            # Servers look often: without the lock of a writer first.
            if not await has_due_schedule(transaction, now=now):
                return None
        token = secrets.token_bytes(_TOKEN_BYTES)
        async with self._store.begin(write=True) as transaction:
            return await lease_schedule(transaction, token=token, now=now, expires=now + _LEASE_S)

    async def _start(self, schedule: ScheduleRecord) -> None:
        now = self._clock.now()
        values: dict[str, Any] = {
            "begun": now,
            "next_at": find_next(schedule.next_at, schedule.every_s, now=now),
        }
        try:
            job = await self._queue(schedule, now=now)
            values |= {"job_id": job.job_id}
        except TransportError:
            raise  # not the fault of the schedule: the lease ends, and it is tried again
        except SketchError as error:
            values |= {"ended": now, "problem": problem_document(error)}
            values |= {"n_runs": schedule.n_runs + 1}
        except Exception as error:
            log.error("schedule failed", schedule=schedule.schedule_id.hex(), exc_info=error)
            failure = SketchError("the server failed", fix="see the server's log")
            values |= {"ended": now, "problem": problem_document(failure)}
            values |= {"n_runs": schedule.n_runs + 1}
        async with self._store.begin(write=True) as transaction:
            await transaction.settle(
                ScheduleRecord, schedule.schedule_id, schedule.lease_token or b"", **values
            )
        log.info("schedule started", schedule=schedule.schedule_id.hex())

    async def _queue(self, schedule: ScheduleRecord, *, now: float) -> JobRecord:
        request, first_slot = dict(schedule.request), None
        if schedule.last_s is not None:
            async with self._store.begin() as transaction:
                study = await require_study(transaction, schedule.study_id)
            window = (await self._plans.get(study)).window
            first_slot = find_first_slot(schedule, window, now=now)
        if schedule.kind == "decode":
            request.pop("publish")
            labels = request.pop("labels")
            selection = Selection(first_slot=first_slot, labels=labels)
            job: JobRecord
            job, _ = await self._decodes.create(
                schedule.study_id, snapshot_id=None, selection=selection, **request
            )
            return job
        members = request | {"kind": schedule.kind, "first_slot": first_slot}
        analysis = structure(TimelineRequest, members)
        job, _ = await self._analyses.create(schedule.study_id, analysis)
        return job

    async def _note_ended(self) -> None:
        async with self._store.begin() as transaction:
            running = await list_running_schedules(transaction)
        for schedule in running:
            await self._note(schedule)

    async def _note(self, schedule: ScheduleRecord) -> None:
        """Note a job that has ended and queue its events, in one transaction."""
        assert schedule.job_id is not None, "only these are listed"
        kind = DecodeRecord if schedule.kind == "decode" else AnalysisRecord
        async with self._store.begin() as transaction:
            job: JobRecord | None = await transaction.get(kind, schedule.job_id)
            study = await transaction.get(StudyRecord, schedule.study_id)
        if study is None or (job is not None and job.state not in _FINAL):
            return
        values, events = self._judge(schedule, study, job)
        # First the publication: after a kill in between it is made again, which changes nothing.
        await self._publish(schedule, job)
        async with self._store.begin(write=True) as transaction:
            if await finish_schedule(transaction, schedule.schedule_id, schedule.job_id, **values):
                await queue_events(transaction, schedule.study_id, events, now=self._clock.now())

    async def _publish(self, schedule: ScheduleRecord, job: JobRecord | None) -> None:
        """Sign a new result for the devices, if the schedule asks for it and its verdict allows."""
        if not schedule.request.get("publish") or job is None or job.state != "succeeded":
            return
        try:
            last = await self._publishing.get_latest(schedule.study_id)
        except NotFoundError:
            last = None
        if last is not None and last.decode_id == job.job_id:
            return
        try:
            await self._publishing.publish(schedule.study_id, job.job_id, name="scheduled")
        except TransportError:
            raise  # the database does not answer: it is tried again
        except SketchError as error:
            # A result that nobody should use; the last good one stays.
            log.info("result not published", study=schedule.study_id.hex(), reason=error.rule)

    def _judge(
        self, schedule: ScheduleRecord, study: StudyRecord, job: JobRecord | None
    ) -> tuple[dict[str, Any], list[Any]]:
        now = self._clock.now()
        values: dict[str, Any] = {
            "ended": now,
            "last_job_id": schedule.job_id,
            "n_runs": schedule.n_runs + 1,
            "problem": None,
        }
        if job is None or job.state != "succeeded" or job.result is None:
            gone = problem_document(SketchError("was cancelled or removed", field="job"))
            values["problem"] = (job and job.problem) or gone
            return values, []
        found = find_events(schedule, study, job, page_url=self._settings.page_url)
        return values | {"known": found.known, "last_verdict": found.verdict}, found.events


def find_first_slot(schedule: ScheduleRecord, window: WindowRule, *, now: float) -> int | None:
    """Return the first slot that a start of a schedule reads; None where all count.

    Windows of several slots lie alike at every start: by their first slot a known alarm is known.
    """
    if schedule.last_s is None:
        return None
    slot = window.slot_of(now - schedule.last_s)
    return slot - slot % int(schedule.request.get("slots_per_window", 1))


def find_next(due: float, every_s: float, *, now: float) -> float:
    """Return the first start after now, in step with the one that was due.

    A due time in the future was set by a clock that was ahead; then the steps begin anew.
    """
    if due > now:
        return now + every_s
    return due + (math.floor((now - due) / every_s) + 1.0) * every_s
