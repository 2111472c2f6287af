"""Shared parts of the benchmarks of quality: options, and selection and running of cases."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.datasets import Dataset, RealData
from benchmarks.laws import format_law, parse_law
from benchmarks.packages import PackageUnavailableError
from benchmarks.progress import ProgressBar, show_progress
from benchmarks.rows import Row, create_parser, print_rows
from benchmarks.sketches import Sketcher
from benchmarks.trials import Case, Recover, Trial, recover_with, run_trial
from sfumato.learning.decoding.registry import create_solver
from sfumato.learning.decoding.solver import Solver
from sfumato.shared.core import RadiusLaw
from sfumato.shared.errors import ConfigError, SketchError

FIRST_SEED = 1000
"""Distinct from the seeds that decoders and laws are tuned on."""
_QUICK_RUNS = 3


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a run.

    Parameters
    ----------
    quick
        Fewer seeds and, unless cases are named, fewer cases.
    cases
        Parts of the names of the cases to run; all if empty.
    seeds, first_seed
        Number of seeds, in place of the case's own, and the first of them.
    solver
        Its name in the registry; None for the default.
    laws
        Radius laws to run every case with; None for the planner's choice.
    """

    quick: bool = False
    cases: tuple[str, ...] = ()
    seeds: int | None = None
    first_seed: int = FIRST_SEED
    solver: str | None = None
    laws: tuple[RadiusLaw | None, ...] = (None,)

    def create_solver(self) -> Solver:
        """Create the solver with its default settings."""
        return create_solver(self.solver) if self.solver else create_solver()

    def includes(self, name: str, *, in_quick: bool = True) -> bool:
        """Return whether a case is to run."""
        if self.cases:
            return any(part in name for part in self.cases)
        return in_quick or not self.quick

    def list_seeds(self, runs: int, quick_runs: int) -> range:
        """Return the seeds of a case."""
        asked = (quick_runs or min(runs, _QUICK_RUNS)) if self.quick else runs
        return range(self.first_seed, self.first_seed + (self.seeds or asked))

    def extend_name(self, name: str, law: RadiusLaw | None) -> str:
        """Append to the name of a case the options that differ from the defaults."""
        solver = f" solver={self.solver}" if self.solver else ""
        return name + solver + (f" law={format_law(law)}" if law else "")


@dataclass(kw_only=True)
class Bench:
    """Runs trials of one solver in sequence, and shows its progress."""

    options: Options
    sketcher: Sketcher = field(default_factory=Sketcher)
    report: Callable[[str, int], None] = lambda words, advance: None

    def run(
        self, case: Case, law: RadiusLaw | None = None, recover: Recover | None = None
    ) -> list[Trial]:
        """Run every seed of a case."""
        recover = recover or recover_with(self.options.create_solver())
        trials = []
        for seed in self.options.list_seeds(case.runs, case.quick_runs):
            self.report(self.options.extend_name(case.name, law), 0)
            trials.append(run_trial(case, seed, recover=recover, sketcher=self.sketcher, law=law))
            self.report(case.name, 1)
        return trials


def select_cases(cases: Sequence[Case], options: Options) -> list[Case]:
    """Select the cases to run, in their order."""
    return [case for case in cases if options.includes(case.name, in_quick=case.quick_runs > 0)]


def leave_out_missing(cases: Sequence[Case]) -> list[Case]:
    """Drop cases whose data are unavailable, and report them on standard error."""
    present = []
    missing: dict[str, str] = {}
    for case in cases:
        name = case.source.name if isinstance(case.source, RealData) else ""
        if name not in missing:
            try:
                _require_data(case)
            except PackageUnavailableError as error:
                missing[name] = str(error)
                print(f"benchmark: without {name}: {error}", file=sys.stderr)
        if name not in missing:
            present.append(case)
    return present


def run_experiment(
    name: str,
    describe: str,
    list_names: Callable[[], list[str]],
    measure: Callable[[Bench], Iterator[Row]],
    count: Callable[[Options], int],
    draw: Callable[[Sequence[Row], Path], None] | None = None,
) -> int:
    """Read the options, print the rows that ``measure`` yields, and draw them on request.

    Parameters
    ----------
    name, describe
        Name and description of the benchmark.
    list_names
        Names of all cases, shown when none is chosen.
    measure, count
        Yields the rows; and returns the number of trials.
    draw
        Draws rows into a PNG file; without it there is no ``--plot``.

    Returns
    -------
    int
        The exit status.
    """
    given = _create_parser(name, describe, has_plot=draw is not None).parse_args()
    try:
        options = read_options(given)
        if options.cases and not any(map(options.includes, list_names())):
            raise ConfigError(
                "matches no case", field="--case", fix=f"choose from: {'; '.join(list_names())}"
            )
        kept: list[Row] = []
        with show_progress(count(options)) as bar:
            rows = measure(Bench(options=options, report=bar.report))
            print_rows(_keep(rows, kept, bar), as_json=given.json)
        if draw and given.plot:
            draw(kept, given.plot)
    except SketchError as error:
        print(f"benchmarks.{name}: {error}", file=sys.stderr)
        return 2
    return 0


def read_options(given: argparse.Namespace) -> Options:
    """Check the options of the command line.

    Raises
    ------
    ConfigError, PlanError, DecodingError
        A law or a number cannot be used, or the solver does not exist.
    """
    if given.seeds is not None and given.seeds < 1:
        raise ConfigError("must be at least 1", field="--seeds", fix="leave it out for the default")
    options = Options(
        quick=given.quick,
        cases=tuple(given.case),
        seeds=given.seeds,
        first_seed=given.first_seed,
        solver=given.solver,
        laws=tuple(map(parse_law, given.law)) or (None,),
    )
    options.create_solver()
    return options


def _create_parser(name: str, describe: str, *, has_plot: bool) -> argparse.ArgumentParser:
    parser = create_parser(name, describe)
    if has_plot:
        parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures, as PNG")
    parser.add_argument(
        "--case", action="append", default=[], metavar="PART",
        help="only cases whose name contains this; may be repeated",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, metavar="N", help="runs of each case")
    parser.add_argument(
        "--first-seed", type=int, default=FIRST_SEED, metavar="S", help="default: %(default)s"
    )
    parser.add_argument("--solver", metavar="NAME", help="a solver of the registry")
    parser.add_argument(
        "--law", action="append", default=[], metavar="LAW",
        help="radius law, kind:sigma_low:sigma_high such as adapted:1:4, or with the share and end "
        "of a tail, adapted:1:2:0.25:16; may be repeated to compare; default: the planner's choice",
    )  # fmt: skip
    return parser


def _keep(rows: Iterator[Row], kept: list[Row], bar: ProgressBar) -> Iterator[Row]:
    for row in rows:
        kept.append(row)
        bar.pause()
        yield row


def _require_data(case: Case) -> Dataset | None:
    return case.source.load(0) if isinstance(case.source, RealData) else None
