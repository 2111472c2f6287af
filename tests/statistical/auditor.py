"""A black-box auditor: what the bytes of a release prove about epsilon, from below.

A release runs many times on two worst neighbours. On one half of the runs the auditor picks the
event that tells the neighbours apart best; on the other half, which the choice has not seen, it
bounds the probability of that event under each of them. ``P(E) <= exp(epsilon) P'(E) + delta`` must
hold for every event, so the two bounds give a lower bound on epsilon.

Large sketches hide errors, because no record moves every feature by the most at once. The
neighbours here do: few features, of frequencies made by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from sfumato.shared.core import (
    FourierStatistic,
    FrequencyMatrix,
    Quantiser,
    SketchAccumulator,
    Statistic,
)
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.privacy import RandomSource
from sfumato.shared.privacy.polygon import GON24

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Attack = Callable[[Floats, Floats, Floats], Floats]
"""Outputs ``(n, D)`` and both sums ``(D,)`` to scores ``(n,)``; high ones speak for the first."""

MISS = 1e-6
"""Each of the two Clopper-Pearson bounds fails with at most this probability."""

_N_THRESHOLDS = 200
_TURN = 1 << 16


class Release(Protocol):
    """Object of the audit: a device from its exact sum to the bytes that it sends."""

    def release(self, sums: Integers, n_runs: int, source: RandomSource) -> bytes:
        """Return the bytes of ``n_runs`` independent releases of one sum, one after the other."""
        ...

    def read(self, payloads: bytes, n_runs: int) -> Floats:
        """Return what anyone can decode from them: shape ``(n_runs, D)``.

        Where a run sends several times, ``(n_runs copies, D)``, the copies of a run together.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Two data sets that differ in one record, and how a device sums them.

    Parameters
    ----------
    statistic
        For both.
    near, far
        Records, ``(n, d)``.
    count_scale
        What the number of records is multiplied by behind the features; 0 where it is public.
    """

    statistic: Statistic
    near: Floats
    far: Floats
    count_scale: int = 0

    def compute_sums(self) -> tuple[Integers, Integers]:
        """Return both sums, each ``(D,)``."""
        return self._sum_records(self.near), self._sum_records(self.far)

    def _sum_records(self, records: Floats) -> Integers:
        accumulator = SketchAccumulator(self.statistic)
        accumulator.add(records)
        if self.count_scale == 0:
            return accumulator.sums
        return np.append(accumulator.sums, self.count_scale * accumulator.n_records)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A lower bound on epsilon, and the event that proves it.

    Parameters
    ----------
    epsilon
        Exceeds the epsilon of the release, at the delta of the audit, with probability at most
        ``2 MISS``; 0 if nothing could be shown.
    attack, threshold, low
        The event: the score of this attack is at least (``low``: at most) the threshold.
    likely, unlikely
        How often the event was seen under the neighbour that it speaks for, and the other.
    """

    epsilon: float
    attack: str
    threshold: float
    low: bool
    likely: float
    unlikely: float


