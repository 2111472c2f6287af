"""A study whose records change: devices at two sites, in six slots."""

from __future__ import annotations

import asyncio
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator import fleet
from tests.aggregator.fleet import CLUSTERS, SLOT, Desk, Device

N_SLOTS, N_RECORDS = 6, 1500
# Fewer than for answers of good quality: each window is decoded.
make_plan = partial(fleet.make_plan, n_frequencies=30)
SITES = ("north", "south") * 3


def draw_records(rng: np.random.Generator, shift: float) -> NDArray[np.float64]:
    """Draw records around three clusters; the first moves along the flow."""
    moved = CLUSTERS + np.array([[0.0, shift], [0.0, 0.0], [0.0, 0.0]])
    chosen = rng.integers(3, size=N_RECORDS)
    drawn: NDArray[np.float64] = moved[chosen] + 0.5 * rng.standard_normal((N_RECORDS, 2))
    return drawn


def release(plan: SketchPlan, device: Device, seed: int, shift: float) -> NDArray[np.int64]:
    accumulator = SketchAccumulator(plan.statistic_of(device.device_id + b"main"))
    accumulator.add(draw_records(np.random.default_rng(seed), shift))
    exact = plan.finish_sum(accumulator.sums, N_RECORDS)
    return plan.mechanism.add_noise(exact, SeededSource(seed))


async def fill(
    desk: Desk, *, shift: float = 3.0, n_devices: int = 2, plan: SketchPlan | None = None
) -> bytes:
    """Publish a study whose first cluster moves at the fourth of six slots."""
    plan = plan or make_plan()
    study = await desk.publish(plan)
    devices = [Device(i + 1, {"site": SITES[i]}) for i in range(n_devices)]
    await desk.enrol(study, *devices)
    by_time = plan.window.kind == "time"
    n_records = None if plan.releases_count else N_RECORDS
    messages = []
    for device in devices:
        for i in range(N_SLOTS):
            sums = release(plan, device, 100 * device.seed + i, shift if i >= 3 else 0.0)
            slots = (SLOT + i, SLOT + i) if by_time else None
            sequence = SLOT + i if plan.releases_count else i
            message = device.message(
                study, plan, sums, sequence=sequence, slots=slots, n_records=n_records
            )
            messages.append(message)
    # At once, so that the server stores them together.
    for answer in await asyncio.gather(*(desk.put(study, *message) for message in messages)):
        assert answer.status_code == 201, answer.text
    return study
