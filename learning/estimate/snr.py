"""Signal-to-noise ratio of a sketch (seed eq. 6-7): predicted before any data, or estimated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import AMPLITUDE
from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.mechanism import Mechanism

Floats = NDArray[np.float64]
DEFAULT_SIGNAL_ENERGY = 0.35
"""``|z|^2`` of ten clusters under a wide law; ``planning/laws.py`` expects it of others."""
DEVICE_VARIANCE = 0.3
"""Mean of ``|z_device - z|^2`` to assume where devices hold different kinds of records.

Observed: 0.19 to 0.54 where each device holds one cluster of a mixture, 0.08 to 0.24 where it holds
two; for hourly weather 0.27 to 0.39 for days at one station, 0.16 to 0.23 for weeks.
"""


def compute_noise_energy(
    *, noise_variance_sum: float, amplitude: float, alpha: float, n_records: int
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
    # A planner asks for one number of records a hundred thousand times, which is no array's work.
    spread = (1.0 / alpha - signal_energy) / n_records
    sampling = spread if isinstance(spread, float) else float(np.mean(spread))
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
    n_blocks: int = 1,
    device_variance: float = 0.0,
) -> float:
    """Predict the SNR of the global sketch under a mechanism, before any data exist.

    Seed eq. 7 for any mechanism: ``V = 2 L Var / (A alpha n)^2``, for the size-weighted average.
    The distribution of the n records over the L sketches does not matter, because every sketch
    carries the same noise. Where a sketch carries one of B blocks of features, a feature is in one
    sketch of c (see :func:`compute_dilution`), so that V and the sampling error are c times as
    large, and ``D (c - 1) / L`` is added for devices that differ.

    Parameters
    ----------
    mechanism
        Gives Var, the noise variance of one real coordinate of one sketch, and the gain, which
        multiplies A.
    n_sketches, n_records
        L, devices times windows; and n, the records of all sketches together.
    amplitude, alpha
        A, and the share of features that a record adds to.
    signal_energy
        ``|z|^2``, an assumption: 0.10 to 0.45 was observed, and the SNR is nearly proportional.
    count_variance
        Noise variance of the number of records of one sketch, where it is secret. Division by the
        sum of these numbers adds ``c |z|^2 L count_variance / n^2`` to V.
    n_blocks
        B, the features of the plan over those of a sketch.
    device_variance
        D: ``DEVICE_VARIANCE``, or 0 where all sketches have records of the same kinds. The server
        estimates it from the sketches (:mod:`sfumato.learning.estimate.devices`).

    Returns
    -------
    float
        The SNR.

    Raises
    ------
    PrivacyError
        There are fewer sketches than blocks.
    """
    dilution = compute_dilution(n_sketches, n_blocks)
    noise_energy = compute_noise_energy(
        noise_variance_sum=n_sketches * mechanism.variance,
        amplitude=amplitude * mechanism.gain,
        alpha=alpha,
        n_records=n_records,
    )
    noise_energy += signal_energy * n_sketches * count_variance / n_records**2
    return predict_snr(
        signal_energy=signal_energy,
        noise_energy=noise_energy * dilution + device_variance * (dilution - 1.0) / n_sketches,
        alpha=alpha,
        n_records=n_records / dilution,
    )


def compute_dilution(n_sketches: int, n_blocks: int) -> float:
    """Compute c, the sketches for each one that carries a feature: mean of ``L / L_b`` over blocks.

    L sketches cover the B blocks evenly: each is in ``floor(L / B)`` of them or in one more. So c
    is B where B divides L, and up to an eighth more elsewhere.

    Raises
    ------
    PrivacyError
        There are fewer sketches than blocks, so that no sketch carries some features.
    """
    if n_sketches < n_blocks:
        raise PrivacyError(
            f"must be at least {n_blocks}, so that every frequency is in a sketch",
            field="n_sketches",
            fix="gather more sketches, or raise frequencies_per_sketch",
        )
    fewest, rest = divmod(n_sketches, n_blocks)
    # In integers up to the last division, so that one block gives exactly 1.
    inverses = (n_blocks - rest) * (fewest + 1) + rest * fewest
    return n_sketches * inverses / (n_blocks * fewest * (fewest + 1))


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
