"""Quality of centroids from a sketch, relative to k-means on the records, and decoding time.

Run as ``python -m benchmarks.decoding [--quick] [--json] [--plot FILE]``; ``--help`` lists the
options of experiments. Relative SSE is the SSE of the centroids over that of the best k-means on
the records (:mod:`benchmarks.reference`). The solver is the default one with its default settings;
it receives the public box, the frequencies and the variance of the noise, never records. Quality
and seconds come from the same runs; seconds are CPU time of the solver, one BLAS thread.
``truth_start_*`` is the quality of round clusters fitted by descent alone from the clusters of that
k-means: where the solver is no worse, the sketch sets the limit and not the search.

Synthetic data are the seed paper's mixtures, n = 2e5, a different one for each seed. The scale of a
plan is the standard deviation within a cluster: 1 for mixtures, that of the best k-means for real
data; ``scale x0.5`` means a plan that states half of it. The radius law is the planner's choice. So
is m where none is stated: the choice for the best predicted quality with that noise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cases import TEN, list_decoding_cases
from benchmarks.experiments import (
    Bench,
    Options,
    leave_out_missing,
    run_experiment,
    select_cases,
)
from benchmarks.packages import PackageUnavailableError
from benchmarks.peers import PYCLE_NAME, load_pycle
from benchmarks.rows import Row
from benchmarks.trials import Case, Recover, Trial, recover_with, summarise
from sfumato.learning.decoding.registry import create_solver

NAME = "decoding"
BASELINE_SOLVER = "cl-ompr"
PEERS = Case(name="peers d=10 k=10 m=5kd", source=TEN, features=5, quick_runs=1)


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases."""
    options = bench.options
    for case in leave_out_missing(select_cases(list_decoding_cases(), options)):
        for law in options.laws:
            trials = bench.run(case, law)
            yield from summarise(NAME, options.extend_name(case.name, law), trials)
    if options.includes(PEERS.name):
        yield from _measure_peers(bench)


def _measure_peers(bench: Bench) -> Iterator[Row]:
    """Yield the same problems solved by the solver, by CL-OMPR, and by pycle's CL-OMPR."""
    solver = bench.options.create_solver()
    peers: dict[str, Recover] = {}
    baseline = create_solver(BASELINE_SOLVER)
    if baseline.name != solver.name:
        peers[baseline.name] = recover_with(baseline)
    try:
        peers[PYCLE_NAME] = load_pycle()
    except PackageUnavailableError as error:
        yield _row("pycle_available", 0.0, 0, str(error))
    own = bench.run(PEERS)
    yield from summarise(NAME, f"{PEERS.name} solver={solver.name}", own)
    for name, recover in peers.items():
        trials = bench.run(PEERS, recover=recover)
        yield from summarise(NAME, f"{PEERS.name} solver={name}", trials)
        yield _row(
            f"speedup_over_{name}", _median_ratio(trials, own), len(own), f"{name}, same sketches"
        )


def _median_ratio(slower: Sequence[Trial], faster: Sequence[Trial]) -> float:
    pairs = zip(slower, faster, strict=True)
    return float(np.median([one.seconds / other.seconds for one, other in pairs]))


def _row(figure: str, value: float, runs: int, baseline: str) -> Row:
    return Row(NAME, PEERS.name, figure, value, "1", runs, baseline)


def _list_names() -> list[str]:
    return [*(case.name for case in list_decoding_cases()), PEERS.name]


def _count(options: Options) -> int:
    """Count the trials, including pycle's."""
    chosen = select_cases(list_decoding_cases(), options)
    runs = sum(len(options.list_seeds(case.runs, case.quick_runs)) for case in chosen)
    peers = len(options.list_seeds(PEERS.runs, PEERS.quick_runs)) * options.includes(PEERS.name)
    same = options.create_solver().name == create_solver(BASELINE_SOLVER).name
    return runs * len(options.laws) + peers * (2 if same else 3)


def _draw(rows: Sequence[Row], path: Path) -> None:
    # Imported here, because matplotlib takes a second to load.
    from benchmarks.figures import draw_decoding  # noqa: PLC0415

    draw_decoding(rows, path)


if __name__ == "__main__":
    sys.exit(
        run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count, _draw)
    )
