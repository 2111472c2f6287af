"""Calibration of one dimension: where its records lie and how they spread, on a chosen scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sfumato.learning.calibration.hull import Hull, find_hull
from sfumato.learning.calibration.scales import (
    NARROW_BINS,
    SEEN,
    View,
    choose_scale,
    edges_on,
    find_heavy_tail,
)
from sfumato.learning.calibration.steps import find_texture
from sfumato.learning.estimate.histogram import Floats, Marginal
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.shared.core.logarithm import expand

FindingCode = Literal[
    "weak",
    "outside",
    "beyond",
    "constant",
    "narrow",
    "flag",
    "missing",
    "log",
    "tail",
    "hidden",
    "unplaced",
    "apart",
]
"""Findings, each a sentence of :mod:`sfumato.learning.calibration.words`."""

_CONSTANT_DEVIATION = 1.0 / 200.0
_UNPLACED_SHARE = 0.05
_HUMP_REACH = 4.0
_NARROW_SPREADS = 6.0
_FLAG_SHARE = 0.03
_APART_SHARE, _APART_WITHIN = 0.2, 0.02
"""Largest share of values far from all others, and of the variance that the two groups have."""
_MISSING_SHARE = 0.05
_BEYOND_SHARE = 0.02
_ONE_SIGN = 0.01
"""Values of the other sign that reach no farther are the bin of zeros."""
_EXACT = 0.05
_BOUND_SPREADS, _MOST_SPREADS = 12.0, 200.0
_SEARCH_SPREADS, _WEAK_SPREADS, _SEARCH_MARGIN = 2.0, 5.0, 0.5


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fact about one dimension.

    Parameters
    ----------
    code
        Which.
    share
        The share of records that it is about; None if it is about all.
    lower, upper
        The values that it is about, data units; None if it is about none.
    """

    code: FindingCode
    share: float | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Column:
    """Calibration of one dimension.

    Parameters
    ----------
    name
        Name of the dimension.
    findings
        Facts that the person who reads the plan should know.
    resolution
        r of the advised logarithmic scale, data units; None for a linear scale.
    is_kept
        Whether it belongs in the main plan; False for a constant, and where no record was seen.
    centre
        Mean on the advised scale, in data units; the value of a constant.
    spread
        Standard deviation of the records on the advised scale: data units, or octaves.
    lower, upper
        Bounds for the plan, data units.
    search_lower, search_upper
        Where centroids are to be searched for, data units, within the bounds.
    least_share
        Least share of the records that is sure to show: smaller clusters may lie anywhere.
    missing_share
        Share of the records without a value.
    step
        Distance of neighbouring values, none of which is far commoner than those beside it; 0
        without one, None where that is not known.
    """

    name: str
    findings: tuple[Finding, ...]
    resolution: float | None
    is_kept: bool
    centre: float
    spread: float
    lower: float
    upper: float
    search_lower: float
    search_upper: float
    least_share: float
    missing_share: float
    step: float | None = None

    @property
    def codes(self) -> frozenset[FindingCode]:
        """Codes of the findings."""
        return frozenset(finding.code for finding in self.findings)


def calibrate_column(marginal: Marginal) -> Column:
    """Calibrate one dimension from its noised bins; deterministic."""
    hull = find_hull(marginal)
    beyond = max(0.0, marginal.below) + max(0.0, marginal.above)
    findings = describe_coverage(
        beyond / marginal.n_present, marginal.deviation, marginal.missing_share
    )
    view, window, hidden = choose_scale(marginal, hull)
    if not hull.is_weak:
        findings += _describe_tail(marginal, view, hull, hidden)
    is_narrow = hull.width <= NARROW_BINS and not hull.is_weak
    moments = _measure_moments(marginal, view, window)
    unplaced = 0.0 if moments or hull.is_weak else _find_unplaced(marginal, view, window)
    if unplaced:
        findings.append(Finding(code="unplaced", share=unplaced))
        moments = _spread_evenly(view, unplaced)
    is_constant = is_narrow and not unplaced and marginal.deviation < _CONSTANT_DEVIATION
    if not is_narrow and not hull.is_weak:
        findings += _find_flag(marginal, hull) or _find_apart(marginal, view, hull)
    column = make_column(
        marginal,
        view,
        hull,
        findings,
        missing_share=marginal.missing_share,
        moments=moments,
        is_constant=is_constant,
    )
    return replace(column, step=find_texture(marginal))


