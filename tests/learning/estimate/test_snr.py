from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.snr import compute_dilution, predict_mechanism_snr
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility, form_sketch
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.core import FrequencyBlocks, SketchAccumulator
from sfumato.shared.errors import PrivacyError
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.privacy.testing import SeededSource
from tests.soak import small_and_soak

M = 40
N_RECORDS = 20_000
SPREAD = 0.7
CENTRES = np.array([[-3.0, -2.0], [0.0, 3.0], [3.0, -1.0], [-2.0, 4.0]])
# Epsilon grows with the root of L, so that all cases have an SNR of some hundred.
EPSILONS = {10: "1", 100: "3", 1000: "10"}
CASES = [(10, M), (100, 4), (1000, 1)]


def make_plan(n_sketches: int, r: int, **changes: Any) -> SketchPlan:
    spec = {
        "dimensions": [
            {"name": name, "unit": "1", "lower": -10.0, "upper": 10.0, "scale": SPREAD}
            for name in ("x", "y")
        ],
        "n_frequencies": M,
        "frequencies_per_sketch": r,
        "seed": "a study of small sketches",
        "epsilon": EPSILONS[n_sketches],
        "window": {"kind": "time", "origin": 3600, "length_s": 3600},
        "most_records": 5000,
    }
    return plan_from_spec(spec | changes)


def describe_clusters(plan: SketchPlan) -> np.ndarray:
    """The sketch of infinitely many records of each cluster: shape (k, m)."""
    omega = plan.frequencies.to_angular(plan.quantiser)
    phases = np.exp(1j * (CENTRES - plan.quantiser.centre) @ omega)
    sketches: np.ndarray = phases * np.exp(-0.5 * SPREAD**2 * (omega**2).sum(axis=0))
    return sketches


def release(plan: SketchPlan, clusters: np.ndarray, seed: int) -> Totals:
    """Release a sketch for each row of clusters, the cluster of each of its records; add them up.

    Sketches of one block carry the same features, so one accumulator adds their records up: the
    sum of their exact sums. Each sketch has noise of its own.
    """
    rng, source = np.random.default_rng(seed), SeededSource(seed)
    n_sketches, size = clusters.shape
    blocks = [plan.blocks.choose(ordinal=i, stream="main", turn=0) for i in range(n_sketches)]
    n_blocks, r = plan.blocks.n_blocks, plan.frequencies_per_sketch
    sums = np.zeros(2 * M + n_blocks * plan.releases_count, dtype=np.int64)
    for block, members in enumerate(plan.blocks.members):
        own = np.flatnonzero(np.array(blocks) == block)
        accumulator = SketchAccumulator(plan.statistic_of(b"sketch", block=block))
        accumulator.add(rng.normal(CENTRES[clusters[own].ravel()], SPREAD))
        total = plan.finish_sum(accumulator.sums, size * len(own))
        for _ in own:
            total = plan.mechanism.add_noise(total, source)
        sums[members], sums[M + members] = total[:r], total[r : 2 * r]
        sums[2 * M + block : 2 * M + block + len(total) - 2 * r] = total[2 * r :]
    sizes = [0 if plan.releases_count else size] * n_sketches
    return Totals(
        sums=sums,
        size_sums=split_limbs([sizes[0] * total for total in sums.tolist()]),
        moments=SizeMoments.of_sizes(sizes, blocks=blocks, n_blocks=n_blocks),
    )


