"""Global sketches from phase reports: the estimate is unbiased, and its noise is known."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum, Row
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.snr import predict_mechanism_snr
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import Utility, estimate_utility, form_sketch
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.core.features import PHASES, feature_table
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm
from tests.shared.plan.test_plan import SPEC

Floats = NDArray[np.float64]
TABLE = feature_table().astype(np.int64)
SPREAD = 0.8
"""Standard deviation of the phase of every feature, in radians; the mean feature is real."""
TRUTH = math.exp(-(SPREAD**2) / 2)


@cache
def make(epsilon: str, m: int = 60, r: int = 1) -> SketchPlan:
    spec = {name: value for name, value in SPEC.items() if name != "most_records"}
    changes = {"n_frequencies": m, "frequencies_per_sketch": r, "epsilon": epsilon}
    return plan_from_spec({**spec, "release": "phase.v1", **changes})


@cache
def total(
    plan_key: tuple[Any, ...], seed: int, n_records: int, n_unusable: int = 0
) -> tuple[SketchPlan, Totals]:
    """Sum the reports of devices with one record each, in the order of their enrolment."""
    plan = make(*plan_key)
    rng, source, form = np.random.default_rng(seed), SeededSource(seed), PayloadForm.of(plan)
    r, n_blocks = plan.frequencies_per_sketch, plan.blocks.n_blocks
    phases = np.floor(SPREAD * rng.normal(size=(n_records, r)) / (2 * math.pi) * PHASES)
    rows = []
    for i, own in enumerate(phases.astype(np.int64) % PHASES):
        features = TABLE[own].T.ravel()
        if i < n_unusable:
            features = np.zeros_like(features)
        payload = form.encode(plan.mechanism.add_noise(features, source))
        name = i.to_bytes(32, "big")
        rows.append(Row(name, name, 0, 1, i % n_blocks, payload))
    running = PayloadSum(Layout.of(plan))
    running.add(rows)
    return plan, running.total().to_totals()


def estimate(plan: SketchPlan, totals: Totals) -> Utility:
    return estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS)


def find_sketch(plan: SketchPlan, totals: Totals) -> NDArray[np.complex128]:
    return form_sketch(
        plan, SIZE_WEIGHTS, totals.moments, sums=totals.sums, size_sums=totals.size_sums
    )


CASES = [("4", 60, 1), ("6", 60, 2)]


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_unbiased_and_a_wrong_gain_is_found(case: tuple[Any, ...]) -> None:
    plan, totals = total(case, 2, 12_000)
    sketch = find_sketch(plan, totals)
    energy = (plan.mechanism.gain**-2 - TRUTH**2) * 60 / (12_000 * case[2])
    error = math.sqrt(energy / 2 / 60)
    # Five standard errors of a mean over features: once in 1.7e6.
    assert abs(np.mean(sketch.real) - TRUTH) < 5 * error
    assert abs(np.mean(sketch.imag)) < 5 * error
    assert abs(np.mean(sketch.real) * plan.mechanism.gain - TRUTH) > 5 * error


@pytest.mark.parametrize("case", CASES)
def test_the_stated_noise_is_the_noise_of_the_features(case: tuple[Any, ...]) -> None:
    plan, totals = total(case, 2, 12_000)
    errors = np.abs(find_sketch(plan, totals) - TRUTH) ** 2
    found = estimate(plan, totals)
    assert found.noise_energy is not None
    sampling = (1 - found.signal_energy) * 60 / (12_000 * case[2])
    # The mean of 60 exponential variables has a relative error of 0.13; four of them.
    assert float(np.mean(errors)) == pytest.approx(found.noise_energy + sampling, rel=0.52)
    predicted = predict_mechanism_snr(
        plan.mechanism,
        n_sketches=12_000,
        n_records=12_000,
        n_blocks=plan.blocks.n_blocks,
        signal_energy=found.signal_energy,
    )
    assert found.snr == pytest.approx(predicted, rel=1e-3)


def test_records_that_cannot_be_sketched_count_and_add_zero() -> None:
    plan, totals = total(("4", 6, 1), 4, 12_000, 6000)
    assert totals.n_records == 12_000
    sketch = find_sketch(plan, totals)
    error = math.sqrt(plan.mechanism.gain**-2 / 2000 / 2 / 6)
    assert abs(np.mean(sketch.real) - TRUTH / 2) < 5 * error


def test_the_signal_of_few_reports_is_told_from_their_noise() -> None:
    plan, totals = total(("4", 600, 1), 3, 3000)
    # Each |z_j|^2 has a standard error of about V = 0.18 and 2 |z| sqrt(V / 2); five of the mean.
    assert estimate(plan, totals).signal_energy == pytest.approx(TRUTH**2, abs=0.11)
    raw = np.mean(np.abs(find_sketch(plan, totals)) ** 2)
    assert raw > TRUTH**2 + 0.11


def test_features_without_a_report_are_left_out() -> None:
    plan, totals = total(("4", 60, 1), 5, 40)
    assert estimate(plan, totals).n_covered == 40
    sketch = find_sketch(plan, totals)
    assert np.count_nonzero(sketch) == 40


def test_devices_with_one_record_do_not_differ_beyond_it() -> None:
    # The energy of a report is the same whatever the record: nothing but the sampling is left.
    plan, totals = total(("4", 60, 1), 2, 12_000)
    found = estimate(plan, totals)
    privacy = (plan.mechanism.gain**-2 - 1) * 60 / 12_000
    assert found.noise_energy == pytest.approx(privacy, rel=0.02)
