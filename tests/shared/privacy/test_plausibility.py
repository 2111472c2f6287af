"""No honest release is longer than its bound, and what fits below the bound is what a liar can do.

For one feature the probability of being longer is summed exactly, down to two to the minus forty.
For more, noise is drawn: seeds are fixed, and stated false-alarm rates are those over the choice of
a seed.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.core import AMPLITUDE
from sfumato.shared.privacy import (
    MECHANISMS,
    DiscreteGaussian,
    DiscreteKNorm,
    DiscreteLaplace,
    FourierShape,
    Mechanism,
    PrivacyTarget,
    calibrate_mechanism,
)
from sfumato.shared.privacy.plausibility import bound_noise, bound_squared_norm, compute_influence
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.testing import SeededSource

LAPLACE = DiscreteLaplace(sensitivity_l1=1, rate=UNIT // 700, neighbouring="replace-one")
GAUSSIAN = DiscreteGaussian(
    n_coordinates=2,
    sensitivity_l2_squared=1,
    sigma=900,
    epsilon=Fraction(1),
    delta=Fraction(1, 10),
    neighbouring="replace-one",
)
KNORM = DiscreteKNorm(n_frequencies=1, norm_sensitivity=1, rate=UNIT, neighbouring="replace-one")


def make_target(
    mechanism: str, *, m: int = 40, r: int | None = None, neighbouring: str = "replace-one"
) -> tuple[PrivacyTarget, Mechanism]:
    target = PrivacyTarget(
        mechanism=mechanism,
        shape=FourierShape(n_frequencies=m, measurements_per_record=r or m),
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6) if mechanism == "discrete-gaussian" else Fraction(0),
        neighbouring=neighbouring,
    )
    return target, calibrate_mechanism(target)


def sum_tail(masses: NDArray[np.float64], shift: tuple[int, int], squared: float) -> float:
    """Return ``P(|shift + Y|^2 > squared)`` for two coordinates of one law, around its middle."""
    reach = masses.size // 2
    k = np.arange(-reach, reach + 1)
    below = np.concatenate([[0.0], np.cumsum(masses)])
    above = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])
    room = squared - (shift[0] + k.astype(np.float64)) ** 2
    edge = np.floor(np.sqrt(np.maximum(room, 0.0))).astype(np.int64)
    # The other coordinate leaves -edge .. edge; sums of small parts, no difference of large ones.
    low = np.clip(-edge - shift[1] + reach, 0, masses.size)
    high = np.clip(edge - shift[1] + reach + 1, 0, masses.size)
    outside = np.where(room < 0, 1.0, below[low] + above[high])
    return float(masses @ outside)


def make_law(mechanism: Mechanism) -> NDArray[np.float64]:
    scale = float(mechanism.scale)
    k = np.arange(-math.ceil(120 * scale), math.ceil(120 * scale) + 1) / scale
    weights = np.exp(-np.abs(k) if isinstance(mechanism, DiscreteLaplace) else -(k**2) / 2)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("n_records", [0, 1, 3])
def test_the_exact_probability_of_a_longer_release_is_below_the_stated_one(
    mechanism: Mechanism, n_records: int
) -> None:
    target, _ = make_target("discrete-laplace", m=1)
    masses = make_law(mechanism)
    limit = bound_squared_norm(target, mechanism, n_records=n_records)
    for angle in (0.0, 0.3, math.pi / 4):
        shift = (
            math.floor(n_records * AMPLITUDE * math.cos(angle)),
            math.floor(n_records * AMPLITUDE * math.sin(angle)),
        )
        assert sum_tail(masses, shift, limit) < 2.0**-40
        # Not by being of no use: the true limit is not much shorter.
        shorter = (n_records * AMPLITUDE + 0.5 * (math.sqrt(limit) - n_records * AMPLITUDE)) ** 2
        assert sum_tail(masses, shift, shorter) > 2.0**-40


def count_outside(t: int, squared: float) -> int:
    """Count the lattice points of t P that are further out than that."""
    x = np.arange(0, KNORM.polygon.inradius * t + 1)
    y = np.arange(0, KNORM.polygon.inradius * t + 1)
    inside = KNORM.polygon.contains(x[:, None], y[None, :], t)
    far = (x[:, None] ** 2 + y[None, :] ** 2 > squared) & inside
    weights = np.where(x > 0, 2, 1)[:, None] * np.where(y > 0, 2, 1)[None, :]
    return int(np.sum(weights * far))


@pytest.mark.parametrize("bits", [20, 40])
def test_the_exact_probability_of_longer_knorm_noise_is_below_the_stated_one(bits: int) -> None:
    """Only where the radius is too large can noise be too long, so few radii have to be counted."""
    tail = bound_noise(KNORM, 2, bits=bits)
    q = math.exp(-KNORM.rate / UNIT)
    degree = KNORM.n_coordinates + 1
    longer, shorter = 0.0, 0.0
    for t in range(KNORM.shift, 60):
        steps = t - KNORM.shift
        mass = math.comb(steps + degree - 1, steps) * (1 - q) ** degree * q**steps
        for squared in (tail.squared_norm, tail.squared_norm / 4):
            reached = squared < 149 * t * t
            share = count_outside(t, squared) / KNORM.polygon.count_points(t) if reached else 0.0
            if squared == tail.squared_norm:
                longer += mass * share
            else:
                shorter += mass * share
    assert longer < 2.0**-bits < shorter


@pytest.mark.parametrize(
    ("mechanism", "neighbouring"),
    [*zip(MECHANISMS, itertools.cycle(["replace-one", "add-remove-one"]), strict=False)],
)
def test_honest_releases_are_as_long_as_the_bound_says(mechanism: str, neighbouring: str) -> None:
    """At a bound that may fail once in 16; false alarms below 1e-6 (binomial: 34 of 200).

    The bound is no loose one either: two thirds of its length are reached by a quarter of releases.
    """
    m, n_runs = 400, 200
    target, law = make_target(mechanism, m=m, neighbouring=neighbouring)
    source = SeededSource(11)
    nothing = np.zeros(2 * m + int(target.releases_count), dtype=np.int64)
    noise = np.array([law.add_noise(nothing, source) for _ in range(n_runs)])
    for n_records in (0, 30, 3000):
        direction = np.exp(2j * np.pi * np.random.default_rng(3).random(m)) * AMPLITUDE
        sums = np.rint(n_records * np.concatenate([direction.real, direction.imag]))
        padded = np.append(sums, [0.0] * int(target.releases_count)).astype(np.int64)
        lengths = np.linalg.norm((padded + noise)[:, : 2 * m].astype(np.float64), axis=1)
        limit = math.sqrt(bound_squared_norm(target, law, n_records=n_records, bits=4))
        assert np.count_nonzero(lengths > limit) < 34
        assert np.count_nonzero(lengths > limit * 2 / 3) > n_runs / 4
        assert lengths.max() < math.sqrt(bound_squared_norm(target, law, n_records=n_records))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_liar_weighs_as_many_equal_records_as_stated_and_no_more(mechanism: str) -> None:
    target, law = make_target(mechanism, m=500)
    phases = np.exp(2j * np.pi * np.random.default_rng(5).random(500))
    point = np.concatenate([phases.real, phases.imag]) * AMPLITUDE
    for n_records in (1, 10, 4000):
        limit = bound_squared_norm(target, law, n_records=n_records)
        influence = compute_influence(target, law, n_records=n_records)
        assert influence > n_records
        assert np.linalg.norm(influence * point) == pytest.approx(math.sqrt(limit))
        # No vector within the bound does more in any direction than the one along it.
        other = np.random.default_rng(7).standard_normal(1000)
        other *= math.sqrt(limit) / np.linalg.norm(other)
        assert other @ point / (point @ point) < influence
        assert influence < n_records + compute_influence(target, law, n_records=0) + 1e-6


def test_masks_let_records_add_to_fewer_features() -> None:
    every, law = make_target("discrete-laplace", m=40)
    masked, _ = make_target("discrete-laplace", m=40, r=10)
    small = bound_squared_norm(masked, law, n_records=10**6)
    large = bound_squared_norm(every, law, n_records=10**6)
    assert large / small == pytest.approx(4, rel=1e-2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_bound_grows_with_records_and_with_certainty(mechanism: str) -> None:
    target, law = make_target(mechanism)
    limits = [bound_squared_norm(target, law, n_records=n) for n in (0, 1, 2, 10, 1000)]
    assert limits == sorted(set(limits))
    sure = [bound_squared_norm(target, law, n_records=5, bits=bits) for bits in (4, 20, 40, 60)]
    assert sure == sorted(set(sure))


def test_noise_too_small_to_be_seen_leaves_what_records_add() -> None:
    target, _ = make_target("discrete-laplace", m=10)
    silent = DiscreteLaplace(sensitivity_l1=1, rate=1 << 61, neighbouring="replace-one")
    limit = bound_squared_norm(target, silent, n_records=7)
    assert math.sqrt(limit / 10) / AMPLITUDE == pytest.approx(7, rel=1e-3)
