"""Records that no cluster of the answer explains: where they may be, and how many.

A cluster far from all others turns the sketch fast, in all frequencies alike, and no model of the
other clusters imitates it where frequencies are slow: what it misses there of the density is small.
So the energy that is left in the slow frequencies bounds the share of records in such a cluster,
wherever it is, without a search:

    share^2 <= (|r|^2 - floor + 2 deviations) / |E|^2       over the slow frequencies

The search along the columns (`reaching`) sees less, because it compares with chance at single
places; but it only sees what is far in one column, or at a corner of the box.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.learning.decoding.equations import compute_quantile
from sfumato.learning.decoding.mixture.ellipsoids import compute_rows
from sfumato.learning.decoding.mixture.far_search import find_far_place, make_usual_atom
from sfumato.learning.decoding.mixture.gaussians import Target
from sfumato.learning.decoding.mixture.ladder import Candidate, compute_chance_cost
from sfumato.learning.decoding.mixture.pool import Clusters
from sfumato.learning.decoding.problem import Vector

__all__ = ["Unseen", "measure_unseen"]

# Slow frequencies: this share of all. K-norm noise has a common radius, hence heavier chance.
_SLOW: Final = 0.25
_HEAVIER: Final = 1.5
_CHANCE: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """How many records may lie far from all clusters of an answer.

    Parameters
    ----------
    far_share : float
        Smallest share of a cluster like those found that would have been seen far from all others
        in one column, or at a corner of the plan's box.
    hidden_share : float
        Largest share of such a cluster that the energy of the slow frequencies leaves room for.
    slow_deviations : float
        How far that energy is above what noise leaves, in standard deviations.
    reach : float
        Squared distance from the nearest centroid to the farthest bound of a column, over the SSE
        of one record: a missed share s may add s times this to the relative SSE.
    """

    far_share: float
    hidden_share: float
    slow_deviations: float
    reach: float


def measure_unseen(target: Target, best: Candidate, clusters: Clusters) -> Unseen:
    """Measure what may lie far from all clusters, over the whole box of the plan.

    Parameters
    ----------
    target
        The sketch.
    best
        The model that explains it best.
    clusters
        The answer, in the units of the fits.
    """
    fitted = best.fitted
    slowest = compute_quantile(np.sqrt(target.squares), _SLOW, target.factors)
    is_slow = np.tile(np.sqrt(target.squares) <= slowest, 2)
    energies = np.sum(best.left[is_slow] ** 2, axis=0, dtype=np.float64)
    deviation = max(_HEAVIER * float(np.std(energies)), 1e-300)
    misfit = float(np.sum(np.square(fitted.residual[is_slow], dtype=np.float64)))
    excess = misfit - float(np.mean(energies))
    place = find_far_place(target, fitted)
    chance = compute_chance_cost(target, fitted, n_places=place.n_places)
    m = target.n_frequencies
    envelope = compute_rows(target, make_usual_atom(fitted.atoms))[0, :m].astype(np.float64)
    kept = 1.0 - 0.5 * (best.leverages[:m] + best.leverages[m:])
    energy = float(np.sum((kept * envelope**2)[is_slow[:m]]))
    room = max(0.0, excess + _CHANCE * deviation) / max(energy, 1e-30)
    hidden = min(1.0, math.sqrt(room))
    far = min(1.0, math.sqrt(chance / place.energy))
    return Unseen(
        far_share=far if place.is_of_all else max(far, hidden),
        hidden_share=hidden,
        slow_deviations=excess / deviation,
        reach=_measure_reach(target, clusters),
    )


def _measure_reach(target: Target, clusters: Clusters) -> float:
    full = clusters.shares > 0.0
    sse = float(clusters.shares @ np.sum(clusters.spreads**2, axis=1))
    gaps: Vector = np.maximum(
        np.min(clusters.centroids[full] - target.lower, axis=0),
        np.min(target.upper - clusters.centroids[full], axis=0),
    )
    return float(np.max(gaps, initial=0.0)) ** 2 / max(sse, 1e-300)
