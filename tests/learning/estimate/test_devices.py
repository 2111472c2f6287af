"""The difference between devices is seen in the energy of their sketches, and only where it is."""

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.devices import estimate_difference, find_difference
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import Utility, estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy.testing import SeededSource

M, R, SIGNAL = 40, 4, 0.3


def make_plan(r: int = R, **changes: Any) -> SketchPlan:
    choices: dict[str, Any] = {
        "dimensions": (Dimension(name="x", unit="1", lower=-10.0, upper=10.0, scale=1.0),),
        "n_frequencies": M,
        "frequencies_per_sketch": r,
        "seed": hashlib.sha256(b"devices").hexdigest(),
        "epsilon": Fraction(1, 2),
        "window": WindowRule(kind="count", length=1000),
        "most_records": 5000,
    }
    return create_plan(PlanSpec(**(choices | changes)))


def draw_totals(plan: SketchPlan, n_sketches: int, variance: float, *, seed: int) -> Totals:
    """Sums of sketches whose features differ by ``variance`` between sketches, with real noise."""
    rng, source, r = np.random.default_rng(seed), SeededSource(seed), plan.frequencies_per_sketch
    turns = np.exp(2j * np.pi * rng.random(M))
    sizes = rng.integers(500, 2000, size=n_sketches)
    sums = np.zeros(2 * M, dtype=np.int64)
    blocks, energy = [], [0] * plan.blocks.n_blocks
    for sketch, size in enumerate(sizes.tolist()):
        block = plan.blocks.choose(ordinal=sketch, stream="main", turn=0)
        members = plan.blocks.members[block]
        own = (rng.normal(size=r) + 1j * rng.normal(size=r)) * np.sqrt(variance / 2)
        value = plan.amplitude * size * (np.sqrt(SIGNAL) * turns[members] + own)
        exact = np.rint(np.concatenate([value.real, value.imag])).astype(np.int64)
        released = plan.mechanism.add_noise(exact, source)
        sums[members] += released[:r]
        sums[M + members] += released[r:]
        blocks.append(block)
        energy[block] += sum(s * s for s in released.tolist())
    moments = SizeMoments.of_sizes(
        sizes.tolist(), blocks=blocks, n_blocks=plan.blocks.n_blocks, energy=energy
    )
    return Totals(sums=sums, size_sums=split_limbs([0] * sums.size), moments=moments)


def measure(plan: SketchPlan, totals: Totals) -> Utility:
    return estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS)


@pytest.mark.parametrize(("n_sketches", "variance"), [(100, 0.05), (100, 0.3), (500, 0.3)])
def test_signal_and_difference_are_told_apart(variance: float, n_sketches: int) -> None:
    plan = make_plan()
    found = []
    for seed in range(10):
        totals = draw_totals(plan, n_sketches, variance, seed=seed)
        signal = measure(plan, totals).signal_energy
        known = np.ones(plan.blocks.n_blocks, dtype=bool)
        energy = find_difference(plan, totals.moments, known, signal_energy=signal)
        _, first, second, _, _ = totals.moments.floats
        shares = second / first**2 - second.sum() / first.sum() ** 2
        found.append((signal, float(np.mean(energy) / np.mean(shares))))
    signals, variances = np.array(found).T
    # Means of 10 seeded draws: six standard errors of one fail by chance once in 5,000, by the t
    # distribution.
    for values, wanted in ((signals, SIGNAL), (variances, variance)):
        assert abs(values.mean() - wanted) < 6 * values.std() / np.sqrt(10) + 0.02 * wanted


def test_devices_that_are_alike_add_next_to_no_noise() -> None:
    plan = make_plan()
    energies = []
    for seed in range(10):
        totals = draw_totals(plan, 400, 0.0, seed=seed)
        utility = measure(plan, totals)
        noise = 2 * plan.mechanism.variance * 400 / (plan.amplitude * totals.n_records) ** 2
        assert utility.noise_energy is not None
        energies.append(utility.noise_energy / (noise * plan.blocks.n_blocks))
    assert np.mean(energies) == pytest.approx(1.0, abs=0.1)


def test_devices_that_differ_lower_the_snr_as_much_as_they_disturb() -> None:
    plan, n_sketches, variance = make_plan(epsilon=Fraction(20)), 200, 0.3
    utility = measure(plan, draw_totals(plan, n_sketches, variance, seed=1))
    disturbance = variance * (plan.blocks.n_blocks - 1) / n_sketches
    assert utility.noise_energy == pytest.approx(disturbance, rel=0.3)
    assert utility.snr == pytest.approx(utility.signal_energy / disturbance, rel=0.35)


def test_with_one_sketch_in_a_block_no_difference_is_claimed() -> None:
    plan = make_plan()
    totals = draw_totals(plan, plan.blocks.n_blocks, 0.3, seed=1)
    known = np.ones(plan.blocks.n_blocks, dtype=bool)
    found = estimate_difference(plan, totals.moments, known, raw_signal=0.5)
    assert (found.energy.tolist(), found.signal_energy) == ([0.0] * plan.blocks.n_blocks, 0.5)


def test_where_a_sketch_carries_all_features_nothing_is_added() -> None:
    plan = make_plan(M)
    known = np.ones(1, dtype=bool)
    moments = SizeMoments.of_sizes([1000] * 50)
    found = estimate_difference(plan, moments, known, raw_signal=0.5)
    assert (found.energy.tolist(), found.signal_energy) == ([0.0], 0.5)
    assert find_difference(plan, moments, known, signal_energy=0.5).tolist() == [0.0]
