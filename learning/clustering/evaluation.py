"""The cost of centroids on private records: a sum of squared distances, with exact noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.mechanisms.cube import DiscreteCube
from sfumato.shared.privacy.samplers import RandomSource

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNIT: Final = 1 << 20
"""Steps of the largest squared distance: what a record at it adds to the cost, and to the count."""
_BATCH: Final = 1 << 13
_SHORTEST, _LONGEST = 1e-100, 1e100
"""Largest distances whose squares, and the ratios of these, are ordinary floats."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of some centroids as it was released.

    Parameters
    ----------
    total
        Sum of squared distances of the records to their nearest centroids, at least 0.
    n_records
        Number of records without a missing value, with noise; at least 1.
    total_std, n_records_std
        Standard deviations of their noise, public.
    largest_distance
        Records further from their nearest centroid count as that far.
    """

    total: float
    n_records: float
    total_std: float
    n_records_std: float
    largest_distance: float

    @property
    def mean(self) -> float:
        """SSE / n: the mean of the squared distances."""
        return self.total / self.n_records

    @property
    def mean_std(self) -> float:
        """Standard deviation of the noise on the mean, to first order."""
        return math.hypot(self.total_std, self.mean * self.n_records_std) / self.n_records


@dataclass(frozen=True, kw_only=True)
class NoisyCost:
    """Sum and count of the records' squared distances, under cube noise.

    Guarantees
    ----------
    One release is (epsilon, 0) differentially private under either relation. A record adds
    ``(q, U)``, with ``0 <= q <= U`` a function of the record and of public centroids alone, or
    nothing. So neighbours under both relations differ by a vector whose largest coordinate is at
    most U, and they are one body (``proofs.md``, section 13).

    Parameters
    ----------
    largest_distance
        L.
    mechanism
        The noise.
    """

    largest_distance: float
    mechanism: DiscreteCube

    @classmethod
    def calibrate(
        cls, *, largest_distance: float, epsilon: Fraction, neighbouring: str
    ) -> NoisyCost:
        """Find the least noise that guarantees epsilon.

        Raises
        ------
        ConfigError
            The largest distance is no number from 1e-100 to 1e100.
        PrivacyError
            epsilon cannot be guaranteed.
        """
        if not _SHORTEST <= largest_distance <= _LONGEST:
            raise ConfigError(
                f"must be from {_SHORTEST:g} to {_LONGEST:g}",
                field="largest_distance",
                fix="leave it out for that of the bounds, or use another unit of length",
            )
        mechanism = DiscreteCube.calibrate(
            n_coordinates=2, norm_sensitivity=UNIT, epsilon=epsilon, neighbouring=neighbouring
        )
        return cls(largest_distance=largest_distance, mechanism=mechanism)

    def sum_records(self, points: Floats, centroids: Floats) -> Integers:
        """Sum steps and counts exactly: shape ``(1, 2)``; a point that is not finite adds nothing.

            q = round(U min(d^2, L^2) / L^2),    d the distance to the nearest centroid

        Each operation is on one number, so a record's q depends on no other record.

        Parameters
        ----------
        points, centroids
            Shapes ``(n, d)`` and ``(k, d)``, in one unit of length.
        """
        square = self.largest_distance**2
        sums = np.zeros((1, 2), dtype=np.int64)
        for first in range(0, len(points), _BATCH):
            part = points[first : first + _BATCH]
            part = part[np.isfinite(part).all(axis=1)]
            nearest = np.full(len(part), square)
            for centroid in centroids:
                squares = np.zeros(len(part))
                for column, place in zip(part.T, centroid, strict=True):
                    # An infinite square counts as the largest, and a warning would tell of it.
                    with np.errstate(over="ignore"):
                        offsets = column - place
                        squares += offsets * offsets
                np.minimum(nearest, squares, out=nearest)
            steps = np.rint(nearest * (UNIT / square)).astype(np.int64)
            sums += int(np.minimum(steps, UNIT).sum()), UNIT * len(part)
        return sums

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        """Return the sums with fresh noise; a second call is a second release."""
        return self.mechanism.add_noise(sums, source)

    def read(self, released: Integers) -> Cost:
        """Read what was released; a function of it and of public numbers."""
        length, deviation = self.largest_distance**2 / UNIT, math.sqrt(self.mechanism.variance)
        steps, counts = (int(value) for value in released.ravel())
        return Cost(
            total=max(steps, 0) * length,
            n_records=max(counts / UNIT, 1.0),
            total_std=deviation * length,
            n_records_std=deviation / UNIT,
            largest_distance=self.largest_distance,
        )


def bound_distance(centroids: Floats, lower: Floats, upper: Floats) -> float:
    """Bound the distance of any point of a box to its nearest centroid.

    The furthest corner from a centroid, for the centroid where that is nearest.
    """
    furthest = np.maximum(np.abs(centroids - lower), np.abs(upper - centroids))
    return float(np.sqrt(np.min(np.sum(furthest**2, axis=1))))
