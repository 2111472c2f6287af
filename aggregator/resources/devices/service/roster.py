"""Devices for analysts and operators: list, describe, revoke, exclude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.batches.store.exclusion import count_excluded, exclude_device
from sfumato.aggregator.resources.devices.record import DeviceRecord, RetiredKeyRecord
from sfumato.aggregator.resources.devices.service.keys import key_id_of
from sfumato.aggregator.resources.devices.store import list_devices
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.resources.parts import Service
from sfumato.aggregator.resources.plans import require_known, require_study
from sfumato.aggregator.resources.sketches.record import ExcludedSketches, StreamRecord
from sfumato.aggregator.resources.sketches.store.streams import (
    find_repeated,
    list_streams,
    list_streams_of,
)
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.errors import NotFoundError


@dataclass(frozen=True, kw_only=True)
class DeviceSummary:
    """A device, the progress of its streams, and the devices whose records it may repeat."""

    device: DeviceRecord
    streams: Sequence[StreamRecord]
    may_repeat: Sequence[bytes]


@dataclass(frozen=True, kw_only=True)
class DeviceDetails(DeviceSummary):
    """A device with its retired keys, the latest last."""

    retired_keys: Sequence[RetiredKeyRecord]


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """An excluded device, its identities in later phases, and the sketches of all of them."""

    device: DeviceRecord
    later: Sequence[bytes]
    sketches: ExcludedSketches


class RosterService(Service):
    """Lists devices, describes one, revokes and excludes."""

    async def list_page(
        self, study_id: bytes | None, *, after: PageKey | None, limit: int
    ) -> Sequence[DeviceSummary]:
        """Return devices in the order of enrolment, of one study or of all.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such study, or it was withdrawn.
        """
        async with self._store.begin() as transaction:
            if study_id is not None:
                await require_study(transaction, study_id)
            devices = await list_devices(transaction, study_id, after=after, limit=limit)
            ids = [device.device_id for device in devices]
            streams = await list_streams_of(transaction, ids)
            repeated = await find_repeated(transaction, ids)
        return [
            DeviceSummary(
                device=device,
                streams=streams.get(device.device_id, ()),
                may_repeat=repeated.get(device.device_id, ()),
            )
            for device in devices
        ]

    async def get(self, device_id: bytes) -> DeviceDetails:
        """Return a device.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is none with this identity, or its study was withdrawn.
        """
        async with self._store.begin() as transaction:
            return await _describe(transaction, await _require_device(transaction, device_id))

    async def revoke(
        self,
        device_id: bytes,
        *,
        key_id: bytes | None,
        reason: str,
        actor: str = LOCAL_ACTOR,
        keeps_to_study: bool = False,
    ) -> DeviceDetails:
        """Revoke a key of a device, at once and for good.

        Stored sketches stay in every sum; exclusion removes them. A device that is revoked as a
        whole is revoked in the later phases of its campaign too, where it has other keys.

        Parameters
        ----------
        key_id
            A retired key. The present key, or None, revokes the device.
        keeps_to_study
            Whether later phases stay as they are: they are other studies, on which a key of one
            does not act.

        Raises
        ------
        NotFoundError, StudyWithdrawnError
            There is no such device or key, or its study was withdrawn.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            device = await _require_device(transaction, device_id, lock=True)
            about = {"reason": reason, "key_id": key_id.hex() if key_id else None}
            if key_id is None or key_id == key_id_of(device.public_key):
                revoked = [
                    each.device_id
                    for each in await _list_phases(transaction, device, only_first=keeps_to_study)
                    if await transaction.revoke(DeviceRecord, each.device_id, now=now)
                ]
            else:
                is_new = await _revoke_retired(transaction, device_id, key_id, now)
                revoked = [device_id] if is_new else []
            for identity in revoked:
                await write_entry(transaction, now, actor, "device.revoke", identity.hex(), **about)
            return await _describe(transaction, await _require_device(transaction, device_id))

    async def exclude(
        self,
        device_id: bytes,
        *,
        reason: str,
        actor: str = LOCAL_ACTOR,
        keeps_to_study: bool = False,
    ) -> Exclusion:
        """Exclude a device, in the later phases of its campaign too unless it keeps to its study.

        An excluded one keeps its first reason.

        Raises
        ------
        NotFoundError
            There is no such device.

        Guarantees
        ----------
        One short transaction excludes its sketches, refuses later ones and writes the audit log: no
        snapshot made after the answer has any of them. The merger takes them out of the running
        sums afterwards. A sketch whose payload was dropped stays, and is counted as kept.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            # Locked: no upload of the device runs meanwhile.
            device = await _require_device(transaction, device_id, lock=True)
            listed = await _list_phases(transaction, device, only_first=keeps_to_study)
            phases = [each.device_id for each in listed]
            found = {
                each: await exclude_device(transaction, each, now=now, reason=reason)
                for each in phases
            }
            for each, sketches in found.items():
                if sketches is not None:
                    about = {"reason": reason, "n_kept": sketches.n_kept}
                    await write_entry(
                        transaction, now, actor, "device.exclude", each.hex(), **about
                    )
            device = await _require_device(transaction, device_id, lock=True)
        # A transaction of its own: it reads every sketch of a device that was excluded before.
        async with self._store.begin() as transaction:
            counts = [
                sketches or await count_excluded(transaction, each)
                for each, sketches in found.items()
            ]
        return Exclusion(
            device=device,
            later=phases[1:],
            sketches=ExcludedSketches(
                n_subtracted=sum(each.n_subtracted for each in counts),
                n_kept=sum(each.n_kept for each in counts),
            ),
        )


async def _revoke_retired(
    transaction: Transaction, device_id: bytes, key_id: bytes, now: float
) -> bool:
    for retired in await transaction.list_all(RetiredKeyRecord, device_id=device_id):
        if retired.key_id == key_id:
            if retired.revoked is None:
                await transaction.change(RetiredKeyRecord, key_id, revoked=now)
            return retired.revoked is None
    raise NotFoundError("must be a key of this device", field="key_id", fix="list its keys")


async def _require_device(
    transaction: Transaction, device_id: bytes, *, lock: bool = False
) -> DeviceRecord:
    found = await transaction.get(DeviceRecord, device_id, lock=lock)
    return await require_known(transaction, found, "device")


async def _list_phases(
    transaction: Transaction, device: DeviceRecord, *, only_first: bool
) -> list[DeviceRecord]:
    """Return a device, and what it is in each later phase that it has joined; all are locked.

    Those whose study was withdrawn are left out.
    """
    found, last = [device], device
    study = await transaction.get(StudyRecord, device.study_id)
    while not only_first and study is not None and study.next_study is not None:
        members = {"study_id": study.next_study, "continues": last.device_id}
        later = await transaction.find(DeviceRecord, **members)
        if later is None:
            break
        last = await transaction.get(DeviceRecord, later.device_id, lock=True) or later
        study = await transaction.get(StudyRecord, study.next_study)
        if study is not None and study.state != "withdrawn":
            found.append(last)
    return found


async def _describe(transaction: Transaction, device: DeviceRecord) -> DeviceDetails:
    return DeviceDetails(
        device=device,
        streams=await list_streams(transaction, device.device_id),
        may_repeat=(await find_repeated(transaction, [device.device_id])).get(device.device_id, ()),
        retired_keys=await transaction.list_all(RetiredKeyRecord, device_id=device.device_id),
    )
