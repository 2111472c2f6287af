"""Drift between two pilots: whether records lie elsewhere than they did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from sfumato.learning.calibration.hull import FALSE_ALARM
from sfumato.learning.estimate.histogram import BinNoise, Floats, Marginal
from sfumato.learning.estimate.studies import LevelShares
from sfumato.shared.errors import DecodingError

DRIFT_FALSE_ALARM: Final = FALSE_ALARM
"""Probability that a dimension whose records did not move is reported, over all its blocks."""
_BLOCK = 4
_FAR_DEVIATIONS = 4.0
_FIX = "use the plan of the first pilot"
# The Chernoff bound is minimised over these shares of the exponents for which it exists. Small ones
# are best where sampling is far larger than the noise.
_TILTS = np.concatenate([np.geomspace(1e-6, 0.5, 200), np.linspace(0.505, 0.995, 99)])


@dataclass(frozen=True, kw_only=True)
class BlockDrift:
    """Difference of the share of the records in one block between two pilots.

    Parameters
    ----------
    level
        The level of a category; None for a block of bins.
    lower, upper
        Ends of a block of bins, data units; None beyond the plan's bounds. Both are None for a
        level, and for records without a value.
    first, second
        Its shares in the two pilots, noise included: of the records with a value, or for those
        without of all records.
    deviations
        The second share minus the first, in standard deviations of noise and sampling.
    limit
        What noise and sampling explain of the difference.
    has_moved
        Whether the difference is beyond the limit.
    """

    level: str | None = None
    lower: float | None = None
    upper: float | None = None
    first: float
    second: float
    deviations: float
    limit: float
    has_moved: bool

    @property
    def change(self) -> float:
        """The second share minus the first."""
        return self.second - self.first

    @property
    def excess(self) -> float:
        """The difference over the limit."""
        return abs(self.change) / self.limit


@dataclass(frozen=True, kw_only=True)
class ColumnDrift:
    """Difference of one dimension between two pilots.

    Parameters
    ----------
    name
        Name of the dimension.
    blocks
        Blocks of four bins, ascending, then what lies below and above the bounds; or levels. Last
        the records without a value.

    Guarantees
    ----------
    If the records of both pilots have one law, some block is beyond its limit with probability at
    most 0.001, for the exact law of the noise and the normal law of sampling.
    """

    name: str
    blocks: tuple[BlockDrift, ...]

    @property
    def has_moved(self) -> bool:
        """Whether some block is beyond its limit."""
        return any(block.has_moved for block in self.blocks)

    @property
    def largest(self) -> BlockDrift:
        """The block that is furthest beyond its limit, or nearest to it."""
        return max(self.blocks, key=lambda block: block.excess)

    @property
    def far_share(self) -> float:
        """Share of the blocks that differ by more than four standard deviations."""
        return float(np.mean([abs(block.deviations) > _FAR_DEVIATIONS for block in self.blocks]))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Counts:
    """Counts of one dimension in one pilot: of the blocks, and last of missing values."""

    counts: Floats
    widths: Floats
    totals: Floats
    noise: BinNoise


def compare(first: Sequence[Marginal], second: Sequence[Marginal]) -> tuple[ColumnDrift, ...]:
    """Compare the numbers of two pilots over the same dimensions and bins.

    Raises
    ------
    DecodingError
        The pilots have other dimensions or other bins.
    """
    _require_same("dimensions", [each.name for each in first], [each.name for each in second])
    return tuple(_compare_bins(a, b) for a, b in zip(first, second, strict=True))


def compare_levels(
    first: Sequence[LevelShares], second: Sequence[LevelShares]
) -> tuple[ColumnDrift, ...]:
    """Compare the categories of two pilots; raises as :func:`compare`, for other levels.

    Raises
    ------
    DecodingError
        Devices report levels, which have no noise of each level by itself.
    """
    _require_same(
        "categories", *([(each.name, each.levels) for each in pilot] for pilot in (first, second))
    )
    return tuple(_compare_categories(a, b) for a, b in zip(first, second, strict=True))


def _require_same(what: str, first: object, second: object) -> None:
    if first != second:
        raise DecodingError(f"must have the same {what}", field="pilots", fix=_FIX)


def _compare_bins(first: Marginal, second: Marginal) -> ColumnDrift:
    if not np.array_equal(first.data_edges, second.data_edges):
        raise DecodingError(f"must have the same bins in {first.name}", field="pilots", fix=_FIX)
    starts = np.arange(0, first.bins.size, _BLOCK)
    edges = first.data_edges[[*starts, first.bins.size]].tolist()
    places: list[dict[str, float | None]] = [
        *({"lower": low, "upper": high} for low, high in pairwise(edges)),
        {"upper": edges[0]},
        {"lower": edges[-1]},
        {},
    ]
    inner = np.diff(np.append(starts, first.bins.size))
    widths = np.concatenate([inner, [1, 1, 1]]).astype(np.float64)

    def count(marginal: Marginal) -> _Counts:
        beside = [marginal.below, marginal.above, marginal.missing]
        totals = np.full(widths.size, marginal.n_present)
        totals[-1] = marginal.n_records
        counts = np.concatenate([np.add.reduceat(marginal.bins, starts), beside])
        return _Counts(counts=counts, widths=widths, totals=totals, noise=marginal.noise)

    return _judge(first.name, places, count(first), count(second))


def _compare_categories(first: LevelShares, second: LevelShares) -> ColumnDrift:
    def count(found: LevelShares) -> _Counts:
        if found.noise is None:
            raise DecodingError(
                f"must be sums of counts, not reports of levels, for {found.name}",
                field="pilots",
                fix="compare studies with the release local.v1",
            )
        counts = np.append(found.shares, found.missing) * found.n_records
        ones = np.ones_like(counts)
        return _Counts(counts=counts, widths=ones, totals=ones * found.n_records, noise=found.noise)

    places = [*({"level": level} for level in first.levels), {}]
    return _judge(first.name, places, count(first), count(second))


def _judge(name: str, places: Sequence[object], first: _Counts, second: _Counts) -> ColumnDrift:
    p, q = first.counts / first.totals, second.counts / second.totals
    pooled = (first.counts + second.counts) / (first.totals + second.totals)
    pooled = np.clip(pooled, 0.0, 1.0)
    sampling = pooled * (1.0 - pooled) * (1.0 / first.totals + 1.0 / second.totals)
    noises = [each.widths * each.noise.variance / each.totals**2 for each in (first, second)]
    deviations = (q - p) / np.sqrt(noises[0] + noises[1] + sampling)
    limits = _limit(first, second, sampling)
    return ColumnDrift(
        name=name,
        blocks=tuple(
            BlockDrift(
                **place,  # type: ignore[arg-type]
                first=float(p[i]),
                second=float(q[i]),
                deviations=float(deviations[i]),
                limit=float(limits[i]),
                has_moved=bool(abs(q[i] - p[i]) > limits[i]),
            )
            for i, place in enumerate(places)
        ),
    )


def _limit(first: _Counts, second: _Counts, sampling: Floats) -> Floats:
    """Bound the difference of each block by Chernoff, for both noises and sampling together.

    The sum of w bins of L Laplace variates of scale s has the moment-generating function
    ``(1 - t^2 s^2)^(-w L)``; Gaussian noise and sampling of variance v have ``exp(t^2 v / 2)``.
    """
    exponent = math.log(2.0 * sampling.size / DRIFT_FALSE_ALARM)
    normal, laplace = sampling.copy(), []
    for each in (first, second):
        if each.noise.is_gaussian:
            normal += each.widths * each.noise.variance / each.totals**2
        else:
            scale = math.sqrt(each.noise.variance / (2.0 * each.noise.n_sums)) / each.totals
            laplace.append((each.widths * each.noise.n_sums, scale))
    if not laplace:
        bound: Floats = np.sqrt(2.0 * exponent * normal)
        return bound
    largest = np.max([scale for _, scale in laplace], axis=0)
    tilts = _TILTS / largest[:, None]
    logs = normal[:, None] * tilts**2 / 2.0
    for number, scale in laplace:
        logs = logs - number[:, None] * np.log1p(-((tilts * scale[:, None]) ** 2))
    bound = np.min((exponent + logs) / tilts, axis=1)
    return bound