def draw_all(plan: SketchPlan, n_sketches: int, draws: int) -> Iterator[tuple[float, float]]:
    """Yield the server's SNR and the mean squared error of the sketch, for devices alike."""
    truth = describe_clusters(plan).mean(axis=0)
    for seed in range(draws):
        rng = np.random.default_rng((seed, n_sketches))
        clusters = rng.integers(len(CENTRES), size=(n_sketches, N_RECORDS // n_sketches))
        totals = release(plan, clusters, seed)
        utility = estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS)
        assert utility.n_covered == M
        yield utility.snr, measure_error(plan, totals, truth)


def measure_error(plan: SketchPlan, totals: Totals, truth: np.ndarray) -> float:
    count = count_records(plan, totals)
    sketch = form_sketch(
        plan,
        SIZE_WEIGHTS,
        totals.moments.with_first(count.by_block),
        sums=totals.sums,
        size_sums=totals.size_sums,
    )
    return float(np.mean(np.abs(sketch - truth) ** 2))


def predict(plan: SketchPlan, n_sketches: int, signal: float, **changes: Any) -> float:
    facts: dict[str, Any] = {
        "n_sketches": n_sketches,
        "n_records": N_RECORDS,
        "signal_energy": signal,
        "count_variance": plan.count_variance,
        "n_blocks": plan.blocks.n_blocks,
    }
    return predict_mechanism_snr(plan.mechanism, **(facts | changes))


def check(plan: SketchPlan, n_sketches: int, draws: int, **mistake: Any) -> None:
    """Compare the prediction with the server's estimate, and with the error that there is."""
    signal = float(np.mean(np.abs(describe_clusters(plan).mean(axis=0)) ** 2))
    predicted = predict(plan, n_sketches, signal, **mistake)
    snrs, errors = np.array(list(draw_all(plan, n_sketches, draws))).T
    # One draw deviates by at most 1.6 % (one standard deviation), so the mean of six by 0.7 %.
    assert np.mean(snrs) == pytest.approx(predicted, rel=0.02)
    # By the t distribution of six draws, one false alarm in 1,000 cases; far fewer with more draws.
    deviation = np.std(errors, ddof=1) / np.sqrt(draws)
    assert abs(np.mean(errors) - signal / predicted) < 7 * deviation


@pytest.mark.parametrize(("n_sketches", "r"), CASES)
@small_and_soak("draws", 6, 400)
def test_predicted_snr_of_small_sketches_is_that_of_simulated_ones(
    n_sketches: int, r: int, draws: int
) -> None:
    check(make_plan(n_sketches, r), n_sketches, draws)


@pytest.mark.parametrize(
    "mistake",
    [{"n_blocks": 1}, {"count_variance": 0.0}],
)
def test_a_prediction_that_forgets_a_part_of_the_noise_is_found_out(
    mistake: dict[str, Any],
) -> None:
    plan = make_plan(100, 4, neighbouring="add-remove-one", epsilon="1/2")
    with pytest.raises(AssertionError):
        check(plan, 100, 6, **mistake)


@pytest.mark.parametrize("r", [4, 20])
@small_and_soak("draws", 30, 400)
def test_predicted_snr_counts_devices_that_hold_one_cluster_each(r: int, draws: int) -> None:
    n_sketches = 100
    plan = make_plan(n_sketches, r)
    of_cluster = describe_clusters(plan)
    signal = float(np.mean(np.abs(of_cluster.mean(axis=0)) ** 2))
    errors = []
    for seed in range(draws):
        held = np.random.default_rng(seed).integers(len(CENTRES), size=n_sketches)
        totals = release(plan, np.repeat(held[:, None], N_RECORDS // n_sketches, axis=1), seed)
        errors.append(measure_error(plan, totals, of_cluster[held].mean(axis=0)))
    variance = float(np.mean(np.abs(of_cluster) ** 2)) - signal
    # What is left out, 1 part in 200, is less than the allowance of 5 standard errors.
    deviation = float(np.std(errors, ddof=1)) / np.sqrt(draws)
    predicted = predict(plan, n_sketches, signal, device_variance=variance)
    assert abs(np.mean(errors) - signal / predicted) < 5 * deviation
    alike = predict(plan, n_sketches, signal)
    assert abs(np.mean(errors) - signal / alike) > 5 * deviation


@given(st.integers(1, 60), st.integers(0, 10_000))
def test_dilution_is_that_of_the_sketches_of_a_fleet(n_blocks: int, more: int) -> None:
    n_sketches = n_blocks + more % 500
    blocks = FrequencyBlocks(seed=bytes(32), n_frequencies=n_blocks, frequencies_per_sketch=1)
    chosen = [blocks.choose(ordinal=i, stream="main", turn=more) for i in range(n_sketches)]
    counts = np.bincount(chosen, minlength=n_blocks)
    dilution = compute_dilution(n_sketches, n_blocks)
    assert dilution == pytest.approx(float(np.mean(n_sketches / counts)))
    assert n_blocks * (1 - 1e-12) <= dilution <= n_blocks * 9 / 8
    if n_sketches % n_blocks == 0:
        assert dilution == n_blocks


@pytest.mark.parametrize(("n_sketches", "r"), [(10, M), (100, 4)])
@small_and_soak("draws", 6, 400)
def test_predicted_snr_counts_a_noised_number_of_records_for_each_block(
    n_sketches: int, r: int, draws: int
) -> None:
    plan = make_plan(n_sketches, r, neighbouring="add-remove-one")
    assert plan.count_variance > 0
    check(plan, n_sketches, draws)


def test_fewer_sketches_than_blocks_are_refused() -> None:
    assert compute_dilution(12, 12) == 12
    with pytest.raises(PrivacyError, match="n_sketches: must be at least 12"):
        compute_dilution(11, 12)
