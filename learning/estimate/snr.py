"""Signal-to-noise ratio of a sketch (seed eq. 6-7): predicted before any data, or estimated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shared.core import AMPLITUDE
from shared.privacy.mechanism import Mechanism

Floats = NDArray[np.float64]
DEFAULT_SIGNAL_ENERGY = 0.35
"""``|z|^2`` to assume before any data exist; it depends on the data and on the radius law."""
SIGNAL_ENERGY_RANGE = (0.10, 0.45)
"""The observed range: low for many clusters in few dimensions, high for few clusters."""


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
    *, signal_energy: float, noise_energy: float, alpha: float, n_records: float | Floats
) -> float:
    """Predict the SNR of a global sketch (seed eq. 6-7).

    ``SNR = |z|^2 / (V + (1 / alpha - |z|^2) / n)`` with ``|z|^2`` the mean over features of
    ``|z_j|^2`` for features of modulus 1. ``n_records`` is n, or that of each block of features,
    shape ``(B,)``, and the noise is the mean over blocks.
    """
    sampling = float(np.mean((1.0 / alpha - signal_energy) / np.asarray(n_records, dtype=float)))
    return signal_energy / (noise_energy + sampling)


def predict_mechanism_snr(
    mechanism: Mechanism,
    *,
    n_sketches: int,
    n_records: int,
    amplitude: int = AMPLITUDE,
    alpha: float = 1.0,
    signal_energy: float = DEFAULT_SIGNAL_ENERGY,
    count_variance: float = 0.0,
) -> float:
    """Predict the SNR of the global sketch under a mechanism, before any data exist.

    Seed eq. 7 for any mechanism: ``V = 2 L Var / (A alpha n)^2``, for the size-weighted average.
    The distribution of the n records over the L sketches does not matter, because every sketch
    carries the same noise.

    Parameters
    ----------
    mechanism
        Gives Var, the noise variance of one real coordinate of one sketch.
    n_sketches, n_records
        L, devices times windows; and n, the records of all sketches together.
    amplitude, alpha
        A, and r / m.
    signal_energy
        ``|z|^2``, an assumption: 0.10 to 0.45 was observed, and the SNR is nearly proportional.
    count_variance
        Noise variance of the number of records of one sketch, where it is secret. Division by the
        sum of these numbers adds ``|z|^2 L count_variance / n^2`` to V.

    Returns
    -------
    float
        The SNR.
    """
    noise_energy = compute_noise_energy(
        noise_variance_sum=n_sketches * mechanism.variance,
        amplitude=amplitude,
        alpha=alpha,
        n_records=n_records,
    )
    noise_energy += signal_energy * n_sketches * count_variance / n_records**2
    return predict_snr(
        signal_energy=signal_energy,
        noise_energy=noise_energy,
        alpha=alpha,
        n_records=n_records,
    )


def estimate_signal_energy(
    sketch: NDArray[np.complex128], *, noise_energy: float, alpha: float, n_records: float | Floats
) -> float:
    """Estimate ``|z|^2`` from a released sketch: shape ``(m,)``; post-processing, costs no privacy.

    ``(mean |s_j|^2 - V - 1 / (alpha n)) / (1 - 1 / n)``, cut below at zero, with the mean of 1 / n
    over blocks of features where they have records of their own: ``n_records`` of shape ``(B,)``.
    """
    numbers = np.asarray(n_records, dtype=float)
    share = float(np.mean(1.0 / numbers))
    if share >= 1.0:
        return 0.0
    sampling = float(np.mean(1.0 / (alpha * numbers)))
    raw = float(np.mean(np.abs(sketch) ** 2)) - noise_energy - sampling
    return max(0.0, raw / (1.0 - share))
