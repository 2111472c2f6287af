"""Sums over the sketches of each device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import or_

from sfumato.aggregator.base.sums.cells import digest_members, empty_members, encode_members
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import BATCH, PayloadSum, Row
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.base.transaction import Transaction, select_records
from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.record import DeviceSums
from sfumato.aggregator.resources.sketches.store.entries import inside, select_entries, to_entry
from sfumato.aggregator.resources.sketches.store.tables import SKETCHES


async def sum_devices(
    transaction: Transaction,
    study_id: bytes,
    selection: Selection,
    *,
    layout: Layout,
    received_until: float,
) -> tuple[list[DeviceSums], bytes]:
    """Total of each device in a selection, and the digest of all their sketches.

    Every payload is read: the work grows with the number of sketches.

    Parameters
    ----------
    received_until
        Only sketches that were received until this time, by the server's clock.

    Raises
    ------
    StoreError
        A sum could leave 64 bits.
    """
    # As in every total: without the sketches of excluded devices whose payloads are kept.
    statement = select_entries().where(
        SKETCHES.c.study_id == study_id,
        DEVICES.c.study_id == study_id,
        SKETCHES.c.state == "stored",
        SKETCHES.c.received <= received_until,
        or_(DEVICES.c.excluded.is_(None), SKETCHES.c.payload.is_(None)),
        *inside(selection),
    )
    running: dict[int, PayloadSum] = defaultdict(lambda: PayloadSum(layout))
    n_dropped: dict[int, int] = defaultdict(int)
    members = empty_members()
    async with transaction.connection.stream(statement) as result:
        try:
            async for rows in result.partitions(BATCH):
                held: dict[int, list[Row]] = defaultdict(list)
                chosen = [row for row in rows if selection.matches_labels(row.device_labels)]
                for row in chosen:
                    if row.payload is None:
                        n_dropped[row.ordinal] += 1
                    else:
                        held[row.ordinal].append(to_entry(row).row)
                for ordinal, entries in held.items():
                    running[ordinal].add(entries)
                members += digest_members((row.sketch_id, row.payload_digest) for row in chosen)
        finally:
            # The block closes the server's cursor only where no error leaves it.
            await result.close()
    known = await _list_by_ordinal(transaction, study_id)
    sums = [
        DeviceSums(
            device=known[ordinal],
            totals=running[ordinal].total().to_totals(),
            n_dropped=n_dropped.get(ordinal, 0),
        )
        for ordinal in sorted({*running, *n_dropped})
    ]
    return sums, encode_members(members)


async def _list_by_ordinal(transaction: Transaction, study_id: bytes) -> Mapping[int, DeviceRecord]:
    statement = select_records(DeviceRecord).where(DEVICES.c.study_id == study_id)
    return {
        record.ordinal: record for record in await transaction.list_records(statement, DeviceRecord)
    }
