"""Scale of one dimension: linear, or logarithmic where few far values hold the variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.learning.calibration.hull import FALSE_ALARM, Hull
from sfumato.learning.calibration.humps import Humps, fit_humps
from sfumato.learning.calibration.strength import CLEAR_STRENGTH
from sfumato.learning.estimate.histogram import Floats, Marginal, estimate_quantiles
from sfumato.shared.core.logarithm import compress, expand

NARROW_BINS = 2
"""A hull of so many bins shows no spread."""
SEEN = 3.0
"""Standard deviations of the noise from which something is seen."""
LEAST_OCTAVES = 1.3
"""Least spread of a column that is put on the logarithmic scale."""
_LEAST_OCTAVES_BESIDE_ZEROS = 3.0
"""Small counts with zeros spread over one or two octaves, and mean the same on a linear scale."""
_HEAVY_SHARE = 0.35
"""Share of the variance in far values from which a linear scale is given up: small counts have up
to 0.3, where it is the better one."""
_LIKELY_SHARE = 0.3
"""Mean of the share that is seen and the share that humps predict, from which a linear scale is
given up too: noise hides the farthest values, so what is seen is too little."""
_SHARP_STRENGTH = 5000.0
"""x of a pilot that shows tails as they are: what is seen of them is then enough."""
_FAR_SPREADS, _HARMLESS_SPREADS = 3.0, 6.0
"""Values are far from here on; heavy tails that end before the second cost k-means little."""
_HIDDEN_SHARE = 0.25
"""Share of the variance in expected far values from which a weaker pilot is doubted."""
_TAIL_PARTS = 4000
"""Equally likely values by which the tail of fitted humps is measured."""
_QUARTILES = (0.25, 0.75)
_LOW_END = 0.05
"""Quantile of the values beside zeros where a logarithmic scale begins."""


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """A dimension on one scale.

    Parameters
    ----------
    humps
        The fitted normals.
    first, last
        Ends of the hull.
    resolution
        r of the logarithmic scale; None for the linear one.
    """

    humps: Humps
    first: float
    last: float
    resolution: float | None


def choose_scale(marginal: Marginal, hull: Hull) -> tuple[View, slice, float]:
    """Choose the scale by humps in a window of bins.

    Returns
    -------
    The dimension on the scale, the window, and the share of the variance that may hide in noise
    beyond what the linear scale shows; 0 where none does.
    """
    exponent = count_chances(marginal.bins.size)
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

    def view(humps: Humps, edges: Floats, resolution: float | None) -> View:
        return View(
            humps=humps,
            first=float(edges[hull.first]),
            last=float(edges[hull.stop]),
            resolution=resolution,
        )

    plain = fit(marginal.data_edges)
    on_linear = view(plain, marginal.data_edges, None), linear, 0.0
    if marginal.resolution is None or hull.is_weak or hull.width <= NARROW_BINS:
        return on_linear
    resolution = _find_resolution(marginal, hull)
    edges = edges_on(marginal, resolution)
    tail, _ = _measure_tail(marginal, hull, marginal.data_edges)
    has_sign = _has_sign(marginal, hull)
    can_hide = marginal.strength < CLEAR_STRENGTH
    if not tail and not has_sign and not can_hide:
        return on_linear
    bent = fit(edges)
    is_better = explains_more(plain, bent, exponent)
    can_be_longer = tail > 0.0 and marginal.strength < _SHARP_STRENGTH
    likely = (tail + _predict_tail(bent, resolution)) / 2.0 if can_be_longer else 0.0
    is_heavy = tail > _HEAVY_SHARE or likely > _LIKELY_SHARE
    is_lighter = is_heavy and _measure_tail(marginal, hull, edges)[0] < tail / 2.0
    if is_lighter:
        # Far clusters on both sides of zero are no reason for octaves; long tails are.
        is_chosen = has_sign or is_better
    else:
        holds_zeros = marginal.data_edges[hull.first] <= 0.0 < marginal.data_edges[hull.stop]
        least = _LEAST_OCTAVES_BESIDE_ZEROS if holds_zeros else LEAST_OCTAVES
        is_chosen = has_sign and is_better and bent.spread > least
    if is_chosen:
        return view(bent, edges, resolution), _find_window(edges, hull), 0.0
    # Far values may lie below the noise: what is seen tells how many the other scale would expect.
    share = _predict_tail(bent, resolution) if can_hide else 0.0
    return *on_linear[:2], share if share > _HIDDEN_SHARE else 0.0


def find_heavy_tail(marginal: Marginal, hull: Hull, resolution: float | None) -> float:
    """Return the share of the variance in far values on a scale; 0 where they do no harm."""
    share, reach = _measure_tail(marginal, hull, edges_on(marginal, resolution))
    return share if share > _HEAVY_SHARE and reach > _HARMLESS_SPREADS else 0.0


def _measure_tail(marginal: Marginal, hull: Hull, edges: Floats) -> tuple[float, float]:
    """Measure the share of the variance that is three spreads from the mean, and the farthest.

    K-means puts centroids where the variance is, and a sketch sees little of few far records. The
    share is 0 where noise may have made it. The second is the distance of the hull's farther end
    in spreads.
    """
    shares = marginal.bins[hull.first : hull.stop] / marginal.n_present
    inside = edges[hull.first : hull.stop + 1]
    centres, total = (inside[1:] + inside[:-1]) / 2.0, float(shares.sum())
    if total < 1.0 / 2.0:
        return 0.0, 0.0
    mean = float(shares @ centres) / total
    squares = (centres - mean) ** 2
    variance = float(shares @ squares) / total
    if variance <= 0.0:
        return 0.0, 0.0
    far = squares > _FAR_SPREADS**2 * variance
    tail = float(shares[far] @ squares[far])
    noise = marginal.deviation * math.sqrt(float(squares[far] @ squares[far]))
    reach = max(float(inside[-1]) - mean, mean - float(inside[0])) / math.sqrt(variance)
    return (min(1.0, tail / (total * variance)) if tail > SEEN * noise else 0.0), reach


def _predict_tail(bent: Humps, resolution: float) -> float:
    """Predict the share of a column's variance that is three spreads from its mean.

    Parameters
    ----------
    bent
        Humps on the logarithmic scale.
    resolution
        r of that scale, data units.
    """
    from scipy.special import ndtri  # noqa: PLC0415 - a server seldom needs it

    normal = ndtri((np.arange(_TAIL_PARTS) + 1.0 / 2.0) / _TAIL_PARTS)
    octaves = bent.means[:, None] + bent.deviations[:, None] * normal
    values = expand(octaves.ravel(), resolution)
    weights = np.repeat(bent.weights / _TAIL_PARTS, _TAIL_PARTS)
    squares = (values - weights @ values) ** 2
    variance = float(weights @ squares)
    far = squares > _FAR_SPREADS**2 * variance
    return float(weights[far] @ squares[far]) / variance if variance > 0.0 else 0.0


def _has_sign(marginal: Marginal, hull: Hull) -> bool:
    """Return whether all records lie on one side of zero, zeros among them or not."""
    # The first bin may hold zeros: it begins half a step of the quantiser below them.
    edges = marginal.data_edges
    return bool(edges[hull.first + 1] > 0.0 or edges[hull.stop] < 0.0)


def _find_resolution(marginal: Marginal, hull: Hull) -> float:
    """Choose r of the logarithmic scale: that of the pilot, or near zero a larger one.

    Zeros are some tens of octaves from all other values on a scale that is to fit any unit. With r
    at the lower end of the others they are about one octave from them. Where values have both
    signs, most of them are to lie where the scale is nearly linear, and their tails on its octaves.
    """
    assert marginal.resolution is not None
    edges = marginal.data_edges
    if not _has_sign(marginal, hull):
        found = max(map(abs, estimate_quantiles(marginal, _QUARTILES)))
    elif edges[hull.first] > 0.0 or edges[hull.stop] < 0.0:
        return marginal.resolution
    else:
        zeros = float(np.clip(marginal.bins[hull.first] / marginal.n_present, 0.0, 1.0))
        (found,) = estimate_quantiles(marginal, [zeros + _LOW_END * (1.0 - zeros)])
    if not math.isfinite(found) or found <= marginal.resolution:
        return marginal.resolution
    # One digit: the rest would be noise.
    return float(f"{found:.0e}")


def _find_window(edges: Floats, hull: Hull) -> slice:
    """Return the bins of the hull, extended by a quarter of its length on a scale."""
    margin = (edges[hull.stop] - edges[hull.first]) / 4.0
    first = int(np.searchsorted(edges, edges[hull.first] - margin))
    stop = int(np.searchsorted(edges, edges[hull.stop] + margin))
    n_bins = edges.size - 1
    return slice(max(0, min(hull.first - 2, first)), min(n_bins, max(hull.stop + 2, stop)))


def edges_on(marginal: Marginal, resolution: float | None) -> Floats:
    """Return the edges of the bins on a scale."""
    return marginal.data_edges if resolution is None else compress(marginal.data_edges, resolution)


def count_chances(n_bins: int) -> float:
    """Return the negative logarithm of the chance of a hump that only noise has made."""
    return math.log(4.0 * n_bins / FALSE_ALARM)


def explains_more(plain: Humps, bent: Humps, exponent: float) -> bool:
    """Return whether fewer humps describe a dimension better on the logarithmic scale."""
    # A hump costs what a wide one has to gain; the rest is twice the logarithm of a likelihood.
    cost = 2.0 * exponent * (plain.weights.size - bent.weights.size)
    return plain.misfit - bent.misfit + cost > 2.0 * math.log(1.0 / FALSE_ALARM)
