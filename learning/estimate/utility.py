"""Utility of a global sketch, and the weights of its sketches."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from learning.estimate.counts import RecordCount, count_records, put_count
from learning.estimate.snr import estimate_signal_energy, predict_snr
from learning.estimate.totals import Totals, join_limbs
from learning.estimate.weighting import SIZE_WEIGHTS, SizeMoments, Weights, choose_weights
from shared.plan import SketchPlan


@dataclass(frozen=True, kw_only=True)
class Utility:
    """The utility of a global sketch.

    Parameters
    ----------
    n_records, n_records_error
        An estimate and its standard error where the number is secret; otherwise exact, and 0.
    noise_energy
        V, including the noise of a secret number of records; None where there is no record, or
        none distinct from noise.
    """

    n_sketches: int
    n_records: int
    n_records_error: float
    snr: float
    signal_energy: float
    noise_energy: float | None


def form_sketch(
    plan: SketchPlan,
    weights: Weights,
    moments: SizeMoments,
    *,
    sums: NDArray[np.int64],
    size_sums: NDArray[np.int64],
) -> NDArray[np.complex128]:
    """Form the weighted global sketch of exact sums: shape ``(m,)``.

    Parameters
    ----------
    sums, size_sums
        Shapes ``(D,)`` and ``(2, D)``, as in :class:`~learning.estimate.totals.Totals`; a noised
        count at the end is ignored.
    """
    n_features = 2 * plan.n_frequencies
    return weights.average(
        moments,
        sums=sums[:n_features].astype(np.float64),
        # Joined as integers first, so that each is rounded once, alike on every machine.
        size_sums=np.array([float(total) for total in join_limbs(size_sums[:, :n_features])]),
        amplitude=plan.amplitude,
        alpha=plan.alpha,
    )


def weigh(plan: SketchPlan, totals: Totals, weighting: str) -> Weights:
    """Choose the weights of a selection with a sketch; post-processing, costs no privacy.

    Raises
    ------
    PrivacyError
        The weighting is unknown.
    """
    return choose_weights(
        weighting,
        totals.moments,
        noise_variance=plan.mechanism.variance,
        amplitude=plan.amplitude,
        alpha=plan.alpha,
        # Under size weights: the best ones are not known yet, and the minimum is flat.
        signal_energy=estimate_utility(
            plan, totals, count_records(plan, totals), SIZE_WEIGHTS
        ).signal_energy,
    )


def estimate_utility(
    plan: SketchPlan, totals: Totals, count: RecordCount, weights: Weights
) -> Utility:
    """Estimate signal, noise and their ratio from sums; post-processing, costs no privacy.

    Division by a number of records with relative variance c adds ``c |z|^2`` to the noise.
    """
    moments = put_count(totals, count).moments
    if not count.is_clear:
        return Utility(
            n_sketches=moments.n_sketches,
            n_records=count.n_records,
            n_records_error=count.standard_error,
            snr=0.0,
            signal_energy=0.0,
            noise_energy=None,
        )
    noise = weights.compute_noise_energy(
        moments,
        noise_variance=plan.mechanism.variance,
        amplitude=plan.amplitude,
        alpha=plan.alpha,
    )
    n_effective = _count_effective(weights, moments)
    sketch = form_sketch(plan, weights, moments, sums=totals.sums, size_sums=totals.size_sums)
    # Features have modulus at most 1; a record adds to the share alpha of them.
    signal = min(
        1.0 / plan.alpha,
        estimate_signal_energy(sketch, noise_energy=noise, alpha=plan.alpha, n_records=n_effective)
        / (1.0 + count.relative_variance),
    )
    noise += count.relative_variance * signal
    snr = predict_snr(
        signal_energy=signal,
        # Noise may round to zero at an absurd epsilon; this keeps the ratio finite.
        noise_energy=max(noise, sys.float_info.min),
        alpha=plan.alpha,
        n_records=n_effective,
    )
    return Utility(
        n_sketches=moments.n_sketches,
        n_records=moments.first,
        n_records_error=count.standard_error,
        snr=snr,
        signal_energy=signal,
        noise_energy=noise,
    )


def _count_effective(weights: Weights, moments: SizeMoments) -> int:
    """Return the whole effective records, at least two where there are two.

    Rounded down, so that the sampling error is never understated; one record alone carries no
    information on the signal.
    """
    # Under size weights they are whole; float rounding must not make them one fewer.
    whole = math.floor(weights.compute_effective_records(moments) * (1.0 + 1e-12))
    return max(min(2, moments.first), whole)
