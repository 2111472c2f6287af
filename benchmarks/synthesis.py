"""Synthetic records: how far shares of ranges and of sets of items are off, beside other methods.

Run as ``python -m benchmarks.synthesis [--quick] [--json] [--case WORDS]``. Range queries are 1,000
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

import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from benchmarks import synthesis_items
from benchmarks.datasets import Dataset, RealData
from benchmarks.packages import PackageUnavailableError
from benchmarks.rows import Row, create_parser, print_rows
from benchmarks.synthesis_ways import FLEETS, SKETCH, WAYS, Drawn, Way
from sfumato.shared.errors import SketchError

NAME = "synthesis"
_N_QUERIES = 1000
_FLOOR = 1e-3
_WHOLE_BINS = 16
_RUNS, _QUICK_RUNS = 10, 2
_SETS = ("weather", "shuttle", "diamonds")
_EPSILONS = ("1/10", "1/2", "2")
_MIDDLE = _EPSILONS[1]

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
        self._dataset = dataset
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
            boxes = draw_boxes(self._dataset.records, n_columns, self._rng)
            error = count(drawn.records, boxes) - count(self._dataset.records, boxes)
            ratio = float(np.mean(np.abs(error))) / stated
            figures[f"error_over_stated, columns={n_columns}"] = ratio
        pairs = np.triu_indices(self._dataset.n_dimensions, k=1)
        ours, theirs = (np.corrcoef(each.T) for each in (drawn.records, self._dataset.records))
        off = np.abs(ours - theirs)[pairs]
        figures["correlation_error"] = float(np.mean(off))
        if len(drawn.correlation_errors):
            known = np.array(drawn.correlation_errors)
            figures["correlation_error_over_stated"] = float(np.mean(off) / np.mean(known))
            figures["correlations_within_twice"] = float(np.mean(off <= 2.0 * known))
        return figures


def measure_case(name: str, epsilon: str, ways: Mapping[str, Way], runs: int) -> Iterator[Row]:
    """Yield the rows of one data set and one epsilon."""
    dataset, whole = RealData(name=name).load(0), Fraction(epsilon)
    found: dict[str, dict[str, list[float]]] = {way: {} for way in ways}
    for seed in range(runs):
        queries = Queries(dataset, seed)
        for way, draw in ways.items():
            started = time.process_time()
            try:
                drawn = draw(dataset, whole, seed)
            except SketchError as error:
                print(f"{name} eps={epsilon} {way}: {error}", file=sys.stderr)
                continue
            figures = {"cpu_s": time.process_time() - started, **queries.judge(drawn)}
            for figure, value in figures.items():
                found[way].setdefault(figure, []).append(value)
    for way, each in found.items():
        for figure, values in each.items():
            yield Row(
                benchmark=NAME,
                case=f"{name} eps={epsilon} {way}",
                figure=figure,
                value=float(np.median(values)),
                unit="s" if figure == "cpu_s" else "1",
                runs=len(values),
                baseline="-" if figure == "cpu_s" else "true shares",
            )


def list_cases(quick: bool) -> Iterator[tuple[str, str, Mapping[str, Way]]]:
    """List the range cases: set, epsilon and ways. Fleets are of one set, at one epsilon."""
    for name in _SETS[:1] if quick else _SETS:
        for epsilon in _EPSILONS[1:2] if quick else _EPSILONS:
            if quick:
                yield name, epsilon, {way: WAYS[way] for way in (SKETCH, "pair tree")}
            else:
                has_fleets = name == _SETS[0] and epsilon == _MIDDLE
                yield name, epsilon, {**WAYS, **FLEETS} if has_fleets else WAYS


def measure(quick: bool, case: str = "") -> Iterator[Row]:
    """Yield the rows of all cases, or of those whose name holds some words."""
    runs = _QUICK_RUNS if quick else _RUNS
    for name, epsilon, ways in list_cases(quick and not case):
        if not set(case.split()) <= {name, f"eps={epsilon}"}:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield from measure_case(name, epsilon, ways, runs)
            except PackageUnavailableError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
    yield from synthesis_items.measure(quick, case)


if __name__ == "__main__":
    parser = create_parser(NAME, (__doc__ or "").splitlines()[0])
    parser.add_argument("--case", default="", help='words of a case, such as "weather eps=1/2"')
    options = parser.parse_args()
    print_rows(measure(options.quick, options.case), as_json=options.json)
