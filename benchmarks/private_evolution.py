"""PE-means: k-means by candidates that records vote for, written from its description.

Humphries, Lin and Yekhanin, arXiv 2606.00342. Certain of it: each record votes for its nearest
candidate, and the histogram of votes is all that is released, with Gaussian noise and sensitivity
1 under add-remove-one; there are ``T = max(1, epsilon) 4 sqrt(d)`` rounds; k survivors and L
mutations of each, by steps of a Levy flight, are the next candidates.

Chosen here, where the description that we have says nothing, by what was best for it on blobs of
(k, d) = (16, 4), (16, 16) and (64, 4) with other records, and on ``g2`` and ``letter``: the first
candidates are uniform in the middle half of the box; L is so large that an average candidate has as
many votes as one standard deviation of the noise, from 3 to 127; votes below two deviations count
as none; survivors are the centres of weighted k-means of the candidates, by their votes, from the
centres before, and in the first 16 rounds and each fourth one later from new starts too; steps
along each axis have the stable law of exponent 1.5 (Mantegna) and shrink from 0.3 to 0.02 half
widths of the box. Rounds are composed as Gaussian differential privacy composes them, which ours
are too. The variant that projects first is left out: its lift is not private as described.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.weighted_points import assign_weighted, cluster_weighted
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.privacy.mechanisms.gaussian import find_joint_rho

_ROUNDS: Final = 4.0
_FEWEST, _MOST = 3, 127
"""Mutations of a centre."""
_INNER: Final = 0.5
_THRESHOLD: Final = 2.0
_FIRST_STEP, _LAST_STEP = 0.3, 0.02
_EXPONENT: Final = 1.5
_STARTS, _DESCENTS = 2, 12
_EARLY, _PERIOD = 16, 4
"""Rounds with new starts, and how many rounds later the next one has some."""
_BATCH: Final = 1 << 12


@dataclass(frozen=True, kw_only=True)
class PrivateEvolution:
    """Rounds of votes, and the noise of each.

    Parameters
    ----------
    n_records, n_dimensions, n_clusters
        n, which is public for this method, d and k.
    epsilon, delta
        Epsilon and delta of all rounds together.
    """

    n_records: int
    n_dimensions: int
    n_clusters: int
    epsilon: Fraction
    delta: Fraction

    @property
    def n_rounds(self) -> int:
        """T."""
        wanted = max(1.0, float(self.epsilon)) * _ROUNDS * math.sqrt(self.n_dimensions)
        return max(1, round(wanted))

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a vote count; ``mu^2 = 2 rho`` for all rounds."""
        return math.sqrt(self.n_rounds / (2.0 * float(find_joint_rho(self.epsilon, self.delta))))

    @property
    def n_mutations(self) -> int:
        """L."""
        candidates = self.n_records / (self.n_clusters * self.deviation)
        return int(np.clip(candidates - 1.0, _FEWEST, _MOST))

    def fit(self, records: Floats, lower: float, upper: float, seed: int) -> Floats:
        """Return centroids: shape ``(k, d)``, data units."""
        rng = np.random.default_rng(seed)
        middle, half = (upper + lower) / 2.0, (upper - lower) / 2.0
        points = ((records - middle) / half).astype(np.float32)
        k, d = self.n_clusters, self.n_dimensions
        n_all = k * (self.n_mutations + 1)
        candidates, centres = rng.uniform(-_INNER, _INNER, size=(n_all, d)), None
        shrink = (_LAST_STEP / _FIRST_STEP) ** (1.0 / max(1, self.n_rounds - 1))
        for turn in range(self.n_rounds):
            votes = count_votes(points, candidates) + self.deviation * rng.normal(size=n_all)
            centres = self._survive(
                candidates, votes, centres, rng, starts_anew=turn % _PERIOD == 0
            )
            steps = _FIRST_STEP * shrink**turn * draw_levy(rng, (self.n_mutations, k, d))
            moved = np.clip(centres + steps, -1.0, 1.0)
            candidates = np.concatenate([centres, moved.reshape(-1, d)])
        assert centres is not None
        return middle + half * centres

    def _survive(
        self,
        candidates: Floats,
        votes: Floats,
        before: Floats | None,
        rng: np.random.Generator,
        *,
        starts_anew: bool,
    ) -> Floats:
        kept = votes > _THRESHOLD * self.deviation
        if np.count_nonzero(kept) <= self.n_clusters:
            return candidates[np.argsort(-votes)[: self.n_clusters]]
        points, weights = candidates[kept], votes[kept]
        options = [] if before is None else [_descend(points, weights, before)]
        if starts_anew:
            k = self.n_clusters
            options.append(cluster_weighted(points, weights, k, rng, n_restarts=_STARTS))
        return min(options, key=lambda centres: assign_weighted(points, weights, centres)[1])


def _descend(points: Floats, weights: Floats, centres: Floats) -> Floats:
    for _ in range(_DESCENTS):
        labels, _ = assign_weighted(points, weights, centres)
        masses = np.bincount(labels, weights, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, labels, weights[:, None] * points)
        means = sums / np.maximum(masses, 1e-12)[:, None]
        centres = np.where((masses > 0.0)[:, None], means, centres)
    return centres


def count_votes(points: NDArray[np.float32], candidates: Floats) -> Integers:
    """Count the points that are nearest to each candidate: shape ``(len(candidates),)``."""
    centres, votes = candidates.astype(np.float32), np.zeros(len(candidates), dtype=np.int64)
    squares = np.sum(centres**2, axis=1)
    for first in range(0, len(points), _BATCH):
        scores = squares - 2.0 * (points[first : first + _BATCH] @ centres.T)
        votes += np.bincount(scores.argmin(axis=1), minlength=len(votes))
    return votes


def draw_levy(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw steps of a Levy flight by Mantegna's quotient of two normal variables."""
    a = _EXPONENT
    above = math.gamma(1.0 + a) * math.sin(math.pi * a / 2.0)
    below = math.gamma((1.0 + a) / 2.0) * a * 2.0 ** ((a - 1.0) / 2.0)
    upper, lower = rng.normal(size=(2, *shape))
    steps: Floats = (above / below) ** (1.0 / a) * upper / np.abs(lower) ** (1.0 / a)
    return steps
