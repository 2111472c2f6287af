from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from sfumato.learning.estimate.moment_noise import NoiseLaw
from sfumato.learning.estimate.moments import PrincipalComponents, estimate_components
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.core.statistics.moments import MOMENT_STEPS, WEIGHT, MomentsStatistic
from sfumato.shared.errors import DecodingError

Floats = NDArray[np.float64]
N_RECORDS = 20_000


@dataclass(frozen=True, kw_only=True)
class Records:
    """Records as steps, their exact sums, and the answer that exact sums would give."""

    steps: Floats
    statistic: MomentsStatistic
    metric: Floats

    @property
    def sums(self) -> Floats:
        u, statistic = self.steps, self.statistic
        rows, columns = np.triu_indices(u.shape[1])
        seconds = statistic.product_weights * (u.T @ u)[rows, columns]
        means = statistic.mean_weight * u.sum(axis=0)
        return np.concatenate([[statistic.constant * len(u)], means, seconds])

    @property
    def data(self) -> Floats:
        return self.steps * self.statistic.quantiser.half_width * 16 / 32767

    @property
    def covariance(self) -> Floats:
        """In data units, of these records and not of a population."""
        found: Floats = np.cov(self.data.T, bias=True).reshape(2 * self.steps.shape[1:])
        return found

    def decompose(self) -> tuple[Floats, Floats]:
        """Eigenvalues in descending order, and directions as rows, in the metric."""
        values, vectors = np.linalg.eigh(self.covariance / np.outer(self.metric, self.metric))
        return values[::-1], vectors.T[::-1]

    def ask(self, sums: Floats, variance: float, **options: Any) -> PrincipalComponents:
        given: dict[str, Any] = {"n_records": len(self.steps), "metric": self.metric} | options
        return estimate_components(sums, self.statistic, noise_variance=variance, **given)


def make_statistic(half_width: Floats, norm_steps: int, weight: int = 5) -> MomentsStatistic:
    return MomentsStatistic(
        quantiser=Quantiser.from_bounds(-half_width, half_width),
        norm_steps=norm_steps,
        diagonal_weight=weight,
    )


def draw_records(
    d: int, *, base: float = 0.6, mean: float = 0.0, square: int = 5, seed: int = 0
) -> Records:
    """Normal records whose spectrum falls by ``base``, in directions drawn at random."""
    rng = np.random.default_rng(seed)
    spectrum = base ** np.arange(d)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    half_width = 4.0 + abs(mean)
    x = rng.normal(size=(N_RECORDS, d)) * np.sqrt(spectrum) @ axes.T
    x += mean * np.where(np.arange(d) % 2, 1.0, -1.0)
    steps = np.rint(np.clip(x / half_width, -1, 1) * MOMENT_STEPS)
    norm = math.sqrt(1.5 * spectrum.sum() + d * mean**2) / half_width
    statistic = make_statistic(np.full(d, half_width), round(MOMENT_STEPS * norm), square)
    return Records(steps=steps, statistic=statistic, metric=np.ones(d))


def draw_noise(
    rng: np.random.Generator, records: Records, share: float, law: str = "normal"
) -> tuple[Floats, float]:
    """Noise whose standard deviation on an entry of C is a share of R^2, and its variance."""
    sd = share * records.statistic.norm_steps**2 * WEIGHT * len(records.steps)
    size = records.statistic.n_coordinates
    if law == "laplace":
        return rng.laplace(scale=sd / math.sqrt(2), size=size), sd**2
    return rng.normal(scale=sd, size=size), sd**2


# ---- without noise ----


@pytest.mark.parametrize("square", [5, 7])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_exact_sums_give_the_exact_answer(d: int, square: int) -> None:
    records = draw_records(d, mean=0.5, square=square)
    answer = records.ask(records.sums, 0.0)
    values, directions = records.decompose()
    spread = np.sqrt(np.diag(records.covariance))
    assert answer.mean == pytest.approx(records.data.mean(axis=0))
    assert answer.covariance == pytest.approx(records.covariance)
    assert answer.correlation == pytest.approx(records.covariance / np.outer(spread, spread))
    assert answer.eigenvalues == pytest.approx(values)
    assert answer.share.sum() == pytest.approx(1.0)
    assert np.abs(np.sum(answer.directions * directions, axis=1)) == pytest.approx(1.0)
    assert answer.is_told_apart.all()
    assert not answer.expected_sin_squared.any()
    assert not answer.loadings_error.any()
    assert answer.n_complete == N_RECORDS
    assert np.sum(answer.loadings**2, axis=1) == pytest.approx(values)


