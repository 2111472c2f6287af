"""Synthetic records: how far shares of ranges are off, by the sketch alone and with a histogram.

Run as ``python -m benchmarks.synthesis [--quick] [--json] [--case WORDS]``. Queries are 1,000 boxes
with uniform ends over one to d columns, other ones for each seed. ``mean_relative_error`` divides
each error by the true share, or by 0.1 % where that is less; ``mean_absolute_error`` is a share of
all records. ``error_over_stated`` is the mean absolute error over boxes of one, two or three
columns over the error that the answer states. 20,000 records are drawn from twelve Gaussians. One
curator, pure epsilon under add-remove-one: all of it for the sketch, or 7/10 for the sketch and
3/10 for histograms of all columns, of 512 bins. Noise is the system's, so that figures differ a
little between runs; medians over seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from analyst.estimators import CompressiveMixture
from analyst.estimators.held import draw_sums
from analyst.results import DecodeResult
from analyst.sketching.solving import sum_parts
from benchmarks.datasets import Dataset, RealData
from benchmarks.packages import PackageUnavailableError
from benchmarks.rows import Row, create_parser, print_rows
from learning.generative.columns import Column, read_columns
from shared.core import SketchAccumulator
from shared.plan import PlanSpec, WindowRule, create_plan

NAME = "synthesis"
N_CLUSTERS = 12
_SHARE = Fraction(3, 10)
_N_QUERIES, _N_DRAWN = 1000, 20_000
_FLOOR = 1e-3
_BINS_LOG2 = 9
_RUNS, _QUICK_RUNS = 10, 2
_ORIGIN = 1_577_836_800
"""The start of a study that no record depends on."""
_SETS = ("weather", "shuttle")
_EPSILONS = ("1/10", "1/2", "2")
_STATED = (1, 2, 3)

Floats = NDArray[np.float64]
Box = Sequence[tuple[int, float, float]]


def draw_boxes(records: Floats, n_columns: int | None, rng: np.random.Generator) -> list[Box]:
    """Draw boxes with uniform ends, over so many columns, or over any number of them."""
    d = records.shape[1]
    low, high = records.min(axis=0), records.max(axis=0)
    boxes: list[Box] = []
    for _ in range(_N_QUERIES):
        chosen = rng.choice(d, size=n_columns or rng.integers(1, d + 1), replace=False)
        ends = [np.sort(rng.uniform(low[i], high[i], size=2)) for i in chosen]
        boxes.append([(int(i), float(a), float(b)) for i, (a, b) in zip(chosen, ends, strict=True)])
    return boxes


def count(records: Floats, boxes: Sequence[Box]) -> Floats:
    """Count the records in boxes, as shares of all: shape ``(n,)``."""
    return np.array(
        [
            np.mean(
                np.logical_and.reduce(
                    [(records[:, i] >= low) & (records[:, i] <= high) for i, low, high in box]
                )
            )
            for box in boxes
        ]
    )


def make_histograms(
    dataset: Dataset, result: DecodeResult, epsilon: Fraction
) -> tuple[Column, ...]:
    """Release histograms of all columns."""
    n = len(dataset.records)
    spec = PlanSpec(
        dimensions=tuple(replace(each, scale=None) for each in result.plan.dimensions),
        statistic="histogram",
        epsilon=epsilon,
        neighbouring="add-remove-one",
        window=WindowRule(kind="time", length_s=86_400, origin=_ORIGIN),
        most_records=n,
        bins_log2=_BINS_LOG2,
    )
    plan = create_plan(spec)
    summed = SketchAccumulator(plan.statistic_of(b"benchmark"))
    summed.add(dataset.records)
    totals = sum_parts([(draw_sums(plan, summed), 0)])
    return read_columns(plan, totals)


def fit(dataset: Dataset, epsilon: Fraction, seed: int) -> DecodeResult:
    """Release a sketch and decode it."""
    found = CompressiveMixture(
        N_CLUSTERS,
        epsilon=epsilon,
        bounds=(dataset.lower, dataset.upper),
        scale=dataset.spread or 0.5,
        relation="add-remove-one",
        max_records=len(dataset.records),
        random_state=seed,
    )
    return found.fit(dataset.records).result_


def measure_way(
    dataset: Dataset, result: DecodeResult, columns: Sequence[Column], seed: int
) -> dict[str, float]:
    """Return the figures of one way, for one seed."""
    rng = np.random.default_rng((seed, dataset.n_dimensions))
    made = replace(result, margins=columns).synthesise(_N_DRAWN, seed=seed, allow_unusable=True)
    records = np.array(list(made.columns.values())).T
    boxes = draw_boxes(dataset.records, None, rng)
    true = count(dataset.records, boxes)
    missed = np.abs(count(records, boxes) - true)
    figures = {
        "mean_relative_error": float(np.mean(missed / np.maximum(true, _FLOOR))),
        "mean_absolute_error": float(np.mean(missed)),
    }
    for n_columns, stated in made.errors.items():
        boxes = draw_boxes(dataset.records, n_columns, rng)
        error = count(records, boxes) - count(dataset.records, boxes)
        ratio = float(np.mean(np.abs(error))) / stated
        figures[f"error_over_stated, columns={n_columns}"] = ratio
    return figures


def measure_case(name: str, epsilon: str, runs: int) -> Iterator[Row]:
    """Yield the rows of one data set and one epsilon."""
    dataset, whole = RealData(name=name).load(0), Fraction(epsilon)
    found: dict[str, list[dict[str, float]]] = {"sketch alone": [], "sketch and histograms": []}
    for seed in range(runs):
        alone = fit(dataset, whole, seed)
        found["sketch alone"].append(measure_way(dataset, alone, (), seed))
        result = fit(dataset, whole * (1 - _SHARE), seed)
        columns = make_histograms(dataset, result, whole * _SHARE)
        found["sketch and histograms"].append(measure_way(dataset, result, columns, seed))
    for way, each in found.items():
        for figure in dict.fromkeys(name for figures in each for name in figures):
            values = [figures[figure] for figures in each if figure in figures]
            yield Row(
                benchmark=NAME,
                case=f"{name} eps={epsilon} {way}",
                figure=figure,
                value=float(np.median(values)),
                unit="1",
                runs=len(values),
                baseline="true shares",
            )


def measure(quick: bool, case: str = "") -> Iterator[Row]:
    """Yield the rows of all cases, or of those whose name holds some words."""
    runs = _QUICK_RUNS if quick else _RUNS
    for name in _SETS[:1] if quick and not case else _SETS:
        for epsilon in _EPSILONS[1:2] if quick and not case else _EPSILONS:
            if all(word in f"{name} eps={epsilon}".split() for word in case.split()):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        yield from measure_case(name, epsilon, runs)
                    except PackageUnavailableError:
                        continue


if __name__ == "__main__":
    parser = create_parser(NAME, (__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="", help='words of a case, such as "weather eps=1/2"')
    options = parser.parse_args()
    print_rows(measure(options.quick, options.case), as_json=options.json)
