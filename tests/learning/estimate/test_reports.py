"""Marginals from reports of bins: unbiased, within their bands, and far above a wrong law."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum, Row
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.reports import ReportedMarginal, bound_distribution, deconvolve
from sfumato.learning.estimate.studies import (
    read_study_levels,
    read_study_marginals,
    read_study_numbers,
    read_study_reports,
)
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy.circle import CircularLaw, choose_bin_law
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm

N_BINS, N_PLACES = 64, 67
N_DEVICES = 2000
EDGES = np.linspace(-10.0, 10.0, N_BINS + 1)
Floats = NDArray[np.float64]


def find_law(epsilon: str) -> CircularLaw:
    return choose_bin_law(Fraction(epsilon), 1, circle=N_PLACES, is_ordered=True)


def draw(
    epsilon: str, n: int, seed: int, *, missing: float = 0.1
) -> tuple[ReportedMarginal, Floats, Floats]:
    """Return reports of two humps, the exact shares of the places, and the present values."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(n) < 0.7, rng.normal(-5.0, 0.7, n), rng.normal(4.0, 1.2, n))
    places = np.floor((x + 10.0) / 20.0 * N_BINS).astype(np.int64)
    is_missing = rng.random(n) < missing
    places[is_missing] = N_PLACES - 2
    places[x > 10.0], places[x < -10.0] = N_BINS, N_PLACES - 1
    law = find_law(epsilon)
    marginal = ReportedMarginal(name="x", reports=np.ones(N_PLACES), law=law, edges=EDGES)
    offsets = rng.choice(N_PLACES, n, p=marginal.kernel)
    reports = np.bincount((places + offsets) % N_PLACES, minlength=N_PLACES).astype(np.float64)
    shares = np.bincount(places, minlength=N_PLACES) / n
    return replace(marginal, reports=reports), shares, x[~is_missing]


def measure_error(marginal: ReportedMarginal, x: Floats) -> float:
    """Return the mean distance of quantiles, in standard deviations."""
    shares = (0.1, 0.25, 0.5, 0.6, 0.9)
    found = np.array([marginal.find_quantile(share) for share in shares])
    return float(np.mean(np.abs(found - np.quantile(x, shares))) / x.std())


@pytest.mark.parametrize(("epsilon", "limit"), [("1", 0.08), ("3", 0.03)])
def test_quantiles_are_close_and_the_wrong_law_is_not(epsilon: str, limit: float) -> None:
    for seed in range(3):
        marginal, shares, x = draw(epsilon, 100_000, seed)
        assert marginal.shares.sum() == pytest.approx(1.0)
        assert marginal.shares.min() >= 0.0
        assert measure_error(marginal, x) < limit
        assert abs(marginal.missing - shares[-2]) < 0.1
        wrong = replace(marginal, law=replace(marginal.law, arc=2 * marginal.law.arc))
        assert measure_error(wrong, x) > 2.0 * measure_error(marginal, x)


@pytest.mark.parametrize(("epsilon", "n"), [("1", 2000), ("1", 100_000), ("3", 20_000)])
def test_bands_hold_the_distribution_of_the_records_and_shrink(epsilon: str, n: int) -> None:
    marginal, shares, x = draw(epsilon, n, 5)
    bands = bound_distribution(marginal)
    truth = shares[-1] + np.concatenate([[0.0], np.cumsum(shares[:N_BINS])])
    assert np.all(bands.lower <= truth + 1e-9)
    assert np.all(truth <= bands.upper + 1e-9)
    assert bands.present_lower <= 1.0 - shares[-2] <= bands.present_upper
    low, high = bands.find_quantile(0.5)
    assert low <= np.median(x) <= high
    if n > 10_000:
        assert high - low < 3.0 * x.std()


@cache
def total(epsilon: str, *dimensions: Dimension) -> tuple[SketchPlan, Totals, Floats]:
    """Let devices report a record each, as devices and server do."""
    plan = create_plan(
        PlanSpec(
            dimensions=dimensions,
            statistic="histogram",
            release="phase.v1",
            epsilon=Fraction(epsilon),
            window=WindowRule(kind="time", length_s=3600),
        )
    )
    rng, source, form = np.random.default_rng(1), SeededSource(1), PayloadForm.of(plan)
    records = np.floor(3.0 * rng.beta(1.0, 2.0, (N_DEVICES, len(dimensions))))
    records[rng.random(N_DEVICES) < 0.1] = np.nan
    rows = []
    for i, record in enumerate(records):
        block, name = i % plan.blocks.n_blocks, i.to_bytes(32, "big")
        accumulator = SketchAccumulator(plan.statistic_of(b"", block=block))
        accumulator.add(record[None])
        payload = form.encode(plan.mechanism.add_noise(accumulator.sums, source))
        rows.append(Row(name, name, 0, 1, block, payload))
    running = PayloadSum(Layout.of(plan))
    running.add(rows)
    return plan, running.total().to_totals(), records


