"""Studies: create, list, open, close, withdraw."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.aggregator.base.helper_client import HelperClient
from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.devices.store import count_devices, count_plan_refusals
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR, AuditAction
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.keys.service.result_keys import require_result_keys
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.sketches.record import RefusalRecord
from sfumato.aggregator.resources.sketches.store.retention import purge_withdrawn, withdraw_study
from sfumato.aggregator.resources.sketches.store.sketches import find_last_arrivals, list_refusals
from sfumato.aggregator.resources.studies.record import StudyRecord, StudyState
from sfumato.aggregator.resources.studies.store import (
    add_study,
    change_study,
    find_studies_of_plan,
    has_study_of_plan,
    link_next,
    list_studies,
)
from sfumato.learning.estimate.search_box import Stated, check_search_box
from sfumato.shared.errors import ConfigError, StaleVersionError, StoreError
from sfumato.shared.plan import SketchPlan, compute_plan_digest, encode_plan, plan_from_json
from sfumato.shared.wire import compute_study_id

_LONGEST_NAME = 200
_BATCH = 256
"""Rows removed in one transaction: few, because uploads on SQLite wait for it."""


@dataclass(frozen=True, kw_only=True)
class StudySummary:
    """A study, its number of devices, and when its latest sketch arrived."""

    study: StudyRecord
    n_devices: int
    last_arrival: float | None


class StudyService(Service):
    """Creates, lists, opens, closes and withdraws studies."""

    is_purge_due = False
    """True if this process withdrew a study since the last purge."""

    async def create(
        self,
        name: str,
        plan_json: Mapping[str, Any],
        *,
        allow_same_plan: bool = True,
        search_box: Stated | None = None,
        follows: bytes | None = None,
        actor: str = LOCAL_ACTOR,
    ) -> tuple[StudySummary, SketchPlan, bool]:
        """Create a study, or return the one with this name and plan; and whether it is new.

        Parameters
        ----------
        allow_same_plan
            Whether a study of another name may have the plan already.
        search_box
            See :class:`StudyRecord`; no part of the study's identity.
        follows
            The study of the campaign's phase before, whose devices will join this one.

        Raises
        ------
        StoreError
            Another study has the plan or follows the same one, or the study exists with another
            search box.
        ConfigError, PlanError, PrivacyError, UnsupportedVersionError
            The name or a field of the plan is invalid, or the helper has not accepted it.
        HelperError
            The helper of a secure sum cannot be asked.
        """
        if not name.strip() or len(name) > _LONGEST_NAME:
            raise ConfigError(
                f"must be 1 to {_LONGEST_NAME} characters, not all blank",
                field="name",
                fix="choose a shorter or longer name",
            )
        # In a thread: it draws all frequencies to verify them.
        plan = await asyncio.to_thread(plan_from_json, plan_json)
        if plan.sum_release is not None:
            async with HelperClient(self._settings) as helper:
                await helper.require_accepted(plan)
        record = StudyRecord(
            study_id=compute_study_id(name, plan),
            name=name,
            plan=encode_plan(plan),
            plan_digest=compute_plan_digest(plan),
            created=self._clock.now(),
            search_box=check_search_box(plan, search_box or {}),
        )
        async with self._store.begin(write=True) as transaction:
            # One that is there already, or was withdrawn, is answered as such below.
            is_known = await transaction.get(StudyRecord, record.study_id) is not None
            if not (is_known or allow_same_plan):
                await _require_new_plan(transaction, record)
            if not is_known and plan.sum_release is not None:
                await _require_new_sum(transaction, record)
            is_new = await add_study(transaction, record)
            if follows is not None:
                await _require_first(transaction, follows, record.study_id)
            # Before any device enrols, which pins it then.
            await require_result_keys(transaction, now=record.created)
            if is_new:
                target = record.study_id.hex()
                about: dict[str, Any] = {"name": name, "plan_digest": record.plan_digest.hex()}
                if record.search_box:
                    about["search_box"] = record.search_box
                await write_entry(
                    transaction, record.created, actor, "study.create", target, **about
                )
            study = await require_study(transaction, record.study_id)
            if search_box is not None and study.search_box != record.search_box:
                raise StoreError(
                    "differs from that of the study, which exists already",
                    field="search_box",
                    fix="omit it here, and change the study",
                )
            return await _summarise(transaction, study), plan, is_new

    async def get(self, study_id: bytes) -> StudySummary:
        """Return a study.

        Raises
        ------
        NotFoundError
            There is none with this identity.
        """
        async with self._store.begin() as transaction:
            return await _summarise(transaction, await require_study(transaction, study_id))

    async def find(self, transaction: Transaction, study_id: bytes) -> StudySummary | None:
        """Return a study inside a transaction; None of one that was withdrawn."""
        study = await transaction.get(StudyRecord, study_id)
        if study is None or study.state == "withdrawn":
            return None
        return await _summarise(transaction, study)

    async def get_record(self, study_id: bytes) -> StudyRecord:
        """Return a study without counting its devices."""
        async with self._store.begin() as transaction:
            return await require_study(transaction, study_id)

    async def get_plan(self, study_id: bytes) -> tuple[StudyRecord, SketchPlan]:
        """Return a study with its plan."""
        async with self._store.begin() as transaction:
            study = await require_study(transaction, study_id)
        return study, await self._plans.get(study)

    async def list_page(
        self,
        *,
        after: PageKey | None,
        limit: int,
        beginning: str = "",
        study_id: bytes | None = None,
    ) -> Sequence[StudySummary]:
        """Return one study or all in the order of creation, whose names begin with a text."""
        async with self._store.begin() as transaction:
            found = await list_studies(
                transaction, after=after, limit=limit, beginning=beginning, study_id=study_id
            )
            return await _summarise_all(transaction, found)

    async def change(
        self,
        study_id: bytes,
        *,
        state: StudyState | None = None,
        accept_until: float | None = None,
        search_box: Stated | None = None,
        expected_version: int | None,
        actor: str = LOCAL_ACTOR,
    ) -> StudySummary:
        """Open or close a study, or change its search box, if it is not so already.

        Parameters
        ----------
        state
            The next state; None leaves it and ``accept_until``.
        accept_until
            Until when the closed study still accepts late sketches.
        search_box
            The search box of later decodes; None leaves it.
        expected_version
            The version that was read; None for any.

        Raises
        ------
        ConfigError
            ``accept_until`` is given for a study that is not closed now, nothing is to be changed,
            or the search box does not suit the plan.
        NotFoundError
            There is none with this identity.
        StaleVersionError
            ``expected_version`` is not the study's.
        """
        if state is None and search_box is None:
            raise ConfigError("is missing", field="state", fix="give state or search_box")
        if state != "closed" and accept_until is not None:
            raise ConfigError(
                "cannot be given for an open study", field="accept_until", fix="omit it"
            )
        if search_box is not None:
            _, plan = await self.get_plan(study_id)
            search_box = check_search_box(plan, search_box)
        async with self._store.begin(write=True) as transaction:
            study = await require_study(transaction, study_id)
            changed = study
            if state is not None:
                changed = replace(changed, state=state, accept_until=accept_until)
            if search_box is not None:
                changed = replace(changed, search_box=search_box)
            is_current = expected_version in (None, study.version)
            if is_current and changed != study:
                is_current = await change_study(transaction, changed)
                now = self._clock.now()
                for action, about in _describe_change(study, changed):
                    await write_entry(transaction, now, actor, action, study_id.hex(), **about)
            if not is_current:
                raise StaleVersionError(
                    "has changed since it was read",
                    field="If-Match",
                    fix="read the study again, and repeat the request if it still applies",
                )
            return await _summarise(transaction, await require_study(transaction, study_id))

    async def list_refusals(
        self, study_id: bytes
    ) -> tuple[Sequence[RefusalRecord], Mapping[str, int]]:
        """Return the refused sketches by problem, and the devices that refuse the plan by rule."""
        await self._tallies.flush()
        async with self._store.begin() as transaction:
            await require_study(transaction, study_id)
            return (
                await list_refusals(transaction, study_id),
                await count_plan_refusals(transaction, study_id),
            )

    async def withdraw(
        self, study_id: bytes, *, name: str, actor: str = LOCAL_ACTOR
    ) -> StudyRecord:
        """Withdraw a study, at once and for good.

        Its identity stays as a tombstone: late sketches learn why they are refused, and the same
        name and plan make no study again. :meth:`purge` removes its data.

        Parameters
        ----------
        name
            The study's name, as a confirmation.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        ConfigError
            The name is wrong.
        """
        async with self._store.begin(write=True) as transaction:
            study = await require_study(transaction, study_id)
            if name != study.name:
                raise ConfigError(
                    "must be the name of the study",
                    field="confirm",
                    fix="give the study's name; all its data will be removed",
                )
            if not await withdraw_study(transaction, study_id):
                # Another request withdrew it meanwhile.
                await require_study(transaction, study_id)
            about = {"name": study.name, "n_sketches": study.n_sketches}
            now = self._clock.now()
            await write_entry(transaction, now, actor, "study.withdraw", study_id.hex(), **about)
        self.is_purge_due = True
        return replace(study, state="withdrawn")

    async def purge(self) -> int:
        """Remove the data of withdrawn studies; return the number of rows.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        self.is_purge_due = False
        n_removed = 0
        while True:
            async with self._store.begin(write=True) as transaction:
                n_batch = await purge_withdrawn(transaction, most=_BATCH)
            n_removed += n_batch
            if n_batch == 0:
                return n_removed


