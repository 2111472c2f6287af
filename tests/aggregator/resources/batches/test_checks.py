"""Checks of opened totals, on simulated fleets."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.service.checks import find_inconsistent, is_plausible
from sfumato.aggregator.resources.batches.service.suspects import find_suspects
from sfumato.aggregator.resources.batches.sums import encode_ordinals
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, SketchPlan
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import encode_payload
from tests.shared.plan.looks import LOOK
from tests.shared.sharing.samples import make_plan as make_sum_plan

N_PARTS = 8
_AXES = tuple(Dimension(name=name, unit="1", lower=0.0, upper=1.0) for name in "xy")
_OTHER: dict[str, Any] = {"dimensions": _AXES, "n_frequencies": None, "seed": None}
PLANS: dict[str, dict[str, Any]] = {
    "fourier": {"n_frequencies": 200},
    "histogram": {"statistic": "histogram", **_OTHER},
    "grid": {"statistic": "grid", "cells": (6, 6), **_OTHER},
    "moments": {"statistic": "moments", **_OTHER},
    "clusters": {"statistic": "clusters", "clusters": LOOK, **_OTHER},
}


@cache
def make_plan(kind: str, neighbouring: str = "replace-one") -> SketchPlan:
    return make_sum_plan(
        epsilon=Fraction(2), neighbouring=neighbouring, most_reports=100_000, **PLANS[kind]
    )


def make_batch(
    total: NDArray[np.int64], plan: SketchPlan, *, part: int = 0, n: int = 1, **changes: Any
) -> BatchRecord:
    fields: dict[str, Any] = {
        "batch_id": bytes([part]) * 32,
        "study_id": bytes(32),
        "slot": 0,
        "labels": {},
        "part": part,
        "number": 0,
        "created": 0.0,
        "closes": 0.0,
        "expires": 0.0,
        "least_reports": 1,
        "most_reports": 10**6,
        "state": "acknowledged",
        "standing": "counted",
        "n_reports": n,
        "n_records": None if plan.releases_count else n,
        "sums": encode_payload(total, plan.payload_width),
    }
    return BatchRecord(**(fields | changes))


def draw_total(plan: SketchPlan, seed: int, n: int) -> NDArray[np.int64]:
    """Draw the total of one-record devices: a mixture within the box, and both noises."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.3, 0.3], [0.7, 0.6]])
    records = centres[rng.integers(2, size=n)] + 0.08 * rng.standard_normal((n, 2))
    accumulator = SketchAccumulator(plan.statistic_of(b"stream"))
    accumulator.add(np.clip(records, 0.0, 1.0))
    total = plan.finish_sum(accumulator.sums, n)
    for server in range(2):
        total = plan.mechanism.add_noise(total, SeededSource(10 * seed + server))
    return total


def draw_parts(plan: SketchPlan, seed: int, n: int) -> list[BatchRecord]:
    return [
        make_batch(draw_total(plan, N_PARTS * seed + part, n), plan, part=part, n=n)
        for part in range(N_PARTS)
    ]


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("kind", PLANS)
def test_an_honest_fleet_is_never_flagged(kind: str, neighbouring: str, n: int) -> None:
    """32 parts a case, 640 in all: each is flagged with a chance below exp(-9)."""
    plan = make_plan(kind, neighbouring)
    for seed in range(4):
        parts = draw_parts(plan, seed, n)
        assert all(is_plausible(plan, part) for part in parts)
        assert find_inconsistent(plan, parts) == []


@pytest.mark.parametrize("kind", PLANS)
def test_parts_that_are_moved_beyond_noise_are_found_and_no_others(kind: str) -> None:
    plan, n = make_plan(kind), 1000
    parts = draw_parts(plan, 3, n)
    largest = plan.value_range[1]
    noise = np.sqrt(plan.released_variance)
    for part in (2, 5):
        total = draw_total(plan, N_PARTS * 3 + part, n)
        sign = 1 - 2 * (np.arange(plan.n_coordinates) % 2)
        total += (sign * int(6 * noise + 0.4 * n * largest)).astype(np.int64)
        parts[part] = make_batch(total, plan, part=part, n=n)

    assert sorted(each.part for each in find_inconsistent(plan, parts)) == [2, 5]


def test_two_parts_are_not_compared_and_admitted_ones_are_not_flagged() -> None:
    plan, n = make_plan("fourier"), 1000
    parts = draw_parts(plan, 0, n)
    moved = draw_total(plan, 0, n) + 10**9
    assert find_inconsistent(plan, [make_batch(moved, plan, n=n), parts[1]]) == []

    admitted = make_batch(moved, plan, n=n, flags=["inconsistent"])

    assert admitted not in find_inconsistent(plan, [admitted, *parts[1:]])


@pytest.mark.parametrize("kind", PLANS)
def test_a_total_beyond_all_records_and_noises_is_implausible(kind: str) -> None:
    plan, n = make_plan(kind), 50
    total = draw_total(plan, 1, n)
    bound = n * plan.value_range[1] + 2 * plan.mechanism.noise_bound
    for value, expected in ((bound, True), (bound + 1, False), (-bound - 1, False)):
        total[3] = value
        assert is_plausible(plan, make_batch(total, plan, n=n)) is expected


@pytest.mark.parametrize("n_bad", [1, 3])
def test_devices_that_lie_are_named_after_some_windows(n_bad: int) -> None:
    """10,000 devices and 16 parts: an innocent one is in a bad part by chance, less each time."""
    rng, n_devices, n_parts = np.random.default_rng(0), 10_000, 16
    plan = make_plan("fourier")
    bad = rng.choice(n_devices, size=n_bad, replace=False)
    batches: list[BatchRecord] = []
    named_after = 0
    for slot in range(12):
        parts = rng.integers(n_parts, size=n_devices)
        spoilt = set(parts[bad].tolist())
        batches += [
            make_batch(
                np.zeros(plan.n_coordinates, dtype=np.int64),
                plan,
                part=part,
                slot=slot,
                devices=encode_ordinals(np.flatnonzero(parts == part)),
                flags=["inconsistent"] if part in spoilt else [],
            )
            for part in range(n_parts)
        ]
        found = find_suspects(batches)
        assert {each.ordinal for each in found.suspects[:1000]} >= (
            set(bad.tolist()) if found.n_suspects <= 1000 else set()
        )
        if found.n_suspects == n_bad and found.n_innocent < 0.5:
            named_after = named_after or slot + 1
    assert 3 <= named_after <= 9


def test_nobody_is_suspected_where_no_part_is_flagged() -> None:
    plan = make_plan("fourier")
    parts = draw_parts(plan, 0, 10)

    assert find_suspects(parts).suspects == []
