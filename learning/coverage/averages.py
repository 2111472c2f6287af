"""Exact assignments, counts and sums of clusters, and their release with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.learning.coverage.projection import EXACT, Floats, Integers
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.mechanisms.gaussian import (
    LARGEST_SIGMA,
    draw_gaussian,
    make_large_sigma_error,
)
from sfumato.shared.privacy.samplers import RandomSource

COUNT_UNIT = 1024
"""K, the factor of a released count."""
_ROUNDING_VARIANCE = 4
_LEAST_DEVIATIONS = 4.0
_SIDE = 1 << 14


def find_nearest(points: Integers, centres: Integers) -> Integers:
    """Return the nearest of integer centres for each point: shape ``(n,)``; ties to the first.

    Exact, so that the label of a record depends on that record and the centres alone.

    Raises
    ------
    ConfigError
        Squared distances could pass 2^53.
    """
    largest = max(
        (int(np.max(np.abs(array))) for array in (points, centres) if array.size), default=0
    )
    if 4 * points.shape[1] * largest * largest >= EXACT:
        raise ConfigError(
            "must be so small that squared distances are exact below 2^53",
            field="points",
            fix="use fewer dimensions",
        )
    around = centres.astype(np.float64)
    squares = np.sum(around**2, axis=1)
    labels = np.empty(len(points), dtype=np.int64)
    side = max(1, _SIDE * 64 // max(64, len(centres)))
    for first in range(0, len(points), side):
        part = points[first : first + side].astype(np.float64)
        labels[first : first + side] = np.argmin(squares - 2.0 * (part @ around.T), axis=1)
    return labels


def sum_clusters(points: Integers, labels: Integers, n_clusters: int) -> tuple[Integers, Integers]:
    """Return exact counts and sums by label: shapes ``(k,)`` and ``(k, d)``."""
    sums = np.empty((n_clusters, points.shape[1]), dtype=np.int64)
    for j, column in enumerate(points.T):
        # Double precision holds sums of fewer than 2^37 steps of 16 bits.
        sums[:, j] = np.bincount(labels, column, minlength=n_clusters).astype(np.int64)
    return np.bincount(labels, minlength=n_clusters).astype(np.int64), sums


@dataclass(frozen=True, kw_only=True)
class GaussianAverages:
    """Discrete Gaussian noise on K times the count and on the sum of every cluster.

    Guarantees
    ----------
    If every record has length at most ``radius`` and is in one cluster by itself and released
    numbers, a release moves by at most ``mu`` standard deviations, with ``mu^2`` the value of
    :meth:`measure` (``proofs.md``, section 17).

    Parameters
    ----------
    radius
        R, steps.
    sigma_count, sigma_sum
        Scales of the noise on counts, times K, and on each coordinate of the sums, steps.
    """

    radius: int
    sigma_count: int
    sigma_sum: int

    @classmethod
    def calibrate(cls, *, radius: int, mu_squared: Fraction, relation: str) -> GaussianAverages:
        """Find the least scales whose ``mu^2`` is at most that given.

        Under add-remove-one a tenth is for counts; under replace-one half of it makes them free.

        Raises
        ------
        PrivacyError
            A scale is larger than can be drawn.
        """
        if relation == "add-remove-one":
            count, total = mu_squared / 10, mu_squared * 9 / 10
        else:
            count = total = mu_squared / 4
        return cls(
            radius=radius,
            sigma_count=_find_sigma(COUNT_UNIT, count),
            sigma_sum=_find_sigma(radius, total),
        )

    def measure(self, relation: str) -> Fraction:
        """Return ``mu^2`` of one release, exact.

        One record that comes or goes moves one cluster; one that is replaced moves two clusters, or
        one sum by 2 R, or, if it is replaced by one that cannot be read, one cluster.
        """
        count = Fraction(COUNT_UNIT**2, self.sigma_count**2 - _ROUNDING_VARIANCE)
        total = Fraction(self.radius**2, self.sigma_sum**2 - _ROUNDING_VARIANCE)
        if relation == "add-remove-one":
            return count + total
        return max(2 * (count + total), 4 * total)

    def add_noise(self, counts: Integers, sums: Integers, source: RandomSource) -> Integers:
        """Return K counts and sums with noise: shape ``(k, 1 + d)``, int64."""
        noise_counts = draw_gaussian(source, self.sigma_count, counts.size)
        noise_sums = draw_gaussian(source, self.sigma_sum, sums.size)
        released = np.empty((counts.size, 1 + sums.shape[1]), dtype=np.int64)
        released[:, 0] = COUNT_UNIT * counts + noise_counts
        released[:, 1:] = sums + noise_sums.reshape(sums.shape)
        return released

    def read(self, released: Integers, old: Floats | None) -> tuple[Floats, Floats]:
        """Return centres, shape ``(k, d)``, and masses; a function of released numbers.

            m + (c_i - m) v / (v + s_i^2),    s_i = sigma_sum / n_i

        with m the mean of all, and v the variance between centres that the noise s_i does not
        explain. A cluster whose count is within four deviations of 0 keeps its old centre, or gets
        the mean of all where there is none.
        """
        masses = released[:, 0] / COUNT_UNIT
        sums = released[:, 1:].astype(np.float64)
        least = _LEAST_DEVIATIONS * self.sigma_count / COUNT_UNIT
        mean = sums.sum(axis=0) / max(float(masses.sum()), least, 1.0)
        centres = np.tile(mean, (len(sums), 1)) if old is None else old.copy()
        full = masses > least
        if full.any():
            counts = masses[full, None]
            moves = sums[full] / counts - mean
            noise = (self.sigma_sum / counts) ** 2
            # Weighted by the inverse of the noise, where centres are known best.
            between = float(
                np.average(np.mean(moves**2, axis=1, keepdims=True) - noise, weights=counts**2)
            )
            kept = max(between, 0.0) / (max(between, 0.0) + noise)
            centres[full] = mean + moves * kept
        return centres, masses


def _find_sigma(sensitivity: int, mu_squared: Fraction) -> int:
    """Return the least sigma with ``sensitivity^2 / (sigma^2 - 4) <= mu_squared``."""
    wanted = Fraction(sensitivity**2) / mu_squared + _ROUNDING_VARIANCE
    sigma = math.isqrt(math.ceil(wanted) - 1) + 1
    if sigma > LARGEST_SIGMA:
        raise make_large_sigma_error()
    return sigma