# ---- laws ----


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.floats(0.1, 3.0), st.floats(0.1, 3.0), st.integers(0, 1000))
def test_variances_are_those_of_the_sum_over_independent_entries(
    d: int, t: float, s: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    g, m, r, f = rng.uniform(0.2, 2.0, d), rng.normal(size=d), 0.3, 0.2
    q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    share = rng.uniform(size=d)
    law = NoiseLaw(t=t, s=s, r=r, f=f, g=g, m=m)
    moves, sds = [], []
    for a in range(d):
        for b in range(a, d):
            entry = np.zeros((d, d))
            entry[a, b] = entry[b, a] = g[a] * g[b]
            moves.append(entry)
            sds.append(s if a == b else t)
        along = np.zeros(d)
        along[a] = g[a]
        moves.append(-np.outer(m, along) - np.outer(along, m))
        sds.append(r)
    moves.append(np.outer(m, m))
    sds.append(f)
    turned = [q.T @ move @ q for move in moves]
    pairs = sum(sd**2 * move**2 for sd, move in zip(sds, turned, strict=True))
    k = (q * g[:, None] ** 2).T @ q
    pairs += r**4 * (np.outer(np.diag(k), np.diag(k)) + k**2)
    own = sum(
        sd**2 * (np.diag(move) - share * np.trace(move)) ** 2
        for sd, move in zip(sds, turned, strict=True)
    )
    assert law.vary(q) == pytest.approx(pairs)
    assert law.vary_share(q, share) == pytest.approx(own)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.floats(0.001, 2.0), st.floats(0.0, 2.0), st.integers(0, 1000))
def test_every_answer_is_a_covariance_with_bands_that_hold_it(
    d: int, share: float, mean: float, seed: int
) -> None:
    records = draw_records(d, mean=mean, seed=seed % 3)
    noise, variance = draw_noise(np.random.default_rng(seed), records, share)
    answer = records.ask(records.sums + noise, variance)
    least = np.linalg.eigvalsh(answer.covariance)[0]
    assert least >= -1e-9 * max(1.0, np.trace(answer.covariance))
    assert np.all(np.diff(answer.raw_eigenvalues) <= 0)
    assert np.all(np.diff(answer.eigenvalues) <= 1e-9)
    assert np.all(answer.eigenvalues >= 0)
    assert np.all((answer.share_low >= 0) & (answer.share_low <= answer.share_high))
    assert np.all(answer.correlation_low <= answer.correlation)
    assert np.all(answer.correlation <= answer.correlation_high)
    assert np.all(np.abs(answer.correlation) <= 1)
    assert np.all((answer.expected_sin_squared >= 0) & (answer.expected_sin_squared <= 1))
    assert answer.directions @ answer.directions.T == pytest.approx(np.eye(d))
    assert np.all(answer.expected_sin_squared[~answer.is_told_apart] == 1) or d == 1


# ---- against truth ----


class Trials:
    """Answers to the same records under fresh noise, beside the truth."""

    def __init__(self, records: Records, share: float, law: str, runs: int, **options: Any) -> None:
        rng = np.random.default_rng(1)
        self.records = records
        self.answers = []
        sums = records.sums
        for _ in range(runs):
            noise, variance = draw_noise(rng, records, share, law)
            self.answers.append(records.ask(sums + noise, variance, **options))
        self.values, self.directions = records.decompose()

    @property
    def told_apart(self) -> NDArray[np.bool_]:
        return np.array([answer.is_told_apart for answer in self.answers])

    @property
    def seen(self) -> Floats:
        """Squared sines to the true directions: shape (runs, d)."""
        return np.array(
            [1 - np.sum(a.directions * self.directions, axis=1) ** 2 for a in self.answers]
        )

    @property
    def predicted(self) -> Floats:
        return np.array([answer.expected_sin_squared for answer in self.answers])

    def cover_shares(self) -> NDArray[np.bool_]:
        true = self.values / self.values.sum()
        return np.array([(a.share_low <= true) & (true <= a.share_high) for a in self.answers])

    def cover_loadings(self, deviations: float) -> Floats:
        """Share of the loadings, of directions that are told apart, within their bands."""
        true = self.directions * np.sqrt(self.values)[:, None] * self.records.metric
        covered = []
        for a in self.answers:
            signs = np.sign(np.sum(a.directions * self.directions, axis=1))[:, None]
            near = np.abs(signs * a.loadings - true) <= deviations * a.loadings_error
            covered.append(near[a.is_told_apart].ravel())
            assert np.all(np.isinf(a.loadings_error[~a.is_told_apart]))
        found: Floats = np.concatenate(covered)
        return found

    def cover_correlations(self) -> NDArray[np.bool_]:
        covariance = self.records.covariance
        spread = np.sqrt(np.diag(covariance))
        true = covariance / np.outer(spread, spread)
        apart = ~np.eye(len(spread), dtype=bool)
        return np.array(
            [
                ((a.correlation_low <= true) & (true <= a.correlation_high))[apart]
                for a in self.answers
            ]
        )