def make_column(
    marginal: Marginal | ReportedMarginal,
    view: View,
    hull: Hull,
    findings: Sequence[Finding],
    *,
    missing_share: float,
    moments: tuple[float, float] | None = None,
    is_constant: bool = False,
) -> Column:
    """Make the column of a dimension from what was found of it.

    Parameters
    ----------
    view, hull
        The dimension on the advised scale, and the bins that hold its records.
    findings
        Facts about its coverage and values; those about its place are added.
    missing_share
        Share of the records without a value.
    moments
        Spread and mean on the scale where they are better known than those of the humps.
    is_constant
        Whether the hull is known to hold one value.
    """
    codes = {finding.code for finding in findings}
    found = list(findings)
    if hull.is_weak and "outside" not in codes:
        found.append(Finding(code="weak"))
    spread, centre = moments or (view.humps.spread, view.humps.mean)
    is_narrow = hull.width <= NARROW_BINS and not hull.is_weak
    ends = marginal.data_edges[[hull.first, hull.stop]]
    if is_narrow:
        centre, spread = (view.first + view.last) / 2.0, (view.last - view.first) / _NARROW_SPREADS
        step, n_bins = hull.width, marginal.data_edges.size - 1
        zoom = marginal.data_edges[[max(0, hull.first - step), min(n_bins, hull.stop + step)]]
        code: FindingCode = "constant" if is_constant else "narrow"
        place = ends if is_constant else zoom
        found.append(Finding(code=code, lower=float(place[0]), upper=float(place[1])))
    if view.resolution is not None:
        # The bin of zeros begins half a step below them.
        is_positive = ends[1] > 0.0 and view.first > -_ONE_SIGN * view.last
        lowest = max(0.0, float(ends[0])) if is_positive else float(ends[0])
        found.append(Finding(code="log", lower=lowest, upper=float(ends[1])))
    bounds = _choose_bounds(view, centre, spread)
    search = _choose_search(view, hull, centre, spread, is_exact=moments is not None or is_narrow)
    search = max(search[0], bounds[0]), min(search[1], bounds[1])
    values = _to_data(np.array([centre, *bounds, *search]), view.resolution)
    if is_constant and ends[0] <= 0.0 <= ends[1]:
        values[0] = 0.0
    return Column(
        name=marginal.name,
        findings=tuple(found),
        resolution=view.resolution,
        is_kept=not (is_constant or "outside" in codes),
        centre=float(values[0]),
        spread=spread,
        lower=float(values[1]),
        upper=float(values[2]),
        search_lower=float(values[3]),
        search_upper=float(values[4]),
        least_share=hull.least_share,
        missing_share=missing_share,
    )


def describe_coverage(beyond: float, deviation: float, missing_share: float) -> list[Finding]:
    """Describe the records that lie outside the pilot's box, or have no value.

    Parameters
    ----------
    beyond
        Share of the records with a value that lie outside.
    deviation
        Standard deviation of the noise of such a share.
    missing_share
        Share of the records without a value.
    """
    findings, share = [], min(1.0, beyond)
    if beyond > SEEN * deviation + 1.0 / 2.0:
        findings.append(Finding(code="outside", share=share))
    elif beyond > SEEN * deviation + _BEYOND_SHARE:
        findings.append(Finding(code="beyond", share=share))
    if missing_share > _MISSING_SHARE:
        findings.append(Finding(code="missing", share=missing_share))
    return findings


