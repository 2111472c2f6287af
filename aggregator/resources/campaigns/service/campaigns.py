"""Campaigns: each phase is planned from the answers before it, and published when one is over.

Every step finds what an earlier attempt has left, and goes on there: any number of servers may make
them at once, and one that is killed in between has lost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from sfumato.aggregator.base.transaction import Transaction
from sfumato.aggregator.resources.campaigns.record import PhaseRecord
from sfumato.aggregator.resources.campaigns.service.following import (
    Following,
    FollowingPlans,
    WaitError,
    find_terms,
)
from sfumato.aggregator.resources.campaigns.store import count_finished, list_due
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.parts import Parts, Service
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.service.studies import StudyService, StudySummary
from sfumato.shared.errors import (
    ConfigError,
    NotFoundError,
    SketchError,
    StudyWithdrawnError,
    TransportError,
)
from sfumato.shared.plan import PHASE_NAMES, Campaign, Phase, plan_to_json
from sfumato.shared.wire import problem_document

_LOOKS_S = 2.0
"""Seconds between two looks at a phase that waits for sketches or for a decode."""
_FEW = 1000
"""Unfinished devices for which that pause is doubled."""
_RETRY_S = 600.0
_GRACE_S = 3600.0
_SLOW_S = 86_400.0

_WITHDRAWN = "nothing: its study was withdrawn"
_LOST = "nothing: the study of its next phase was withdrawn"

log = structlog.get_logger("aggregator.campaigns")


@dataclass(frozen=True, kw_only=True)
class PhaseStatus:
    """A phase as it stands.

    Parameters
    ----------
    phase, number, devices
        Its terms, and those of the campaign about devices.
    record, study
        None of a phase that is not published yet.
    n_finished, n_unfinished
        Devices that have sent a sketch of its last window, and those that still may.
    is_over
        Whether no further sketch is awaited.
    waits
        What it waits for; None if nothing is left to do, or it is not published.
    """

    phase: Phase
    number: int
    devices: str
    record: PhaseRecord | None = None
    study: StudySummary | None = None
    n_finished: int = 0
    n_unfinished: int = 0
    is_over: bool = False
    waits: str | None = None


class CampaignService(Service):
    """Begins campaigns, reports on them, and publishes their next phases."""

    def __init__(self, parts: Parts, studies: StudyService, following: FollowingPlans) -> None:
        super().__init__(parts)
        self._studies = studies
        self._following = following

    async def begin(
        self,
        study_id: bytes,
        *,
        n_devices: int,
        is_automatic: bool,
        chooses: bool,
        actor: str = LOCAL_ACTOR,
    ) -> Sequence[PhaseStatus]:
        """Let a campaign go on from its first study, or change how it goes on.

        Parameters
        ----------
        n_devices
            The devices that are expected: a phase is not over before so many have finished it,
            unless its time to wait is.
        is_automatic
            Whether later phases are published without the operator's yes.
        chooses
            Whether decodes choose the number of clusters, up to the campaign's most.

        Raises
        ------
        NotFoundError
            There is no such study.
        ConfigError
            It is of no campaign, or not its first study.
        """
        how = {"n_devices": n_devices, "is_automatic": is_automatic, "chooses": chooses}
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            study = await require_study(transaction, study_id)
            terms = find_terms(await self._plans.get(study))
            known = await transaction.get(PhaseRecord, study_id)
            if known is None:
                if terms.number:
                    raise ConfigError(
                        "must be the first study of its campaign",
                        field="study",
                        fix="publish the first phase with `sfumato campaign create`",
                    )
                known = PhaseRecord(
                    study_id=study_id,
                    first=study_id,
                    number=0,
                    n_devices=n_devices,
                    is_automatic=is_automatic,
                    chooses=chooses,
                    next_at=now,
                )
                await transaction.add(known)
            for each in await transaction.list_all(PhaseRecord, first=known.first):
                await transaction.change(PhaseRecord, each.study_id, next_at=now, **how)
            await write_entry(transaction, now, actor, "campaign.begin", study_id.hex(), **how)
        return await self.describe(study_id)

    async def describe(self, study_id: bytes) -> Sequence[PhaseStatus]:
        """Return all phases of the campaign of a study, also those to come.

        Raises
        ------
        NotFoundError
            There is no such study, or it is of no campaign that was begun.
        """
        async with self._store.begin() as transaction:
            records = await _list_phases(transaction, study_id)
            asked = await require_study(transaction, study_id)
            terms = find_terms(await self._plans.get(asked))
            found = {
                each.number: await self._find_status(transaction, each, terms) for each in records
            }
        last = records[-1].number
        if records[-1].ended is not None and last + 1 < len(terms.phases):
            found[last] = replace(found[last], waits=_LOST)
        return [
            found.get(i, PhaseStatus(phase=phase, number=i, devices=terms.devices))
            for i, phase in enumerate(terms.phases)
        ]

    async def _find_status(
        self, transaction: Transaction, record: PhaseRecord, terms: Campaign
    ) -> PhaseStatus:
        phase = terms.phases[record.number]
        study = await self._studies.find(transaction, record.study_id)
        if study is None:
            return PhaseStatus(
                phase=phase,
                number=record.number,
                devices=terms.devices,
                record=record,
                waits=_WITHDRAWN,
            )
        last_slot = (phase.window.n_slots or 1) - 1
        sent, unsent = await count_finished(transaction, record.study_id, last_slot=last_slot)
        now, end = self._clock.now(), phase.window.end or 0
        awaited = max(unsent, record.n_devices - sent)
        # Silent devices are awaited until the next phase begins; where that is past, for a day.
        later = [each.window.origin for each in terms.phases[record.number + 1 :][:1]]
        deadline = max(end + _GRACE_S, study.study.created + _SLOW_S, *later)
        is_over = now >= end and (not awaited or now >= deadline or record.is_asked)
        waits = None
        if record.ended is None:
            waits = "its windows are open"
            if is_over:
                waits = _describe_rest(record)
            elif now >= end:
                n = max(record.n_devices, sent + unsent)
                waits = f"{awaited} of {n} devices have not sent its last window"
        return PhaseStatus(
            phase=phase,
            number=record.number,
            devices=terms.devices,
            record=record,
            study=study,
            n_finished=sent,
            n_unfinished=unsent,
            is_over=is_over,
            waits=waits,
        )

    async def advance_due(self) -> int:
        """Go on with every campaign that is due; return their number.

        Raises
        ------
        TransportError
            The database does not answer.
        """
        async with self._store.begin() as transaction:
            due = await list_due(transaction, now=self._clock.now())
        for record in due:
            await self._advance_quietly(record)
        return len(due)

    async def _advance_quietly(self, record: PhaseRecord) -> None:
        """Advance, or note why it cannot be done."""
        problem: Any = None
        pause = _LOOKS_S
        try:
            await self.advance(record.study_id, is_asked=False)
        except TransportError:
            raise
        except WaitError as error:
            pause = error.retry_after_s
        except SketchError as error:
            problem, pause = problem_document(error), _RETRY_S
            log.warning("campaign halted", study=record.study_id.hex(), reason=error.rule)
        except Exception as error:
            log.error("campaign failed", study=record.study_id.hex(), exc_info=error)
            failure = SketchError("the server failed", fix="see the server's log")
            problem, pause = problem_document(failure), _RETRY_S
        values = {"problem": problem, "next_at": self._clock.now() + pause}
        async with self._store.begin(write=True) as transaction:
            present = await transaction.get(PhaseRecord, record.study_id, lock=True)
            # Another server may have gone on meanwhile.
            if present is not None and present.ended is None:
                await transaction.change(PhaseRecord, record.study_id, **values)

    async def advance(
        self,
        study_id: bytes,
        *,
        is_asked: bool = True,
        anyway: bool = False,
        actor: str = LOCAL_ACTOR,
    ) -> Sequence[PhaseStatus]:
        """Publish the next phase of a campaign, or note its answer after the last.

        Parameters
        ----------
        is_asked
            Whether the operator asks for it, who does not wait for silent devices.
        anyway
            Whether to go on from an answer that nobody should use.

        Raises
        ------
        ConfigError
            It cannot be done yet, and the rule says what is awaited.
        PlanError, PrivacyError
            No plan that promises an answer follows from the answer.
        """
        async with self._store.begin() as transaction:
            records = await _list_phases(transaction, study_id)
            record = records[-1]
            study = await require_study(transaction, record.study_id)
            terms = find_terms(await self._plans.get(study))
        if record.ended is not None and not terms.is_last:
            raise StudyWithdrawnError(
                "has lost the study of its next phase, which was withdrawn",
                field="campaign",
                fix="publish another campaign",
            )
        if record.ended is None:
            await self._require_over(record, terms, is_asked=is_asked or record.is_asked)
            following = None
            try:
                with self._store.apart():
                    if is_asked:
                        # The server goes on with it where an answer is to be computed first.
                        async with self._store.begin(write=True) as transaction:
                            await transaction.change(PhaseRecord, record.study_id, is_asked=True)
                    if study.next_study is None:
                        following = await self._following.plan(records, study, anyway=anyway)
            except WaitError:
                if not is_asked:
                    raise
                return await self.describe(study_id)
            await self._go_on(records, study, terms.phases, following, actor=actor)
        return await self.describe(study_id)

    async def _require_over(self, record: PhaseRecord, terms: Campaign, *, is_asked: bool) -> None:
        """Refuse to go on while windows are open, or devices are awaited, with a ``WaitError``."""
        left = (terms.phase.window.end or 0) - self._clock.now()
        waits, pause = "its windows are open", left
        if left <= 0:
            if is_asked:
                return
            # Every device is looked at for it: of many, seldom.
            async with self._store.begin() as transaction:
                status = await self._find_status(transaction, record, terms)
            if status.is_over:
                return
            pause = _LOOKS_S * (1 + status.n_unfinished / _FEW)
            waits = str(status.waits)
        raise WaitError(
            f"waits: {waits}",
            field="campaign",
            fix="see `sfumato campaign status`",
            retry_after_s=pause,
        )

    async def _go_on(
        self,
        records: Sequence[PhaseRecord],
        study: StudyRecord,
        phases: Sequence[Phase],
        following: Following | None,
        *,
        actor: str,
    ) -> None:
        """Publish the study of the next phase, if there is one, and end this phase."""
        record, now = records[-1], self._clock.now()
        next_study = study.next_study
        if following is not None:
            summary, _, _ = await self._studies.create(
                _name_next(await self._find_name(records), phases, record.number + 1),
                plan_to_json(following.plan),
                search_box=following.search_box,
                follows=study.study_id,
                actor=actor,
            )
            next_study = summary.study.study_id
        async with self._store.begin(write=True) as transaction:
            if next_study is not None:
                await transaction.add(
                    replace(
                        record,
                        study_id=next_study,
                        number=record.number + 1,
                        decode_id=None,
                        is_asked=False,
                        problem=None,
                        next_at=now,
                    )
                )
            await transaction.change(PhaseRecord, record.study_id, ended=now, problem=None)

    async def _find_name(self, records: Sequence[PhaseRecord]) -> str:
        """Return the name of the first study, which may have been withdrawn since."""
        async with self._store.begin() as transaction:
            first = await transaction.get(StudyRecord, records[0].first)
        assert first is not None, "its identity stays"
        return first.name


def _describe_rest(record: PhaseRecord) -> str:
    if record.problem is not None:
        return "the operator"
    if record.decode_id is not None:
        return "its decode"
    return "the server" if record.is_automatic or record.is_asked else "the operator's yes"


def _name_next(name: str, phases: Sequence[Phase], number: int) -> str:
    """Return the name of a later study: that of the first, with the kind of the phase."""
    kinds = [each.statistic for each in phases[: number + 1]]
    count = kinds.count(kinds[-1])
    return f"{name} {PHASE_NAMES[kinds[-1]]}" + (f" {count}" if count > 1 else "")


async def _list_phases(transaction: Transaction, study_id: bytes) -> list[PhaseRecord]:
    """Return the published phases of the campaign of a study, in order."""
    await require_study(transaction, study_id)
    known = await transaction.get(PhaseRecord, study_id)
    if known is None:
        raise NotFoundError(
            "is of no campaign that was begun", field="study", fix="see `sfumato campaign create`"
        )
    found = await transaction.list_all(PhaseRecord, first=known.first)
    return sorted(found, key=lambda each: each.number)
