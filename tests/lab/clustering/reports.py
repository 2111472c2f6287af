"""Laws of reports by enumeration, and records to report, for the tests of the local methods."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.clustering.local_method import LocalMethod, Tally
from sfumato.lab.clustering.unary import UnaryLaw
from sfumato.shared.privacy.testing import SeededSource

Floats = NDArray[np.float64]
Law = dict[tuple[int, ...], Fraction]
"""Probabilities of reports."""


class AllBytes:
    """A source that gives every sequence of some bytes once, one after the other."""

    def __init__(self, length: int) -> None:
        rows = np.indices((256,) * length, dtype=np.uint8).reshape(length, -1)
        self._given = rows.T.tobytes()

    def draw_bytes(self, count: int) -> bytes:
        assert count <= len(self._given)
        drawn, self._given = self._given[:count], self._given[count:]
        return drawn


def enumerate_law(law: UnaryLaw, symbol: int) -> Law:
    """Return the law that a symbol's report is drawn from, all random bytes one after another."""
    n_draws = 256**law.n_symbols
    reports = law.draw_reports(np.full(n_draws, symbol), AllBytes(law.n_symbols))
    bits = np.unpackbits(reports, axis=1, count=law.n_symbols, bitorder="little")
    found, counts = np.unique(bits, axis=0, return_counts=True)
    return {
        tuple(report): Fraction(int(count), n_draws)
        for report, count in zip(found.tolist(), counts, strict=True)
    }


def list_law(law: UnaryLaw, symbol: int) -> Law:
    """Return the law as it is stated."""
    reports = product((0, 1), repeat=law.n_symbols)
    return {report: law.probability(report, symbol) for report in reports}


def find_largest_odds(laws: list[Law]) -> Fraction:
    """Return the largest odds of any report between any two laws."""
    return max(one[key] / other[key] for one, other in product(laws, laws) for key in one)


def exceeds_exp(odds: Fraction, epsilon: Fraction) -> bool:
    """Return whether odds exceed exp(epsilon), in decimals: by other means than the product."""
    with localcontext(prec=60):
        exact = (Decimal(epsilon.numerator) / epsilon.denominator).exp()
        return Decimal(odds.numerator) / odds.denominator > exact


def draw_clusters(n_records: int, seed: int) -> tuple[Floats, Floats]:
    """Draw records of four clusters of unit variance in the box [-10, 10]^2, and the means."""
    rng = np.random.default_rng(seed)
    means = np.array([[-7.0, -3.0], [-2.0, 6.0], [4.0, -5.0], [7.0, 4.0]])
    return rng.normal(size=(n_records, 2)) + means[rng.integers(4, size=n_records)], means


def compute_mean_square(records: Floats, centroids: Floats) -> float:
    """Return the mean squared distance to the nearest centroid."""
    squares = np.sum((records[:, None] - centroids[None]) ** 2, axis=2)
    return float(squares.min(axis=1).mean())


def measure_quality(method: LocalMethod, records: Floats, means: Floats, seed: int) -> float:
    """Return the cost of the centroids of one fleet, over the cost of the true means."""
    reports = method.report(records, SeededSource(seed))
    rng = np.random.default_rng(seed)
    centroids = method.estimate(reports, n_clusters=len(means), rng=rng)
    assert centroids.shape == means.shape
    return compute_mean_square(records, centroids) / compute_mean_square(records, means)


def tally_fleets(method: LocalMethod, record: Floats, n_fleets: int, seed: int) -> list[Tally]:
    """Tally fleets that hold one record each on every device; shape of ``record``: ``(n, d)``."""
    reports = method.report(np.tile(record, (n_fleets, 1)), SeededSource(seed))
    return [method.tally(part) for part in np.split(reports, n_fleets)]


def count_deviations(samples: Floats, expected: Floats) -> float:
    """Return by how many standard errors the mean over fleets misses, at worst."""
    errors = samples.std(axis=0) / np.sqrt(len(samples))
    return float(np.max(np.abs(samples.mean(axis=0) - expected) / errors))
