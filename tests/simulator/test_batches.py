"""Simulated secure sums: the same exact sums as real ones, with both noises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.testing import SeededSource
from sfumato.simulator.batches import BatchSum, SimulatedHelper, make_local_twin, open_batches
from sfumato.simulator.devices import DeviceMaker
from sfumato.simulator.fleet import run_fleet
from sfumato.simulator.records import MixtureRecords
from tests.shared.sharing.samples import make_draft


def records_of(plan: SketchPlan, n_records: int = 1) -> MixtureRecords:
    return MixtureRecords.of(
        plan, n_clusters=2, n_records=n_records, clusters_per_device=None, seed=3
    )


@pytest.mark.parametrize(
    "change", [{}, {"parts": 3}, {"neighbouring": "add-remove-one"}, {"unit": "device"}]
)
def test_opened_batches_hold_all_records_and_two_noises_each(change: dict[str, Any]) -> None:
    helper = SimulatedHelper.of(make_draft(most_records=2, **change), SeededSource(1))
    plan, running = helper.plan, BatchSum(helper=helper)
    maker, exact = DeviceMaker(plan=plan, noise_seed=4), np.zeros(plan.n_coordinates, np.int64)
    records = records_of(plan)
    for device, own in enumerate(records.load(0, 30)):
        for _, message, public_key in maker.sketch(device, own):
            running.add(message, public_key)
        for _, sums in maker._sum(device, b"", own):
            exact += plan.finish_sum(sums.sums, sums.n_records)

    totals, n_batches, n_void = open_batches(
        plan, [running.batches], leader=SeededSource(2), helper=SeededSource(3)
    )

    expected = exact.copy()
    for seed in (2, 3):
        source = SeededSource(seed)
        for _ in range(n_batches):
            expected += plan.mechanism.add_noise(np.zeros(plan.n_coordinates, np.int64), source)
    assert totals.sums.tolist() == expected.tolist()
    assert n_void == 0
    assert n_batches == change.get("parts", 1)
    assert totals.n_sketches == n_batches


def test_batches_with_too_few_reports_are_never_opened() -> None:
    plan = make_draft(parts=2, least_reports=60)
    tally, totals = run_fleet(plan, records_of(plan), n_devices=60, n_processes=1)

    assert tally.n_batches == 0
    assert tally.refusals == {"batch: has fewer than least_reports = 60 reports": 60}
    assert totals.n_sketches == 0


def test_a_seed_gives_the_same_totals_however_the_devices_are_divided() -> None:
    plan = make_draft(parts=2)
    found = [
        run_fleet(plan, records_of(plan), n_devices=20, noise_seed=7, n_processes=1)[1]
        for _ in range(2)
    ]

    assert found[0].sums.tolist() == found[1].sums.tolist()


def test_the_twin_has_noise_by_each_device_at_the_same_epsilon() -> None:
    plan = make_draft()
    twin = make_local_twin(plan)

    assert twin.release.kind == "local.v1"
    assert twin.mechanism == plan.mechanism
    assert twin.released_variance * 2 == plan.released_variance
