"""Marginal distributions from reports of bins: a circular deconvolution, and bands that hold.

A report is the place of a record's bin on a circle, moved by an offset of a known law. So the
shares p of the places follow from the shares f of the bins by a circular convolution, ``p = K f``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.histogram import BAND_LEVEL, Floats, QuantileBands
from sfumato.shared.core.logarithm import expand
from sfumato.shared.errors import DecodingError
from sfumato.shared.privacy import CircularLaw

_CYCLES: Final = 20
"""Accelerated cycles of EM, three steps each: more follow the noise."""
_REPLICAS = 40
_SETS = 32
"""Arcs whose shares bound the distribution; a bound on each costs the others some width."""
_EVEN_EDGES, _CLOSE_EDGES = 9, 13
_BEYOND = 3


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedMarginal:
    """Reports of the bins of one number.

    Parameters
    ----------
    name
        Name of the dimension.
    reports
        Shape ``(Q,)``: reports of each place, in the order of the circle: inner bins, then above,
        missing, below.
    law
        Law of the offset of a report.
    edges
        Shape ``(Q - 2,)``, ascending, on the scale of the dimension.
    resolution
        r of the logarithmic scale, data units; None for a linear one.
    """

    name: str
    reports: Floats
    law: CircularLaw
    edges: Floats
    resolution: float | None = None

    def __post_init__(self) -> None:
        if self.reports.size != self.law.circle or self.edges.size != self.law.circle - 2:
            raise DecodingError("must have one place for each bin", field="reports")
        if not self.n_records > 0:
            raise DecodingError("must be positive", field="n_records", fix="wait for records")

    @property
    def n_records(self) -> float:
        """n, the devices that report this dimension."""
        return float(self.reports.sum())

    @property
    def strength(self) -> float:
        """``x = sqrt(32 n) g`` with g the share of reports that depend on a record.

        The share of a half of the records that an arc holds has the standard deviation
        ``1 / (2 g sqrt n)``; a bin of noised counts with the same error has the same strength.
        """
        return measure_reports(self.law.reach, self.n_records)

    @property
    def deviation(self) -> float:
        """Largest standard deviation of the estimated share of the records that an arc holds."""
        return math.sqrt(8.0) / self.strength

    @cached_property
    def kernel(self) -> Floats:
        """Probabilities of the offsets 0, 1, ..., Q - 1: shape ``(Q,)``."""
        chances = np.full(self.law.circle, float(self.law.probability(self.law.circle // 2)))
        chances[np.arange(-self.law.arc, self.law.arc + 1)] = float(self.law.probability(0))
        return chances

    @cached_property
    def shares(self) -> Floats:
        """Estimated shares of the bins, as places on the circle: shape ``(Q,)``."""
        shares: Floats = deconvolve(self.reports[None], self.kernel)[0]
        return shares

    @property
    def bins(self) -> Floats:
        """Estimated shares of the inner bins: shape ``(Q - 3,)``."""
        return self.shares[:-_BEYOND]

    @property
    def above(self) -> float:
        """Estimated share above the box."""
        return float(self.shares[-3])

    @property
    def missing(self) -> float:
        """Estimated share without a value."""
        return float(self.shares[-2])

    @property
    def below(self) -> float:
        """Estimated share below the box."""
        return float(self.shares[-1])

    @cached_property
    def data_edges(self) -> Floats:
        """Edges in data units."""
        return self.edges if self.resolution is None else expand(self.edges, self.resolution)

    @cached_property
    def distribution(self) -> Floats:
        """Estimated shares of the present records at or below each edge: shape ``(Q - 2,)``."""
        return accumulate(self.shares)

    def find_quantile(self, share: float) -> float:
        """Estimate a quantile of the present records, data units; an end of the box beyond it."""
        # A flat stretch has many quantiles; the slope keeps the interpolation defined.
        rising = self.distribution + 1e-12 * np.arange(self.edges.size)
        value = np.array([np.interp(share, rising, self.edges)])
        return float(value[0] if self.resolution is None else expand(value, self.resolution)[0])

    def draw_replicas(self, rng: np.random.Generator) -> Floats:
        """Draw estimates from the fitted law: shape ``(40, Q)``, for errors that are displayed."""
        expected = np.maximum(0.0, convolve(self.shares, np.fft.rfft(self.kernel)))
        chances = expected / expected.sum()
        drawn = rng.multinomial(int(self.n_records), chances, _REPLICAS)
        return deconvolve(drawn.astype(np.float64), self.kernel)


def accumulate(shares: Floats) -> Floats:
    """Return the shares of present records at or below each edge: ``(..., Q - 2)`` of ``(..., Q)``.

    Shares are of places on the circle.
    """
    *inner, above, _, below = np.moveaxis(shares, -1, 0)
    left = np.cumsum([below, *inner], axis=0)
    distribution = left / np.maximum(left[-1] + above, np.finfo(float).tiny)
    return np.moveaxis(distribution, 0, -1)


def measure_reports(reach: float, n_reports: float) -> float:
    """Return the strength of so many reports of a dimension, see ``ReportedMarginal.strength``."""
    return reach * math.sqrt(32.0 * n_reports)


def deconvolve(reports: Floats, kernel: Floats) -> Floats:
    """Estimate shares of bins from reports by maximum likelihood, stopped early.

    EM, ``f <- f K^T (c / n / K f)``, with the squared extrapolation of Varadhan and Roland (2008,
    scheme S3), which is kept where it does not lower the likelihood. The start is uniform.

    Parameters
    ----------
    reports
        Shape ``(R, Q)``: of R independent estimates.
    kernel
        Shape ``(Q,)``: probabilities of offsets, all positive.

    Returns
    -------
    NDArray
        Shape ``(R, Q)``; rows are not negative and sum to 1.
    """
    spectrum = np.fft.rfft(kernel)
    observed = reports / reports.sum(axis=1, keepdims=True)

    def step(shares: Floats) -> Floats:
        ratios = observed / convolve(shares, spectrum)
        moved = shares * np.maximum(convolve(ratios, spectrum.conj()), 0.0)
        normalised: Floats = moved / moved.sum(axis=1, keepdims=True)
        return normalised

    def fit(shares: Floats) -> Floats:
        fits: Floats = np.sum(observed * np.log(convolve(shares, spectrum)), axis=1)
        return fits

    shares: Floats = np.full_like(observed, 1.0 / kernel.size)
    for _ in range(_CYCLES):
        once = step(shares)
        twice = step(once)
        first, second = once - shares, twice - 2.0 * once + shares
        norms = [np.linalg.norm(part, axis=1, keepdims=True) for part in (first, second)]
        reach = np.maximum(1.0, norms[0] / np.maximum(norms[1], np.finfo(float).tiny))
        far = np.maximum(shares + 2.0 * reach * first + reach**2 * second, 0.0)
        # Shares of zero would stay so; a thousandth of the plain step lets them grow again.
        far = step(far + 1e-3 * twice)
        shares = np.where((fit(far) >= fit(twice))[:, None], far, twice)
    return shares


def convolve(shares: Floats, spectrum: NDArray[np.complex128]) -> Floats:
    """Return the circular convolution with a kernel of that spectrum: shape ``(..., Q)``."""
    n = shares.shape[-1]
    convolved: Floats = np.fft.irfft(np.fft.rfft(shares, axis=-1) * spectrum, n, axis=-1)
    return convolved


def bound_distribution(marginal: ReportedMarginal) -> QuantileBands:
    """Bound the distribution function of the records that report, at all edges at once.

    The share of the reports in each of 32 sets of places, ``{0, ..., p}``, is within
    ``sqrt(log(64 / 0.05) / (2 n))`` of its mean, by Hoeffding's inequality for independent reports.
    The bounds are the least and the largest share left of an edge among all shares of bins that
    agree with this: linear programmes. They are solved at some edges, near the estimated quantiles
    and evenly; between these the distribution function does not fall.

    Guarantees
    ----------
    All bounds hold together with probability 0.95 over the reports, whatever the records are.
    """
    from scipy.optimize import linprog  # noqa: PLC0415 - a server seldom needs it

    n_places = marginal.law.circle
    ends = np.unique(np.linspace(0, n_places - 2, _SETS).round().astype(np.int64))
    seen = np.cumsum(marginal.reports)[ends] / marginal.n_records
    # The chance of a report at or before each end, by the place of the record.
    is_before = (np.arange(n_places) <= ends[:, None]).astype(np.float64)
    rows = convolve(is_before, np.fft.rfft(marginal.kernel).conj())
    level = math.log(2.0 * ends.size / (1.0 - BAND_LEVEL))
    margin = math.sqrt(level / (2.0 * marginal.n_records))
    limits = np.concatenate([seen + margin, margin - seen])

    def reach(chosen: NDArray[np.int64], sign: float) -> float:
        """Return the least or the largest share of some places."""
        costs = np.zeros(n_places)
        costs[chosen] = -sign
        found = linprog(
            costs,
            A_ub=np.vstack([rows, -rows]),
            b_ub=limits,
            A_eq=np.ones((1, n_places)),
            b_eq=[1.0],
            method="highs",
        )
        # No shares agree once in 20 times at most; nothing is known then.
        if found.fun is None:
            return float(sign > 0.0)
        return float(np.clip(-sign * found.fun, 0.0, 1.0))

    edges = _choose_edges(marginal)
    n_bins, below = n_places - _BEYOND, n_places - 1
    lower, upper = np.zeros(n_bins + 1), np.ones(n_bins + 1)
    for edge in edges.tolist():
        left = np.append(np.arange(edge), below)
        lower[edge:] = np.maximum(lower[edge:], reach(left, -1.0))
        upper[: edge + 1] = np.minimum(upper[: edge + 1], reach(left, 1.0))
    present = np.delete(np.arange(n_places), n_places - 2)
    return QuantileBands(
        edges=marginal.data_edges,
        lower=lower,
        upper=upper,
        present_lower=reach(present, -1.0),
        present_upper=reach(present, 1.0),
    )


def _choose_edges(marginal: ReportedMarginal) -> NDArray[np.int64]:
    """Choose where to bound; the bounds hold for every choice, so reports may make it."""
    last = marginal.edges.size - 1
    shares = np.linspace(0.0, 1.0, _CLOSE_EDGES)[1:-1]
    close = np.searchsorted(marginal.distribution, shares)
    even = np.linspace(0, last, _EVEN_EDGES).round().astype(np.int64)
    edges: NDArray[np.int64] = np.unique(np.concatenate([np.minimum(close, last), even]))
    return edges