def _find_flag(marginal: Marginal, hull: Hull) -> list[Finding]:
    """Find two values that hold nearly all records, with an empty bin between them."""
    bins = marginal.bins[hull.first : hull.stop]
    if bins.size <= 2 * NARROW_BINS:
        return []
    low, high = bins[:NARROW_BINS].sum(), bins[-NARROW_BINS:].sum()
    rest = 1.0 - (low + high) / marginal.n_present
    if rest > _FLAG_SHARE + SEEN * math.sqrt(2.0 * NARROW_BINS) * marginal.deviation:
        return []
    share = float(np.clip(high / max(low + high, 1.0), 0.0, 1.0))
    edges = marginal.data_edges
    ends = []
    for first, group in ((hull.first, bins[:2]), (hull.stop - 2, bins[-2:])):
        heavy = first + int(np.argmax(group))
        has_zero = edges[heavy] <= 0.0 <= edges[heavy + 1]
        ends.append(0.0 if has_zero else float(edges[heavy] + edges[heavy + 1]) / 2.0)
    return [Finding(code="flag", share=share, lower=ends[0], upper=ends[1])]


def _find_apart(marginal: Marginal, view: View, hull: Hull) -> list[Finding]:
    """Find a group of values so far from the others that these look like one value beside it."""
    shares = marginal.bins[hull.first : hull.stop] / marginal.n_present
    edges = edges_on(marginal, view.resolution)[hull.first : hull.stop + 1]
    centres = (edges[1:] + edges[:-1]) / 2.0
    total, mean = float(shares.sum()), float(shares @ centres) / float(shares.sum())
    variance = float(shares @ (centres - mean) ** 2) / total
    left = np.cumsum(shares)[:-1] / total
    noise = SEEN * marginal.deviation * np.sqrt(np.arange(1, shares.size)) / total
    is_split = (left > noise) & (1.0 - left > noise[::-1])
    if variance <= 0.0 or not is_split.any():
        return []
    moved = np.cumsum(shares * (centres - mean))[:-1] / total
    between = np.where(is_split, moved**2 / np.where(is_split, left * (1.0 - left), 1.0), 0.0)
    split = int(np.argmax(between))
    share = float(min(left[split], 1.0 - left[split]))
    if share > _APART_SHARE or between[split] < (1.0 - _APART_WITHIN) * variance:
        return []
    stop = hull.first + split + 1
    is_low = left[split] < 1.0 / 2.0
    group = slice(hull.first, stop) if is_low else slice(stop, hull.stop)
    heavy = group.start + int(np.argmax(marginal.bins[group]))
    ends = marginal.data_edges[[heavy, heavy + 1]]
    return [Finding(code="apart", share=share, lower=float(ends[0]), upper=float(ends[1]))]


def _describe_tail(marginal: Marginal, view: View, hull: Hull, hidden: float) -> list[Finding]:
    """Describe far values that hold much of the variance on the scale, or may."""
    if share := find_heavy_tail(marginal, hull, view.resolution):
        ends = marginal.data_edges[[hull.first, hull.stop]]
        return [Finding(code="tail", share=share, lower=float(ends[0]), upper=float(ends[1]))]
    return [Finding(code="hidden", share=hidden)] if hidden else []


def _measure_moments(marginal: Marginal, view: View, window: slice) -> tuple[float, float] | None:
    """Measure spread and mean by the histogram's own moments; None where the humps are closer.

    The variance of the bins is unbiased, and its noise is known. It is used where that noise is
    below 5 % of a deviation, or where the humps differ from it by more than three deviations of the
    noise. Otherwise the humps are closer, unless many records lie in none of them.
    """
    edges = edges_on(marginal, view.resolution)[window.start : window.stop + 1]
    shares = marginal.bins[window] / marginal.n_present
    centres, widths = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)
    total = float(shares.sum())
    if total > 1.0 / 2.0:
        mean = float(shares @ centres) / total
        squares = (centres - mean) ** 2 + widths**2 / 12.0
        variance = float(shares @ squares) / total
        error = marginal.deviation * math.sqrt(float(np.sum((squares - variance) ** 2)))
        if variance > 0.0 and (
            error < 2.0 * _EXACT * variance or abs(variance - view.humps.spread**2) > SEEN * error
        ):
            return math.sqrt(variance), mean
    return None


