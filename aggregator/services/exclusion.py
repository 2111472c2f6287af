"""Excluding a device that lies or was withdrawn: its sketches leave every sum, exactly."""

from __future__ import annotations

from dataclasses import dataclass

from aggregator.ports import LOCAL_ACTOR, Clock, DeviceRecord, ExcludedSketches, Store, Transaction
from aggregator.services.audit import write_entry
from aggregator.services.plans import PlanCache, require_study
from shared.errors import NotFoundError


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """An excluded device and what became of its sketches."""

    device: DeviceRecord
    sketches: ExcludedSketches


class ExclusionService:
    """Excludes devices."""

    def __init__(self, store: Store, clock: Clock, plans: PlanCache) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans

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
        One transaction takes the sketches out of every sum, refuses later ones and writes the audit
        log. A sketch whose payload was dropped cannot be taken out, and is counted as kept.
        """
        now = self._clock.now()
        async with self._store.begin(write=True) as transaction:
            # Locked, so that no upload of the device is under way meanwhile.
            device = await _require_device(transaction, device_id)
            plan = await self._plans.get(await require_study(transaction, device.study_id))
            is_new = await transaction.exclude_device(
                device_id,
                now=now,
                reason=reason,
                width=plan.payload_width,
                n_coordinates=plan.n_coordinates,
            )
            sketches = await transaction.count_excluded(device_id)
            if is_new:
                await write_entry(
                    transaction,
                    now=now,
                    actor=actor,
                    action="device.exclude",
                    target=device_id.hex(),
                    details={"reason": reason, "n_kept": sketches.n_kept},
                )
            return Exclusion(
                device=await _require_device(transaction, device_id), sketches=sketches
            )


async def _require_device(transaction: Transaction, device_id: bytes) -> DeviceRecord:
    device = await transaction.get_device(device_id, lock=True)
    if device is None:
        raise NotFoundError("is not enrolled here", field="device", fix="check its identity")
    return device
