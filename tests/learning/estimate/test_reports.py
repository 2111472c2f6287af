import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from learning.estimate.reports import (
    ReportedSketch,
    estimate_from_reports,
    predict_report_snr,
    tally_reports,
)
from shared.core import AMPLITUDE, feature_table
from shared.core.features import PHASES
from shared.errors import PlanError
from shared.privacy.circle import CircularLaw, choose_law
from shared.privacy.testing import SeededSource

Floats = NDArray[np.float64]
LAW = choose_law(Fraction(1))
CLEAR_LAW = choose_law(Fraction(4))
N_FLEETS = 1500
"""Fleets that are simulated."""
COUNTS = np.array([2, 3, 12, 30])
"""Reports of each feature: the unbiased energy shows where they are few."""
SPREADS = np.array([0.3, 0.8, 0.5, 0.2])
"""Standard deviation of the records' phases in radians, by feature."""
CENTRES = np.array([0.0, 0.7, 2.5, -1.4])
"""Their means."""
TRUTH = np.exp(1j * CENTRES - SPREADS**2 / 2)
"""The mean feature of such phases."""


def test_a_tally_is_the_sum_of_the_rows_of_each_feature_in_any_order() -> None:
    rng = np.random.default_rng(1)
    features, reports = rng.integers(0, 5, 400), rng.integers(0, PHASES, 400)
    counts, sums = tally_reports(features, reports, n_frequencies=6)
    for j in range(6):
        rows = feature_table()[reports[features == j]].astype(np.int64)
        assert counts[j] == len(rows)
        assert [sums[j], sums[6 + j]] == rows.sum(axis=0).tolist()
    order = rng.permutation(400)
    again = tally_reports(features[order], reports[order], n_frequencies=6)
    assert np.array_equal(again[0], counts)
    assert np.array_equal(again[1], sums)


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_a_report_of_any_phase_gives_its_feature_in_the_mean(epsilon: str) -> None:
    law = choose_law(Fraction(epsilon))
    # The mean row for each phase: a correlation of the law with the table, over the circle.
    exact = feature_table().astype(np.float64) @ np.array([1, 1j])
    chances = np.full(PHASES, float(law.probability(PHASES // 2)))
    chances[np.arange(-law.arc, law.arc + 1)] = float(law.probability(0))
    means = np.fft.ifft(np.fft.fft(exact) * np.conj(np.fft.fft(chances)))

    def measure_bias(gain: float) -> float:
        return float(np.max(np.abs(means / (AMPLITUDE * gain) - exact / AMPLITUDE)))

    assert measure_bias(law.gain) < 2e-4
    # A gain that forgets to take off the weight elsewhere.
    assert measure_bias(law.gain / (1 - 1 / float(law.odds))) > 0.01


@cache
def simulate_fleets(law: CircularLaw, seed: int) -> tuple[NDArray[np.complex128], Floats]:
    """Return estimates and noise energies of many fleets: shapes ``(N_FLEETS, m)``."""
    rng, source = np.random.default_rng(seed), SeededSource(seed)
    features = np.tile(np.repeat(np.arange(COUNTS.size), COUNTS), N_FLEETS)
    angles = CENTRES[features] + SPREADS[features] * rng.normal(size=features.size)
    phases = np.floor(angles / (2 * math.pi) * PHASES).astype(np.int64) % PHASES
    reports = [law.report(phase, source) for phase in phases.tolist()]
    # Each fleet has features of its own in one tally.
    fleet = np.repeat(np.arange(N_FLEETS), COUNTS.sum())
    counts, sums = tally_reports(
        features + COUNTS.size * fleet, reports, n_frequencies=N_FLEETS * COUNTS.size
    )
    found = estimate_from_reports(counts, sums, law)
    shape = (N_FLEETS, COUNTS.size)
    return found.sketch.reshape(shape), found.noise_energy.reshape(shape)


def measure_deviations(samples: Floats, expected: Floats) -> float:
    """Return by how many standard errors the mean over fleets misses, at worst over features."""
    errors = samples.std(axis=0) / math.sqrt(len(samples))
    return float(np.max(np.abs(samples.mean(axis=0) - expected) / errors))


# Five standard errors of four features: false alarm 2.3e-6 for each comparison; seeds are fixed.


@pytest.mark.parametrize("law", [LAW, CLEAR_LAW], ids=["epsilon 1", "epsilon 4"])
def test_estimates_are_unbiased_and_a_wrong_gain_is_found(law: CircularLaw) -> None:
    sketches, _ = simulate_fleets(law, 1)
    modulus = np.abs(TRUTH)
    turned = sketches * np.conj(TRUTH) / modulus
    assert measure_deviations(turned.real, modulus) < 5
    assert measure_deviations(turned.imag, np.zeros(4)) < 5
    without_elsewhere = 1 - 1 / float(law.odds)
    assert measure_deviations(turned.real * without_elsewhere, modulus) > 5


@pytest.mark.parametrize("law", [LAW, CLEAR_LAW], ids=["epsilon 1", "epsilon 4"])
def test_the_energy_of_the_error_follows_its_formula(law: CircularLaw) -> None:
    sketches, energies = simulate_fleets(law, 2)
    errors = np.abs(sketches - TRUTH) ** 2
    expected = (law.energy - np.abs(TRUTH) ** 2) / COUNTS
    assert measure_deviations(errors, expected) < 5
    assert measure_deviations(energies, expected) < 5


def test_an_energy_that_divides_by_all_reports_or_forgets_the_signal_is_found() -> None:
    sketches, energies = simulate_fleets(CLEAR_LAW, 2)
    expected = (CLEAR_LAW.energy - np.abs(TRUTH) ** 2) / COUNTS
    biased = energies * (COUNTS - 1) / COUNTS
    assert measure_deviations(biased, expected) > 5
    errors = np.abs(sketches - TRUTH) ** 2
    assert measure_deviations(errors, CLEAR_LAW.energy / COUNTS) > 5


def estimate_fleet(seed: int, n_records: int, m: int, n_unsketchable: int = 0) -> ReportedSketch:
    """Return the estimate of one fleet whose records have phases of spread 0.8 in each feature."""
    rng, source = np.random.default_rng(seed), SeededSource(seed)
    phases = np.floor(0.8 * rng.normal(size=n_records) / (2 * math.pi) * PHASES).astype(np.int64)
    reports = [CLEAR_LAW.report(phase, source) for phase in phases.tolist()]
    reports += [CLEAR_LAW.uniform_report(source) for _ in range(n_unsketchable)]
    features = rng.integers(0, m, len(reports))
    return estimate_from_reports(*tally_reports(features, reports, n_frequencies=m), CLEAR_LAW)


def test_signal_and_predicted_snr_are_those_of_a_fleet() -> None:
    found = estimate_fleet(3, n_records=40_000, m=80)
    signal = math.exp(-(0.8**2))
    # Each |z_j|^2 has a standard error of |z_j| sqrt(2 V) = 0.042, their mean 0.0047; five of them.
    assert found.signal_energy == pytest.approx(signal, abs=0.0235)
    snr = predict_report_snr(
        CLEAR_LAW, n_reports=1, n_frequencies=80, n_records=40_000, signal_energy=signal
    )
    assert found.signal_energy / found.mean_noise_energy == pytest.approx(snr, rel=0.06)


def test_the_signal_of_few_reports_is_told_from_their_noise() -> None:
    rng, source = np.random.default_rng(5), SeededSource(5)
    features = np.repeat(np.arange(2000), rng.integers(1, 5, 2000))
    angles = 0.8 * rng.normal(size=features.size)
    phases = np.floor(angles / (2 * math.pi) * PHASES).astype(np.int64)
    reports = [CLEAR_LAW.report(phase, source) for phase in phases.tolist()]
    found = estimate_from_reports(*tally_reports(features, reports, n_frequencies=2000), CLEAR_LAW)
    # Five standard errors of 0.016, measured on other seeds.
    expected = pytest.approx(math.exp(-(0.8**2)), abs=0.08)
    assert found.signal_energy == expected
    # Neither the energy of the noise nor the bound on single reports may enter.
    energies = np.abs(found.sketch) ** 2
    assert float(np.mean(energies)) != expected
    assert float(np.mean(energies - found.noise_energy)) != expected


def test_twice_the_reports_of_each_record_double_the_predicted_snr() -> None:
    def predict(n_reports: int) -> float:
        return predict_report_snr(
            LAW, n_reports=n_reports, n_frequencies=80, n_records=1000, signal_energy=0.3
        )

    assert predict(2) == pytest.approx(2 * predict(1))


def test_records_that_cannot_be_sketched_count_and_add_zero() -> None:
    found = estimate_fleet(4, n_records=20_000, m=1, n_unsketchable=20_000)
    assert found.n_reports.tolist() == [40_000]
    # Half of the mean feature; the error exceeds four times sqrt(V) with probability exp(-16).
    error = abs(found.sketch[0] - math.exp(-(0.8**2) / 2) / 2)
    assert error < 4 * math.sqrt(CLEAR_LAW.energy / 40_000)


def test_features_without_a_report_are_marked_and_a_single_report_has_the_bound() -> None:
    found = estimate_from_reports(*tally_reports([0, 2, 2], [5, 6, 7], n_frequencies=4), LAW)
    assert found.is_reported.tolist() == [True, False, True, False]
    assert found.sketch[[1, 3]].tolist() == [0, 0]
    assert found.noise_energy[0] == LAW.energy
    assert np.isinf(found.noise_energy[[1, 3]]).all()
    assert np.isfinite(found.mean_noise_energy)


def test_no_report_at_all_is_no_signal() -> None:
    found = estimate_from_reports(*tally_reports([], [], n_frequencies=3), LAW)
    assert not found.is_reported.any()
    assert found.signal_energy == 0.0
    assert found.mean_noise_energy == math.inf


@pytest.mark.parametrize(
    ("attempt", "field"),
    [
        (lambda: estimate_from_reports(np.ones(3, int), np.ones(3, int), LAW), "sums"),
        (
            lambda: estimate_from_reports(
                np.ones(3, int), np.ones(6, int), replace(LAW, weight=1 << LAW.bits)
            ),
            "weight",
        ),
        (
            lambda: estimate_from_reports(
                np.ones(3, int), np.ones(6, int), CircularLaw(arc=2, weight=7, bits=2, circle=16)
            ),
            "circle",
        ),
    ],
)
def test_what_is_no_sum_of_reports_is_refused_by_name(
    attempt: Callable[[], ReportedSketch], field: str
) -> None:
    with pytest.raises(PlanError) as refusal:
        attempt()
    assert refusal.value.field == field