def make_worst_neighbours(phases: Sequence[int], *, count_scale: int = 0) -> Neighbours:
    """Make neighbours whose record moves every feature as far as one can.

    The box is such that a step is one data unit. The first dimension carries the phases; each step
    of the second is half a turn of every feature. With a public count one record moves from its
    phases to the opposite ones, and another cancels it in one data set: the sums are 0 and twice
    a feature. With a secret count one data set has one
    record and the other none.

    Parameters
    ----------
    phases
        Shape ``(m,)``, 2^-16 turns: where the record is worst for the mechanism.
    count_scale
        As in :class:`Neighbours`; not 0 makes the data sets differ by the record's presence.
    """
    first = (np.asarray(phases) + _TURN // 2) % _TURN - _TURN // 2
    turns = np.stack([first, np.full(first.size, -_TURN // 2)]).astype(np.int16)
    here, opposite = [1.0, 0.0], [1.0, 1.0]
    near, far = np.array([here, opposite]), np.array([opposite, opposite])
    if count_scale:
        near, far = np.array([here]), np.empty((0, 2))
    return Neighbours(
        statistic=FourierStatistic(
            quantiser=Quantiser.from_bounds([-STEPS, -STEPS], [STEPS, STEPS]),
            frequencies=FrequencyMatrix(turns=turns, bits=16),
        ),
        near=near,
        far=far,
        count_scale=count_scale,
    )


# Attacks. The attacker knows both data sets, as the definition of differential privacy grants.


def score_l1(outputs: Floats, near: Floats, far: Floats) -> Floats:
    """Log odds of Laplace noise, up to its scale."""
    return np.asarray(np.abs(outputs - far).sum(axis=1) - np.abs(outputs - near).sum(axis=1))


def score_projection(outputs: Floats, near: Floats, far: Floats) -> Floats:
    """Log odds of Gaussian noise, up to its scale: the projection on the difference."""
    return np.asarray((outputs - (near + far) / 2) @ (near - far))


def score_bodies(outputs: Floats, near: Floats, far: Floats) -> Floats:
    """Log odds of K-norm noise, up to its scale: how much deeper in one shifted body."""
    return compute_gauge(outputs - far) - compute_gauge(outputs - near)


def score_inside(outputs: Floats, near: Floats, far: Floats) -> Floats:
    """Depth inside the body around one sum: shows noise that piles up in the middle."""
    return -compute_gauge(outputs - near)


def score_residues(outputs: Floats, near: Floats, far: Floats) -> Floats:
    """On how many more coordinates the noise would be a multiple of 8: the low bits alone."""
    first, second = (
        np.count_nonzero(np.fmod(outputs - centre, 8.0) == 0.0, axis=1) for centre in (near, far)
    )
    return np.asarray(first - second, dtype=np.float64)


ATTACKS: dict[str, Attack] = {
    "l1": score_l1,
    "projection": score_projection,
    "bodies": score_bodies,
    "inside": score_inside,
    "residues": score_residues,
}


def compute_gauge(points: Floats) -> Floats:
    """Return the gauge of the K-norm body for each row: shape ``(n,)``.

    The largest over the features' polygons and, in rows of odd length, the count.
    """
    m = points.shape[1] // 2
    magnitudes = np.abs(points)
    a, b, counts = np.split(magnitudes, [m, 2 * m], axis=1)
    high, low = np.maximum(a, b), np.minimum(a, b)
    sides = [(p * high + q * low) / c for p, q, c in GON24.facets]
    return np.asarray(np.concatenate([*sides, counts], axis=1).max(axis=1))


# The audit.


def audit_release(
    release: Release,
    neighbours: Neighbours,
    *,
    n_runs: int,
    source: RandomSource,
    delta: float = 0.0,
) -> Finding:
    """Bound the epsilon of a release from below.

    Parameters
    ----------
    release
        The device; only what it reads off its own bytes is looked at.
    n_runs
        Runs on each data set; half of them choose the event, the others bound it.
    delta
        The delta that the release claims.

    Guarantees
    ----------
    If the release is (epsilon, delta) differentially private, the finding exceeds epsilon with
    probability at most ``2 MISS`` over the randomness of the runs.
    """
    sums = neighbours.compute_sums()
    outputs = [release.read(release.release(s, n_runs, source), n_runs) for s in sums]
    centres = [s.astype(np.float64) for s in sums]
    # Log odds of independent copies add, so the attacker averages their scores.
    scores = {
        name: [attack(z, *centres).reshape(n_runs, -1).mean(axis=1) for z in outputs]
        for name, attack in ATTACKS.items()
    }
    return judge_scores(scores, n_runs=n_runs, delta=delta)


def judge_scores(
    scores: Mapping[str, Sequence[Floats]], *, n_runs: int, delta: float = 0.0
) -> Finding:
    """Bound epsilon from below by scores of runs under both data sets.

    Parameters
    ----------
    scores
        By attack: the scores under either data set, each ``(n_runs,)``.
    n_runs, delta
        As in :func:`audit_release`, whose guarantee holds.
    """
    half = n_runs // 2
    best: tuple[float, str, bool, float] = (-math.inf, next(iter(scores)), False, 0.0)
    for name, (near, far) in scores.items():
        for low in (False, True):
            found, threshold = _choose_threshold(*_orient(near[:half], far[:half], low), delta)
            best = max(best, (found, name, low, threshold))
    _, name, low, threshold = best
    near, far = scores[name]
    likely, unlikely = _orient(near[half:], far[half:], low)
    hits, misses = np.sum(likely >= threshold), np.sum(unlikely >= threshold)
    bound = bound_epsilon(np.array([hits]), np.array([misses]), likely.size, delta)
    return Finding(
        epsilon=max(0.0, float(bound[0])),
        attack=name,
        threshold=-threshold if low else threshold,
        low=low,
        likely=float(hits / likely.size),
        unlikely=float(misses / likely.size),
    )


def _orient(near: Floats, far: Floats, low: bool) -> tuple[Floats, Floats]:
    """Return scores under the likely and the unlikely data set; low ones speak for the second."""
    return (-far, -near) if low else (near, far)


def _choose_threshold(likely: Floats, unlikely: Floats, delta: float) -> tuple[float, float]:
    """Return the largest bound over thresholds of a score, and its threshold."""
    # Events rarer under the other data set are the telling ones, so thresholds crowd up there.
    levels = 1.0 - np.geomspace(1.0, 1.0 / likely.size, _N_THRESHOLDS)
    thresholds = np.unique(np.quantile(likely, levels, method="lower"))
    n = likely.size
    hits = n - np.searchsorted(np.sort(likely), thresholds)
    misses = n - np.searchsorted(np.sort(unlikely), thresholds)
    bounds = bound_epsilon(hits, misses, n, delta)
    best = int(np.argmax(bounds))
    return float(bounds[best]), float(thresholds[best])


def bound_epsilon(hits: Integers, misses: Integers, n_runs: int, delta: float) -> Floats:
    """Return ``log((P - delta) / P')`` with P bounded from below and P' from above.

    Clopper-Pearson, each bound failing with probability ``MISS``; minus infinity where P may be at
    most delta.

    Parameters
    ----------
    hits, misses
        Of ``n_runs`` runs on either data set, those in the event.
    """
    least = np.where(hits > 0, beta.ppf(MISS, np.maximum(hits, 1), n_runs - hits + 1), 0.0)
    rest = np.maximum(n_runs - misses, 1)
    most = np.where(misses < n_runs, beta.ppf(1 - MISS, misses + 1, rest), 1.0)
    margin = least - delta
    safe = np.where(margin > 0, margin, 1.0)
    return np.asarray(np.where(margin > 0, np.log(safe / most), -math.inf))