def test_the_sums_of_a_study_give_a_marginal_for_each_number() -> None:
    numbers = [Dimension(name=name, unit="1", lower=-10.0, upper=10.0) for name in "xy"]
    plan, totals, records = total("3", *numbers)
    assert totals.sums.sum() == N_DEVICES
    found = read_study_reports(plan, totals)
    assert [marginal.n_records for marginal in found] == [1000.0, 1000.0]
    for i, marginal in enumerate(found):
        own = records[i::2, i]
        assert marginal.find_quantile(0.5) == pytest.approx(np.nanmedian(own), abs=1.0)
        low, high = bound_distribution(marginal).find_quantile(0.5)
        assert low <= np.nanmedian(own) <= high
    assert not read_study_levels(plan, totals)
    assert [marginal.name for marginal in read_study_numbers(plan, totals)] == ["x", "y"]
    with pytest.raises(DecodingError) as refusal:
        read_study_marginals(plan, totals)
    assert refusal.value.field == "release"
    assert estimate_utility(plan, totals, count_records(plan, totals), SIZE_WEIGHTS).noise_energy


def test_the_sums_of_a_study_give_unbiased_shares_of_levels() -> None:
    plan, totals, records = total("3/2", Dimension(name="kind", unit="1", levels=("a", "b", "c")))
    (shares,) = read_study_levels(plan, totals)
    truth = [float(np.mean(records[:, 0] == level)) for level in range(3)]
    # Four standard errors each.
    assert np.all(np.abs(shares.shares - truth) < 4.0 * shares.error)
    assert abs(shares.missing - 0.1) < 4.0 * shares.error
    assert shares.shares.sum() + shares.missing == pytest.approx(1.0)
    assert shares.error < 0.025
    # Without the correction the most frequent level is far off.
    raw = totals.sums / N_DEVICES
    assert abs(raw[0] - truth[0]) > 4.0 * shares.error
    assert not read_study_reports(plan, totals)


def test_reports_that_do_not_fit_the_law_are_refused() -> None:
    law = find_law("1")
    with pytest.raises(DecodingError, match="one place for each bin"):
        ReportedMarginal(name="x", reports=np.ones(N_PLACES - 1), law=law, edges=EDGES)
    with pytest.raises(DecodingError, match="positive"):
        ReportedMarginal(name="x", reports=np.zeros(N_PLACES), law=law, edges=EDGES)


def test_reports_that_no_records_explain_leave_everything_open() -> None:
    reports = np.zeros(N_PLACES)
    reports[20] = 10_000.0
    bands = bound_distribution(
        ReportedMarginal(name="x", reports=reports, law=find_law("1"), edges=EDGES)
    )
    assert not bands.lower.any()
    assert np.all(bands.upper == 1.0)


def test_errors_of_replicas_are_those_of_the_estimate() -> None:
    estimates = np.array([draw("1", 20_000, seed)[0].shares for seed in range(30)])
    seen = np.add.reduceat(estimates[:, :N_BINS], range(0, N_BINS, 16), axis=1).std(axis=0)
    replicas = draw("1", 20_000, 99)[0].draw_replicas(np.random.default_rng(0))
    stated = np.add.reduceat(replicas[:, :N_BINS], range(0, N_BINS, 16), axis=1).std(axis=0)
    # Both are estimates from 30 or 40 draws: a factor of two is five deviations.
    assert np.all(stated < 2.0 * seen)
    assert np.all(stated > seen / 2.0)


def test_exact_reports_give_the_exact_shares() -> None:
    law = find_law("7")
    marginal = ReportedMarginal(name="x", reports=np.ones(N_PLACES), law=law, edges=EDGES)
    shares = np.zeros(N_PLACES)
    shares[[10, 40]] = 0.25, 0.75
    spectrum = np.fft.rfft(shares) * np.fft.rfft(marginal.kernel)
    reports = np.fft.irfft(spectrum, N_PLACES)
    (found,) = deconvolve(reports[None], marginal.kernel)
    np.testing.assert_allclose(found, shares, atol=1e-3)


def test_the_strength_is_that_of_a_histogram_with_the_same_error() -> None:
    marginal, _, _ = draw("1", 20_000, 0)
    error = 1.0 / (2.0 * marginal.law.reach * math.sqrt(20_000))
    assert marginal.strength == pytest.approx(math.sqrt(8.0) / error)
