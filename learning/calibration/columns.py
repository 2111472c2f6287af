"""Calibration of one dimension: where its records lie, how they spread, on which scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from learning.calibration.hull import FALSE_ALARM, Hull, find_hull
from learning.calibration.humps import Humps, fit_humps
from learning.estimate.histogram import Floats, Marginal
from shared.core.logarithm import expand

FindingCode = Literal["weak", "outside", "beyond", "constant", "narrow", "flag", "missing", "log"]
"""Findings, each a sentence of :mod:`learning.calibration.words`."""

_NARROW_BINS = 2
_CONSTANT_DEVIATION = 1.0 / 200.0
_NARROW_SPREADS = 6.0
_FLAG_SHARE = 0.03
_SEEN = 3.0
_MISSING_SHARE = 0.05
_BEYOND_SHARE = 0.02
_LEAST_OCTAVES = 1.3
_EXACT = 0.05
_BOUND_SPREADS, _MOST_SPREADS = 12.0, 200.0
_SEARCH_SPREADS, _WEAK_SPREADS = 2.0, 5.0


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
        Of the dimension.
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

    @property
    def codes(self) -> frozenset[FindingCode]:
        """Codes of the findings."""
        return frozenset(finding.code for finding in self.findings)


@dataclass(frozen=True, kw_only=True, eq=False)
class _View:
    """A dimension on one scale: humps, moments, and the hull's ends."""

    humps: Humps
    edges: Floats
    window: slice
    first: float
    last: float
    resolution: float | None


def calibrate_column(marginal: Marginal) -> Column:
    """Calibrate one dimension from its noised bins; deterministic."""
    hull = find_hull(marginal)
    findings = _describe_coverage(marginal)
    is_outside = any(finding.code == "outside" for finding in findings)
    if hull.is_weak and not is_outside:
        findings.append(Finding(code="weak"))
    view = _choose_scale(marginal, hull)
    spread, centre, is_exact = _measure_spread(marginal, view)
    is_narrow = hull.width <= _NARROW_BINS and not hull.is_weak
    is_constant = is_narrow and marginal.deviation < _CONSTANT_DEVIATION
    ends = marginal.data_edges[[hull.first, hull.stop]]
    if is_narrow:
        centre, spread = (view.first + view.last) / 2.0, (view.last - view.first) / _NARROW_SPREADS
        step = hull.width
        zoom = marginal.data_edges[
            [max(0, hull.first - step), min(marginal.bins.size, hull.stop + step)]
        ]
        code: FindingCode = "constant" if is_constant else "narrow"
        place = ends if is_constant else zoom
        findings.append(Finding(code=code, lower=float(place[0]), upper=float(place[1])))
    elif not hull.is_weak:
        findings += _find_flag(marginal, hull)
    if view.resolution is not None:
        findings.append(Finding(code="log", lower=float(ends[0]), upper=float(ends[1])))
    bounds = _choose_bounds(view, centre, spread)
    search = _choose_search(view, hull, centre, spread, is_exact=is_exact or is_narrow)
    search = max(search[0], bounds[0]), min(search[1], bounds[1])
    values = _to_data(np.array([centre, *bounds, *search]), view.resolution)
    if is_constant and ends[0] <= 0.0 <= ends[1]:
        values[0] = 0.0
    return Column(
        name=marginal.name,
        findings=tuple(findings),
        resolution=view.resolution,
        is_kept=not (is_constant or is_outside),
        centre=float(values[0]),
        spread=spread,
        lower=float(values[1]),
        upper=float(values[2]),
        search_lower=float(values[3]),
        search_upper=float(values[4]),
        least_share=hull.least_share,
        missing_share=marginal.missing_share,
    )


def _describe_coverage(marginal: Marginal) -> list[Finding]:
    """Describe the records that lie outside the pilot's box, or have no value."""
    findings = []
    n, seen = marginal.n_present, _SEEN * marginal.noise.deviation
    beyond = max(0.0, marginal.below) + max(0.0, marginal.above)
    share = min(1.0, beyond / n)
    if beyond > seen + n / 2.0:
        findings.append(Finding(code="outside", share=share))
    elif beyond > seen + _BEYOND_SHARE * n:
        findings.append(Finding(code="beyond", share=share))
    if marginal.missing_share > _MISSING_SHARE:
        findings.append(Finding(code="missing", share=marginal.missing_share))
    return findings


def _find_flag(marginal: Marginal, hull: Hull) -> list[Finding]:
    """Find two values that hold nearly all records, with an empty bin between them."""
    bins = marginal.bins[hull.first : hull.stop]
    if bins.size <= 2 * _NARROW_BINS:
        return []
    low, high = bins[:_NARROW_BINS].sum(), bins[-_NARROW_BINS:].sum()
    rest = 1.0 - (low + high) / marginal.n_present
    if rest > _FLAG_SHARE + _SEEN * math.sqrt(2.0 * _NARROW_BINS) * marginal.deviation:
        return []
    share = float(np.clip(high / max(low + high, 1.0), 0.0, 1.0))
    edges = marginal.data_edges
    ends = []
    for first, group in ((hull.first, bins[:2]), (hull.stop - 2, bins[-2:])):
        heavy = first + int(np.argmax(group))
        has_zero = edges[heavy] <= 0.0 <= edges[heavy + 1]
        ends.append(0.0 if has_zero else float(edges[heavy] + edges[heavy + 1]) / 2.0)
    return [Finding(code="flag", share=share, lower=ends[0], upper=ends[1])]


