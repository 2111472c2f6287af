"""Excluding a device that lies or broke: its sketches leave every sum, exactly."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.records import LOCAL_ACTOR, Clock, DeviceRecord, ExcludedSketches
from aggregator.services.audit import write_entry
from aggregator.services.plans import require_study
from aggregator.storage import Store, Transaction
from shared.errors import NotFoundError


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """An excluded device and what became of its sketches."""

    device: DeviceRecord
    sketches: ExcludedSketches


class ExclusionService:
    """Excludes devices."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def exclude(
        self, device_id: bytes, *, reason: str, actor: str = LOCAL_ACTOR
    ) -> Exclusion:
        """Exclude a device; one that is excluded already stays so, with its first reason.

        Raises
        ------
        NotFoundError
            There is no such device.

        Guarantees
        ----------
        One short transaction lets its sketches count no more, refuses later ones and writes the
        audit log: no snapshot that is asked for after the answer has any of them. The merger takes
        them out of the running sums afterwards. A sketch whose payload was dropped cannot be taken
        out, and is counted as kept.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            # Locked, so that no upload of the device is under way meanwhile.
            device = await _require_device(transaction, device_id)
            await require_study(transaction, device.study_id)
            sketches = await transaction.exclude_device(device_id, now=now, reason=reason)
            if sketches is not None:
                await write_entry(
                    transaction,
                    now=now,
                    actor=actor,
                    action="device.exclude",
                    target=device_id.hex(),
                    details={"reason": reason, "n_kept": sketches.n_kept},
                )
            device = await _require_device(transaction, device_id)
        if sketches is None:
            # Apart, for it reads every sketch of the device, and they change no more.
            async with self._store.begin() as transaction:
                sketches = await transaction.count_excluded(device_id)
        return Exclusion(device=device, sketches=sketches)


async def _require_device(transaction: Transaction, device_id: bytes) -> DeviceRecord:
    device = await transaction.get_device(device_id, lock=True)
    if device is None:
        raise NotFoundError("is not enrolled here", field="device", fix="check its identity")
    return device
