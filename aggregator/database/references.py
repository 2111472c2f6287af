"""References that people type: names and first digits, in place of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from sqlalchemy import select

from sfumato.aggregator.base.transaction import Transaction, select_records
from sfumato.aggregator.resources.alarms.store import ALARMS, SCHEDULES
from sfumato.aggregator.resources.batches.store.batches import BATCHES
from sfumato.aggregator.resources.devices.store import DEVICES, TOKENS
from sfumato.aggregator.resources.jobs.store import ANALYSES, DECODES
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.snapshots.store import SNAPSHOTS
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.resources.studies.store import STUDIES, list_studies
from sfumato.shared.wire.references import (
    choose_among,
    choose_identity,
    choose_study,
    is_beginning,
    require_beginning,
)

Identified = Literal[
    "study", "device", "batch", "snapshot", "decode", "analysis", "schedule", "alarm", "token"
]
"""Kinds of what people refer to by first digits: a study, and what belongs to one."""
IDENTIFIED: tuple[Identified, ...] = get_args(Identified)
_COLUMNS: dict[Identified, Any] = {
    "study": STUDIES.c.study_id,
    "device": DEVICES.c.device_id,
    "batch": BATCHES.c.batch_id,
    "snapshot": SNAPSHOTS.c.snapshot_id,
    "decode": DECODES.c.decode_id,
    "analysis": ANALYSES.c.analysis_id,
    "schedule": SCHEDULES.c.schedule_id,
    "alarm": ALARMS.c.alarm_id,
    "token": TOKENS.c.token_hash,
}
_DIGITS = 64


async def find_identities(
    transaction: Transaction,
    kind: Identified,
    digits: str,
    *,
    limit: int,
    within: bytes | None = None,
) -> Sequence[bytes]:
    """Return ids that begin with some hexadecimal digits, in order, of one study or of all."""
    column = _COLUMNS[kind]
    statement = select(column).where(column.between(*_span(digits))).order_by(column).limit(limit)
    if within is not None:
        statement = statement.where(column.table.c.study_id == within)
    return list((await transaction.connection.execute(statement)).scalars())


async def find_studies(transaction: Transaction, name: str, *, limit: int) -> Sequence[StudyRecord]:
    """Return the studies of a name that are not withdrawn, the oldest first."""
    statement = (
        select_records(StudyRecord)
        .where(STUDIES.c.name == name, STUDIES.c.state != "withdrawn")
        .order_by(STUDIES.c.created, STUDIES.c.study_id)
        .limit(limit)
    )
    return await transaction.list_records(statement, StudyRecord)


async def find_devices(
    transaction: Transaction, reference: str, *, limit: int, within: bytes | None = None
) -> Mapping[str, str]:
    """Return name and study by the id of each device that a name or first digits fit."""
    fits = DEVICES.c.name == reference
    if is_beginning(reference):
        fits |= DEVICES.c.device_id.between(*_span(reference))
    statement = (
        select(DEVICES.c.device_id, DEVICES.c.name, STUDIES.c.name.label("study"))
        .join(STUDIES, STUDIES.c.study_id == DEVICES.c.study_id)
        .where(fits)
        .order_by(DEVICES.c.device_id)
        .limit(limit)
    )
    if within is not None:
        statement = statement.where(DEVICES.c.study_id == within)
    found = await transaction.connection.execute(statement)
    return {row.device_id.hex(): f"{row.name or 'device'} of {row.study}" for row in found}


def _span(digits: str) -> tuple[bytes, bytes]:
    """Return the first and the last id that begin with some hexadecimal digits."""
    first, last = (bytes.fromhex(digits.ljust(_DIGITS, fill)) for fill in "0f")
    return first, last


_MOST = 11
"""Candidates that are looked up: an error lists ten, and says whether there are more."""


class ReferenceService(Service):
    """Finds what a reference names, in one study or in all."""

    async def find_study(self, reference: str, *, within: bytes | None = None) -> str:
        """Return the id of a study, given its name or first digits.

        Raises
        ------
        NotFoundError, ConfigError
            It fits no study, or more than one; the error lists the candidates.
        """
        async with self._store.begin() as transaction:
            if within is not None:
                only = await transaction.get(StudyRecord, within)
                return choose_study(reference, [(within.hex(), only.name)] if only else [])
            found = await find_studies(transaction, reference, limit=_MOST)
            if is_beginning(reference):
                for study_id in await find_identities(transaction, "study", reference, limit=_MOST):
                    study = await transaction.get(StudyRecord, study_id)
                    if study is not None and study.state != "withdrawn":
                        found = [*found, study]
            known = found or await list_studies(transaction, after=None, limit=_MOST)
        names = {study.study_id.hex(): study.name for study in known}
        return choose_study(reference, names.items())

    async def find_device(self, reference: str, *, within: bytes | None = None) -> str:
        """Return the id of a device, given its name or first digits.

        Raises
        ------
        NotFoundError, ConfigError
            It fits no device, or more than one; the error lists the candidates.
        """
        async with self._store.begin() as transaction:
            found = await find_devices(transaction, reference, limit=_MOST, within=within)
        return choose_among(reference, "device", found)

    async def find(self, kind: Identified, reference: str, *, within: bytes | None = None) -> str:
        """Return the id of something, given its first digits, or the name of a study.

        Raises
        ------
        NotFoundError, ConfigError
            None begins so, or more than one.
        """
        if kind == "study":
            return await self.find_study(reference, within=within)
        require_beginning(reference, kind)
        async with self._store.begin() as transaction:
            found = await find_identities(transaction, kind, reference, limit=_MOST, within=within)
        return choose_identity(reference, kind, [(each.hex(), kind) for each in found])
