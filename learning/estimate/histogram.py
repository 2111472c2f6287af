"""Marginal distributions from noised histograms: noise, distribution functions, quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.core import HistogramStatistic
from sfumato.shared.core.logarithm import expand
from sfumato.shared.errors import DecodingError

Floats = NDArray[np.float64]

BAND_LEVEL: Final = 0.95
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
_DRAWS = 2000
_PART = 100
# 95 % point of Kolmogorov's distribution: records that are a sample of a population.
_KOLMOGOROV = 1.36
_SEEN_DEVIATIONS = 3.0
# The Chernoff bound is minimised over these shares of the exponents for which it exists.
_TILTS = np.linspace(0.005, 0.995, 199)


@dataclass(frozen=True, kw_only=True)
class BinNoise:
    """Law of the noise of one bin: L independent discrete variates, added up.

    Parameters
    ----------
    variance
        Variance of their sum, records squared; positive.
    n_sums
        L, the noised sums that were added.
    is_gaussian
        Whether they are Gaussian rather than Laplace variates.
    """

    variance: float
    n_sums: int = 1
    is_gaussian: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.variance < np.inf:
            raise DecodingError(
                "must be finite and positive",
                field="variance",
                fix="take it from the plan's mechanism, times the number of sketches",
            )
        if self.n_sums < 1:
            raise DecodingError("must be at least 1", field="n_sums", fix="count the sketches")

    @property
    def deviation(self) -> float:
        """Standard deviation of one bin, records."""
        return float(np.sqrt(self.variance))

    def bound(self, n_bins: Floats, exponent: float, *, other: Floats | float = 0.0) -> Floats:
        """Bound the noise of a sum of bins: it is larger with probability at most e^-exponent.

        Chernoff's bound. A sum of w bins of Laplace noise of scale s has the moment-generating
        function ``(1 - t^2 s^2)^(-w L)`` and Gaussian noise ``exp(t^2 w v / 2)``.

        Parameters
        ----------
        n_bins
            w, any shape; not necessarily whole.
        exponent
            Negative logarithm of the probability.
        other
            Variance of independent Gaussian noise that is added to the sum.
        """
        width = np.asarray(n_bins, dtype=np.float64)[..., None]
        added = np.asarray(other, dtype=np.float64)[..., None]
        if self.is_gaussian:
            bound: Floats = np.sqrt(2.0 * exponent * (width * self.variance + added))[..., 0]
            return bound
        scale = np.sqrt(self.variance / (2.0 * self.n_sums))
        logs = -width * self.n_sums * np.log1p(-(_TILTS**2)) + added * (_TILTS / scale) ** 2 / 2.0
        bound = np.min((exponent + logs) * scale / _TILTS, axis=-1)
        return bound

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Draw noise of the same law, for simulations only: it protects nobody."""
        if self.is_gaussian:
            return np.rint(rng.normal(0.0, self.deviation, shape))
        # 2 L q / (1 - q)^2 = variance; a sum of L geometric variates is negative binomial.
        ratio = 2.0 * self.n_sums / self.variance
        stop = min(1.0, float(2.0 / (1.0 + np.sqrt(1.0 + 4.0 / ratio))))
        up = rng.negative_binomial(self.n_sums, stop, shape)
        return (up - rng.negative_binomial(self.n_sums, stop, shape)).astype(np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Marginal:
    """Noised bins of one dimension.

    Parameters
    ----------
    name
        Name of the dimension.
    bins
        Shape ``(B,)``: inner bins, records.
    below, above, missing
        Counts of the other bins.
    edges
        Shape ``(B + 1,)``, ascending, on the scale of the dimension.
    n_records
        n of the sketches that carry the dimension, exact or an estimate; positive.
    noise
        Noise of every bin.
    resolution
        r of the logarithmic scale, data units; None for a linear one.
    """

    name: str
    bins: Floats
    below: float
    above: float
    missing: float
    edges: Floats
    n_records: float
    noise: BinNoise
    resolution: float | None = None

    def __post_init__(self) -> None:
        if self.edges.size != self.bins.size + 1 or self.bins.size < 2:
            raise DecodingError("must have at least two bins and one edge more", field="edges")
        if not self.n_records > 0:
            raise DecodingError("must be positive", field="n_records", fix="wait for records")

    @property
    def missing_share(self) -> float:
        """Share of the records without a value; 0 where noise may have made it."""
        is_seen = self.missing > _SEEN_DEVIATIONS * self.noise.deviation
        return min(1.0, self.missing / self.n_records) if is_seen else 0.0

    @property
    def n_present(self) -> float:
        """Records with a value, at least one."""
        return max(1.0, self.n_records * (1.0 - self.missing_share))

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of a bin, as a share of the records with a value."""
        return self.noise.deviation / self.n_present

    @property
    def strength(self) -> float:
        """``x = n sqrt(8 / v)``; ``n epsilon / (d sqrt L)`` for Laplace noise, replace-one."""
        return self.n_records * float(np.sqrt(8.0 / self.noise.variance))

    @cached_property
    def data_edges(self) -> Floats:
        """Edges in data units."""
        return self.to_data(self.edges)

    def to_data(self, values: Floats) -> Floats:
        """Convert values on the scale of the dimension to data units."""
        return values if self.resolution is None else expand(values, self.resolution)


def read_marginals(
    statistic: HistogramStatistic,
    names: Sequence[str],
    *,
    sums: NDArray[np.integer],
    n_records: Sequence[float],
    noises: Sequence[BinNoise],
) -> tuple[Marginal, ...]:
    """Read the numeric dimensions that a histogram carries; levels have no bins to calibrate.

    Parameters
    ----------
    statistic
        Statistic of the sums.
    names
        Names of the d dimensions.
    sums
        Shape ``(n_coordinates,)``: sums with noise.
    n_records, noises
        d entries: records and noise of the sketches that carry the dimension.
    """
    marginals = []
    for i, place in statistic.bins.items():
        if statistic.encodings[i].n_levels is not None:
            continue
        *inner, below, above, missing = np.asarray(sums[place], dtype=np.float64)
        marginals.append(
            Marginal(
                name=names[i],
                bins=np.array(inner),
                below=float(below),
                above=float(above),
                missing=float(missing),
                edges=statistic.compute_edges(i),
                n_records=n_records[i],
                noise=noises[i],
                resolution=statistic.encodings[i].resolution,
            )
        )
    return tuple(marginals)


def estimate_distribution(marginal: Marginal, first: int, stop: int) -> Floats:
    """Estimate the distribution function at the edges of some bins: shape ``(stop - first + 1,)``.

    All present records are taken to lie in these w bins. Then the total is known, and the sum left
    of edge j, corrected for the total, has variance ``v j (w - j) / w``. Isotonic regression with
    the inverse variances, cut to [0, 1]: projections on convex sets that hold the truth.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - a server seldom needs it

    counts = marginal.bins[first:stop] / marginal.n_present
    width = counts.size
    j = np.arange(1, width)
    left = np.cumsum(counts)[:-1] + (1.0 - counts.sum()) * j / width
    inner = isotonic_regression(left, weights=width / (j * (width - j))).x if width > 1 else left
    return np.concatenate([[0.0], np.clip(inner, 0.0, 1.0), [1.0]])


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantileBands:
    """Simultaneous bounds of a distribution function, at the edges of all bins.

    Parameters
    ----------
    edges
        Shape ``(B + 1,)``, data units.
    lower, upper
        Shape ``(B + 1,)``: the share of all n records at or below each edge, those below the box
        included and those without a value not.
    present_lower, present_upper
        Bounds of the share of records with a value.
    """

    edges: Floats
    lower: Floats
    upper: Floats
    present_lower: float
    present_upper: float

    def find_quantile(self, share: float) -> tuple[float, float]:
        """Bound a quantile of the present records, data units; infinite beyond the box."""
        low = np.flatnonzero(self.upper >= share * self.present_lower)
        high = np.flatnonzero(self.lower >= share * self.present_upper)
        first = int(low[0]) if low.size else self.edges.size
        last = int(high[0]) if high.size else self.edges.size
        return (
            float(self.edges[first - 1]) if first else -np.inf,
            float(self.edges[last]) if last < self.edges.size else np.inf,
        )


def find_critical(noise: BinNoise, n_bins: int, rng: np.random.Generator) -> float:
    """Find the 95 % point of the largest noise of a distribution function, in its deviations.

    The noise is known exactly, so it is simulated. The total of all w bins is n, so the noise left
    of edge j has variance ``v j (w - j) / w``.

    Parameters
    ----------
    noise
        Noise of a bin.
    n_bins
        w, with the bins below, above and missing.
    rng
        Source of the simulation; the answer is for display only.
    """
    j = np.arange(1, n_bins)
    deviations = np.sqrt(noise.variance * j * (n_bins - j) / n_bins)
    largest = []
    for _ in range(_DRAWS // _PART):
        left = np.cumsum(noise.draw(rng, (_PART, n_bins)), axis=1)
        bridge = left[:, :-1] - left[:, -1:] * (j / n_bins)
        largest.append(np.max(np.abs(bridge) / deviations, axis=1))
    return float(np.quantile(np.concatenate(largest), BAND_LEVEL))


def estimate_bands(
    marginal: Marginal, *, critical: float, are_sample: bool = False
) -> QuantileBands:
    """Bound the distribution function of the records, at all edges at once.

    Parameters
    ----------
    marginal
        The bins; the number of records must be exact.
    critical
        Of :func:`find_critical` for this noise and ``B + 3`` bins.
    are_sample
        Whether the bounds are for the population that the records are a sample of.

    Guarantees
    ----------
    All bounds hold together with probability 0.95 over the noise, for any number of records.
    """
    left, variances = _sum_left(marginal)
    margin = critical * np.sqrt(variances)
    if are_sample:
        margin = margin + _KOLMOGOROV / np.sqrt(marginal.n_records)
    # A distribution function never falls, so each bound holds to one of its sides.
    lower = np.clip(np.maximum.accumulate(left - margin), 0.0, 1.0)
    upper = np.clip(np.minimum.accumulate((left + margin)[::-1])[::-1], 0.0, 1.0)
    return QuantileBands(
        edges=marginal.data_edges,
        lower=lower[:-1],
        upper=upper[:-1],
        present_lower=float(lower[-1]),
        present_upper=float(upper[-1]),
    )


def estimate_quantiles(marginal: Marginal, shares: Sequence[float]) -> list[float]:
    """Estimate quantiles of the records with a value, data units; infinite beyond the box.

    They are those of the distribution function nearest to the noised one: isotonic regression with
    the inverse variances, as in :func:`estimate_distribution`, with what lies beyond the box.
    """
    from scipy.optimize import isotonic_regression  # noqa: PLC0415 - a server seldom needs it

    left, variances = _sum_left(marginal)
    fitted = np.clip(isotonic_regression(left, weights=1.0 / variances).x, 0.0, 1.0)
    function, edges = fitted[:-1], marginal.data_edges
    found = []
    for wanted in np.asarray(shares) * fitted[-1]:
        stop = int(np.searchsorted(function, wanted))
        if stop in (0, function.size):
            found.append(math.inf if stop else -math.inf)
            continue
        part = (wanted - function[stop - 1]) / (function[stop] - function[stop - 1])
        found.append(float(edges[stop - 1] + part * (edges[stop] - edges[stop - 1])))
    return found


def _sum_left(marginal: Marginal) -> tuple[Floats, Floats]:
    """Return the shares of the records left of all edges and of the missing, and variances.

    The total of the w cells is n, so the sum left of edge j has variance ``v j (w - j) / w``.
    """
    cells = np.concatenate([[marginal.below], marginal.bins, [marginal.above, marginal.missing]])
    n, width = marginal.n_records, cells.size
    j = np.arange(1, width)
    left = (np.cumsum(cells)[:-1] + (n - cells.sum()) * j / width) / n
    return left, marginal.noise.variance * j * (width - j) / width / n**2
