"""How useful a noisy sketch is: the signal-to-noise ratio of the seed paper (eq. 6-7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def compute_noise_energy(
    *, noise_variance_sum: float, amplitude: int, alpha: float, n_records: int
) -> float:
    """Compute V, the expected squared modulus that privacy noise adds to one averaged feature.

    ``V = 2 sum_l Var / (A alpha n)^2``, for the size-weighted average of the sums.

    Parameters
    ----------
    noise_variance_sum
        Sum over sketches of the noise variance of one real coordinate.
    amplitude, alpha, n_records
        A, r / m, and the records of all sketches together.
    """
    return 2.0 * noise_variance_sum / (amplitude * alpha * n_records) ** 2


def predict_snr(
    *, signal_energy: float, noise_energy: float, alpha: float, n_records: int
) -> float:
    """Predict the SNR of a global sketch (seed eq. 6-7).

    ``SNR = |z|^2 / (V + (1 / alpha - |z|^2) / n)`` with ``|z|^2`` the mean over features of
    ``|z_j|^2`` for features of modulus 1.
    """
    sampling = (1.0 / alpha - signal_energy) / n_records
    return signal_energy / (noise_energy + sampling)


def estimate_signal_energy(
    sketch: NDArray[np.complex128], *, noise_energy: float, alpha: float, n_records: int
) -> float:
    """Estimate ``|z|^2`` from a released sketch: shape ``(m,)``; post-processing, costs nothing.

    ``(mean |s_j|^2 - V - 1 / (alpha n)) / (1 - 1 / n)``, cut below at zero.
    """
    if n_records < 2:
        return 0.0
    raw = float(np.mean(np.abs(sketch) ** 2)) - noise_energy - 1.0 / (alpha * n_records)
    return max(0.0, raw / (1.0 - 1.0 / n_records))


@dataclass(frozen=True, kw_only=True)
class QualityPrediction:
    """What the seed paper's rule of thumb says about a decode.

    Parameters
    ----------
    features_per_parameter
        m / (k d); the rule asks for at least 10.
    snr_per_parameter
        SNR m / (k d); the rule asks for at least 100.
    largest_relative_sse
        1.2 when both hold; None when the rule says nothing.
    """

    features_per_parameter: float
    snr_per_parameter: float
    largest_relative_sse: float | None

    def describe(self) -> str:
        """Say it in words."""
        if self.largest_relative_sse is not None:
            return f"relative SSE of at most {self.largest_relative_sse:g} is expected"
        short = []
        if self.features_per_parameter < _LEAST_FEATURES:
            short.append(
                f"m / (k d) is {self.features_per_parameter:.3g}, below {_LEAST_FEATURES:g}"
            )
        if self.snr_per_parameter < _LEAST_SNR:
            short.append(f"SNR m / (k d) is {self.snr_per_parameter:.3g}, below {_LEAST_SNR:g}")
        return "the rule for relative SSE 1.2 does not apply: " + "; ".join(short)


_LEAST_FEATURES = 10.0
_LEAST_SNR = 100.0


def predict_quality(
    *, snr: float, n_frequencies: int, n_clusters: int, n_dimensions: int
) -> QualityPrediction:
    """Apply the seed paper's rule (section 6): m >= 10 k d and SNR m / (k d) >= 100 give 1.2."""
    features = n_frequencies / (n_clusters * n_dimensions)
    holds = features >= _LEAST_FEATURES and snr * features >= _LEAST_SNR
    return QualityPrediction(
        features_per_parameter=features,
        snr_per_parameter=snr * features,
        largest_relative_sse=1.2 if holds else None,
    )
