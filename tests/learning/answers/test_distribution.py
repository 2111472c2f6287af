"""Shares, quantiles and means of one column, of a noised histogram and densities."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.learning.answers.cells import Cells, list_cells
from sfumato.learning.answers.distribution import Distribution, combine
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.estimate.histogram import BinNoise, Marginal
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.questions import (
    MeanQuestion,
    QuantileQuestion,
    QuestionsRequest,
)

from .posteriors import make_posterior
from .test_questions import PLAN, make_plan

Floats = NDArray[np.float64]
N_BINS, N = 256, 20_000
BOX = (-10.0, 10.0)


def count(values: Floats, *, noise: float, seed: int, n_bins: int = N_BINS) -> Marginal:
    """Count values in bins of the box, with Laplace noise; none is beyond it."""
    edges = np.linspace(*BOX, n_bins + 1)
    counts = np.histogram(np.clip(values, *BOX), edges)[0].astype(np.float64)
    law = BinNoise(variance=2.0 * noise**2)
    rng = np.random.default_rng(seed)
    return Marginal(
        name="x",
        bins=counts + law.draw(rng, counts.shape),
        below=float(law.draw(rng, (1,))[0]),
        above=float(law.draw(rng, (1,))[0]),
        missing=0.0,
        edges=edges,
        n_records=len(values),
        noise=law,
    )


def count_beyond(values: Floats, *, seed: int) -> Marginal:
    """Count values in the box, and those beyond it apart, with little noise."""
    inside = values[(values >= BOX[0]) & (values <= BOX[1])]
    found = count(inside, noise=5.0, seed=seed)
    below, above = float(np.sum(values < BOX[0])), float(np.sum(values > BOX[1]))
    return replace(found, below=below, above=above, n_records=len(values))


def heap(rng: np.random.Generator, n: int = N) -> Floats:
    """Draw whole numbers of which every fifth is far commoner than its neighbours."""
    values = np.round(rng.normal(0.0, 3.0, n))
    is_rounded = rng.random(n) < 0.6
    found: Floats = np.clip(np.where(is_rounded, np.round(values / 5.0) * 5.0, values), -10, 10)
    return found


def blur(seed: int, centre: float = 0.0) -> Inquiry:
    """Make densities that know the spread of the records, and no heap of them."""
    rng = np.random.default_rng(seed)
    means = np.concatenate(
        [centre + rng.normal(0.0, 0.1, size=(32, 1, 1)), np.zeros((32, 1, 1))], axis=2
    )
    roots = np.broadcast_to(np.diag([3.1, 1.0]), (32, 1, 2, 2)).copy()
    return Inquiry(plan=PLAN, posterior=make_posterior(means, roots), n_records=N)


def ask_of(values: Floats, *, seed: int, noise: float = 60.0, plan: SketchPlan = PLAN) -> Inquiry:
    """Ask densities that know no heap, with a histogram of the values."""
    return replace(
        blur(seed), plan=plan, n_records=N, histograms=[count(values, noise=noise, seed=seed)]
    )


def test_heaps_that_the_sketch_blurs_are_followed_with_bars_that_hold() -> None:
    """Ask 480 ranges of 24 samples: at a level of 90 %, at least 80 % must hold.

    Ranges of a sample share its noise. If they tell as much as two independent ones, fewer hold by
    chance with probability 0.02; the seeds are fixed.
    """
    held, off, plain = [], [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        values = heap(rng)
        densities, inquiry = blur(seed), ask_of(values, seed=seed)
        for _ in range(20):
            low, high = np.sort(rng.choice(values, 2))
            truth = float(np.mean((values >= low) & (values <= high)))
            found = inquiry.find_share({"x": [low, high]})
            blurred = densities.find_share({"x": [low, high]}, allow_narrow=True)
            assert found.share is not None
            assert found.low is not None
            assert found.high is not None
            assert blurred.share is not None
            held.append(found.low <= truth <= found.high)
            off.append(abs(found.share - truth))
            plain.append(abs(blurred.share - truth))
    assert np.mean(held) >= 0.8
    assert np.median(off) < 0.2 * np.median(plain)


def test_quantiles_and_means_of_heaped_values_are_those_of_the_records() -> None:
    values = heap(np.random.default_rng(3))
    inquiry = ask_of(values, seed=3)
    for share in (0.1, 0.25, 0.5, 0.75, 0.9):
        truth = float(np.quantile(values, share, method="inverted_cdf"))
        found = inquiry.find_quantile(QuantileQuestion(dimension="x", share=share))
        assert found.low is not None
        assert found.high is not None
        assert found.low <= truth <= found.high
        assert found.value == round(found.value)
    mean = inquiry.find_mean(MeanQuestion(mean_of="x"))
    assert mean.low is not None
    assert mean.high is not None
    assert mean.low <= values.mean() <= mean.high
    inside = values[(values >= -1.0) & (values <= 6.0)]
    part = inquiry.find_mean(MeanQuestion(mean_of="x", within={"x": [-1.0, 6.0]}))
    assert part.mean == pytest.approx(inside.mean(), abs=0.3)


def test_two_columns_keep_their_dependence_and_follow_the_histogram_of_one() -> None:
    rng = np.random.default_rng(5)
    smooth = rng.normal(0.0, 3.0, N)
    values, other = np.round(smooth / 5.0) * 5.0, 0.5 * smooth + rng.normal(0.0, 1.0, N)
    root = np.linalg.cholesky(np.cov(smooth, other))
    posterior = make_posterior(np.zeros((32, 1, 2)), np.broadcast_to(root, (32, 1, 2, 2)).copy())
    inquiry = Inquiry(
        plan=PLAN, posterior=posterior, n_records=N, histograms=[count(values, noise=5.0, seed=1)]
    )
    for low, high in ((5.0, 10.0), (-5.0, 0.0), (0.0, 0.0)):
        truth = np.mean((values >= low) & (values <= high) & (other > 0.0))
        found = inquiry.find_share({"x": [low, high], "y": [0.0, None]})
        assert found.share == pytest.approx(truth, abs=0.025)


def test_words_say_that_a_histogram_is_followed_and_narrow_ranges_are_answered() -> None:
    values = heap(np.random.default_rng(1))
    inquiry = ask_of(values, seed=1)
    found = inquiry.answer(QuestionsRequest(ranges=[{"x": [5.0, 5.0]}]))
    assert found.ranges[0].share == pytest.approx(np.mean(values == 5.0), abs=0.02)
    assert any("values of x follow a histogram" in words for words in found.words)


def test_words_name_the_bounds_beyond_which_a_histogram_shows_what_the_plan_cuts_off() -> None:
    values = heap(np.random.default_rng(1))
    wide = count(values, noise=5.0, seed=1)
    whole = ask_of(values, seed=1)
    cut = replace(whole, histograms=[replace(wide, edges=np.linspace(-10.0, 30.0, N_BINS + 1))])
    asked = QuestionsRequest(means=[MeanQuestion(mean_of="x")])
    assert not any("count as that" in words for words in whole.answer(asked).words)
    said = [words for words in cut.answer(asked).words if "count as that" in words]
    assert len(said) == 1
    assert "values beyond 10 count" in said[0]


def test_a_mean_allows_for_records_that_noise_hides_in_a_tail() -> None:
    cells = Cells(
        first=np.array([0.0, 1.0, 100.0]),
        last=np.array([0.0, 1.0, 100.0]),
        step=1.0,
        counts=np.zeros(3),
        noise=np.ones(3),
    )
    spread = 1e-4 * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    found = Distribution(
        cells=cells,
        shares=np.array([0.5, 0.5, 0.0]),
        covered=np.cumsum(np.cumsum(spread, axis=0), axis=1).astype(np.float32),
        draws=np.zeros((1, 4), dtype=np.float32),
    )
    below, above = found.measure_tails()
    assert below == 0.0
    assert above == pytest.approx(0.5 * 0.01 * 99.0)
    share, mean, error, variance = found.find_mean(*cells.whole)
    assert (share, mean, error, variance) == pytest.approx((1.0, 0.5, 0.01, 0.25))


def test_a_mean_allows_for_records_beside_the_multiples_of_a_step() -> None:
    marginal = count(heap(np.random.default_rng(8)), noise=60.0, seed=8)
    cells = list_cells(marginal, 1.0, BOX)
    assert cells.n_hidden == pytest.approx(
        math.sqrt(marginal.noise.variance * (len(marginal.bins) - cells.n_cells)), rel=0.1
    )
    assert list_cells(marginal, 0.0, BOX).n_hidden == 0.0
    shares = cells.counts / cells.counts.sum()
    found = Distribution(
        cells=cells,
        shares=shares,
        covered=np.zeros((cells.n_cells, cells.n_cells), dtype=np.float32),
        draws=np.zeros((1, cells.n_cells + 1), dtype=np.float32),
        hidden=0.1,
    )
    _, _, error, variance = found.find_mean(*cells.whole)
    assert error == pytest.approx(0.05 * math.sqrt(variance), rel=1e-6)


def test_shares_add_up_to_one_and_their_errors_vanish_at_both_ends() -> None:
    values = heap(np.random.default_rng(2))
    marginal = count(values, noise=60.0, seed=2)
    found = combine(
        list_cells(marginal, 1.0, BOX),
        marginal.n_present,
        blur(2).posterior,
        0,
        scale=1.0,
        resolution=None,
    )
    assert found.reached[-1] == pytest.approx(1.0)
    assert found.errors[[0, -1]] == pytest.approx([0.0, 0.0], abs=1e-6)
    assert found.draws[:, -1] == pytest.approx(np.ones(32), abs=1e-6)
    whole = found.cells.find_part(math.inf, includes=True)
    nothing = found.cells.find_part(-math.inf, includes=False)
    assert (nothing.cell, nothing.share, whole.share) == (0, 0.0, 1.0)
    share, error = found.find_share(nothing, whole)
    assert share == pytest.approx(1.0)
    assert error == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("step", [None, 0.0])
def test_records_beyond_a_bound_stand_on_it(step: float | None) -> None:
    values = np.random.default_rng(1).normal(12.0, 3.0, N)
    inquiry = Inquiry(
        plan=make_plan(steps=(step, 0)),
        posterior=blur(1, centre=12.0).posterior,
        n_records=N,
        histograms=[count_beyond(values, seed=1)],
    )
    assert inquiry.find_share({"x": [10.0, None]}).share == pytest.approx(
        np.mean(values >= 10.0), abs=0.01
    )
    assert inquiry.find_share({"x": [None, 9.99]}).share == pytest.approx(
        np.mean(values < 10.0), abs=0.01
    )


def test_a_heap_that_no_step_explains_is_in_the_bar_wherever_it_stands() -> None:
    rng = np.random.default_rng(2)
    for place in (5.0, 5.013):
        values = np.where(rng.random(N) < 0.3, place, np.clip(rng.normal(0.0, 3.0, N), -10, 10))
        inquiry = ask_of(values, seed=2, noise=5.0, plan=make_plan(steps=(None, None)))
        for ends in ([place, place], [None, place], [place, None], [place + 0.01, None]):
            truth = np.mean(
                (values >= (-99 if ends[0] is None else ends[0]))
                & (values <= (99 if ends[1] is None else ends[1]))
            )
            found = inquiry.find_share({"x": ends})
            assert found.low is not None
            assert found.high is not None
            assert found.low <= truth <= found.high


def test_wide_bins_leave_room_for_where_records_lie_in_them() -> None:
    values = np.clip(np.random.default_rng(3).exponential(2.0, N) - 10.0, -10, 10)
    for n_bins in (2, 4, 8):
        inquiry = Inquiry(
            plan=PLAN,
            posterior=blur(3, centre=-8.0).posterior,
            n_records=N,
            histograms=[count(values, noise=5.0, seed=3, n_bins=n_bins)],
        )
        mean = inquiry.find_mean(MeanQuestion(mean_of="x"))
        assert mean.low is not None
        assert mean.high is not None
        assert mean.low <= values.mean() <= mean.high


def test_a_stated_step_that_the_histogram_contradicts_is_not_used() -> None:
    values = np.random.default_rng(4).normal(0.0, 3.0, N)
    inquiry = ask_of(values, seed=4, noise=5.0, plan=make_plan(steps=(5, 0)))
    found = inquiry.find_share({"x": [-1.0, 1.0]})
    assert found.share == pytest.approx(np.mean(np.abs(values) <= 1.0), abs=0.02)


def test_a_mean_inside_a_range_of_its_own_column_lies_in_it() -> None:
    values = heap(np.random.default_rng(5))
    histogram = count(values, noise=60.0, seed=5)
    for histograms in ([histogram], []):
        inquiry = Inquiry(
            plan=make_plan(steps=(1, 0)),
            posterior=blur(5).posterior,
            n_records=N,
            histograms=histograms,
        )
        for low, high in ((5.0, 5.0), (6.0, 9.0), (-9.0, 0.0)):
            question = MeanQuestion(mean_of="x", within={"x": [low, high]})
            found = inquiry.find_mean(question, allow_narrow=True)
            inside = values[(values >= low) & (values <= high)]
            assert found.mean is not None
            assert low <= found.mean <= high
            assert found.low is not None
            assert found.high is not None
            assert low <= found.low <= found.mean <= found.high <= high
            if histograms:
                assert found.low <= inside.mean() <= found.high


@pytest.mark.parametrize("step", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("has_histogram", [True, False])
def test_ends_of_any_size_are_answered(step: float, has_histogram: bool) -> None:
    values = np.round(np.random.default_rng(6).normal(0.0, 3.0, N))
    inquiry = Inquiry(
        plan=make_plan(steps=(step, 0)),
        posterior=blur(6).posterior,
        n_records=N,
        histograms=[count(values, noise=60.0, seed=6)] if has_histogram else [],
    )
    largest = 1.7e308
    for ends, truth in (
        ([0.0, largest], None),
        ([-largest, largest], 1.0),
        ([largest, None], 0.0),
        ([None, -largest], 0.0),
        ([0.2, 0.8], 0.0 if step == 1.0 else None),
    ):
        found = inquiry.find_share({"x": ends}, allow_narrow=True)
        assert found.share is not None
        assert 0.0 <= found.share <= 1.0
        if truth is not None:
            assert found.share == pytest.approx(truth, abs=1e-6)


def test_a_histogram_without_noise_to_speak_of_is_followed_exactly() -> None:
    values = heap(np.random.default_rng(7))
    inquiry = Inquiry(
        plan=PLAN,
        posterior=blur(7).posterior,
        n_records=N,
        histograms=[count(values, noise=1e-6, seed=7)],
    )
    found = inquiry.find_share({"x": [5.0, 5.0]})
    assert found.share == pytest.approx(np.mean(values == 5.0), abs=1e-3)
