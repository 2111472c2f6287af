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
from fractions import Fraction

import numpy as np

from benchmarks.local import report_bins
from benchmarks.runner import Bench, Row, make_rows, run
from sfumato.analyst.planning.pilots import parse_columns
from sfumato.learning.calibration.reported import calibrate_reported
from sfumato.learning.estimate.reports import ReportedMarginal
from sfumato.learning.planning.pilots import PilotOutline, plan_pilot
from sfumato.shared.arrays import Floats
from sfumato.shared.core.logarithm import compress
from sfumato.shared.plan import SketchPlan, WindowRule

NAME = "reported_pilots"
CASES = ((1, 2_500), (1, 6_000), (1, 10_000), (1, 100_000), (3, 3_000), (3, 10_000))
_QUICK_CASE = (1, 10_000)
_RUNS = 10

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
    return report_bins(
        plan, values, lambda found, n: rng.choice(found.law.circle, n, p=found.kernel)
    )


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each case and kind of column."""
    for epsilon, n_devices in CASES:
        is_quick = (epsilon, n_devices) == _QUICK_CASE
        for place, name in enumerate(COLUMNS):
            if bench.includes(f"n={n_devices:.0e} eps={epsilon} {name}", in_quick=is_quick):
                yield from _measure_column(bench, epsilon, n_devices, place)


def _measure_column(bench: Bench, epsilon: int, n_devices: int, place: int) -> Iterator[Row]:
    plan, (name, draw) = plan_phones(epsilon, n_devices), list(COLUMNS.items())[place]
    ratios, inside, seeds = [], [], bench.list_seeds(_RUNS, 1, first=0)
    for seed in seeds:
        rng = np.random.default_rng((seed, place))
        values = draw(rng, n_devices)
        marginal = report(plan, values, rng)
        column = calibrate_reported(marginal)
        seen = values[np.isfinite(values)]
        scaled = seen if column.resolution is None else compress(seen, column.resolution)
        ratio = column.spread / float(scaled.std())
        ratios.append(max(ratio, 1.0 / ratio))
        inside.append(np.mean((column.search_lower <= seen) & (seen <= column.search_upper)))
    case = f"n={n_devices:.0e} eps={epsilon} x={marginal.strength:.0f} {name}"
    figures = (
        ("median_spread_ratio", np.median(ratios)),
        ("worst_spread_ratio", max(ratios)),
        ("least_share_inside", min(inside)),
    )
    yield from make_rows(NAME, case, figures, runs=len(seeds), baseline="the records")


if __name__ == "__main__":
    run(NAME, __doc__, measure)
