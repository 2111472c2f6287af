"""Expected quality of centroids, from the SNR and the number of equations: rules of thumb.

:func:`predict_quality` is the seed paper's rule for its own decoder; :func:`predict_relative_sse`
gives a band around the measured quality of the mixture decoder.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.learning.decoding.judgement import LEAST_SNR_PER_PARAMETER


@dataclass(frozen=True, kw_only=True)
class QualityPrediction:
    """Prediction of the seed paper's rule of thumb for a decode.

    Parameters
    ----------
    features_per_parameter
        m / (k d); the rule requires at least 10.
    snr_per_parameter
        SNR m / (k d); the rule requires at least 100.
    largest_relative_sse
        1.2 when both hold; None when the rule does not apply.
    """

    features_per_parameter: float
    snr_per_parameter: float
    largest_relative_sse: float | None

    def describe(self) -> str:
        """Describe the prediction in words."""
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


_LEAST_EXCESS = 3.0
_LEAST_SATURATION = 3.0
_LEAST_FEATURES_SEEN = 2.0
# At m / (k d) = 2, 3 and 5: the cost of misfit alone where clusters are not round; the cost of
# noise, times SNR m / (k d); and the SNR m / (k d) at which half the decodes miss clusters, which
# costs up to _MISSED. With two equations a parameter it is that of clusters far apart.
_FEATURES = (2.0, 3.0, 5.0)
_MISFIT = (0.13, 0.099, 0.07)
_NOISE_EXCESS = (16.0, 13.6, 11.0)
_HALF_MISSED = (300.0, 26.0, 20.0)
_MISSED = 3.0


@dataclass(frozen=True, kw_only=True)
class QualityBand:
    """Expected range of the SSE relative to k-means on the raw records: a rule of thumb.

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
        """Return whether the whole band lies at or below a relative SSE."""
        return self.high <= relative_sse

    @property
    def is_hopeless(self) -> bool:
        """True if the band has no upper end: the decoder's verdict on any answer is "do not use".

        There are too few equations for so many clusters, or noise decides where a centroid is.
        """
        return math.isinf(self.high)

    def describe(self) -> str:
        """Describe the band in words."""
        if not self.is_hopeless:
            return f"relative SSE between {self.low:.2f} and {self.high:.2f} is expected"
        return (
            f"relative SSE of {self.low:.2f} or more is expected, without an upper bound: "
            f"{self.describe_limit()}"
        )

    def describe_limit(self) -> str:
        """Describe the figure that leaves the band without an upper end."""
        if self.features_per_parameter < _LEAST_FEATURES_SEEN:
            return f"m / (k d) is {self.features_per_parameter:.3g}, below {_LEAST_FEATURES_SEEN:g}"
        return f"SNR m / (k d) is {self.snr_per_parameter:.3g}, below {LEAST_SNR_PER_PARAMETER:g}"


