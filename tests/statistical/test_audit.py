"""No event that an auditor finds contradicts a claimed epsilon; planted errors are caught.

The auditor sees bytes alone. Its bound exceeds the true epsilon with probability at most 2e-6 an
audit (two Clopper-Pearson bounds of 1e-6), the false-alarm rate of every test of an honest device
here, over the choice of a seed; seeds are fixed. Every audit of an honest device also has to reach
a stated share of the claim, so that silence means something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.device_agent.agent.reading.release import _draw_payload
from sfumato.shared.core import AMPLITUDE, SketchAccumulator, feature_table
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy import (
    DiscreteLaplace,
    FourierShape,
    PrivacyTarget,
    RandomSource,
    calibrate_mechanism,
    compute_count_scale,
)
from sfumato.shared.privacy.mechanisms.gaussian import DiscreteGaussian
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm, draw_in_polygon
from sfumato.shared.privacy.polygon import GON24
from sfumato.shared.privacy.samplers import draw_geometric
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire.payload import decode_payload, encode_payload
from tests.soak import small_and_soak
from tests.statistical.auditor import (
    MISS,
    Finding,
    Neighbours,
    audit_release,
    bound_epsilon,
    compute_gauge,
    make_worst_neighbours,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EPSILON = Fraction(2)
DELTA = Fraction(1, 100)
MECHANISMS: list[str] = ["discrete-laplace", "discrete-knorm", "discrete-gaussian"]
N_RECORDS = 2
N_RUNS = {"discrete-laplace": 100_000, "discrete-knorm": 12_000, "discrete-gaussian": 100_000}
"""Runs on each data set; half of them choose the event, the others bound it."""
FEW_RUNS = {"discrete-laplace": 40_000, "discrete-knorm": 4_000, "discrete-gaussian": 40_000}
"""Enough for errors that cost twice epsilon, and for the stated share of an honest device."""
POWER = 0.55
"""The share of the claim that the bound on an honest device has to reach."""


class Noise(Protocol):
    """The one thing that an error is planted in."""

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers: ...


def make_plan(mechanism: str, m: int, epsilon: Fraction = EPSILON) -> SketchPlan:
    axis = Dimension(name="x", unit="1", lower=-STEPS, upper=STEPS, scale=8192)
    other = Dimension(name="y", unit="1", lower=-STEPS, upper=STEPS, scale=8192)
    return create_plan(
        PlanSpec(
            dimensions=(axis, other),
            n_frequencies=m,
            seed=bytes(32).hex(),
            epsilon=epsilon,
            delta=DELTA if mechanism == "discrete-gaussian" else Fraction(0),
            mechanism=mechanism,
            window=WindowRule(kind="count", length=N_RECORDS),
            most_records=N_RECORDS,
        )
    )


def make_neighbours(mechanism: str, m: int, *, count_scale: int = 0) -> Neighbours:
    """Put the record at the phase that is worst for the mechanism, a quarter turn on each time."""
    table = feature_table().astype(np.float64)
    size = {
        "discrete-laplace": np.abs(table).sum(axis=1),
        "discrete-knorm": compute_gauge(table),
        "discrete-gaussian": np.square(table).sum(axis=1),
    }[mechanism]
    worst = int(np.argmax(size))
    return make_worst_neighbours(
        [(worst + j * 16384) % 65536 for j in range(m)], count_scale=count_scale
    )


@dataclass(frozen=True, kw_only=True)
class SketchingDevice:
    """Noise, clip and encode as a device does, many times.

    ``separate`` releases need a call each, as coordinates share a radius; otherwise coordinates are
    independent, and one call on many copies of a sum has the law of many calls.
    """

    noise: Noise
    bound: int
    width: int
    separate: bool

    def release(self, sums: Integers, n_runs: int, source: RandomSource) -> bytes:
        if self.separate:
            noisy = np.concatenate([self.noise.add_noise(sums, source) for _ in range(n_runs)])
        else:
            noisy = self.noise.add_noise(np.tile(sums, n_runs), source)
        return encode_payload(np.clip(noisy, -self.bound, self.bound), self.width)

    def read(self, payloads: bytes, n_runs: int) -> Floats:
        count = len(payloads) // self.width
        sums = decode_payload(payloads, width=self.width, n_coordinates=count)
        return sums.reshape(n_runs, -1).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class RetryingDevice(SketchingDevice):
    """Draws fresh noise when it sends a window again."""

    def release(self, sums: Integers, n_runs: int, source: RandomSource) -> bytes:
        return super().release(sums, 2 * n_runs, source)

    def read(self, payloads: bytes, n_runs: int) -> Floats:
        return super().read(payloads, 2 * n_runs)


def make_device(
    plan: SketchPlan, noise: Noise | None = None, kind: type[SketchingDevice] = SketchingDevice
) -> SketchingDevice:
    return kind(
        noise=noise or plan.mechanism,
        bound=plan.largest_coordinate(N_RECORDS),
        width=plan.payload_width,
        separate=plan.release.mechanism == "discrete-knorm",
    )


@dataclass(frozen=True, kw_only=True)
class FloatingDevice:
    """The textbook mechanism in doubles: right law on paper, telling last bits."""

    scale: float
    seed: int

    def release(self, sums: Integers, n_runs: int, source: RandomSource) -> bytes:
        key = int.from_bytes(source.draw_bytes(8), "little")
        noise = np.random.default_rng([self.seed, key]).laplace(
            0.0, self.scale, (n_runs, sums.size)
        )
        return (sums.astype(np.float64) + noise).tobytes()

    def read(self, payloads: bytes, n_runs: int) -> Floats:
        return np.frombuffer(payloads, dtype=np.float64).reshape(n_runs, -1)


@dataclass(frozen=True)
class HalfTheNoise:
    inner: Noise

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        noise = self.inner.add_noise(np.zeros_like(sums), source)
        return sums + noise // 2


@dataclass(frozen=True)
class NoiseOnAGrid:
    """Noise rounded to multiples of 8, so that the low bits of the sum shine through."""

    inner: Noise

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        noise = self.inner.add_noise(np.zeros_like(sums), source)
        return sums + noise // 8 * 8


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


def understate_sensitivity(plan: SketchPlan) -> Noise:
    """Calibrate to a sensitivity sqrt 2 too small, an error that was published for L2."""
    release = plan.release
    if release.mechanism == "discrete-laplace":
        return DiscreteLaplace.calibrate(
            sensitivity_l1=math.isqrt(plan.sensitivity.value**2 // 2),
            epsilon=release.epsilon,
            neighbouring=release.neighbouring,
        )
    if release.mechanism == "discrete-knorm":
        return DiscreteKNorm.calibrate(
            n_frequencies=plan.n_frequencies,
            norm_sensitivity=math.isqrt(plan.sensitivity.value**2 // 2),
            epsilon=release.epsilon,
            neighbouring=release.neighbouring,
        )
    return DiscreteGaussian.calibrate(
        n_coordinates=2 * plan.n_frequencies,
        sensitivity_l2_squared=plan.sensitivity.value // 2,
        epsilon=release.epsilon,
        delta=release.delta,
        neighbouring=release.neighbouring,
    )


def audit(
    plan: SketchPlan, device: SketchingDevice, *, seed: int, n_runs: int | None = None
) -> Finding:
    mechanism = plan.release.mechanism
    return audit_release(
        device,
        make_neighbours(mechanism, plan.n_frequencies),
        n_runs=n_runs or N_RUNS[mechanism],
        source=SeededSource(seed),
        delta=float(plan.release.delta),
    )


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_neighbours_attain_the_enumerated_sensitivity(mechanism: str, m: int) -> None:
    near, far = make_neighbours(mechanism, m).compute_sums()
    change, sensitivity = near - far, make_plan(mechanism, m).sensitivity
    if mechanism == "discrete-laplace":
        assert int(np.abs(change).sum()) == sensitivity.value
    elif mechanism == "discrete-gaussian":
        assert int(np.square(change).sum()) == sensitivity.value
    else:
        assert int(GON24.norm(change[:m], change[m:]).min()) == sensitivity.value


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_audited_bytes_are_those_that_a_device_would_send(mechanism: str) -> None:
    plan, neighbours = make_plan(mechanism, 3), make_neighbours(mechanism, 3)
    accumulator = SketchAccumulator(neighbours.statistic)
    accumulator.add(neighbours.far)
    sent = _draw_payload(plan, accumulator, SeededSource(1))
    assert make_device(plan).release(accumulator.sums, 1, SeededSource(1)) == sent


@pytest.mark.parametrize(
    ("m", "runs"),
    [
        pytest.param(1, FEW_RUNS, id="1-few"),
        pytest.param(1, N_RUNS, id="1", marks=pytest.mark.soak),
        pytest.param(4, N_RUNS, id="4", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_no_event_contradicts_the_claim_and_the_best_comes_close(
    mechanism: str, m: int, runs: dict[str, int]
) -> None:
    plan = make_plan(mechanism, m)
    finding = audit(plan, make_device(plan), seed=m, n_runs=runs[mechanism])
    assert finding.epsilon <= float(EPSILON), finding
    assert finding.epsilon >= POWER * float(EPSILON), finding


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_half_the_noise_is_caught(mechanism: str) -> None:
    plan = make_plan(mechanism, 2)
    device = make_device(plan, HalfTheNoise(plan.mechanism))
    finding = audit(plan, device, seed=11, n_runs=FEW_RUNS[mechanism])
    assert finding.epsilon > float(EPSILON), finding


@pytest.mark.parametrize(
    ("mechanism", "n_runs"),
    [
        ("discrete-laplace", FEW_RUNS["discrete-laplace"]),
        ("discrete-gaussian", FEW_RUNS["discrete-gaussian"]),
        # It takes that many, of the slowest noise.
        pytest.param("discrete-knorm", N_RUNS["discrete-knorm"], marks=pytest.mark.soak),
    ],
)
def test_a_sensitivity_too_small_by_the_root_of_two_is_caught(mechanism: str, n_runs: int) -> None:
    plan = make_plan(mechanism, 1)
    device = make_device(plan, understate_sensitivity(plan))
    finding = audit(plan, device, seed=12, n_runs=n_runs)
    assert finding.epsilon > float(EPSILON), finding


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_fresh_noise_on_a_retry_is_caught(mechanism: str) -> None:
    plan = make_plan(mechanism, 1)
    device = make_device(plan, kind=RetryingDevice)
    finding = audit(plan, device, seed=13, n_runs=FEW_RUNS[mechanism])
    assert finding.epsilon > float(EPSILON), finding


def test_a_radius_with_one_geometric_too_few_is_caught() -> None:
    plan = make_plan("discrete-knorm", 1)
    noise = OneGeometricTooFew(cast(DiscreteKNorm, plan.mechanism))
    finding = audit(plan, make_device(plan, noise), seed=14, n_runs=8_000)
    assert finding.epsilon > float(EPSILON), finding


def test_laplace_noise_in_floating_point_is_told_by_its_last_bits() -> None:
    plan = make_plan("discrete-laplace", 1)
    device = FloatingDevice(scale=float(plan.mechanism.scale), seed=15)
    finding = audit_release(
        device, make_neighbours("discrete-laplace", 1), n_runs=20_000, source=SeededSource(15)
    )
    # An output that one data set cannot produce at all: the bound only grows with the runs.
    assert finding.attack == "reachable"
    assert finding.unlikely == 0.0
    assert finding.epsilon > 2 * float(EPSILON), finding


def test_noise_on_a_coarse_grid_is_told_by_the_low_bits_of_the_sum() -> None:
    plan = make_plan("discrete-laplace", 1)
    device = make_device(plan, NoiseOnAGrid(plan.mechanism))
    finding = audit(plan, device, seed=16, n_runs=2_000)
    assert finding.attack == "residues"
    assert finding.epsilon > 2 * float(EPSILON), finding


def audit_presence(mechanism: str, *, count_scale: int | None, n_runs: int) -> Finding:
    target = PrivacyTarget(
        mechanism=mechanism,
        shape=FourierShape(n_frequencies=2, measurements_per_record=2),
        epsilon=EPSILON,
        delta=DELTA if mechanism == "discrete-gaussian" else Fraction(0),
        neighbouring="add-remove-one",
    )
    noise = calibrate_mechanism(target)
    device = SketchingDevice(
        noise=noise,
        bound=compute_count_scale(target) + noise.noise_bound,
        width=8,
        separate=mechanism == "discrete-knorm",
    )
    scale = compute_count_scale(target) if count_scale is None else count_scale
    return audit_release(
        device,
        make_neighbours(mechanism, 2, count_scale=scale),
        n_runs=n_runs,
        source=SeededSource(17),
        delta=float(target.delta),
    )


@small_and_soak("runs", FEW_RUNS, N_RUNS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_record_that_is_absent_is_hidden_as_well_as_claimed(
    mechanism: str, runs: dict[str, int]
) -> None:
    finding = audit_presence(mechanism, count_scale=None, n_runs=runs[mechanism])
    assert POWER * float(EPSILON) <= finding.epsilon <= float(EPSILON), finding


def test_a_count_scaled_as_a_feature_is_caught_with_polygon_noise() -> None:
    # The body is 12 times as wide in a feature as in the count.
    finding = audit_presence("discrete-knorm", count_scale=AMPLITUDE, n_runs=2_000)
    assert finding.epsilon > 2 * float(EPSILON), finding


def test_bounds_fail_no_more_often_than_stated() -> None:
    # The event has P = P' exp(1): sums over every outcome of both counts that would show more.
    from scipy.stats import binom

    n, p = 400, 0.3
    k = np.arange(n + 1)
    hits, misses = (grid.ravel() for grid in np.meshgrid(k, k))
    wrong = bound_epsilon(hits, misses, n, 0.0) > 1.0
    weight = binom.pmf(hits, n, p) * binom.pmf(misses, n, p / math.e)
    assert float(weight[wrong].sum()) <= 2 * MISS
