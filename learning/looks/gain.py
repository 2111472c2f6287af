"""The law of the excess of an answer that a second look leaves."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_LEAST, _WORTH = 1e-4, 0.9
MISSED, LOST = 0.045, 0.85
"""The excess of which half is of clusters that the centres miss, and the part of it that no step
takes away: ``python -m benchmarks.look_law`` fits them."""


def expect_excess(low: float, high: float) -> float:
    """Return the middle of an expected range of the excess, which spans powers of ten."""
    return math.sqrt(max(_LEAST, low) * max(_LEAST, high))


def is_worth(now: float, then: float) -> bool:
    """Return whether a look is expected to take away a tenth of the excess at least."""
    return then <= _WORTH * now


def measure_overlap(centres: Floats, spreads: Floats, shares: Floats) -> float:
    """Return how much of an error of centres one k-means step keeps, as Gaussian clusters overlap.

    Between two clusters at a distance of ``2 t`` spreads a step moves the boundary with the
    centres, and with it the means: of an error across it ``2 t phi(t)`` is kept, of its energy the
    square, in one of d directions.

    Parameters
    ----------
    centres, spreads
        Shape ``(k, d)``, in one unit: standard deviations along the axes.
    shares
        Shape ``(k,)``.
    """
    k, d = centres.shape
    tiny = np.finfo(float).tiny
    away = centres[:, None] - centres
    distances = np.sqrt((away**2).sum(axis=2)) + np.eye(k)
    directions = away / np.maximum(distances, tiny)[:, :, None]
    along = np.sqrt(np.einsum("ijl,il->ij", directions**2, spreads**2))
    # Beyond this nothing overlaps.
    t = distances / (2.0 * np.maximum(along, distances / 80.0) + tiny)
    kept = (2.0 * t * np.exp(-0.5 * t**2) / math.sqrt(2.0 * math.pi)) ** 2
    np.fill_diagonal(kept, 0.0)
    return float(shares @ np.minimum(kept.sum(axis=1) / d, 1.0))


def predict_excess(
    first: float, noise: float, overlap: float, *, missed: float = MISSED, lost: float = LOST
) -> float:
    """Predict the excess of the squared distances after a look, from that before it.

    With e before, z of the look's noise and o the overlap, ``e (1 - (1 - q) e / (e + z))``: a step
    takes away all of e but ``q = o + lost e / (e + missed)``, and noise, combined with e by
    precision, hides the part ``z / (e + z)`` of it. Only ``missed`` and ``lost`` are fitted.

    Guarantees
    ----------
    Between 0 and ``first``, and not less for a larger ``first``, noise or overlap.
    """
    if first <= 0.0:
        return 0.0
    stays = min(1.0, overlap + lost * first / (first + missed))
    return first * (1.0 - (1.0 - stays) * first / (first + noise))