def _find_unplaced(marginal: Marginal, view: View, window: slice) -> float:
    """Return the share of the records that lie in no hump, or 0 where noise may explain it.

    Their number is known well, because it is all but the few bins of the humps; only their places
    are hidden by noise, where each bin holds few of them.
    """
    edges = edges_on(marginal, view.resolution)[window.start : window.stop + 1]
    shares = marginal.bins[window] / marginal.n_present
    near = np.zeros(shares.size, dtype=np.bool_)
    for mean, deviation in zip(view.humps.means, view.humps.deviations, strict=True):
        first = np.searchsorted(edges, mean - _HUMP_REACH * deviation) - 2
        stop = np.searchsorted(edges, mean + _HUMP_REACH * deviation) + 1
        near[max(0, int(first)) : int(stop)] = True
    beyond = (max(0.0, marginal.below) + max(0.0, marginal.above)) / marginal.n_present
    share = 1.0 - beyond - float(shares[near].sum())
    noise = SEEN * marginal.deviation * math.sqrt(float(near.sum()))
    return min(1.0, share) if share > _UNPLACED_SHARE + noise else 0.0


def _spread_evenly(view: View, share: float) -> tuple[float, float]:
    """Return spread and mean if a share of the records lies evenly over the hull."""
    humps, middle, length = view.humps, (view.first + view.last) / 2.0, view.last - view.first
    mean = (1.0 - share) * humps.mean + share * middle
    variance = (1.0 - share) * (humps.spread**2 + (humps.mean - mean) ** 2)
    variance += share * (length**2 / 12.0 + (middle - mean) ** 2)
    return math.sqrt(variance), mean


def _choose_bounds(view: View, centre: float, spread: float) -> tuple[float, float]:
    """Choose bounds that are wide, for they cost nothing: 16 bits over 24 spreads are enough."""
    near, far = _BOUND_SPREADS * spread, _MOST_SPREADS * spread
    lower = min(centre - near, max(view.first - spread, centre - far))
    upper = max(centre + near, min(view.last + spread, centre + far))
    if view.resolution is not None:
        # Twelve spreads in octaves may reach far beyond zero, where all seen values have one sign.
        if view.first > -_ONE_SIGN * view.last:
            lower = max(0.0, lower)
        elif view.last < -_ONE_SIGN * view.first:
            upper = min(0.0, upper)
    return lower, upper


def _choose_search(
    view: View, hull: Hull, centre: float, spread: float, *, is_exact: bool
) -> tuple[float, float]:
    """Choose where to search: the hull, what humps reach beyond it, and a margin for noise."""
    lower, upper = view.first, view.last
    if hull.is_weak:
        lower = min(lower, centre - _WEAK_SPREADS * spread)
        upper = max(upper, centre + _WEAK_SPREADS * spread)
    if not is_exact:
        reach = _SEARCH_SPREADS * view.humps.deviations
        lower = min(lower, float(np.min(view.humps.means - reach)))
        upper = max(upper, float(np.max(view.humps.means + reach)))
    # Noise moves a centroid at an end beyond it, and a warning of clusters outside would be false.
    margin = _SEARCH_MARGIN * spread
    has_sign = view.first > -_ONE_SIGN * view.last, view.last < -_ONE_SIGN * view.first
    below = max(lower - margin, min(lower, 0.0)) if has_sign[0] else lower - margin
    above = min(upper + margin, max(upper, 0.0)) if has_sign[1] else upper + margin
    return below, above


def _to_data(values: Floats, resolution: float | None) -> Floats:
    return values if resolution is None else expand(values, resolution)
