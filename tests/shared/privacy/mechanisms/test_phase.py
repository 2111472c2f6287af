import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from sfumato.shared.core import AMPLITUDE, feature_table
from sfumato.shared.core.features import PHASES
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy import CircularLaw, RandomSource, choose_law
from sfumato.shared.privacy.mechanisms.phase import PhaseReports, find_phases
from sfumato.shared.privacy.testing import SeededSource

Draw = Callable[[NDArray[np.int64], RandomSource], NDArray[np.int64]]
TABLE = feature_table().astype(np.int64)


def make(epsilon: str = "1", n_reports: int = 1) -> PhaseReports:
    law = choose_law(Fraction(epsilon), n_reports)
    return PhaseReports(law=law, n_reports=n_reports, epsilon=Fraction(epsilon))


def rows(*phases: int) -> NDArray[np.int64]:
    return TABLE[list(phases)].T.ravel()


def test_every_row_of_the_table_is_found_again_and_stands_for_two_neighbours_at_most() -> None:
    found = find_phases(TABLE.T)
    assert np.array_equal(TABLE[found], TABLE)
    steps = (np.arange(PHASES) - found) % PHASES
    assert np.minimum(steps, PHASES - steps).max() == 1
    assert np.count_nonzero(steps) == 1356


@given(st.lists(st.integers(0, PHASES - 1), min_size=1, max_size=5), st.integers(0, 2**32))
def test_a_report_is_a_row_of_the_table_for_each_feature(phases: list[int], seed: int) -> None:
    mechanism = make("2", len(phases))
    released = mechanism.add_noise(rows(*phases), SeededSource(seed))
    assert released.shape == (2 * len(phases),)
    assert find_phases(released.reshape(2, -1)).shape == (len(phases),)


def test_the_reports_follow_the_law_of_the_offsets() -> None:
    mechanism, source = make("3"), SeededSource(1)
    start, n = 40_000, 4000
    reports = [find_phases(mechanism.add_noise(rows(start), source)[:, None])[0] for _ in range(n)]
    distances = np.abs((np.array(reports) - start + PHASES // 2) % PHASES - PHASES // 2)
    law = mechanism.law
    expected = float((2 * law.arc + 1) * law.probability(0))
    # Five standard deviations of a share: once in 1.7e6.
    assert abs(np.mean(distances <= law.arc) - expected) < 5 * math.sqrt(
        expected * (1 - expected) / n
    )


def draw_something(mechanism: PhaseReports, phase: int) -> Draw:
    """Report an unusable record as one of a certain phase."""
    return lambda sums, source: mechanism.add_noise(sums if sums.any() else rows(phase), source)


def measure_pull(draw: Draw, n: int = 3000) -> float:
    """Return the mean cosine of the reports of an unusable record, in standard errors."""
    source = SeededSource(2)
    drawn = [draw(np.zeros(2, dtype=np.int64), source)[0] / AMPLITUDE for _ in range(n)]
    return float(abs(np.mean(drawn)) / math.sqrt(0.5 / n))


def test_an_unusable_record_reports_a_uniform_phase() -> None:
    # Five standard errors: once in 1.7e6.
    assert measure_pull(make().add_noise) < 5
    assert measure_pull(draw_something(make(), 0)) > 5


def compute_means(law: CircularLaw) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return the feature of each phase, and the exact mean of its report, by a correlation."""
    features = TABLE @ np.array([1, 1j])
    chances = np.full(PHASES, float(law.probability(PHASES // 2)))
    chances[np.arange(-law.arc, law.arc + 1)] = float(law.probability(0))
    return features, np.fft.ifft(np.fft.fft(features) * np.conj(np.fft.fft(chances)))


@pytest.mark.parametrize("epsilon", ["0.001", "1", "7"])
def test_the_mean_of_a_report_is_the_feature_of_its_record_for_every_phase(epsilon: str) -> None:
    law = choose_law(Fraction(epsilon))
    means = compute_means(law)[1] / (AMPLITUDE * law.gain)
    truth = np.exp(2j * math.pi * (np.arange(PHASES) + 0.5) / PHASES)
    # A report starts at the least phase that has the record's row.
    assert np.max(np.abs(means[find_phases(TABLE.T)] - truth)) < 1.7e-4
    assert np.max(np.abs(means - truth)) < 1.2e-4
    assert np.max(np.abs(means[find_phases(np.roll(TABLE, 2, axis=0).T)] - truth)) > 1.7e-4


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_gain_and_variance_are_those_of_the_reports(epsilon: str) -> None:
    mechanism, law = make(epsilon), choose_law(Fraction(epsilon))
    features, means = compute_means(law)
    assert np.max(np.abs(means - mechanism.gain * features)) < 2e-4 * AMPLITUDE * mechanism.gain
    energies = np.abs(features) ** 2 - np.abs(means) ** 2
    assert np.mean(energies) == pytest.approx(2 * mechanism.variance, rel=1e-3)


def test_what_is_not_the_feature_of_one_record_is_refused() -> None:
    with pytest.raises(PrivacyError, match="not the feature of one record"):
        make().add_noise(rows(5) + rows(9), SeededSource(0))


@pytest.mark.parametrize(
    ("law", "epsilon", "n_reports"),
    [
        (choose_law(Fraction(2)), "1", 1),
        (choose_law(Fraction(1)), "1", 2),
        (CircularLaw(arc=10, weight=1 << 52, bits=52), "1", 1),
    ],
)
def test_a_law_without_gain_or_beyond_epsilon_is_refused(
    law: CircularLaw, epsilon: str, n_reports: int
) -> None:
    with pytest.raises(PrivacyError) as refusal:
        PhaseReports(law=law, n_reports=n_reports, epsilon=Fraction(epsilon))
    assert refusal.value.field == "weight"


def test_the_guarantee_is_pure_and_adds_up_over_windows() -> None:
    mechanism = make("1/2")
    assert (mechanism.guarantee.epsilon, mechanism.guarantee.delta) == (Fraction(1, 2), Fraction(0))
    assert mechanism.bound_delta(Fraction(3, 2), n_windows=3) == 0
    assert mechanism.bound_delta(Fraction(149, 100), n_windows=3) == 1


def test_the_guarantee_names_the_records_of_a_window() -> None:
    words = make().guarantee.describe(unit="device")
    assert "all records of one window" in words
    assert "one record." not in words
