"""A total is the exact sum and two noises, whatever is summed, and in whatever order it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum, Row
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, Label, SketchPlan
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import encode_payload
from tests.aggregator.batches.conftest import Pair, draw_records, open_pair
from tests.shared.plan.looks import LOOK

pytestmark = pytest.mark.anyio
_AXES = tuple(Dimension(name=name, unit="1", lower=0.0, upper=1.0) for name in "xy")
_OTHER: dict[str, Any] = {"dimensions": _AXES, "n_frequencies": None, "seed": None}
STATISTICS: dict[str, dict[str, Any]] = {
    "fourier": {},
    "histogram": {"statistic": "histogram", **_OTHER},
    "grid": {"statistic": "grid", "cells": (8, 8), **_OTHER},
    "moments": {"statistic": "moments", **_OTHER},
    "clusters": {"statistic": "clusters", "clusters": LOOK, **_OTHER},
}


def draw(plan: SketchPlan, seed: int) -> NDArray[np.int64]:
    zeros = np.zeros(plan.n_coordinates, dtype=np.int64)
    return plan.mechanism.add_noise(zeros, SeededSource(seed))


def seed_noises(pair: Pair) -> NDArray[np.int64]:
    """Let both servers draw what is known here; return the sum of both."""
    pair.helper.batches.source = SeededSource(1)
    pair.server.services.opener.source = SeededSource(2)
    return draw(pair.plan, 1) + draw(pair.plan, 2)


@pytest.mark.parametrize(
    ("kind", "neighbouring"),
    [*((kind, "replace-one") for kind in STATISTICS), ("fourier", "add-remove-one")],
)
async def test_a_total_is_what_one_device_with_all_records_would_release(
    tmp_path: Path, kind: str, neighbouring: str
) -> None:
    async with open_pair(tmp_path, neighbouring=neighbouring, **STATISTICS[kind]) as pair:
        plan, noises = pair.plan, seed_noises(pair)
        devices = await pair.enrol(4)
        counts = [1, 2, 3, 1]
        await pair.upload(
            *[
                pair.report(device, count=count)
                for device, count in zip(devices, counts, strict=True)
            ]
        )
        await pair.close()

        whole = SketchAccumulator(plan.statistic_of(b"one device"))
        for device, count in zip(devices, counts, strict=True):
            whole.add(draw_records(device, count=count))
        released = plan.finish_sum(whole.sums, whole.n_records) + noises
        batch = await pair.only()
        assert pair.read_total(batch).tolist() == released.tolist()
        alone = PayloadSum(Layout.of(plan))
        payload = encode_payload(released, plan.payload_width)
        n_records = None if plan.releases_count else 7
        alone.add([Row(b"id", b"", 1, n_records, 0, payload)])
        expected, found = alone.total().to_totals(), await pair.sum_all()
        assert found.sums.tobytes() == expected.sums.tobytes()
        assert found.size_sums.tobytes() == expected.size_sums.tobytes()
        assert found.moments == expected.moments


async def test_neither_order_nor_silence_changes_the_sum_of_the_rest(tmp_path: Path) -> None:
    async with open_pair(tmp_path) as pair:
        noises = seed_noises(pair)
        devices = await pair.enrol(9)
        reports = [pair.report(device) for device in devices]
        heard = [reports[i] for i in (7, 2, 5, 0, 8)]
        await pair.upload(*heard)
        await pair.close()

        batch = await pair.only()
        assert (pair.read_total(batch) - noises).tolist() == np.sum(
            [r.sums for r in heard], axis=0
        ).tolist()


async def test_parts_and_labels_are_batches_that_add_up(tmp_path: Path) -> None:
    """Devices enrolled: of 30 random keys, fewer than two are in a part with probability 1e-7."""
    labels = (Label(name="site", values=("north", "south")),)
    async with open_pair(tmp_path, labels=labels, parts=2, least_reports=2) as pair:
        north = await pair.enrol(30, site="north")
        south = await pair.enrol(30, first=100, site="south")
        await pair.upload(*[pair.report(device) for device in north + south])
        await pair.close()

        batches = await pair.batches()
        assert {(each.labels["site"], each.part) for each in batches} == {
            ("north", 0),
            ("north", 1),
            ("south", 0),
            ("south", 1),
        }
        assert {each.state for each in batches} == {"acknowledged"}
        total = np.sum([pair.read_total(each) for each in batches], axis=0)
        assert (await pair.sum_all()).sums.tolist() == total.tolist()
        assert await pair.find_faults() == []
