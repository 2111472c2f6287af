"""How useful a noisy sketch is: the signal-to-noise ratio of the seed paper, and what follows.

The ratio (eq. 6-7) is mathematics and holds for every mechanism. What it means for the centroids is
experience: :func:`predict_quality` is the seed paper's rule for its own decoder,
:func:`predict_relative_sse` a band around what the mixture decoder was measured to reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.core import AMPLITUDE
from shared.privacy.mechanism import Mechanism

DEFAULT_SIGNAL_ENERGY = 0.35
"""``|z|^2`` to assume before there are data; it depends on the data and on the radius law."""
SIGNAL_ENERGY_RANGE = (0.10, 0.45)
"""What was seen: the low end for many clusters in few dimensions, the high end for few clusters."""


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
    """Predict the SNR of the global sketch that a mechanism leaves, before any data exist.

    Seed eq. 7 for any mechanism: ``V = 2 L Var / (A alpha n)^2``, for the size-weighted average.
    How the n records are spread over the L sketches does not matter, for every sketch carries the
    same noise.

    Parameters
    ----------
    mechanism
        Gives Var, the noise variance of one real coordinate of one sketch.
    n_sketches, n_records
        L, devices times windows; and n, the records of all sketches together.
    amplitude, alpha
        A, and r / m.
    signal_energy
        ``|z|^2``: an assumption; 0.10 to 0.45 was seen, and the SNR is nearly proportional to it.
    count_variance
        Noise variance of the number of records of one sketch, where it is secret. Dividing by
        their sum adds ``|z|^2 L count_variance / n^2`` to V.

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


_LEAST_EXCESS = 14.0
_SATURATION = 3.0
_LEAST_SNR_SEEN = 8.0
_LEAST_FEATURES_SEEN = 2.0
# At m / (k d) = 2 and 5: what misfit alone costs, and what noise adds to it, times SNR m / (k d).
_FEATURES = (2.0, 5.0)
_MISFIT = (0.080, 0.024)
_NOISE_EXCESS = (100.0, 60.0)


@dataclass(frozen=True, kw_only=True)
class QualityBand:
    """Where the SSE, relative to k-means on the raw records, is expected: a rule of thumb.

    Parameters
    ----------
    features_per_parameter
        f = m / (k d).
    snr_per_parameter
        x = SNR m / (k d).
    low, high
        Relative SSE; ``high`` is infinite where nothing was measured.
    """

    features_per_parameter: float
    snr_per_parameter: float
    low: float
    high: float

    def reaches(self, relative_sse: float) -> bool:
        """Tell whether the whole band lies at or below a wanted relative SSE."""
        return self.high <= relative_sse

    def describe(self) -> str:
        """Say it in words."""
        if math.isfinite(self.high):
            return f"relative SSE between {self.low:.3g} and {self.high:.3g} is expected"
        if self.features_per_parameter < _LEAST_FEATURES_SEEN:
            reason = (
                f"m / (k d) is {self.features_per_parameter:.3g}, below {_LEAST_FEATURES_SEEN:g}"
            )
        else:
            reason = f"SNR m / (k d) is {self.snr_per_parameter:.3g}, below {_LEAST_SNR_SEEN:g}"
        return (
            f"relative SSE of {self.low:.3g} or more is expected, without an upper bound: {reason}"
        )


def predict_relative_sse(
    *, snr: float, n_frequencies: int, n_clusters: int, n_dimensions: int
) -> QualityBand:
    """Predict a band for the SSE relative to k-means on the raw records.

    With ``f = m / (k d)`` and ``x = SNR f``,
    ``low = 1 + 14 / (x + 14 / 3)`` and ``high = 1 + misfit(f) + noise(f) / x``. ``misfit`` falls
    from 0.080 at f = 2 to 0.024 at f = 5 and ``noise`` from 100 to 60, log-linear in log f, and
    both stay there beyond. Below f = 2 or x = 8 nothing was measured and ``high`` is infinite.

    A rule of thumb, not a bound. It encloses what the mixture decoder (Gaussian atoms, pooled
    k-means) was measured to reach with sigma log-uniform in [w, 4 w], relative SSE as median / p90
    / max:

    ======================================  ===  =====  =====================
    data                                     f      x   relative SSE
    ======================================  ===  =====  =====================
    10 Gaussian clusters, d = 10              2    200  1.206 / 1.385 / 1.421
    same                                      2    800  1.040 / 1.064 / 1.096
    same                                      5     80  1.356 / 1.484 / 1.677
    same                                      5    320  1.073 / 1.089 / 1.114
    same                                      5   8000  1.003 / 1.004 / 1.004
    same, an earlier decoder                  2      8  3.2
    same, an earlier decoder                  2     50  2.0
    hourly weather, d = 9, k = 8              2    420  1.2 to 1.3
    same                                      2   1700  1.13
    same, no noise                            2         1.065 / 1.080 / 1.080
    same, no noise                            5         1.020 / 1.023 / 1.024
    ======================================  ===  =====  =====================

    It holds for data of that kind: clusters of comparable size, public scales close to the
    truth. Not so with rare far clusters (spacecraft sensors reached 1.6 to 2.5 at
    f = 2, x = 420), scales wrong by 2 or more under noise, or the seed paper's decoder, for which
    see :func:`predict_quality`.

    Parameters
    ----------
    snr
        Of the global sketch; positive or zero.
    n_frequencies, n_clusters, n_dimensions
        m, k and d.

    Guarantees
    ----------
    Both ends fall, or stay, as the SNR rises, and so does their distance where both are finite.
    """
    features = n_frequencies / (n_clusters * n_dimensions)
    x = snr * features
    high = math.inf
    if features >= _LEAST_FEATURES_SEEN and x >= _LEAST_SNR_SEEN:
        high = 1.0 + _interpolate(features, _MISFIT) + _interpolate(features, _NOISE_EXCESS) / x
    return QualityBand(
        features_per_parameter=features,
        snr_per_parameter=x,
        # Saturates, as the SSE itself does: centroids in wrong places are never infinitely bad.
        low=1.0 + _LEAST_EXCESS / (x + _LEAST_EXCESS / _SATURATION),
        high=high,
    )


def _interpolate(features: float, ends: tuple[float, float]) -> float:
    """Interpolate a power law between the measured ends, constant beyond them."""
    logs = np.interp(math.log(features), np.log(_FEATURES), np.log(ends))
    return math.exp(float(logs))