def _describe_change(
    before: StudyRecord, after: StudyRecord
) -> Iterator[tuple[AuditAction, dict[str, Any]]]:
    if (before.state, before.accept_until) != (after.state, after.accept_until):
        until = after.accept_until
        about = {} if until is None else {"accept_until": until}
        yield ("study.open" if after.state == "open" else "study.close"), about
    if before.search_box != after.search_box:
        yield "study.search", {"search_box": after.search_box}


async def _require_new_plan(transaction: Transaction, record: StudyRecord) -> None:
    others = await find_studies_of_plan(transaction, record.plan_digest)
    if others:
        known = others[0]
        raise StoreError(
            f"is that of study {known.study_id.hex()}, {known.name!r}",
            field="plan",
            fix="use that study, or send allow_same_plan = true to release the same records, and "
            "spend budget on them, once more",
        )


async def _require_first(transaction: Transaction, before: bytes, after: bytes) -> None:
    """Let a study follow another, unless one does already: two would ask the same records twice."""
    if await link_next(transaction, before, after):
        return
    known = await transaction.get(StudyRecord, before)
    if known is None or known.next_study != after:
        raise StoreError(
            "is followed by another study already", field="study", fix="see the campaign's status"
        )


async def _require_new_sum(transaction: Transaction, record: StudyRecord) -> None:
    """Refuse a second study of one secure sum: the helper knows a batch by its plan alone."""
    if await has_study_of_plan(transaction, record.plan_digest):
        raise StoreError(
            "is, or was, that of another study, and a secure sum has one",
            field="plan",
            fix="let the helper's operator accept the draft again, which makes a plan with a key "
            "of its own",
        )


async def _summarise(transaction: Transaction, study: StudyRecord) -> StudySummary:
    (summary,) = await _summarise_all(transaction, [study])
    return summary


async def _summarise_all(
    transaction: Transaction, studies: Sequence[StudyRecord]
) -> Sequence[StudySummary]:
    ids = [study.study_id for study in studies]
    n_devices = await count_devices(transaction, ids)
    arrivals = await find_last_arrivals(transaction, ids)
    return [
        StudySummary(
            study=study,
            n_devices=n_devices.get(study.study_id, 0),
            last_arrival=arrivals.get(study.study_id),
        )
        for study in studies
    ]
