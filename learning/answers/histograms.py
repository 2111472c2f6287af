"""Answers of histograms: marginals, and the calibration of a main study from a pilot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sfumato.learning.calibration.calibration import calibrate
from sfumato.learning.calibration.hull import Hull, find_hull
from sfumato.learning.calibration.strength import LEAST_STRENGTH
from sfumato.learning.calibration.words import describe_columns, describe_limits, describe_refusal
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.histogram import (
    QUANTILES,
    BinNoise,
    Marginal,
    QuantileBands,
    estimate_bands,
    estimate_quantiles,
    find_critical,
)
from sfumato.learning.estimate.reports import ReportedMarginal, bound_distribution
from sfumato.learning.estimate.studies import (
    LevelShares,
    read_study_levels,
    read_study_numbers,
)
from sfumato.learning.estimate.totals import Totals
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.answers import describe_promise
from sfumato.shared.wire.objects.statistics import (
    BarBody,
    CalibrationBody,
    HistogramBody,
    LevelBody,
    MarginalBody,
    QuantileBody,
    make_calibration,
)

MOST_BARS = 64
_STANDS_OUT = 2.0
_FALSE_ALARM = 0.05
"""Probability that noise alone parts a bar of a dimension from the empty stretch before it."""
_SEED = 0
"""Quantile bands are simulated from public numbers; the same ones every time."""
_LARGEST_ERROR = math.sqrt(8.0) / LEAST_STRENGTH
"""Noise of a bin, as a share of the records, from which a pilot is too weak to calibrate from."""
_MISSING_SHARE, _BEYOND_SHARE = 0.05, 0.02
_SURE = 3.0


def describe_histogram(
    plan: SketchPlan, totals: Totals, *, snapshot_id: str, most_bars: int = MOST_BARS
) -> HistogramBody:
    """Return the marginals of some sketches.

    Parameters
    ----------
    plan, totals
        The plan, and the exact sums over the sketches.
    snapshot_id
        64 hexadecimal digits that name these sums.
    most_bars
        The largest number of bars of a dimension.

    Raises
    ------
    WrongStatisticError
        The plan has no histogram.
    DecodingError
        No bar is asked for.
    """
    if not 1 <= most_bars <= 1 << 12:
        raise DecodingError("must be 1 to 4096", field="bars", fix="use 64")
    found: list[Marginal | ReportedMarginal | LevelShares] = [
        *read_study_levels(plan, totals),
        *read_study_numbers(plan, totals),
    ]
    n_records = count_records(plan, totals).n_records
    by_name = {each.name: each for each in found}
    marginals = [
        _describe_marginal(by_name[each.name], each.unit, most_bars, n_records)
        for each in plan.dimensions
        if each.name in by_name
    ]
    return HistogramBody(
        snapshot_id=snapshot_id,
        n_sketches=totals.n_sketches,
        n_records=n_records,
        marginals=marginals,
        privacy=describe_promise(plan),
    )


def _describe_marginal(
    found: Marginal | ReportedMarginal | LevelShares, unit: str, most_bars: int, n_records: int
) -> MarginalBody:
    if isinstance(found, LevelShares):
        return _describe_levels(found, n_records)
    if isinstance(found, ReportedMarginal):
        return _describe_reported(found, unit, most_bars)
    return _describe_number(found, unit, most_bars)


def _describe_reported(marginal: ReportedMarginal, unit: str, most_bars: int) -> MarginalBody:
    """Describe estimated shares; each error is a deviation among replicas of the estimate."""
    bands = bound_distribution(marginal)
    replicas = marginal.draw_replicas(np.random.default_rng(_SEED))
    n_bins = marginal.bins.size
    cuts = range(0, n_bins, -(-n_bins // most_bars))
    shares = np.add.reduceat(marginal.bins, cuts)
    errors = np.add.reduceat(replicas[:, :n_bins], cuts, axis=1).std(axis=0)
    edges = marginal.data_edges[[*cuts, n_bins]]
    return MarginalBody(
        name=marginal.name,
        unit=unit,
        scale="linear" if marginal.resolution is None else "log",
        n_records=marginal.n_records,
        bars=[
            BarBody(lower=float(low), upper=float(high), share=float(share), error=float(error))
            for low, high, share, error in zip(edges, edges[1:], shares, errors, strict=False)
        ],
        seen_lower=float(edges[0]),
        seen_upper=float(edges[-1]),
        quantiles=_describe_quantiles(bands, map(marginal.find_quantile, QUANTILES)),
        levels=[],
        below=marginal.below,
        above=marginal.above,
        missing=marginal.missing,
        error=float(replicas[:, n_bins:].std(axis=0).max()),
    )


def _describe_quantiles(bands: QuantileBands, estimates: Iterable[float]) -> list[QuantileBody]:
    found = []
    for share, estimate in zip(QUANTILES, estimates, strict=True):
        low, high = bands.find_quantile(share)
        value = min(max(estimate, low), high)
        is_inside = bands.edges[0] < value < bands.edges[-1]
        found.append(
            QuantileBody(
                share=share,
                value=value if is_inside else None,
                low=_or_none(low),
                high=_or_none(high),
            )
        )
    return found


def _describe_number(marginal: Marginal, unit: str, most_bars: int) -> MarginalBody:
    n, noise = marginal.n_records, marginal.noise
    critical = _find_critical(noise, marginal.bins.size + 3)
    bands = estimate_bands(marginal, critical=critical)
    hull = find_hull(marginal)
    ends = [float(end) for end in marginal.data_edges[[hull.first, hull.stop]]]
    return MarginalBody(
        name=marginal.name,
        unit=unit,
        scale="linear" if marginal.resolution is None else "log",
        n_records=n,
        bars=list(_join_bins(marginal, hull, most_bars)),
        seen_lower=None if hull.is_weak else ends[0],
        seen_upper=None if hull.is_weak else ends[1],
        quantiles=_describe_quantiles(bands, estimate_quantiles(marginal, QUANTILES)),
        levels=[],
        below=marginal.below / n,
        above=marginal.above / n,
        missing=marginal.missing / n,
        error=noise.deviation / n,
    )


@lru_cache(maxsize=64)
def _find_critical(noise: BinNoise, n_bins: int) -> float:
    """Simulate it once for all dimensions of equal noise, and for every later look."""
    return find_critical(noise, n_bins, np.random.default_rng(_SEED))


def _join_bins(marginal: Marginal, hull: Hull, most_bars: int) -> Iterator[BarBody]:
    """Join bins until each bar stands out from its noise; those beyond the hull are two bars.

    A stretch that does not stand out is a bar of its own where what follows surely does.
    """
    width = -(-hull.width // most_bars)
    cuts = {0, marginal.bins.size, *range(hull.first, hull.stop, width), hull.stop}
    sure = marginal.noise.bound(np.array(float(width)), math.log(len(cuts) / _FALSE_ALARM))
    sums = np.concatenate([[0.0], np.cumsum(marginal.bins)])
    edges, n, noise = marginal.data_edges, marginal.n_records, marginal.noise.deviation

    def rise(start: int, stop: int) -> float:
        """Return by how many deviations of its noise a stretch stands out."""
        return float(sums[stop] - sums[start]) / (noise * math.sqrt(stop - start))

    def bar(start: int, stop: int) -> BarBody:
        return BarBody(
            lower=float(edges[start]),
            upper=float(edges[stop]),
            share=float(sums[stop] - sums[start]) / n,
            error=noise * math.sqrt(stop - start) / n,
        )

    start = 0
    for before, stop in pairwise(sorted(cuts)):
        is_sure = stop - before <= width and sums[stop] - sums[before] > float(sure)
        if before > start and is_sure and rise(before, stop) > rise(start, stop):
            yield bar(start, before)
            start = before
        is_end = stop in (hull.first, hull.stop, marginal.bins.size)
        if is_end or rise(start, stop) >= _STANDS_OUT:
            yield bar(start, stop)
            start = stop


def _describe_levels(shares: LevelShares, n_records: int) -> MarginalBody:
    return MarginalBody(
        name=shares.name,
        unit=shares.unit,
        scale="levels",
        n_records=float(n_records),
        bars=[],
        seen_lower=None,
        seen_upper=None,
        quantiles=[],
        levels=[
            LevelBody(level=level, share=float(share), error=shares.error)
            for level, share in zip(shares.levels, shares.shares, strict=True)
        ],
        below=0.0,
        above=0.0,
        missing=shares.missing,
        error=shares.error,
    )


def describe_calibration(
    plan: SketchPlan, totals: Totals, *, snapshot_id: str, n_clusters: tuple[int, int]
) -> CalibrationBody:
    """Return what a pilot says about the plan of a main study.

    Parameters
    ----------
    plan, totals, snapshot_id
        As for :func:`describe_histogram`.
    n_clusters
        Least and largest number of clusters.

    Raises
    ------
    WrongStatisticError
        The plan has no histogram.
    DecodingError
        It has no number, or the numbers of clusters are out of range.
    """
    found = calibrate(read_study_numbers(plan, totals), n_clusters=n_clusters)
    n_records, refusals = count_records(plan, totals).n_records, list[str]()
    if found.refusal is not None:
        epsilon = float(plan.release.epsilon)
        refusals.append(describe_refusal(found.refusal, n_records=n_records, epsilon=epsilon))
    return make_calibration(
        found,
        describe_columns(found, {each.name: each.unit for each in plan.dimensions}),
        snapshot_id=snapshot_id,
        n_records=n_records,
        n_clusters=list(n_clusters),
        refusal=next(iter(refusals), None),
        limits=[*refusals, *describe_limits(found)],
        privacy=describe_promise(plan),
    )


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def find_histogram_doubts(answer: HistogramBody) -> list[str]:
    """Return the doubts about marginals, a clause each; none where they can be read as they are."""
    found = [f"{each.name}: {doubt}" for each in answer.marginals for doubt in _doubt(each)]
    if not answer.marginals:
        found.append("no sketch carries a dimension clearly, so nothing is shown")
    return found


def _doubt(marginal: MarginalBody) -> Iterator[str]:
    if marginal.error > _LARGEST_ERROR:
        yield (
            f"noise of {marginal.error:.1%} of the records in each bin, more than "
            f"{_LARGEST_ERROR:.1%}, hides all but the largest differences"
        )
    sure = _SURE * marginal.error
    if marginal.missing > _MISSING_SHARE + sure:
        yield f"{marginal.missing:.0%} of the records have no value"
    beyond = marginal.below + marginal.above
    if beyond > _BEYOND_SHARE + math.sqrt(2.0) * sure:
        yield f"{beyond:.0%} of the records lie beyond the bounds, where nothing tells how far"
    if marginal.levels and all(each.share < sure for each in marginal.levels):
        yield "no level stands out from the noise"
