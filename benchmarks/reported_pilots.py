"""Pilots of devices with one record each: calibration of a main study from reports of bins.

Run as ``python -m benchmarks.reported_pilots [--quick] [--json]``. Each device reports the bin of
its one number, which lies anywhere in 80 octaves, by the plan of ``sfumato plan pilot``. Columns of
eight kinds are calibrated by themselves. ``worst_spread_ratio`` and ``median_spread_ratio`` are of
the found standard deviation to that of the records on the same scale, or its reciprocal where that
is larger; a search box should hold the records, and ``least_share_inside`` is the smallest share
that one did. The strength of a case is in its name; below 200 a pilot is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, run_benchmark
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.learning.calibration.reported import calibrate_reported
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.learning.planning.pilots import PilotOutline, plan_pilot
from sfumato.shared.core.logarithm import compress
from sfumato.shared.plan import HistogramPart, SketchPlan, WindowRule
from sfumato.shared.privacy.mechanisms.bins import BinReports

NAME = "reported_pilots"
CASES = ((1, 2_500), (1, 6_000), (1, 10_000), (1, 100_000), (3, 3_000), (3, 10_000))
_QUICK_CASES = ((1, 10_000),)
_RUNS, _QUICK_RUNS = 10, 1

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

COLUMNS: Mapping[str, Draw] = {
    "one hump": lambda rng, n: rng.normal(20.0, 5.0, n),
    "round zero": lambda rng, n: rng.normal(0.0, 1.0, n),
    "small": lambda rng, n: rng.normal(0.003, 0.001, n),
    "two humps": lambda rng, n: _mix(rng, 0.6, rng.normal(5.0, 1.0, n), rng.normal(50.0, 6.0, n)),
    "octaves": lambda rng, n: np.exp(rng.normal(3.0, 1.5, n)),
    "counts": lambda rng, n: rng.poisson(4.0, n).astype(np.float64),
    "missing": lambda rng, n: _mix(rng, 0.8, rng.normal(-70.0, 10.0, n), np.full(n, np.nan)),
    "narrow": lambda rng, n: rng.normal(200.0, 8.0, n),
}
"""Kinds of columns; the last is narrower than two bins, so that its spread is a guess."""


def _mix(rng: np.random.Generator, share: float, first: Floats, second: Floats) -> Floats:
    return np.where(rng.random(len(first)) < share, first, second)


def plan_phones(epsilon: int, n_devices: int) -> SketchPlan:
    """Plan the pilot of devices with a number each, as ``sfumato plan pilot`` does."""
    outline = PilotOutline(
        dimensions=parse_columns(["x:1"]),
        n_records=n_devices,
        n_sketches=n_devices,
        epsilon=Fraction(epsilon),
        delta=Fraction(0),
        shares_records=False,
        window=WindowRule(kind="time", length_s=86400),
    )
    return plan_pilot(outline).plan


def report(plan: SketchPlan, values: Floats, rng: np.random.Generator) -> ReportedMarginal:
    """Let each device report the bin of its number."""
    assert isinstance(plan.statistic, HistogramPart)
    assert isinstance(plan.mechanism, BinReports)
    whole, law = plan.statistic.build_whole(plan.space), plan.mechanism.law
    marginal = ReportedMarginal(
        name="x",
        reports=np.ones(law.circle),
        law=law,
        edges=whole.compute_edges(0),
        resolution=whole.encodings[0].resolution,
    )
    places = np.argsort(whole.arrange_bins(0))[whole.find_bins(values, 0)]
    offsets = rng.choice(law.circle, len(values), p=marginal.kernel)
    reports = np.bincount((places + offsets) % law.circle, minlength=law.circle)
    return replace(marginal, reports=reports.astype(np.float64))


def measure(quick: bool) -> Iterator[Row]:
    """Yield the rows of each case and kind of column."""
    runs = _QUICK_RUNS if quick else _RUNS
    for epsilon, n_devices in _QUICK_CASES if quick else CASES:
        plan = plan_phones(epsilon, n_devices)
        for place, (name, draw) in enumerate(COLUMNS.items()):
            ratios, inside, strength = [], [], 0.0
            for seed in range(runs):
                rng = np.random.default_rng((seed, place))
                values = draw(rng, n_devices)
                marginal = report(plan, values, rng)
                column, strength = calibrate_reported(marginal), marginal.strength
                seen = values[np.isfinite(values)]
                scaled = seen if column.resolution is None else compress(seen, column.resolution)
                ratio = column.spread / float(scaled.std())
                ratios.append(max(ratio, 1.0 / ratio))
                held = (column.search_lower <= seen) & (seen <= column.search_upper)
                inside.append(float(np.mean(held)))
            case = f"n={n_devices:.0e} eps={epsilon} x={strength:.0f} {name}"
            for figure, value in (
                ("median_spread_ratio", float(np.median(ratios))),
                ("worst_spread_ratio", max(ratios)),
                ("least_share_inside", min(inside)),
            ):
                yield Row(
                    benchmark=NAME,
                    case=case,
                    figure=figure,
                    value=value,
                    unit="1",
                    runs=runs,
                    baseline="the records",
                )


if __name__ == "__main__":
    run_benchmark(NAME, "Calibration from reports of bins.", measure)
