"""A fleet of simulated devices, and the server that receives what they send."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TypeVar

from sfumato.aggregator.base.sums.cells import Cell, add_cells, empty_cell
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum, Row
from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.aggregator.resources.sketches.service.plausibility import require_plausible
from sfumato.shared.errors import ConfigError, SketchError
from sfumato.shared.plan import SketchPlan, decode_plan, encode_plan
from sfumato.shared.wire import decode_message
from sfumato.simulator.batches import (
    BatchName,
    BatchSum,
    Halves,
    SimulatedHelper,
    list_refusals,
    open_batches,
)
from sfumato.simulator.devices import DeviceMaker, open_source
from sfumato.simulator.records import FleetRecords

_DEVICES_AT_ONCE = 2000
"""Devices of one task: enough that starting a task costs nothing, few enough to show progress."""
_WAITING = 4
"""Tasks for each process that are handed out at once."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Tally:
    """What the server received.

    Parameters
    ----------
    n_devices, n_sketches
        Devices that took part, and sketches that were accepted.
    payload_bytes, message_bytes
        Bytes of all payloads, and of all messages as they are uploaded.
    refusals
        Refused sketches by the first words of the error.
    n_batches
        Batches that were opened, under a secure sum.
    """

    n_devices: int = 0
    n_sketches: int = 0
    payload_bytes: int = 0
    message_bytes: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    n_batches: int = 0

    def __add__(self, other: Tally) -> Tally:
        refusals = dict(self.refusals)
        for reason, count in other.refusals.items():
            refusals[reason] = refusals.get(reason, 0) + count
        return Tally(
            n_devices=self.n_devices + other.n_devices,
            n_sketches=self.n_sketches + other.n_sketches,
            payload_bytes=self.payload_bytes + other.payload_bytes,
            message_bytes=self.message_bytes + other.message_bytes,
            refusals=refusals,
            n_batches=self.n_batches + other.n_batches,
        )


