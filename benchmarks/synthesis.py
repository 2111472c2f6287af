"""Synthetic records: how far shares of ranges and of sets of items are off, beside other methods.

Run as ``python -m benchmarks.synthesis [--quick] [--json] [--case PART]``. Range queries are 1,000
boxes over one to d columns, other ones for each seed: with uniform ends, or (``whole bins``) of
sixteen bins of each column, on which tables of bins answer best. ``relative_error`` divides each
error by the true share, or by 0.1 % where that is less, and takes the mean; ``absolute_error`` is
the mean error as a share of all records. ``error_over_stated`` is the mean absolute error over
boxes of one, two or three columns over the error that the answer states; ``correlation_error`` and
``correlation_error_over_stated`` are the same of correlations of two columns, and
``correlations_within_twice`` is the share of those that are off by at most twice the stated error,
where nine of ten are expected. 20,000 records are drawn.
One curator and pure epsilon under add-remove-one; see :mod:`benchmarks.synthesis_ways` for the
methods and for L devices, and :mod:`benchmarks.synthesis_items` for sets of items. Noise is the
system's, so that figures differ a little between runs; medians over seeds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset, RealData
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from benchmarks.synthesis_items import make_item_case
from benchmarks.synthesis_ways import FLEETS, WAYS, Drawn, Way
from sfumato.shared.arrays import Floats

NAME = "synthesis"
_N_QUERIES = 1000
_FLOOR = 1e-3
_WHOLE_BINS = 16
_RUNS, _QUICK_RUNS = 10, 2
_SETS = ("weather", "shuttle", "diamonds")
_EPSILONS = ("1/10", "1/2", "2")
_MIDDLE = _EPSILONS[1]

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


def widen(boxes: Sequence[Box], lower: float, upper: float) -> list[Box]:
    """Widen boxes to whole bins of their columns, sixteen from a lower to an upper bound."""
    step = (upper - lower) / _WHOLE_BINS
    return [
        [
            (
                i,
                lower + step * np.floor((low - lower) / step),
                # What is at the end of a bin is in the next one.
                np.nextafter(lower + step * np.ceil((high - lower) / step), -np.inf)
                if high < upper - step
                else upper,
            )
            for i, low, high in box
        ]
        for box in boxes
    ]


def count(records: Floats, boxes: Sequence[Box]) -> Floats:
    """Count the records in boxes, as shares of all: shape ``(n,)``."""
    columns = np.ascontiguousarray(records.T)
    return np.array(
        [
            np.mean(
                np.logical_and.reduce(
                    [(columns[i] >= low) & (columns[i] <= high) for i, low, high in box]
                )
            )
            for box in boxes
        ]
    )


class Queries:
    """Range queries of one seed, with their true shares."""

    def __init__(self, dataset: Dataset, seed: int) -> None:
        self.dataset = dataset
        self._rng = np.random.default_rng((seed, dataset.n_dimensions))
        boxes = draw_boxes(dataset.records, None, self._rng)
        kinds = {"": boxes, ", whole bins": widen(boxes, dataset.lower, dataset.upper)}
        self._kinds = {kind: (each, count(dataset.records, each)) for kind, each in kinds.items()}

    def judge(self, drawn: Drawn) -> dict[str, float]:
        """Return the figures of some records."""
        figures = {}
        for kind, (boxes, true) in self._kinds.items():
            missed = np.abs(count(drawn.records, boxes) - true)
            figures[f"relative_error{kind}"] = float(np.mean(missed / np.maximum(true, _FLOOR)))
            figures[f"absolute_error{kind}"] = float(np.mean(missed))
        for n_columns, stated in drawn.errors.items():
            boxes = draw_boxes(self.dataset.records, n_columns, self._rng)
            error = count(drawn.records, boxes) - count(self.dataset.records, boxes)
            ratio = float(np.mean(np.abs(error))) / stated
            figures[f"error_over_stated, columns={n_columns}"] = ratio
        pairs = np.triu_indices(self.dataset.n_dimensions, k=1)
        ours, theirs = (np.corrcoef(each.T) for each in (drawn.records, self.dataset.records))
        off = np.abs(ours - theirs)[pairs]
        figures["correlation_error"] = float(np.mean(off))
        if len(drawn.correlation_errors):
            known = np.array(drawn.correlation_errors)
            figures["correlation_error_over_stated"] = float(np.mean(off) / np.mean(known))
            figures["correlations_within_twice"] = float(np.mean(off <= 2.0 * known))
        return figures


def list_cases() -> Iterator[Case[Queries, dict[str, float]]]:
    """List the range cases, by set and epsilon. Fleets are of one set, at one epsilon."""

    def judge(draw: Way, epsilon: Fraction, queries: Queries, seed: int) -> dict[str, float]:
        started = time.process_time()
        drawn = draw(queries.dataset, epsilon, seed)
        return {"cpu_s": time.process_time() - started, **queries.judge(drawn)}

    for name in _SETS:
        source = RealData(name=name)
        for epsilon in _EPSILONS:
            is_middle = name == _SETS[0] and epsilon == _MIDDLE
            ways = {**WAYS, **(FLEETS if is_middle else {})}
            yield Case(
                name=f"{name} eps={epsilon}",
                load=lambda seed, source=source: Queries(source.load(0), seed),  # type: ignore[misc]
                methods={
                    way: partial(judge, each, Fraction(epsilon)) for way, each in ways.items()
                },
                summarise=summarise,
                runs=_RUNS,
                quick_runs=_QUICK_RUNS * is_middle,
                first_seed=0,
            )


def summarise(found: Sequence[Mapping[str, float]]) -> Iterator[Figure]:
    """Yield the medians of the figures, of the runs that have them."""
    for figure in dict.fromkeys(name for each in found for name in each):
        value = np.median([each[figure] for each in found if figure in each])
        yield (figure, value, "s", "-") if figure == "cpu_s" else (figure, value)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of all cases: of ranges, and of sets of items."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases: list[Case[Any, Any]] = [*list_cases(), make_item_case(summarise)]
        yield from measure_cases(NAME, bench, cases, baseline="true shares")


if __name__ == "__main__":
    run(NAME, __doc__, measure)
