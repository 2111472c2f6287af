"""Bulk load: write the rows and cells of many uploads at once, as the uploads would leave them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from benchmarks.service.fleet import STUDY_NAME, BenchDevice, Fleet, Signed
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.base.sums.addition import CellKey, Entry, encode_labels
from sfumato.aggregator.base.sums.cells import Cell
from sfumato.aggregator.base.sums.check import ExpectedCells
from sfumato.aggregator.base.sums.dyadic import shift_slot, smallest_node
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import Row
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.devices.store import DEVICES
from sfumato.aggregator.resources.sketches.store.cells import to_cell_row
from sfumato.aggregator.resources.sketches.store.tables import CELLS, SKETCHES
from sfumato.aggregator.resources.studies.store import CELL_ROOTS, STUDIES
from sfumato.aggregator.services import Services
from sfumato.shared.plan import plan_to_json
from sfumato.shared.wire import shorten_header

_RECEIVED = 1_772_366_400.0
_DEVICES_AT_ONCE = 1000


async def prepare_study(store: Store, fleet: Fleet) -> str:
    """Create the study, enrol its devices, and return the key of an operator."""
    services = Services(store, SystemClock())
    await services.studies.create(STUDY_NAME, plan_to_json(fleet.plan))
    key, _ = await services.keys.create(name="benchmark", scope="operator")
    rows = [_to_device_row(fleet, device) for device in fleet.devices]
    async with store.engine.begin() as connection:
        for start in range(0, len(rows), _DEVICES_AT_ONCE):
            await connection.execute(insert(DEVICES), rows[start : start + _DEVICES_AT_ONCE])
        await connection.execute(update(STUDIES).values(n_ordinals=len(rows)))
    return key


def _to_device_row(fleet: Fleet, device: BenchDevice) -> dict[str, Any]:
    return {
        "device_id": device.device_id,
        "study_id": fleet.study_id,
        "ordinal": device.number,
        "public_key": device.public_key,
        "labels": device.labels,
        "enrolled": _RECEIVED,
        "n_sketches": 0,
        "begins": 0,
    }


async def load_windows(store: Store, fleet: Fleet, n_windows: int) -> None:
    """Store the sketches of all devices for the first windows, merged into cells.

    The study must not hold any yet.
    """
    plan = fleet.plan
    root = smallest_node(shift_slot(0), shift_slot(n_windows - 1))
    layout = Layout.of(plan)
    cells = ExpectedCells(root, layout)
    for sequence in range(n_windows):
        messages = [fleet.sign(device, sequence) for device in fleet.devices]
        async with store.engine.begin() as connection:
            await connection.execute(insert(SKETCHES), [_to_row(fleet, m) for m in messages])
            entries = [_to_entry(fleet, d, m) for d, m in zip(fleet.devices, messages, strict=True)]
            await _save(connection, fleet, cells.add(entries))
    async with store.engine.begin() as connection:
        await _save(connection, fleet, cells.finish())
        await connection.execute(update(CELL_ROOTS).values(level=root.level, first=root.first))
        n_sketches = n_windows * fleet.n_devices
        n_records = n_sketches * (messages[0].header.n_records or 0)
        await connection.execute(update(STUDIES).values(n_sketches=n_sketches, n_records=n_records))
        await connection.execute(update(DEVICES).values(last_seen=_RECEIVED, n_sketches=n_windows))


async def _save(
    connection: AsyncConnection, fleet: Fleet, cells: Iterable[tuple[CellKey, Cell]]
) -> None:
    rows = [to_cell_row(fleet.study_id, key, cell) for key, cell in cells]
    if rows:
        await connection.execute(insert(CELLS), rows)


def _to_row(fleet: Fleet, message: Signed) -> dict[str, Any]:
    header = message.header
    assert header.slots is not None
    return {
        "sketch_id": header.sketch_id,
        "study_id": header.study,
        "device_id": header.device,
        "stream": header.stream,
        "sequence": header.sequence,
        "first_slot": header.slots[0],
        "last_slot": header.slots[1],
        "n_records": header.n_records,
        "block": header.block or 0,
        "payload_digest": header.payload_digest,
        "header": shorten_header(header),
        "signature": message.signature,
        "received": _RECEIVED + header.sequence,
        "state": "stored",
        "payload": fleet.payloads[message.release],
    }


def _to_entry(fleet: Fleet, device: BenchDevice, message: Signed) -> Entry:
    header = message.header
    return Entry(
        row=Row(
            header.sketch_id,
            header.payload_digest,
            1 << device.number,
            header.n_records,
            header.block or 0,
            fleet.payloads[message.release],
        ),
        labels=encode_labels(device.labels),
        first_slot=header.sequence,
        last_slot=header.sequence,
    )


async def compare_sums(store: Store, fleet: Fleet) -> list[str]:
    """Sum every stored sketch anew, and return the names of the cells that differ."""
    async with store.begin() as transaction:
        wrong = await check_sums(
            transaction,
            fleet.study_id,
            layout=Layout.of(fleet.plan),
        )
    return list(wrong)
