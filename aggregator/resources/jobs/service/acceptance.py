"""Accepted changes: from each on, a timeline compares later windows with what came then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sfumato.aggregator.answers.kind import require_slots
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.sketches.store.cells import find_slots
from sfumato.aggregator.resources.studies.store import list_accepted, store_accepted
from sfumato.shared.errors import ConfigError, NotFoundError
from sfumato.shared.plan import SketchPlan

MOST_ACCEPTED = 400
"""As many as a timeline has windows."""


@dataclass(frozen=True, kw_only=True)
class AcceptedChange:
    """A change that somebody accepted.

    Parameters
    ----------
    first_slot
        The first slot after it.
    accepted, actor, note
        When, by which API key, and why.
    """

    first_slot: int
    accepted: float
    actor: str
    note: str


class AcceptService(Service):
    """Keeps the accepted changes of studies."""

    async def accept(
        self, study_id: bytes, first_slot: int, *, note: str = "", actor: str = LOCAL_ACTOR
    ) -> tuple[AcceptedChange, SketchPlan, bool]:
        """Accept a change; return it, the plan, and whether it is new.

        One that is accepted already stays as it is.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        ConfigError
            No sketch has this slot or an earlier and a later one, windows have no slots, or too
            many changes are accepted.
        """
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            slots = await find_slots(transaction, study_id)
        plan = await self._plans.get(study)
        require_slots(plan)
        if slots is None or not slots[0] < first_slot <= slots[1]:
            where = "has none yet" if slots is None else f"are from {slots[0]} to {slots[1]}"
            raise ConfigError(
                f"must be a slot with sketches before it; those of this study {where}",
                field="first_slot",
                fix="give the first slot of a window that a timeline shows",
            )
        now = self._clock.now()
        change = AcceptedChange(first_slot=first_slot, accepted=now, actor=actor, note=note)
        async with self._store.begin(write=True) as transaction:
            await require_study(transaction, study_id)
            known = await list_accepted(transaction, study_id, lock=True)
            for each in known:
                if each["first_slot"] == first_slot:
                    return AcceptedChange(**each), plan, False
            if len(known) >= MOST_ACCEPTED:
                raise ConfigError(
                    f"cannot be accepted: {MOST_ACCEPTED} changes are already",
                    field="first_slot",
                    fix="remove those that are long past",
                )
            every = sorted([*known, asdict(change)], key=lambda each: each["first_slot"])
            await store_accepted(transaction, study_id, every)
            about = {"first_slot": first_slot, "note": note}
            await write_entry(transaction, now, actor, "change.accept", study_id.hex(), **about)
        return change, plan, True

    async def list_all(self, study_id: bytes) -> tuple[Sequence[AcceptedChange], SketchPlan]:
        """Return the accepted changes of a study, in order, and its plan."""
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
            known = await list_accepted(transaction, study_id)
        return [AcceptedChange(**each) for each in known], await self._plans.get(study)

    async def reopen(
        self, study_id: bytes, first_slot: int, *, actor: str = LOCAL_ACTOR
    ) -> tuple[AcceptedChange, SketchPlan]:
        """Accept a change no longer.

        Raises
        ------
        NotFoundError
            It is not accepted, or there is no such study.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            study = await require_study(transaction, study_id)
            known = await list_accepted(transaction, study_id, lock=True)
            found = [each for each in known if each["first_slot"] == first_slot]
            if not found:
                raise NotFoundError(
                    "is no accepted change of this study",
                    field="first_slot",
                    fix="see `sfumato change list STUDY`",
                )
            rest = [each for each in known if each["first_slot"] != first_slot]
            await store_accepted(transaction, study_id, rest)
            await write_entry(
                transaction, now, actor, "change.reopen", study_id.hex(), first_slot=first_slot
            )
        return AcceptedChange(**found[0]), await self._plans.get(study)
