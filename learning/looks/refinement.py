"""Refined centroids: those of a sketch and of all looks after it, combined by precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_SPREAD = 5.0
"""Variance of a squared Laplace variable, over the square of its mean."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Centroids as one source knows them.

    Parameters
    ----------
    points
        Shape ``(k, d)``.
    variances
        Shape ``(k, d)``: of their errors. None where the source does not know them, as a sketch of
        whose centroids no error bars are shown.
    is_known
        Shape ``(k,)``: False where it says nothing of a centroid; None for all known.
    """

    points: Floats
    variances: Floats | None = None
    is_known: NDArray[np.bool_] | None = None


def combine(before: Estimate, new: Estimate, weights: Floats) -> Estimate:
    """Join what a look has measured with all that was known of the same centroids before it.

    With z the energy of the new one's noise, z_0 that of what was known, and D their distance, the
    latter keeps the part ``z / (z + t z_0)``, by precision; t is 1 where both agree up to noise. A
    k-means step from centres that err ends beside the optimum, and no noise tells by how much, but
    the distance to the later step does: t is the least number with ``sum (D^2 - z) <= t sum z_0``
    over all clusters, each divided by ``z + z_0``, less one deviation of the left side. Where z_0
    is not known, the part is ``z / max(z, D^2)``, for each cluster alone.

    Parameters
    ----------
    new
        Its variances are known.
    weights
        Shape ``(d,)``: of a squared distance along each axis.
    """
    assert new.variances is not None
    least = np.finfo(float).tiny
    z = np.maximum((new.variances * weights).sum(axis=1), least)
    apart = ((new.points - before.points) ** 2 * weights).sum(axis=1)
    is_new = np.ones(len(z), dtype=np.bool_) if new.is_known is None else new.is_known
    if before.variances is None:
        kept = z / np.maximum(z, apart)
    else:
        known = np.maximum((before.variances * weights).sum(axis=1), least)
        both = z + known
        expected = float((known / both)[is_new].sum())
        chance = math.sqrt(_SPREAD * is_new.sum() / len(weights))
        excess = float(((apart - z) / both)[is_new].sum()) - chance
        kept = z / (z + known * max(1.0, excess / max(expected, least)))
    part = np.where(is_new, kept, 1.0)[:, None]
    variances = new.variances
    if before.variances is not None:
        variances = np.where(is_new[:, None], (1.0 - part) * variances, before.variances)
    return Estimate(points=part * before.points + (1.0 - part) * new.points, variances=variances)
