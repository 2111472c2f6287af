"""Plans of stored studies, decoded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TypeVar

from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.jobs.record import JobRecord
from sfumato.aggregator.resources.snapshots.record import SnapshotRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import NotFoundError, StudyWithdrawnError
from sfumato.shared.plan import SketchPlan, decode_plan

_MOST_PLANS = 64
R = TypeVar("R", bound=JobRecord | DeviceRecord | SnapshotRecord)


class PlanCache:
    """A cache of decoded plans; the plan of a study never changes."""

    def __init__(self) -> None:
        self._plans: OrderedDict[bytes, SketchPlan] = OrderedDict()

    async def get(self, study: StudyRecord) -> SketchPlan:
        """Return the plan of a study."""
        plan = self._plans.get(study.plan_digest)
        if plan is None:
            # In a thread: it draws all frequencies to verify them.
            plan = await asyncio.to_thread(decode_plan, study.plan)
            self._plans[study.plan_digest] = plan
        self._plans.move_to_end(study.plan_digest)
        while len(self._plans) > _MOST_PLANS:
            self._plans.popitem(last=False)
        return plan


async def require_study(transaction: Transaction, study_id: bytes) -> StudyRecord:
    """Return a study; raises as :func:`require_present`."""
    return require_present(await transaction.get(StudyRecord, study_id))


async def require_known(transaction: Transaction, found: R | None, name: str) -> R:
    """Return what was looked up, if it exists in a study that was not withdrawn.

    Raises
    ------
    NotFoundError, StudyWithdrawnError
        It does not exist, or its study was withdrawn.
    """
    if found is None:
        raise NotFoundError("is unknown", field=name, fix="check its identity")
    await require_study(transaction, found.study_id)
    return found


def require_present(study: StudyRecord | None) -> StudyRecord:
    """Return a study that exists.

    Raises
    ------
    NotFoundError
        There is none with this identity.
    StudyWithdrawnError
        It was withdrawn.
    """
    if study is None:
        raise NotFoundError(
            "is unknown", field="study", fix="check the study's identity and the server"
        )
    if study.state == "withdrawn":
        raise StudyWithdrawnError(
            "was withdrawn by its operator, with all its data",
            field="study",
            fix="use another study: the name and plan of this one cannot be used again",
        )
    return study