CASES = {
    "laplace": (draw_records(10, base=0.7, square=7), 0.005, "laplace"),
    "mean beside the centre": (draw_records(5, mean=0.5), 0.003, "normal"),
}


@pytest.mark.parametrize("case", CASES)
def test_directions_turn_as_far_as_predicted_and_bands_hold_the_truth(case: str) -> None:
    trials = Trials(*CASES[case], runs=150)
    told_apart = trials.told_apart
    assert told_apart[:, 0].mean() > 0.9
    mine = told_apart[:, 0]
    ratio = trials.seen[mine, 0].mean() / trials.predicted[mine, 0].mean()
    assert 0.75 < ratio < 1.35
    assert trials.cover_shares()[told_apart].mean() > 0.92
    assert trials.cover_shares()[~told_apart].mean() > 0.95
    assert 0.92 < trials.cover_correlations().mean() < 0.98
    assert 0.92 < trials.cover_loadings(2.0).mean() < 0.98
    assert trials.cover_loadings(1.0).mean() < 0.8
    # Twice the noise would not pass for this one.
    wrong = trials.records.ask(
        trials.records.sums, 4 * draw_noise(np.random.default_rng(0), *CASES[case][:2])[1]
    )
    assert trials.seen[mine, 0].mean() / wrong.expected_sin_squared[0] < 0.5


@pytest.mark.parametrize(("d", "law"), [(2, "normal"), (12, "laplace")])
def test_directions_of_a_sphere_are_not_told_apart(d: int, law: str) -> None:
    square = 5 if law == "normal" else 7
    records = draw_records(d, base=1.0, square=square)
    # Records of exactly equal variance, so that what is told apart is told apart by noise.
    values, vectors = np.linalg.eigh(np.cov(records.steps.T, bias=True))
    steps = (records.steps - records.steps.mean(axis=0)) @ (vectors / np.sqrt(values) * 500.0)
    trials = Trials(replace(records, steps=steps), 0.05 / d, law, runs=150)
    assert trials.told_apart.any(axis=1).mean() < 0.08
    moved = [np.abs(a.raw_eigenvalues - trials.values[0]).max() for a in trials.answers]
    assert np.mean(np.array(moved) > trials.answers[0].edge) < 0.08
    nothing = trials.answers[int(np.argmin(trials.told_apart.any(axis=1)))]
    assert [finding.code for finding in nothing.findings] == ["no-direction"]


# ---- the number of records ----


def test_a_secret_number_is_estimated_and_combined_with_a_released_one() -> None:
    records = draw_records(4)
    errors = []
    for seed in range(100):
        noise, variance = draw_noise(np.random.default_rng(seed), records, 0.001)
        alone = records.ask(records.sums + noise, variance, n_records=None)
        errors.append((alone.n_complete - N_RECORDS) / alone.n_complete_error)
        both = records.ask(
            records.sums + noise,
            variance,
            n_records=N_RECORDS,
            n_records_variance=alone.n_complete_error**2,
        )
        if both.n_complete_error < alone.n_complete_error:
            assert both.n_complete_error == pytest.approx(alone.n_complete_error / math.sqrt(2))
    assert np.std(errors) == pytest.approx(1.0, rel=0.15)