def run_fleet(
    plan: SketchPlan,
    records: FleetRecords,
    *,
    n_devices: int,
    n_windows: int = 1,
    noise_seed: int | None = None,
    n_processes: int | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[Tally, SketchTotals]:
    """Let every device sketch, sign and send, and let the server check and add.

    Parameters
    ----------
    plan, records
        The plan, and the records of all devices.
    n_devices, n_windows
        Devices, and the windows that each has records in.
    noise_seed
        As :class:`~sfumato.simulator.devices.DeviceMaker` takes it.
    n_processes
        By default the number of cores; 1 works in this process.
    on_progress
        Receives the number of devices that are done.

    Returns
    -------
    tuple
        What was received, and the exact sums over all accepted sketches.
    """
    if plan.sum_release is not None:
        return _run_batches(
            plan, records, n_devices, n_windows, n_processes, noise_seed, on_progress
        )
    layout, tally, total = Layout.of(plan), Tally(), empty_cell(Layout.of(plan))
    run = partial(run_part, n_windows=n_windows, noise_seed=noise_seed)
    for one, cell in _run_parts(run, plan, records, n_devices, n_processes):
        tally, total = tally + one, add_cells([total, cell], layout)
        on_progress(tally.n_devices)
    return tally, total.to_totals()


def _run_batches(
    plan: SketchPlan,
    records: FleetRecords,
    n_devices: int,
    n_windows: int,
    n_processes: int | None,
    noise_seed: int | None,
    on_progress: Callable[[int], None],
) -> tuple[Tally, SketchTotals]:
    """Let every device mask and seal its sum, and let two servers open the batches."""
    leader, other = (open_source(noise_seed, name) for name in ("leader", "helper"))
    helper, tally, parts = SimulatedHelper.of(plan, other), Tally(), []
    run = partial(run_summed_part, key=helper.key, n_windows=n_windows, noise_seed=noise_seed)
    for one, batches in _run_parts(run, helper.plan, records, n_devices, n_processes):
        tally = tally + one
        parts.append(batches)
        on_progress(tally.n_devices)
    totals, n_batches, n_void = open_batches(helper.plan, parts, leader=leader, helper=other)
    refused = dict(list_refusals(n_void, plan))
    return tally + Tally(n_batches=n_batches, refusals=refused, n_sketches=-n_void), totals


def require_sketches(tally: Tally) -> None:
    """Refuse a fleet of which the server accepts no sketch.

    Raises
    ------
    ConfigError
        There is none.
    """
    if not tally.n_sketches:
        raise ConfigError(
            "gives no sketch that the server accepts",
            field="devices",
            fix=next(iter(tally.refusals), "give a device at least least_records records"),
        )


def _run_parts(
    run: Callable[[SketchPlan, FleetRecords, int, int], T],
    plan: SketchPlan,
    records: FleetRecords,
    n_devices: int,
    n_processes: int | None,
) -> Iterator[T]:
    parts = [
        (first, min(n_devices, first + _DEVICES_AT_ONCE))
        for first in range(0, n_devices, _DEVICES_AT_ONCE)
    ]
    processes = min(len(parts), n_processes or os.cpu_count() or 1)
    if processes == 1:
        yield from (run(plan, records, *part) for part in parts)
        return
    encoded = encode_plan(plan)
    with ProcessPoolExecutor(processes) as pool:
        waiting = set()
        for part in reversed(parts):
            waiting.add(pool.submit(_run_encoded, run, encoded, records, part))
            if len(waiting) >= _WAITING * processes:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (task.result() for task in done)
        yield from (task.result() for task in waiting)


def _run_encoded(
    run: Callable[[SketchPlan, FleetRecords, int, int], T],
    plan: bytes,
    records: FleetRecords,
    part: tuple[int, int],
) -> T:
    return run(decode_plan(plan), records, *part)


def run_part(
    plan: SketchPlan,
    records: FleetRecords,
    first: int,
    last: int,
    n_windows: int,
    noise_seed: int | None = None,
) -> tuple[Tally, Cell]:
    """Run the devices ``first .. last - 1``; return what was received of them, and its sums."""
    maker = DeviceMaker(plan=plan, n_windows=n_windows, noise_seed=noise_seed)
    running = PayloadSum(Layout.of(plan))
    tallies, rows = [Tally(n_devices=last - first)], []
    for device, own in enumerate(records.load(first, last), first):
        for _, message, public_key in maker.sketch(device, own):
            tally, row = receive(plan, maker, message, public_key)
            tallies.append(tally)
            rows += row
    running.add(rows)
    return reduce(Tally.__add__, tallies), running.total()


def run_summed_part(
    plan: SketchPlan,
    records: FleetRecords,
    first: int,
    last: int,
    key: bytes,
    n_windows: int,
    noise_seed: int | None = None,
) -> tuple[Tally, dict[BatchName, Halves]]:
    """Run devices as :func:`run_part`, under a secure sum; return both halves of each batch.

    Parameters
    ----------
    key
        The simulated helper's private key.
    """
    maker = DeviceMaker(plan=plan, n_windows=n_windows, noise_seed=noise_seed)
    running = BatchSum(helper=SimulatedHelper(plan=plan, key=key))
    tally = Tally(n_devices=last - first)
    for device, own in enumerate(records.load(first, last), first):
        for _, message, public_key in maker.sketch(device, own):
            try:
                n_bytes = running.add(message, public_key)
            except SketchError as error:
                tally += Tally(refusals={f"{error.field}: {error.rule}": 1})
                continue
            tally += Tally(n_sketches=1, payload_bytes=n_bytes, message_bytes=len(message))
    return tally, running.batches


def receive(
    plan: SketchPlan, maker: DeviceMaker, message: bytes, public_key: bytes
) -> tuple[Tally, list[Row]]:
    """Check a message as the server does; return its tally, and a row to add if it is accepted."""
    try:
        found = decode_message(message)
        found.verify(public_key)
        require_plausible(found.header, found.payload, plan)
    except SketchError as error:
        return Tally(refusals={f"{error.field}: {error.rule}": 1}), []
    header = found.header
    if (header.study, header.plan_digest) != (maker.study, maker.plan_digest):
        return Tally(refusals={"plan: is another": 1}), []
    row = Row(
        sketch_id=header.sketch_id,
        payload_digest=header.payload_digest,
        # Whose it is does not matter here, and the bits of a million devices would cost much.
        devices=1,
        n_records=header.n_records,
        block=header.block or 0,
        payload=found.payload,
    )
    tally = Tally(n_sketches=1, payload_bytes=len(found.payload), message_bytes=len(message))
    return tally, [row]
