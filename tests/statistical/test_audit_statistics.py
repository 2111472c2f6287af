"""No event that an auditor finds contradicts a claimed epsilon; planted errors are caught.

The auditor sees bytes alone. Its bound exceeds the true epsilon with probability at most 2e-6 an
audit (two Clopper-Pearson bounds of 1e-6), the false-alarm rate of each audit of an honest device,
over the choice of a seed; seeds are fixed. Every audit of an honest device also has to reach a
stated share of the claim, so that silence means something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np
import pytest

from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy import FourierShape, RandomSource, calibrate_mechanism
from sfumato.shared.privacy.mechanisms.gaussian import draw_gaussian
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm, draw_in_polygon
from sfumato.shared.privacy.mechanisms.laplace import draw_laplace
from sfumato.shared.privacy.polygon import GON24
from sfumato.shared.privacy.samplers import UNIT, draw_geometric
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm
from tests.soak import small_and_soak
from tests.statistical.auditor import MISS, Integers, bound_epsilon
from tests.statistical.devices import (
    EPSILON,
    Noise,
    SmallDevice,
    audit,
    make_neighbours,
    make_opposites,
    make_plan,
)

POWER = 0.5
"""The share of the claim that the bound on an honest device has to reach."""
FEW, MANY = 20_000, 100_000
"""Runs on each data set; half of them choose the event, the others bound it."""
FEW_POLYGONS, MANY_POLYGONS = 3_000, 12_000
CASES = [
    ("fourier", "discrete-laplace", "replace-one"),
    ("fourier", "discrete-gaussian", "replace-one"),
    ("histogram", "discrete-laplace", "replace-one"),
    ("histogram", "discrete-laplace", "add-remove-one"),
    ("moments", "discrete-laplace", "add-remove-one"),
    ("moments", "discrete-gaussian", "replace-one"),
    ("clusters", "discrete-laplace", "replace-one"),
    ("clusters", "discrete-gaussian", "add-remove-one"),
]
POLYGONS = [
    ("fourier", "discrete-knorm", "replace-one"),
    ("fourier", "discrete-knorm", "add-remove-one"),
]
Case = tuple[str, str, str]


@dataclass(frozen=True)
class TwoThirds:
    """The noise of a plan at two thirds of its scale."""

    plan: SketchPlan

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        scale = Fraction(2, 3) * self.plan.mechanism.scale
        if self.plan.release.delta:
            return sums + draw_gaussian(source, int(scale), sums.size)
        return sums + draw_laplace(source, math.floor(UNIT / scale), sums.size)


def test_the_neighbours_nearly_attain_the_stated_sensitivity() -> None:
    shares = {}
    for case in CASES + POLYGONS:
        plan = make_plan(*case)
        near, far = make_neighbours(plan).compute_sums()
        moved, most = np.abs(near - far), plan.sensitivity.value
        if plan.release.mechanism == "discrete-knorm":
            features = moved[: 2 * plan.n_frequencies].reshape(2, -1)
            length = int(GON24.norm(*features).min())
        else:
            is_l1 = plan.sensitivity.norm == "l1"
            length = int(moved.sum() if is_l1 else np.square(moved).sum())
        shares[case] = length / most
    assert all(0.9 <= share <= 1 for share in shares.values()), shares
    assert all(share == 1 for case, share in shares.items() if case[0] == "fourier"), shares


def test_the_audited_bytes_are_those_that_a_device_would_send() -> None:
    differing = []
    for case in CASES + POLYGONS:
        plan = make_plan(*case)
        neighbours = make_neighbours(plan)
        accumulator = SketchAccumulator(neighbours.statistic)
        accumulator.add(neighbours.near)
        sums = plan.draw_release(accumulator.sums, accumulator.n_records, SeededSource(1))
        sent = PayloadForm.of(plan).encode(sums)
        device = SmallDevice(plan=plan, noise=plan.mechanism)
        if device.release(neighbours.compute_sums()[0], 1, SeededSource(1)) != sent:
            differing.append(case)
    assert differing == []


@small_and_soak("n_runs", FEW, MANY)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_no_event_contradicts_the_claim_and_two_thirds_of_the_scale_are_caught(
    case: Case, n_runs: int
) -> None:
    plan = make_plan(*case)
    if n_runs == FEW and not plan.release.delta:
        n_runs //= 2  # without a delta both are seen in fewer
    finding = audit(plan, seed=3, n_runs=n_runs)
    assert POWER * float(EPSILON) <= finding.epsilon <= float(EPSILON), finding
    finding = audit(plan, TwoThirds(plan), seed=4, n_runs=n_runs)
    assert finding.epsilon > float(EPSILON), finding


@pytest.mark.parametrize(
    ("m", "n_runs"),
    [
        pytest.param(1, FEW_POLYGONS, id="small"),
        pytest.param(1, MANY_POLYGONS, id="soak", marks=pytest.mark.soak),
        pytest.param(4, MANY_POLYGONS, id="soak-4", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("case", POLYGONS, ids="-".join)
def test_no_event_contradicts_the_claim_of_polygon_noise(case: Case, m: int, n_runs: int) -> None:
    finding = audit(make_plan(*case, n_frequencies=m), seed=m, n_runs=n_runs)
    assert POWER * float(EPSILON) <= finding.epsilon <= float(EPSILON), finding


@pytest.mark.soak
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "discrete-gaussian"])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove-one"])
def test_no_event_of_several_features_contradicts_the_claim(
    mechanism: str, neighbouring: str
) -> None:
    plan = make_plan("fourier", mechanism, neighbouring, n_frequencies=4)
    finding = audit(plan, seed=4, n_runs=MANY)
    assert POWER * float(EPSILON) <= finding.epsilon <= float(EPSILON), finding


def test_fresh_noise_on_a_retry_is_caught() -> None:
    finding = audit(make_plan(*CASES[0]), seed=13, n_runs=FEW, copies=2)
    assert finding.epsilon > float(EPSILON), finding


@dataclass(frozen=True)
class OneGeometricTooFew:
    """K-norm noise with a radius of D geometrics, as if D + 1 were a slip."""

    right: DiscreteKNorm

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        steps = draw_geometric(source, self.right.rate, self.right.n_coordinates)
        radius = self.right.shift + int(steps.sum())
        x, y = draw_in_polygon(source, GON24, radius, self.right.n_frequencies)
        noise: Integers = np.concatenate([x, y])
        return sums + noise


def test_a_radius_with_one_geometric_too_few_is_caught() -> None:
    plan = make_plan(*POLYGONS[0])
    noise = OneGeometricTooFew(cast(DiscreteKNorm, plan.mechanism))
    finding = audit(plan, noise, seed=14, n_runs=8_000)
    assert finding.epsilon > float(EPSILON), finding


@dataclass(frozen=True)
class NoiseOnAGrid:
    """Noise rounded to multiples of 8, so that the low bits of the sum shine through."""

    inner: Noise

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        noise = self.inner.add_noise(np.zeros_like(sums), source)
        return sums + noise // 8 * 8


def test_noise_on_a_coarse_grid_is_told_by_the_low_bits_of_the_sum() -> None:
    plan = make_plan(*CASES[0])
    finding = audit(plan, NoiseOnAGrid(plan.mechanism), seed=16, n_runs=2_000)
    assert finding.attack == "residues"
    assert finding.epsilon > 2 * float(EPSILON), finding


def test_no_event_of_a_sketch_of_some_features_contradicts_the_claim() -> None:
    plan = make_plan(
        "fourier", n_frequencies=4, frequencies_per_sketch=2, epsilon=Fraction(1), most_records=2
    )
    one = calibrate_mechanism(
        replace(plan.privacy_target, shape=FourierShape(n_frequencies=1, measurements_per_record=1))
    )

    class EachByItself:
        """Noise of a sketch of one feature on each of two."""

        def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
            pairs = sums.reshape(2, -1).T
            return np.array([one.add_noise(pair, source) for pair in pairs]).T.ravel()

    neighbours = make_opposites(2)
    finding = audit(plan, None, neighbours, seed=7, n_runs=FEW_POLYGONS)
    assert 0.3 <= finding.epsilon <= 1.0, finding
    finding = audit(plan, EachByItself(), neighbours, seed=7, n_runs=2 * FEW_POLYGONS)
    assert finding.epsilon > 1.0, finding


def test_bounds_fail_no_more_often_than_stated() -> None:
    # The event has P = P' exp(1): sums over every outcome of both counts that would show more.
    from scipy.stats import binom

    n, p = 400, 0.3
    k = np.arange(n + 1)
    hits, misses = (grid.ravel() for grid in np.meshgrid(k, k))
    wrong = bound_epsilon(hits, misses, n, 0.0) > 1.0
    weight = binom.pmf(hits, n, p) * binom.pmf(misses, n, p / math.e)
    assert float(weight[wrong].sum()) <= 2 * MISS
