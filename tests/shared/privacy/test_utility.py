from fractions import Fraction

import numpy as np
import pytest

from shared.core import AMPLITUDE, SketchAccumulator, feature_table
from shared.privacy import DiscreteLaplace, compute_sensitivity
from shared.privacy.testing import SeededSource
from shared.privacy.utility import (
    compute_noise_energy,
    estimate_signal_energy,
    predict_quality,
    predict_snr,
)
from tests.shared.core.strategies import N_FREQUENCIES, make_operator

RECORDS = np.random.default_rng(6).normal([0.2, 4.0, 5.0], [0.1, 0.7, 5.0], size=(3000, 3))


def test_noise_energy_is_that_of_the_seed_paper() -> None:
    # V = 32 m^2 L / (n eps)^2 for Laplace noise, L devices, r = m.
    m, n_devices, n, epsilon = 100, 7, 50_000, 2
    sensitivity = compute_sensitivity(
        feature_table(), measurements_per_record=m, neighbouring="replace-one"
    )
    mechanism = DiscreteLaplace.calibrate(
        sensitivity_l1=sensitivity.l1, epsilon=Fraction(epsilon), neighbouring="replace-one"
    )
    energy = compute_noise_energy(
        noise_variance_sum=n_devices * mechanism.variance,
        amplitude=AMPLITUDE,
        alpha=1.0,
        n_records=n,
    )
    assert energy == pytest.approx(32 * m**2 * n_devices / (n * epsilon) ** 2, rel=1e-3)


@pytest.mark.parametrize("r", [N_FREQUENCIES, 3])
def test_signal_energy_is_recovered_from_a_noisy_sketch(r: int) -> None:
    operator, alpha = make_operator(r), r / N_FREQUENCIES
    accumulator = SketchAccumulator(operator)
    accumulator.add(RECORDS)
    exact_operator = make_operator()
    exact = SketchAccumulator(exact_operator)
    exact.add(np.repeat(RECORDS, 1, axis=0))

    def averaged(sums: np.ndarray, share: float) -> np.ndarray:
        m = N_FREQUENCIES
        return (sums[:m] + 1j * sums[m:]) / (AMPLITUDE * share * len(RECORDS))

    truth = float(np.mean(np.abs(averaged(exact.sums, 1.0)) ** 2))
    mechanism = DiscreteLaplace(
        sensitivity_l1=1, rate=(1 << 52) // 300_000, neighbouring="replace-one"
    )
    energy = compute_noise_energy(
        noise_variance_sum=mechanism.variance,
        amplitude=AMPLITUDE,
        alpha=alpha,
        n_records=len(RECORDS),
    )
    estimates = []
    for seed in range(200):
        noisy = mechanism.add_noise(accumulator.sums, SeededSource(seed))
        estimates.append(
            estimate_signal_energy(
                averaged(noisy, alpha), noise_energy=energy, alpha=alpha, n_records=len(RECORDS)
            )
        )
    assert np.mean(estimates) == pytest.approx(truth, abs=0.02)


def test_snr_falls_with_noise_and_rises_with_records() -> None:
    def snr(noise_energy: float, n_records: int) -> float:
        return predict_snr(
            signal_energy=0.35, noise_energy=noise_energy, alpha=1.0, n_records=n_records
        )

    assert snr(0.01, 1000) > snr(0.02, 1000)
    assert snr(0.01, 10_000) > snr(0.01, 1000)
    assert snr(0.0, 1000) == pytest.approx(0.35 / (0.65 / 1000))


def test_the_rule_of_the_seed_paper_needs_both_of_its_conditions() -> None:
    def largest(snr: float, m: int) -> float | None:
        return predict_quality(
            snr=snr, n_frequencies=m, n_clusters=5, n_dimensions=4
        ).largest_relative_sse

    assert largest(10.0, 200) == 1.2
    assert largest(9.0, 200) is None
    assert largest(1e6, 199) is None