def _choose_scale(marginal: Marginal, hull: Hull) -> _View:
    """Choose the linear scale, or the logarithmic one where fewer humps describe it better.

    The logarithmic one needs a hull on one side of zero, and a spread above 1.3 octaves.
    """
    exponent = math.log(4.0 * marginal.bins.size / FALSE_ALARM)
    linear = _find_window(marginal.data_edges, hull)
    shares = marginal.bins[linear] / marginal.n_present

    def fit(edges: Floats) -> Humps:
        return fit_humps(
            shares,
            edges[linear.start : linear.stop + 1],
            deviation=marginal.deviation,
            exponent=exponent,
            noise=marginal.noise,
        )

    def view(humps: Humps, edges: Floats, window: slice, resolution: float | None) -> _View:
        return _View(
            humps=humps,
            edges=edges,
            window=window,
            first=float(edges[hull.first]),
            last=float(edges[hull.stop]),
            resolution=resolution,
        )

    plain = fit(marginal.data_edges)
    on_linear = view(plain, marginal.data_edges, linear, None)
    has_sign = marginal.data_edges[hull.first] > 0.0 or marginal.data_edges[hull.stop] < 0.0
    if marginal.resolution is None or hull.is_weak or not has_sign or hull.width <= _NARROW_BINS:
        return on_linear
    bent = fit(marginal.edges)
    # A hump costs what a wide one has to gain; the rest is twice the logarithm of a likelihood.
    cost = 2.0 * exponent * (plain.weights.size - bent.weights.size)
    gain = plain.misfit - bent.misfit + cost
    if bent.spread <= _LEAST_OCTAVES or gain <= 2.0 * math.log(1.0 / FALSE_ALARM):
        return on_linear
    window = _find_window(marginal.edges, hull)
    return view(bent, marginal.edges, window, marginal.resolution)


def _find_window(edges: Floats, hull: Hull) -> slice:
    """Return the bins of the hull, extended by a quarter of its length on a scale."""
    margin = (edges[hull.stop] - edges[hull.first]) / 4.0
    first = int(np.searchsorted(edges, edges[hull.first] - margin))
    stop = int(np.searchsorted(edges, edges[hull.stop] + margin))
    n_bins = edges.size - 1
    return slice(max(0, min(hull.first - 2, first)), min(n_bins, max(hull.stop + 2, stop)))


def _measure_spread(marginal: Marginal, view: _View) -> tuple[float, float, bool]:
    """Measure spread and mean; also return whether they are the histogram's own moments.

    The variance of the bins is unbiased, and its noise is known. It is used where that noise is
    below 5 % of a deviation, or where the humps differ from it by more than three deviations of the
    noise. Otherwise the humps are closer.
    """
    edges = view.edges[view.window.start : view.window.stop + 1]
    shares = marginal.bins[view.window] / marginal.n_present
    centres, widths = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)
    total = float(shares.sum())
    if total > 1.0 / 2.0:
        mean = float(shares @ centres) / total
        squares = (centres - mean) ** 2 + widths**2 / 12.0
        variance = float(shares @ squares) / total
        error = marginal.deviation * math.sqrt(float(np.sum((squares - variance) ** 2)))
        if variance > 0.0 and (
            error < 2.0 * _EXACT * variance or abs(variance - view.humps.spread**2) > _SEEN * error
        ):
            return math.sqrt(variance), mean, True
    return view.humps.spread, view.humps.mean, False


def _choose_bounds(view: _View, centre: float, spread: float) -> tuple[float, float]:
    """Choose bounds that are wide, for they cost nothing: 16 bits over 24 spreads are enough."""
    near, far = _BOUND_SPREADS * spread, _MOST_SPREADS * spread
    lower = min(centre - near, max(view.first - spread, centre - far))
    upper = max(centre + near, min(view.last + spread, centre + far))
    if view.resolution is not None:
        # All seen values have one sign, and twelve spreads in octaves may reach far beyond zero.
        lower, upper = (max(0.0, lower), upper) if view.first > 0.0 else (lower, min(0.0, upper))
    return lower, upper


def _choose_search(
    view: _View, hull: Hull, centre: float, spread: float, *, is_exact: bool
) -> tuple[float, float]:
    """Choose where to search: the hull, and what humps reach beyond it."""
    lower, upper = view.first, view.last
    if hull.is_weak:
        lower = min(lower, centre - _WEAK_SPREADS * spread)
        upper = max(upper, centre + _WEAK_SPREADS * spread)
    if not is_exact:
        reach = _SEARCH_SPREADS * view.humps.deviations
        lower = min(lower, float(np.min(view.humps.means - reach)))
        upper = max(upper, float(np.max(view.humps.means + reach)))
    return lower, upper


def _to_data(values: Floats, resolution: float | None) -> Floats:
    return values if resolution is None else expand(values, resolution)
