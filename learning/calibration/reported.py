"""Calibration of one dimension from reports of bins.

A report moves a record's bin by a random offset, over a third of the circle at epsilon 1. Bins that
are estimated from reports have errors that depend on each other and grow without bound as bins
shrink, so nothing is read off them. Normals are fitted to the reports themselves instead: what
reports of normal records would be is known exactly, and a report has an independent error whose
variance is that of a count. This weighs the estimated bins by the inverse of the covariance of
their errors, without computing either.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.learning.calibration.columns import Column, describe_coverage, make_column
from sfumato.learning.calibration.hull import FALSE_ALARM, Hull
from sfumato.learning.calibration.humps import Humps, bin_normals, fit_humps, need_gain
from sfumato.learning.calibration.scales import (
    LEAST_OCTAVES,
    SEEN,
    View,
    count_chances,
    explains_more,
)
from sfumato.learning.estimate.histogram import BinNoise, Floats
from sfumato.learning.estimate.reports import ReportedMarginal, convolve

_TAIL = 0.005
"""Share of the fitted records that may lie beyond each end of the hull."""
_WHITE = BinNoise(variance=1.0, is_gaussian=True)


def calibrate_reported(marginal: ReportedMarginal) -> Column:
    """Calibrate one dimension from reports of its bins; deterministic."""
    exponent = count_chances(marginal.bins.size)
    plain = _fit(marginal, marginal.data_edges, exponent)
    view, hull = _find_view(marginal, plain, marginal.data_edges, None, exponent)
    if marginal.resolution is not None and not hull.is_weak:
        bent = _fit(marginal, marginal.edges, exponent)
        on_log = _find_view(marginal, bent, marginal.edges, marginal.resolution, exponent)
        first, last = marginal.data_edges[[on_log[1].first, on_log[1].stop]]
        has_sign = first > 0.0 or last < 0.0
        if has_sign and bent.spread > LEAST_OCTAVES and explains_more(plain, bent, exponent):
            view, hull = on_log
    inner = bin_normals(
        marginal.data_edges if view.resolution is None else marginal.edges,
        view.humps.means,
        view.humps.deviations,
    )
    beyond = 1.0 - float(np.sum(view.humps.weights @ inner))
    missing = view.humps.rest if view.humps.rest > SEEN * marginal.deviation else 0.0
    findings = describe_coverage(beyond, marginal.deviation, missing)
    return make_column(marginal, view, hull, findings, missing_share=missing)


def _fit(marginal: ReportedMarginal, edges: Floats, exponent: float) -> Humps:
    """Fit normals on a scale to the reports; records without a value are in none of them."""
    spectrum, deviations = np.fft.rfft(marginal.kernel), _find_deviations(marginal)
    all_edges = np.concatenate([[-np.inf], edges, [np.inf]])

    def observe(means: Floats, widths: Floats) -> Floats:
        below, *_ = binned = bin_normals(all_edges, means, widths).T
        places = np.vstack([binned[1:], np.zeros_like(below), below]).T
        seen: Floats = convolve(places, spectrum) / deviations
        return seen

    is_missing = np.zeros(marginal.law.circle)
    is_missing[-2] = 1.0
    return fit_humps(
        marginal.reports / marginal.n_records / deviations,
        edges,
        deviation=1.0,
        exponent=exponent,
        noise=_WHITE,
        observe=observe,
        rest=convolve(is_missing, spectrum) / deviations,
    )


def _find_deviations(marginal: ReportedMarginal) -> Floats:
    """Return the standard deviation of the share of reports of each place."""
    expected = convolve(marginal.shares, np.fft.rfft(marginal.kernel))
    deviations: Floats = np.sqrt(expected / marginal.n_records)
    return deviations


def _find_view(
    marginal: ReportedMarginal,
    humps: Humps,
    edges: Floats,
    resolution: float | None,
    exponent: float,
) -> tuple[View, Hull]:
    """Return the bins that hold 99 % of the fitted records, as a view and a hull."""
    n_bins, n = marginal.bins.size, marginal.n_records
    inside = np.cumsum(humps.bin(edges))
    first = int(np.searchsorted(inside, _TAIL * inside[-1]))
    stop = int(np.searchsorted(inside, (1.0 - _TAIL) * inside[-1])) + 1
    first, stop = min(first, n_bins - 1), min(max(stop, first + 1), n_bins)
    # What a uniform distribution of the records over the circle would leave.
    even = (marginal.reports / n - 1.0 / marginal.law.circle) / _find_deviations(marginal)
    gain = float(even @ even) - humps.misfit
    arc = (2 * marginal.law.arc + 1) / marginal.law.circle
    chance = math.sqrt(2.0 * math.log(2.0 * marginal.law.circle / FALSE_ALARM))
    hull = Hull(
        first=first,
        stop=stop,
        is_weak=gain < need_gain(_WHITE, 1.0, exponent),
        least_share=min(1.0, chance * marginal.deviation / (1.0 - arc)),
    )
    view = View(
        humps=humps, first=float(edges[first]), last=float(edges[stop]), resolution=resolution
    )
    return view, hull
