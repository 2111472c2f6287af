"""Schedules: create, list, pause, remove."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.aggregator.answers.registry import KINDS
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.alarms.record import ScheduleKind, ScheduleRecord, ScheduleState
from sfumato.aggregator.resources.jobs.service.decodes import require_solver
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.snapshots.service.snapshots import require_suitable
from sfumato.learning.clustering.registry import choose_solver
from sfumato.shared.errors import ConfigError, DecodingError, NotFoundError
from sfumato.shared.plan import SketchPlan

_ID_BYTES = 32


class ScheduleService(Service):
    """Keeps schedules; :class:`.running.Scheduler` starts their jobs."""

    async def create(
        self,
        study_id: bytes,
        *,
        kind: ScheduleKind,
        request: Mapping[str, Any],
        every_s: float,
        last_s: float | None,
        actor: str = LOCAL_ACTOR,
    ) -> ScheduleRecord:
        """Create a schedule, which is due at once.

        Parameters
        ----------
        request
            Members of the decode or timeline that is asked for each time.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        ConfigError
            The kind is unknown here, a label is not declared, or ``last_s`` does not suit the plan.
        DecodingError
            The number of clusters or a setting does not suit.
        """
        if request["n_clusters"] < 1:
            raise DecodingError(
                "must be at least 1", field="n_clusters", fix="request at least one cluster"
            )
        if kind != "decode" and kind not in KINDS:
            raise ConfigError(
                f"must be decode or one of {', '.join(KINDS)}", field="kind", fix="choose another"
            )
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
        plan = await self._plans.get(study)
        if kind == "decode":
            name = request["decoder"] or choose_solver(plan.kind)
            require_solver(name, request["settings"], plan)
        require_suitable(Selection(labels=request["labels"]), plan)
        _require_times(plan, last_s)
        now = self._clock.now()
        record = ScheduleRecord(
            schedule_id=secrets.token_bytes(_ID_BYTES),
            study_id=study_id,
            kind=kind,
            request=dict(request),
            every_s=every_s,
            last_s=last_s,
            created=now,
            next_at=now,
        )
        async with self._store.begin(write=True) as transaction:
            await require_study(transaction, study_id)
            await transaction.add(record)
            about = {"study": study_id.hex(), "kind": kind, "every_s": every_s}
            target = record.schedule_id.hex()
            await write_entry(transaction, now, actor, "schedule.create", target, **about)
        return record

    async def get(self, schedule_id: bytes) -> ScheduleRecord:
        """Return a schedule.

        Raises
        ------
        NotFoundError
            There is none with this identity.
        """
        async with self._store.begin() as transaction:
            return await _require_schedule(transaction, schedule_id)

    async def list_page(
        self, study_id: bytes, *, after: PageKey | None, limit: int
    ) -> Sequence[ScheduleRecord]:
        """Return the schedules of a study, the oldest first."""
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return await transaction.list_page(
                ScheduleRecord, study_id=study_id, after=after, limit=limit
            )

    async def change(
        self, schedule_id: bytes, *, state: ScheduleState, actor: str = LOCAL_ACTOR
    ) -> ScheduleRecord:
        """Pause a schedule, or let it go on; starts that it missed are made up by one."""
        async with self._store.begin(write=True) as transaction:
            found = await _require_schedule(transaction, schedule_id)
            if found.state != state:
                await transaction.change(ScheduleRecord, schedule_id, state=state)
                now, target = self._clock.now(), schedule_id.hex()
                await write_entry(transaction, now, actor, "schedule.change", target, state=state)
            return await _require_schedule(transaction, schedule_id)

    async def remove(self, schedule_id: bytes, *, actor: str = LOCAL_ACTOR) -> ScheduleRecord:
        """Remove a schedule; a job of it that is under way goes on."""
        async with self._store.begin(write=True) as transaction:
            found = await _require_schedule(transaction, schedule_id)
            await transaction.remove(ScheduleRecord, schedule_id)
            about, target = {"study": found.study_id.hex()}, schedule_id.hex()
            now = self._clock.now()
            await write_entry(transaction, now, actor, "schedule.remove", target, **about)
        return found


async def _require_schedule(transaction: Transaction, schedule_id: bytes) -> ScheduleRecord:
    found = await transaction.get(ScheduleRecord, schedule_id)
    if found is None:
        raise NotFoundError("is unknown", field="schedule", fix="see `sfumato schedule list STUDY`")
    await require_study(transaction, found.study_id)
    return found


def _require_times(plan: SketchPlan, last_s: float | None) -> None:
    if last_s is None:
        return
    if plan.window.kind != "time":
        raise ConfigError(
            "cannot be given: the plan's windows are by count and have no times",
            field="last_s",
            fix="leave it out: all sketches count",
        )
    if last_s < plan.window.length_s:
        raise ConfigError(
            f"must be at least {plan.window.length_s}, the length of a window",
            field="last_s",
            fix="choose a longer time",
        )
