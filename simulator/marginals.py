"""The outcome of a simulated histogram: its marginals beside those of the records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from rich.table import Table

from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.analyst.cli.options import make_table
from sfumato.learning.estimate.histogram import Marginal, estimate_distribution
from sfumato.learning.estimate.reports import ReportedMarginal, accumulate
from sfumato.learning.estimate.studies import LevelShares, read_study_levels, read_study_numbers
from sfumato.shared.arrays import Floats
from sfumato.shared.core import HistogramStatistic
from sfumato.shared.core.logarithm import expand
from sfumato.shared.plan import HistogramPart, SketchPlan, make_statement
from sfumato.simulator.fleet import Tally
from sfumato.simulator.records import FleetRecords

_COMPARED = 200_000
"""Records that the marginals are compared with; more would not change the figures."""
_REPLICAS = 40
_QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, kw_only=True)
class ColumnOutcome:
    """One dimension of a simulated histogram.

    Parameters
    ----------
    name, unit
        Name and unit of the dimension.
    n_records
        Records that its counts or reports are of; None for a category.
    error, expected_error
        The largest difference between the estimated and the true share of the records at or below
        a bin's edge, or of a level; and what noise and sampling make of it in the mean.
    quartiles, true_quartiles
        Quartiles of the estimate and of the records, data units; empty for a category.
    """

    name: str
    unit: str
    error: float
    expected_error: float
    n_records: float | None = None
    quartiles: tuple[float, ...] = ()
    true_quartiles: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HistogramOutcome:
    """What a fleet sent, and the marginals that were recovered from it.

    Parameters
    ----------
    plan, tally, columns
        The plan, what the server received, and its dimensions.
    n_records, n_compared
        Records of all devices, and those that the marginals were compared with.
    sketch_seconds, answer_seconds
        Wall time of all devices and checks, and of the answer.
    """

    plan: SketchPlan
    tally: Tally
    columns: tuple[ColumnOutcome, ...]
    n_records: int
    n_compared: int
    sketch_seconds: float
    answer_seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        tally = self.tally
        return {
            "columns": [asdict(column) for column in self.columns],
            "devices": tally.n_devices,
            "records": self.n_records,
            "records_compared": self.n_compared,
            "sketches": tally.n_sketches,
            "refused": tally.refusals,
            "payload_bytes": tally.payload_bytes,
            "message_bytes": tally.message_bytes,
            "epsilon": str(self.plan.release.epsilon),
            "delta": str(self.plan.release.delta),
            "sketch_seconds": self.sketch_seconds,
            "answer_seconds": self.answer_seconds,
        }

    def tabulate(self) -> Table:
        """Return the marginals as a table: estimates, and in brackets what is true."""
        figures = ("records", "25 %", "median", "75 %", "error", "expected")
        table = make_table("dimension", figures=figures, title="estimated (true)", has_box=True)
        for column in self.columns:
            pairs = zip(column.quartiles, column.true_quartiles, strict=True)
            cells = [f"{found:.4g} ({true:.4g})" for found, true in pairs] or [""] * 3
            table.add_row(
                f"{column.name} ({column.unit})",
                "" if column.n_records is None else f"{column.n_records:,.0f}",
                *cells,
                f"{column.error:.2%}",
                f"{column.expected_error:.2%}",
            )
        return table

    def describe(self) -> Iterator[tuple[str, str]]:
        """Yield names and descriptions."""
        tally, n = self.tally, max(1, self.tally.n_sketches)
        yield from (("refused", f"{count:,} x {what}") for what, count in tally.refusals.items())
        yield (
            "error",
            "the largest difference of the share of the records at or below a value, or of a "
            f"level, from that of {self.n_compared:,} raw records, which only a simulation can "
            "know; beside it what noise and sampling make in the mean",
        )
        yield (
            "devices",
            f"{tally.n_devices:,} with {self.n_records:,} records; {tally.n_sketches:,} sketches "
            f"accepted, of {tally.payload_bytes / n:.6g} bytes, {tally.message_bytes / n:.0f} with "
            "header and signature",
        )
        yield "guarantee", make_statement(self.plan).guarantee
        rate = tally.n_sketches / max(self.sketch_seconds, 1e-9)
        yield (
            "time",
            f"{self.sketch_seconds:.1f} s for devices and checks ({rate:,.0f} sketches a second), "
            f"{self.answer_seconds:.1f} s for the answer",
        )


def answer_fleet(
    plan: SketchPlan,
    records: FleetRecords,
    tally: Tally,
    totals: SketchTotals,
    *,
    seed: int,
    sketch_seconds: float,
) -> HistogramOutcome:
    """Estimate the marginals of what a fleet sent, and compare them with the raw records.

    Raises
    ------
    WrongStatisticError
        The plan has no histogram.
    """
    start = time.monotonic()
    found: list[Marginal | ReportedMarginal | LevelShares] = [
        *read_study_numbers(plan, totals),
        *read_study_levels(plan, totals),
    ]
    assert isinstance(plan.statistic, HistogramPart)
    whole = plan.statistic.build_whole(plan.space)
    sample, rng = _take_sample(records, tally.n_devices), np.random.default_rng(seed)
    n_records = tally.n_devices * records.n_records
    names = [dimension.name for dimension in plan.dimensions]
    columns = {}
    for marginal in found:
        i = names.index(marginal.name)
        column = _compare(marginal, whole, i, sample[:, i], n_records, rng)
        columns[i] = replace(column, unit=plan.dimensions[i].unit)
    return HistogramOutcome(
        plan=plan,
        tally=tally,
        columns=tuple(columns[i] for i in sorted(columns)),
        n_records=n_records,
        n_compared=len(sample),
        sketch_seconds=sketch_seconds,
        answer_seconds=time.monotonic() - start,
    )


def _take_sample(records: FleetRecords, n_devices: int) -> Floats:
    """Return the records of devices spread over the fleet: shape ``(n, d)``."""
    wanted = max(1, min(n_devices, _COMPARED // records.n_records))
    step = max(1, n_devices // wanted)
    return np.concatenate([records.load(i, i + 1)[0] for i in range(0, n_devices, step)])


def _compare(
    found: Marginal | ReportedMarginal | LevelShares,
    whole: HistogramStatistic,
    dimension: int,
    column: Floats,
    n_records: int,
    rng: np.random.Generator,
) -> ColumnOutcome:
    bins = whole.find_bins(column, dimension)
    counts = np.bincount(bins, minlength=whole.count_bins(dimension))
    if isinstance(found, LevelShares):
        true = counts[:-1] / len(column)
        drawn = rng.normal(0.0, found.error, (_REPLICAS, true.size))
        return ColumnOutcome(
            name=found.name,
            unit=found.unit,
            error=_measure(found.shares - true),
            expected_error=float(np.mean(np.max(np.abs(drawn), axis=1))),
        )
    *inner, below, above, _ = counts
    left = below + np.concatenate([[0], np.cumsum(inner)])
    true = left / max(1, left[-1] + above)
    if isinstance(found, ReportedMarginal):
        estimate = found.distribution
        replicas = list(accumulate(found.draw_replicas(rng)))
    else:
        estimate = estimate_distribution(found, 0, found.bins.size)
        # Where a sketch carries some dimensions, the records of each are a sample of all.
        is_sample = found.n_records < n_records
        replicas = [
            _release_again(found, estimate, rng, is_sample=is_sample) for _ in range(_REPLICAS)
        ]
    return ColumnOutcome(
        name=found.name,
        unit="",
        n_records=found.n_records,
        error=_measure(estimate - true),
        expected_error=float(np.mean([_measure(each - estimate) for each in replicas])),
        quartiles=_find_quartiles(found, estimate),
        true_quartiles=_find_quartiles(found, true),
    )


def _measure(difference: Floats) -> float:
    return float(np.max(np.abs(difference)))


def _release_again(
    marginal: Marginal, distribution: Floats, rng: np.random.Generator, *, is_sample: bool
) -> Floats:
    """Return the estimate of another release, of records that have the estimated distribution."""
    shares = np.diff(distribution)
    counts: Floats = marginal.n_present * shares
    if is_sample:
        drawn = rng.multinomial(round(marginal.n_present), shares / shares.sum())
        counts = drawn.astype(np.float64)
    noised = counts + marginal.noise.draw(rng, shares.shape)
    return estimate_distribution(replace(marginal, bins=noised), 0, noised.size)


def _find_quartiles(found: Marginal | ReportedMarginal, distribution: Floats) -> tuple[float, ...]:
    # A flat stretch has many quantiles; the slope keeps the interpolation defined.
    rising = distribution + 1e-12 * np.arange(distribution.size)
    values = np.interp(_QUARTILES, rising, found.edges)
    return tuple(values if found.resolution is None else expand(values, found.resolution))