def predict_relative_sse(
    *, snr: float, n_frequencies: int, n_clusters: int, n_dimensions: int
) -> QualityBand:
    """Predict a band for the SSE relative to k-means on the raw records.

    With ``f = m / (k d)`` and ``x = SNR f``, ``low = 1 + 3 / (x + 1)`` and
    ``high = 1 + misfit(f) + noise(f) / x + 3 / (1 + (x / half(f))^3)``. ``misfit`` falls from 0.13
    at f = 2 to 0.07 at f = 5, ``noise`` from 16 to 11 and ``half`` from 300 by 26 at f = 3 to 20,
    log-linear in log f, and all stay there beyond. Below f = 2 or x = 8 nothing was measured and
    ``high`` is infinite.

    This is a rule of thumb, not a bound, fitted to the runs in the table. It encloses the measured
    quality of the mixture decoder (Gaussian atoms, pooled k-means) under the radius law that the
    planner chooses for the noise. On ten Gaussian clusters in ten dimensions, relative SSE as
    median / 90th percentile of 20 runs, printed by ``python -m benchmarks.utility``:

    ====  =============  =============  =============  =============
    x     f = 2          f = 3          f = 5          f = 10
    ====  =============  =============  =============  =============
    13    2.849 / 3.371  2.435 / 3.178  2.271 / 2.887
    25    2.186 / 2.534  1.722 / 2.232  1.596 / 1.733  1.525 / 1.696
    36    1.873 / 2.155
    51    1.425 / 1.626  1.293 / 1.538  1.169 / 1.335
    61                                                 1.117 / 1.151
    88    1.140 / 1.280  1.088 / 1.279  1.081 / 1.128  1.070 / 1.107
    100   1.122 / 1.242
    243   1.057 / 1.096  1.046 / 1.070  1.039 / 1.054
    412   1.033 / 1.042  1.026 / 1.037  1.023 / 1.028  1.020 / 1.028
    3330  1.008 / 1.013  1.006 / 1.008  1.005 / 1.007  1.004 / 1.006
    ====  =============  =============  =============  =============

    Real clusters are not Gaussian; ``misfit`` accounts for that. Three real sets at the same
    epsilon went from 1.106, 1.175 and 1.20 at f = 2 to 1.041, 1.055 and 1.04 at f = 5, and a
    mixture of many clusters from 1.148 to 1.005.

    Two equations a parameter lose clusters that are far apart, at noise where more of the same
    epsilon find them (``by m`` of ``python -m benchmarks.looks``), and the SSE is then ten and
    more. The planner cannot know how far they are, so ``half`` is that of those.

    It holds for such data: clusters of comparable size, public scales close to the truth. It does
    not hold for rare far clusters, scales wrong by 2 or more under noise, or the seed paper's
    decoder (see :func:`predict_quality`).

    Parameters
    ----------
    snr
        SNR of the global sketch; positive or zero.
    n_frequencies, n_clusters, n_dimensions
        m, k and d.

    Guarantees
    ----------
    Both ends fall, or stay, as the SNR rises, and so does their distance where both are finite.
    """
    features = n_frequencies / (n_clusters * n_dimensions)
    x = snr * features
    high = math.inf
    if features >= _LEAST_FEATURES_SEEN and x >= LEAST_SNR_PER_PARAMETER:
        missed = _MISSED / (1.0 + (x / _interpolate(features, _HALF_MISSED)) ** 3)
        misfit = _interpolate(features, _MISFIT)
        high = 1.0 + misfit + _interpolate(features, _NOISE_EXCESS) / x + missed
    return QualityBand(
        features_per_parameter=features,
        snr_per_parameter=x,
        # Saturates, as the SSE does: misplaced centroids are never infinitely bad.
        low=1.0 + _LEAST_EXCESS / (x + _LEAST_EXCESS / _LEAST_SATURATION),
        high=high,
    )


def _interpolate(features: float, measured: tuple[float, ...]) -> float:
    """Interpolate power laws between what was measured; constant beyond."""
    logs = np.interp(math.log(features), np.log(_FEATURES), np.log(measured))
    return math.exp(float(logs))


@dataclass(frozen=True, kw_only=True)
class ClusterRange:
    """The numbers of clusters that a sketch supports.

    Parameters
    ----------
    within_target
        The largest k whose whole band lies within the requested relative SSE; 0 if there is none.
    at_most
        The largest k that has a band at all; 0 if there is none.
    """

    within_target: int
    at_most: int

    def describe(self) -> str:
        """Describe the numbers of clusters in words."""
        if self.at_most == 0:
            return "no number of clusters"
        if self.within_target == 0:
            return f"k up to {self.at_most} roughly, and no k within the target"
        if self.within_target == self.at_most:
            return f"k up to {self.at_most} within the target"
        return f"k up to {self.within_target} within the target, up to {self.at_most} roughly"


def find_cluster_range(
    *, snr: float, n_frequencies: int, n_dimensions: int, target_sse: float
) -> ClusterRange:
    """Find the numbers of clusters that a sketch supports; parameters as in the predictions."""

    def predict(k: int) -> float:
        return predict_relative_sse(
            snr=snr, n_frequencies=n_frequencies, n_clusters=k, n_dimensions=n_dimensions
        ).high

    # Fewer clusters always leave more equations and more signal for each, so the band only falls.
    most = int(n_frequencies // (_LEAST_FEATURES_SEEN * n_dimensions))
    return ClusterRange(
        within_target=_find_last(most, lambda k: predict(k) <= target_sse),
        at_most=_find_last(most, lambda k: math.isfinite(predict(k))),
    )


def _find_last(most: int, holds: Callable[[int], bool]) -> int:
    """Return the last of 0, 1, ..., most for which ``holds`` is true; it is monotone."""
    return bisect.bisect_left(range(1, most + 1), True, key=lambda k: not holds(k))
