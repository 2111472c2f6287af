"""Inputs of the answers of histograms and moments, from the exact sums of a study."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.estimate.counts import RecordCount, count_records
from sfumato.learning.estimate.histogram import BinNoise, Marginal, read_marginals
from sfumato.learning.estimate.moments import PrincipalComponents, estimate_components
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.learning.estimate.totals import Totals
from sfumato.shared.core import MomentsStatistic
from sfumato.shared.errors import DecodingError, WrongStatisticError
from sfumato.shared.plan import HistogramPart, MomentsPart, SketchPlan
from sfumato.shared.privacy import CircularLaw
from sfumato.shared.privacy.mechanisms.bins import BinReports

_GAUSSIAN = "discrete-gaussian"


@dataclass(frozen=True, kw_only=True)
class LevelShares:
    """Shares of the levels of a categorical dimension.

    Parameters
    ----------
    name, unit
        Name and unit of the dimension.
    levels
        Its levels.
    shares, missing
        Shares of the records, noise included; that of other and missing values.
    error
        Standard deviation of the noise of a share.
    n_records
        n of the sketches that carry the dimension.
    noise
        Noise of a count; None where devices report levels.
    """

    name: str
    unit: str
    levels: tuple[str, ...]
    shares: NDArray[np.float64]
    missing: float
    error: float
    n_records: float
    noise: BinNoise | None


def read_study_marginals(plan: SketchPlan, totals: Totals) -> tuple[Marginal, ...]:
    """Read the marginals of a study's numbers; dimensions that no sketch carries are left out.

    Raises
    ------
    WrongStatisticError
        The plan has no histogram.
    DecodingError
        Devices report bins; see :func:`read_study_reports`.
    """
    part = _require_histogram(plan)
    if plan.reports_phases:
        raise DecodingError(
            "must be local.v1 for this: reports of bins have no noise of each bin by itself",
            field="release",
            fix="read its reports, or its histogram answer",
        )
    noises, numbers = _measure_dimensions(plan, totals)
    known = [i for i in range(plan.n_dimensions) if numbers[i] > 0]
    statistic = part.build_whole(plan.space)
    marginals = read_marginals(
        statistic,
        [dimension.name for dimension in plan.dimensions],
        sums=totals.sums[: statistic.n_coordinates],
        # Those that nobody carries are dropped below, and must be readable.
        n_records=[max(1.0, number) for number in numbers],
        noises=noises,
    )
    names = {plan.dimensions[i].name for i in known}
    return tuple(marginal for marginal in marginals if marginal.name in names)


def read_study_numbers(plan: SketchPlan, totals: Totals) -> tuple[Marginal | ReportedMarginal, ...]:
    """Read a study's numbers in whichever form devices release them; raises as for marginals."""
    if plan.reports_phases:
        return read_study_reports(plan, totals)
    return read_study_marginals(plan, totals)


def read_study_reports(plan: SketchPlan, totals: Totals) -> tuple[ReportedMarginal, ...]:
    """Read the reports of a study's numbers; dimensions that nobody reports are left out.

    There are none where devices release counts.

    Raises
    ------
    WrongStatisticError
        The plan has no histogram.
    """
    part = _require_histogram(plan)
    law = _find_law(plan)
    if law is None or plan.dimensions[0].is_categorical:
        return ()
    whole, found = part.build_whole(plan.space), []
    for i, dimension in enumerate(plan.dimensions):
        counts = totals.sums[whole.bins[i]][list(whole.arrange_bins(i))]
        if counts.any():
            marginal = ReportedMarginal(
                name=dimension.name,
                reports=counts.astype(np.float64),
                law=law,
                edges=whole.compute_edges(i),
                resolution=whole.encodings[i].resolution,
            )
            found.append(marginal)
    return tuple(found)


def read_study_levels(plan: SketchPlan, totals: Totals) -> tuple[LevelShares, ...]:
    """Read the shares of the levels of a study's categories; raises as for marginals."""
    part = _require_histogram(plan)
    noises, numbers = _measure_dimensions(plan, totals)
    bins, law = part.build_whole(plan.space).bins, _find_law(plan)
    found = []
    for i, dimension in enumerate(plan.dimensions):
        if not dimension.is_categorical or not numbers[i]:
            continue
        counts = totals.sums[bins[i]].astype(np.float64) / numbers[i]
        error = noises[i].deviation / numbers[i]
        if law is not None:
            counts, error = _invert_response(counts, law, numbers[i])
        found.append(
            LevelShares(
                name=dimension.name,
                unit=dimension.unit,
                levels=dimension.levels,
                shares=counts[:-1],
                missing=float(counts[-1]),
                error=error,
                n_records=numbers[i],
                noise=noises[i] if law is None else None,
            )
        )
    return tuple(found)


def estimate_study_components(plan: SketchPlan, totals: Totals) -> PrincipalComponents:
    """Estimate the principal components of a study, in units of the bounds' half widths.

    Raises
    ------
    WrongStatisticError
        The plan has no moments.
    DecodingError
        There are too few records.
    """
    if not isinstance(plan.statistic, MomentsPart):
        raise _wrong("moments", plan)
    statistic = plan.statistic_of(b"")
    assert isinstance(statistic, MomentsStatistic)
    count = count_records(plan, totals)
    return estimate_components(
        totals.sums[: statistic.n_coordinates],
        statistic,
        noise_variance=totals.n_sketches * plan.released_variance,
        n_records=float(count.n_records),
        n_records_variance=count.standard_error**2,
    )


def _find_law(plan: SketchPlan) -> CircularLaw | None:
    """Return the law of reports of bins; None where devices release counts."""
    mechanism = plan.mechanism
    return mechanism.law if isinstance(mechanism, BinReports) else None


def _invert_response(
    reported: NDArray[np.float64], law: CircularLaw, n_records: float
) -> tuple[NDArray[np.float64], float]:
    """Return unbiased shares of levels, and the root mean square of their errors.

    The share s of a level is reported with probability ``g s + (1 - g) / Q``: g of the reports
    are the record's level, and the others uniform.
    """
    gain = law.reach
    shares: NDArray[np.float64] = (reported - (1.0 - gain) / law.circle) / gain
    variance = float(np.mean(reported * (1.0 - reported))) / n_records
    return shares, math.sqrt(variance) / gain


def _measure_dimensions(plan: SketchPlan, totals: Totals) -> tuple[list[BinNoise], list[float]]:
    """Return the noise of a bin, and the number of records, of each dimension."""
    count: RecordCount = count_records(plan, totals)
    sketches = totals.moments.floats[0]
    block_of = plan.blocks.block_of.tolist()
    is_gaussian = plan.release.mechanism == _GAUSSIAN
    noises = [
        BinNoise(
            variance=max(1.0, float(sketches[b])) * plan.released_variance,
            n_sums=max(1, int(sketches[b])) * plan.n_noises,
            is_gaussian=is_gaussian,
        )
        for b in block_of
    ]
    known = count.is_known
    return noises, [float(count.by_block[b]) if known[b] else 0.0 for b in block_of]


def _require_histogram(plan: SketchPlan) -> HistogramPart:
    if not isinstance(plan.statistic, HistogramPart):
        raise _wrong("histogram", plan)
    return plan.statistic


def _wrong(needed: str, plan: SketchPlan) -> WrongStatisticError:
    return WrongStatisticError(
        f"must be {needed} for this and is {plan.kind}",
        field="statistic.kind",
        fix=f"use a study whose plan has the statistic {needed}",
    )
