"""Distributions of single columns from a released histogram, and records that are made to agree.

The order of the records along a column stays as it was, and with it the dependence between columns;
only their places change (a copula of the density, with the margins of the histogram).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.clustering.weighted_points import project_on_simplex
from sfumato.learning.estimate.histogram import Marginal
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.learning.estimate.studies import LevelShares, read_study_levels, read_study_numbers
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.generative.margins import blend
from sfumato.shared.core.logarithm import compress, expand
from sfumato.shared.plan import SketchPlan

Floats = NDArray[np.float64]
_FEW_INSIDE = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class NumberColumn:
    """The distribution of a number.

    Parameters
    ----------
    name
        Name of the dimension.
    edges
        Shape ``(B + 1,)``, ascending, on the scale of the dimension.
    shares
        Shape ``(B + 2,)``, >= 0 with sum 1: below the bounds, in the bins, above the bounds.
    resolution
        r of the logarithmic scale, data units; None for a linear one.
    error
        Mean absolute error of the share of a random range; None for a histogram that was not
        blended with a density.
    histogram
        The noised bins, to be blended with a density of the same records; None where there are
        reports instead.
    unit
        Unit of the dimension; None where it is that of the study.
    inside
        Shape ``(N,)``, ascending, on the scale of the dimension: values that tell how records lie
        inside of a bin; without them, and where they are few, evenly.
    """

    name: str
    edges: Floats
    shares: Floats
    resolution: float | None
    error: float | None
    histogram: Marginal | None = None
    unit: str | None = None
    inside: Floats | None = None

    def blend_with(self, values: Floats, spread: float) -> NumberColumn:
        """Return the distribution that follows a density where noise hides the histogram.

        Parameters
        ----------
        values
            Shape ``(n,)``: values of the density, data units.
        spread
            Standard error of shares of ranges by the density.
        """
        if self.histogram is None:
            return self
        scaled = values if self.resolution is None else compress(values, self.resolution)
        # What is beyond a bound stands on it.
        scaled = np.sort(np.clip(scaled, self.edges[0], self.edges[-1]))
        counts, _ = np.histogram(scaled, self.edges)
        found = blend(self.histogram, counts / len(values))
        return replace(self, shares=found.shares, error=found.estimate_error(spread), inside=scaled)

    def place(
        self, values: Floats, rng: np.random.Generator, weights: Floats | None = None
    ) -> Floats:
        """Return values of this distribution in the order of others: shapes ``(n,)``.

        Equal values are put in a random order. Those beyond the bounds stand on a bound.

        Parameters
        ----------
        weights
            Shares of the values, summing to 1; equal ones by default.
        """
        n = len(values)
        order = np.lexsort((rng.random(n), values))
        heights = np.empty(n)
        # One value in each n-th part, so that shares hold better than by independent draws.
        if weights is None:
            heights[order] = (np.arange(n) + rng.random(n)) / max(n, 1)
        else:
            ordered = weights[order]
            heights[order] = np.cumsum(ordered) - rng.random(n) * ordered
        ends = np.concatenate([[0.0], np.cumsum(self.shares)])
        ends /= ends[-1]
        # Zero-width bins stand for what lies beyond the bounds.
        edges = np.concatenate([self.edges[:1], self.edges, self.edges[-1:]])
        bins = np.searchsorted(ends, heights, side="right") - 1
        bins = np.clip(bins, 0, len(self.shares) - 1)
        inside = (heights - ends[bins]) / np.maximum(ends[bins + 1] - ends[bins], 1e-300)
        inside = np.clip(inside, 0.0, 1.0)
        found = edges[bins] + inside * (edges[bins + 1] - edges[bins])
        if self.inside is not None:
            starts = np.searchsorted(self.inside, edges)
            known = starts[bins + 1] - starts[bins]
            places = starts[bins] + inside * np.maximum(known - 1, 0)
            followed = np.interp(places, np.arange(self.inside.size), self.inside)
            found = np.where(known >= _FEW_INSIDE, followed, found)
        return found if self.resolution is None else expand(found, self.resolution)


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelColumn:
    """The distribution of a category.

    Parameters
    ----------
    name
        Name of the dimension.
    shares
        One for each level, >= 0 with sum 1.
    error
        Standard deviation of the noise of a share.
    levels
        Texts of the levels, one for each share; empty where they are those of the study.
    """

    name: str
    shares: Floats
    error: float
    levels: tuple[str, ...] = ()

    def place(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return levels of this distribution, changing as few records as that takes.

        Parameters
        ----------
        values
            Shape ``(n,)``: numbers of levels.
        """
        n_levels = len(self.shares)
        found = values.astype(np.intp)
        surplus = np.bincount(found, minlength=n_levels) - _round(self.shares * len(found))
        moved = [
            rng.permutation(np.flatnonzero(found == level))[: surplus[level]]
            for level in np.flatnonzero(surplus > 0)
        ]
        if moved:
            wanted = np.repeat(np.arange(n_levels), np.maximum(-surplus, 0))
            found[np.concatenate(moved)] = rng.permutation(wanted)
        return found.astype(np.float64)


Column = NumberColumn | LevelColumn


def read_columns(plan: SketchPlan, totals: Totals) -> tuple[Column, ...]:
    """Read the distributions of the columns of a histogram study that some sketch carries.

    Raises
    ------
    WrongStatisticError
        The plan has no histogram.
    """
    units = {each.name: each.unit for each in plan.dimensions}
    levels = map(_read_levels, read_study_levels(plan, totals))
    numbers = map(_read_number, read_study_numbers(plan, totals))
    return (*levels, *(replace(each, unit=units[each.name]) for each in numbers))


def list_histograms(columns: Sequence[Column]) -> tuple[Marginal, ...]:
    """List the noised histograms that distributions were read from."""
    return tuple(
        each.histogram
        for each in columns
        if isinstance(each, NumberColumn) and each.histogram is not None
    )


def _read_levels(found: LevelShares) -> LevelColumn:
    shares = project_on_simplex(found.shares / max(1.0 - found.missing, 1e-9), 1.0)
    return LevelColumn(
        name=found.name, shares=shares, error=found.error, levels=tuple(found.levels)
    )


def _read_number(found: Marginal | ReportedMarginal) -> NumberColumn:
    histogram = found if isinstance(found, Marginal) else None
    values = np.array([found.below, *found.bins, found.above])
    # The nearest distribution: the projection takes noise out of empty bins.
    shares = project_on_simplex(values if histogram is None else values / histogram.n_present, 1.0)
    return NumberColumn(
        name=found.name,
        edges=found.edges,
        shares=shares,
        resolution=found.resolution,
        error=found.deviation if histogram is None else None,
        histogram=histogram,
    )


def _round(counts: Floats) -> NDArray[np.intp]:
    """Round counts to integers with the same sum, by largest remainders."""
    whole = np.floor(counts).astype(np.intp)
    left = round(float(np.sum(counts))) - int(np.sum(whole))
    whole[np.argsort(whole - counts)[: max(left, 0)]] += 1
    return whole


def match_columns(
    records: Floats, names: Sequence[str], columns: Sequence[Column], rng: np.random.Generator
) -> Floats:
    """Return records whose columns have the given distributions: shapes ``(n, d)``.

    Columns without a distribution stay as they are; distributions of other columns are ignored.
    """
    matched, by_name = records.copy(), {each.name: each for each in columns}
    for i, name in enumerate(names):
        if name in by_name:
            matched[:, i] = by_name[name].place(records[:, i], rng)
    return matched