def test_noise_that_hides_the_records_leaves_an_answer_that_says_so() -> None:
    records = draw_records(2)
    noise, variance = draw_noise(np.random.default_rng(0), records, 5.0)
    secret = records.ask(0 * noise, variance, n_records=None)
    assert secret.n_complete == secret.n_complete_error
    assert [finding.code for finding in secret.findings] == [
        "records-hidden",
        "no-direction",
    ]
    assert np.all(secret.mean_error >= np.abs(secret.mean))
    answer = records.ask(0 * noise, variance)
    assert answer.n_complete == N_RECORDS
    assert answer.correlation.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert answer.correlation_low[0, 1] == -1.0
    assert answer.correlation_high[0, 1] == 1.0


# ---- findings and refusals ----


def test_the_metric_decides_which_direction_is_first() -> None:
    rng = np.random.default_rng(0)
    steps = np.rint(rng.normal(size=(N_RECORDS, 2)) * [300.0, 100.0])
    widths = np.array([1.0, 100.0])
    records = Records(steps=steps, statistic=make_statistic(widths, 2000), metric=np.ones(2))
    by_units = records.ask(records.sums, 0.0).directions[0]
    by_widths = records.ask(records.sums, 0.0, metric=None).directions[0]
    assert by_units == pytest.approx([0.0, 1.0], abs=0.02)
    assert by_widths == pytest.approx([1.0, 0.0], abs=0.02)


def test_eigenvalues_lose_the_lift_of_noise() -> None:
    records = draw_records(30)
    trials = Trials(records, 0.004, "normal", runs=40)
    raw = np.mean([answer.raw_eigenvalues[0] for answer in trials.answers])
    freed = np.mean([answer.eigenvalues[0] for answer in trials.answers])
    assert raw > 1.01 * trials.values[0]
    assert freed == pytest.approx(trials.values[0], rel=0.006)


def test_a_public_number_is_taken_unless_records_are_missing() -> None:
    records = draw_records(4)
    noise, variance = draw_noise(np.random.default_rng(0), records, 0.001)
    answer = records.ask(records.sums + noise, variance)
    assert (answer.n_complete, answer.n_complete_error) == (N_RECORDS, 0.0)
    half = records.ask(records.sums + noise, variance, n_records=2 * N_RECORDS)
    assert half.n_complete == pytest.approx(N_RECORDS, rel=0.1)
    assert half.n_complete_error > 0
    assert [(f.code, round(f.value, 1)) for f in half.findings] == [("records-missing", 0.5)]


def test_a_radius_that_does_not_suit_the_records_is_reported() -> None:
    records = draw_records(3)
    answers = {}
    for times in (0.4, 1.0, 4.0):
        radius = min(3545, round(times * records.statistic.norm_steps))
        statistic = make_statistic(records.statistic.quantiser.half_width, radius)
        length = np.linalg.norm(records.steps, axis=1, keepdims=True)
        steps = records.steps * np.minimum(1.0, radius / length)
        changed = replace(records, steps=steps, statistic=statistic)
        answers[times] = [f.code for f in changed.ask(changed.sums, 0.0).findings]
    assert answers == {0.4: ["norm-tight"], 1.0: [], 4.0: ["norm-wide"]}


@pytest.mark.parametrize(
    ("sums", "metric", "field"),
    [
        (np.zeros(11), None, "sums"),
        (np.zeros(10), np.ones(4), "metric"),
        (np.zeros(10), np.array([1.0, 0.0, 1.0]), "metric"),
        (np.zeros(10), np.array([1.0, np.inf, 1.0]), "metric"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    sums: Floats, metric: Floats | None, field: str
) -> None:
    statistic = make_statistic(np.ones(3), 1000)
    with pytest.raises(DecodingError, match=f"^{field}: "):
        estimate_components(sums, statistic, noise_variance=1.0, metric=metric)


@pytest.mark.parametrize("strength", [0.05, 0.1, 1.0])
def test_lengths_that_noise_explains_are_not_reported(strength: float) -> None:
    records = draw_records(3)
    n_reports = 0
    for seed in range(60):
        noise, variance = draw_noise(np.random.default_rng(seed), records, strength)
        found = records.ask(records.sums + noise, variance, n_records=N_RECORDS)
        n_reports += any(f.code.startswith("norm") for f in found.findings)
    # The length is 0.67 of the largest: two deviations of its noise lead beyond an end in less than
    # one run of forty.
    assert n_reports <= 4
