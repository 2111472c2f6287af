"""Devices, their keys, and the tokens that enrol them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import BigInteger, Column, Index, UniqueConstraint, bindparam, select, update

from sfumato.aggregator.base.sums.cells import has_device
from sfumato.aggregator.base.tables import derive_table
from sfumato.aggregator.base.transaction import PageKey, Transaction
from sfumato.aggregator.resources.devices.record import DeviceRecord, RetiredKeyRecord, TokenRecord
from sfumato.aggregator.resources.studies.store import STUDIES

TOKENS = derive_table(
    "tokens",
    TokenRecord,
    Index(None, "study_id", "created", "token_hash"),
    order=("created", "token_hash"),
)
DEVICES = derive_table(
    "devices",
    DeviceRecord,
    Column("n_plan_refusals", BigInteger, nullable=False, default=0),
    Index(None, "study_id", "enrolled", "device_id"),
    # For repeated slots, which only devices of the same labels have.
    Index(None, "study_id", "labels", "enrolled"),
    Index(None, "enrolled", "device_id"),
    Index(None, "name"),
    UniqueConstraint("study_id", "ordinal"),
    UniqueConstraint("study_id", "continues"),
    order=("enrolled", "device_id"),
)
RETIRED_KEYS = derive_table(
    "retired_keys", RetiredKeyRecord, Index(None, "device_id"), order=("retired", "key_id")
)

# Every upload or enrolment runs these: building one takes as long as running it.
_IDS: Any = bindparam("device_ids", expanding=True)
_TOUCH = (
    update(DEVICES)
    .where(DEVICES.c.device_id.in_(_IDS))
    .values(last_seen=bindparam("now"), n_sketches=DEVICES.c.n_sketches + bindparam("more"))
)
_NEXT_ORDINAL = (
    update(STUDIES)
    .where(STUDIES.c.study_id == bindparam("of_study"))
    .values(n_ordinals=STUDIES.c.n_ordinals + 1)
    .returning(STUDIES.c.n_ordinals)
)
_USE_TOKEN = (
    update(TOKENS)
    .where(
        TOKENS.c.token_hash == bindparam("token"),
        TOKENS.c.uses < TOKENS.c.max_uses,
        TOKENS.c.expires > bindparam("now"),
        TOKENS.c.revoked.is_(None),
    )
    .values(uses=TOKENS.c.uses + 1)
    .returning(TOKENS.c.uses)
)


async def add_device(transaction: Transaction, record: DeviceRecord) -> bool:
    """Store a device."""
    # Counted in the study: two that took the highest number so far would collide.
    found = await transaction.connection.execute(_NEXT_ORDINAL, {"of_study": record.study_id})
    return await transaction.add(replace(record, ordinal=found.scalar_one() - 1))


async def touch_devices(
    transaction: Transaction, device_ids: Collection[bytes], *, now: float, n_sketches: int = 0
) -> None:
    """Set when devices were last seen, and add to the number of sketches of each."""
    await transaction.connection.execute(
        _TOUCH, {"device_ids": list(device_ids), "now": now, "more": n_sketches}
    )


async def note_heartbeat(
    transaction: Transaction, device_id: bytes, heartbeat: Mapping[str, Any], *, now: float
) -> None:
    """Store the latest heartbeat of a device."""
    said = {
        "heartbeat": heartbeat,
        "heartbeat_at": now,
        "name": heartbeat.get("name"),
        "last_seen": now,
        "n_plan_refusals": len(heartbeat["plan_refusals"]),
    }
    await transaction.run(update(DEVICES).where(DEVICES.c.device_id == device_id).values(said))


async def count_plan_refusals(transaction: Transaction, study_id: bytes) -> Mapping[str, int]:
    """Count the devices whose latest heartbeat refuses the plan, by rule."""
    statement = select(DEVICES.c.heartbeat).where(
        DEVICES.c.study_id == study_id, DEVICES.c.n_plan_refusals > 0
    )
    found = await transaction.connection.execute(statement)
    return _count_rules(heartbeat or {} for heartbeat in found.scalars())


async def list_devices(
    transaction: Transaction, study_id: bytes | None, *, after: PageKey | None, limit: int
) -> Sequence[DeviceRecord]:
    """Return devices in the order of enrolment, of one study or of all."""
    gone = select(STUDIES.c.study_id).where(STUDIES.c.state == "withdrawn")
    among = DEVICES.c.study_id.not_in(gone) if study_id is None else DEVICES.c.study_id == study_id
    return await transaction.list_where(DeviceRecord, among, after=after, limit=limit)


async def rotate_key(
    transaction: Transaction, retired: RetiredKeyRecord, *, public_key: bytes
) -> bool:
    """Replace the key of a device and retire the old one; false if it was retired before."""
    if not await transaction.add(retired):
        return False
    owner = update(DEVICES).where(DEVICES.c.device_id == retired.device_id)
    await transaction.run(owner.values(public_key=public_key))
    return True


def _count_rules(heartbeats: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
    """Count heartbeats by refused rule; one that names a rule twice counts once."""
    counts: Counter[str] = Counter()
    for heartbeat in heartbeats:
        counts.update({refusal["rule"] for refusal in heartbeat.get("plan_refusals", ())})
    return counts


async def count_devices(
    transaction: Transaction, study_ids: Sequence[bytes]
) -> Mapping[bytes, int]:
    """Return the numbers of enrolled devices of some studies."""
    counted = select(STUDIES.c.study_id, STUDIES.c.n_ordinals).where(
        STUDIES.c.study_id.in_(study_ids)
    )
    return {row[0]: int(row[1]) for row in await transaction.connection.execute(counted)}


async def use_token(transaction: Transaction, token_hash: bytes, *, now: float) -> bool:
    """Count one use; false if it is used up, expired or revoked."""
    found = await transaction.connection.execute(_USE_TOKEN, {"token": token_hash, "now": now})
    return found.first() is not None


async def find_excluded(
    transaction: Transaction, study_id: bytes, devices: bytes
) -> Sequence[bytes]:
    """Return the excluded devices of a snapshot, by identity."""
    statement = (
        select(DEVICES.c.device_id, DEVICES.c.ordinal)
        .where(DEVICES.c.study_id == study_id, DEVICES.c.excluded.is_not(None))
        .order_by(DEVICES.c.device_id)
    )
    found = await transaction.connection.execute(statement)
    return [row.device_id for row in found if has_device(devices, row.ordinal)]


async def find_by_ordinals(
    transaction: Transaction, study_id: bytes, ordinals: Sequence[int]
) -> Mapping[int, tuple[bytes, str | None]]:
    """Return the identities and names of devices by their numbers in the study."""
    statement = select(DEVICES.c.ordinal, DEVICES.c.device_id, DEVICES.c.name).where(
        DEVICES.c.study_id == study_id, DEVICES.c.ordinal.in_(ordinals)
    )
    found = await transaction.connection.execute(statement)
    return {row.ordinal: (row.device_id, row.name) for row in found}
