"""The runner of every benchmark: options, cases by seed and method, progress, and rows.

A benchmark is a function from a :class:`Bench` to rows. Most are lists of :class:`Case`, whose
methods see the same data, seed by seed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from benchmarks.packages import PackageUnavailableError
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError, SketchError

FIRST_SEED = 1000
"""Distinct from the seeds that decoders and laws are tuned on."""
_QUICK_RUNS = 3
Data = TypeVar("Data")
Result = TypeVar("Result")
Option = tuple[str, Mapping[str, Any]]
"""An option of one benchmark: its flag, and the arguments of ``add_argument``."""


@dataclass(frozen=True)
class Row:
    """One figure of one case, with its baseline."""

    benchmark: str
    case: str
    figure: str
    value: float
    unit: str
    runs: int
    baseline: str

    def to_json(self) -> str:
        """Return the row as one line of JSON, with the commit and machine of the measurement."""
        return json.dumps({**asdict(self), "commit": find_commit(), "machine": describe_machine()})


Figure = tuple[str, Any] | tuple[str, Any, str] | tuple[str, Any, str, str]
"""Name and value of a figure; its unit, 1 by default; its baseline."""


def make_rows(
    benchmark: str, case: str, figures: Iterable[Figure], *, runs: int = 1, baseline: str = "none"
) -> Iterator[Row]:
    """Yield the figures of one case as rows; JSON has no infinity, so those have no row."""
    for name, value, *more in figures:
        unit, beside = (*more, *("1", baseline)[len(more) :])
        if math.isfinite(value):
            yield Row(benchmark, case, name, float(value), unit, runs, beside)


@cache
def find_commit() -> str:
    """Return the abbreviated commit, marked if the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@cache
def describe_machine() -> str:
    """Return processor, cores and Python in words."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    model = names[0] if names else platform.machine()
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


@dataclass(kw_only=True)
class Bench:
    """Choice of cases and seeds of one run, and its progress bar.

    Parameters
    ----------
    quick
        Fewer seeds and, unless cases are named, fewer cases.
    cases
        Parts of the names of the cases to run; all if empty.
    seeds, first_seed
        Number of seeds, in place of the case's own, and the first of them.
    own
        Values of the options of this benchmark alone.
    progress
        Shown on standard error; None where it is no terminal.
    """

    quick: bool = False
    cases: Sequence[str] = ()
    seeds: int | None = None
    first_seed: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress | None = None
    _asked: dict[str, bool] = field(default_factory=dict)

    def includes(self, name: str, *, in_quick: bool = True) -> bool:
        """Return whether a case is to run."""
        self._asked[name] = any(part in name for part in self.cases)
        return self._asked[name] if self.cases else in_quick or not self.quick

    def require_match(self) -> None:
        """Refuse parts of names that no case has."""
        if self.cases and self._asked and not any(self._asked.values()):
            names = "; ".join(self._asked)
            raise ConfigError("must match a case", field="--case", fix=f"choose from: {names}")

    def count_runs(self, runs: int, quick_runs: int = 0) -> int:
        """Return the number of seeds of a case."""
        return self.seeds or ((quick_runs or min(runs, _QUICK_RUNS)) if self.quick else runs)

    def list_seeds(self, runs: int, quick_runs: int = 0, *, first: int = FIRST_SEED) -> range:
        """Return the seeds of a case."""
        start = first if self.first_seed is None else self.first_seed
        return range(start, start + self.count_runs(runs, quick_runs))

    def leave_out(self, name: str, error: Exception) -> None:
        """Report on standard error what is not measured."""
        self.pause()
        print(f"benchmark: without {name}: {error}", file=sys.stderr)

    def expect(self, n_steps: int) -> None:
        """Lengthen the bar."""
        if self.progress is not None:
            task = self.progress.tasks[0]
            self.progress.update(task.id, total=(task.total or 0) + n_steps)

    def report(self, words: str, advance: int = 1) -> None:
        """Show the current step, and advance the bar."""
        if self.progress is not None:
            self.progress.start()
            task = self.progress.tasks[0].id
            self.progress.update(task, description=words, advance=advance, refresh=True)

    def pause(self) -> None:
        """Remove the bar from the screen until the next report."""
        if self.progress is not None:
            self.progress.stop()


Measure = Callable[[Bench], Iterator[Row]]


@dataclass(frozen=True, kw_only=True)
class Case(Generic[Data, Result]):
    """The settings measured under one name.

    Parameters
    ----------
    name
        Name of its rows, without the method.
    load
        Returns the data of one seed.
    methods
        From data and a seed to a result, by the name that is appended to the case's.
    summarise
        From the results of one method to figures.
    runs, quick_runs
        Seeds, in full and with ``--quick``; 0 leaves the case out of the quick form.
    first_seed
        The first of them.
    """

    name: str
    load: Callable[[int], Data]
    methods: Mapping[str, Callable[[Data, int], Result]]
    summarise: Callable[[Sequence[Result]], Iterable[Figure]]
    runs: int = 20
    quick_runs: int = 0
    first_seed: int = FIRST_SEED

    def name_rows(self, method: str) -> str:
        """Return the case of the rows of a method."""
        return f"{self.name} {method}".rstrip()


def measure_cases(
    benchmark: str, bench: Bench, cases: Iterable[Case[Any, Any]], *, baseline: str = "none"
) -> Iterator[Row]:
    """Yield the rows of the requested cases and methods, each case's as soon as it is measured.

    A case without data is left out with a word; a method that refuses a plan has no result there.
    """
    chosen = [
        (case, [m for m in case.methods if bench.includes(case.name_rows(m), in_quick=in_quick)])
        for case in cases
        for in_quick in (case.quick_runs > 0,)
    ]
    seeds = [
        bench.list_seeds(case.runs, case.quick_runs, first=case.first_seed) for case, _ in chosen
    ]
    bench.expect(sum(len(own) * len(m) for own, (_, m) in zip(seeds, chosen, strict=True)))
    for (case, methods), own in zip(chosen, seeds, strict=True):
        try:
            for method, results in run_case(bench, case, methods, own).items():
                rows = case.summarise(results)
                name, runs = case.name_rows(method), len(results)
                yield from make_rows(benchmark, name, rows, runs=runs, baseline=baseline)
        except PackageUnavailableError as error:
            bench.leave_out(case.name, error)


def run_case(
    bench: Bench, case: Case[Data, Result], methods: Sequence[str], seeds: range
) -> dict[str, list[Result]]:
    """Return the results of methods on the same data, seed by seed."""
    found: dict[str, list[Result]] = {}
    for seed in seeds if methods else ():
        bench.report(case.name, 0)
        data = case.load(seed)
        for method in methods:
            try:
                result = case.methods[method](data, seed)
                found.setdefault(method, []).append(result)
            except PackageUnavailableError:
                raise
            except SketchError as error:
                # Such as more clusters than cells, or a plan that cannot be made.
                bench.leave_out(f"{case.name_rows(method)}, seed {seed}", error)
            finally:
                bench.report(case.name)
    return found


def measure_in_turn(
    works: Sequence[Callable[[], object]],
    runs: int,
    clock: Callable[[], float] = time.thread_time,
    *,
    warm_up: Callable[[int], object] | None = None,
) -> Floats:
    """Return the seconds of each of some works in each run: shape ``(works, runs)``.

    The works take turns, so that other load on the machine affects all of them; compute ratios run
    by run. Each work first runs once uncounted, so that none pays for the caches that another left;
    or ``warm_up`` does with its number, for works whose data exceed all caches.
    """
    seconds = np.empty((len(works), runs))
    for run in range(runs):
        for i, work in enumerate(works):
            warm_up(i) if warm_up else work()
            start = clock()
            work()
            seconds[i, run] = clock() - start
    return seconds


def run(name: str, describe: str | None, measure: Measure, *own: Option) -> None:
    """Read the command line, print the rows that ``measure`` yields, and exit with its status.

    Parameters
    ----------
    name, describe
        Name and description of the benchmark; the first line counts.
    measure
        Yields the rows.
    own
        Further options; ``measure`` finds their values in ``bench.own``.
    """
    given = vars(_create_parser(name, (describe or "").splitlines()[0], own).parse_args())
    common = {each: given.pop(each) for each in ("quick", "cases", "seeds", "first_seed")}
    bench = Bench(**common, own=given, progress=_create_progress())
    try:
        print_rows(measure(bench), as_json=given.pop("json"), before=bench.pause)
        bench.require_match()
    except SketchError as error:
        bench.pause()
        print(f"benchmarks.{name}: {error}", file=sys.stderr)
        sys.exit(2)
    bench.pause()


def _create_parser(name: str, describe: str, own: Sequence[Option]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=describe)
    parser.add_argument("--quick", action="store_true", help="fewer runs and cases")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, nothing else")
    parser.add_argument(
        "--case", action="append", default=[], metavar="PART", dest="cases",
        help="only cases whose name contains this; may be repeated",
    )  # fmt: skip
    parser.add_argument("--seeds", type=read_count, metavar="N", help="runs of each case")
    parser.add_argument("--first-seed", type=int, metavar="S", help="the first seed")
    for flag, arguments in own:
        parser.add_argument(flag, **arguments)
    return parser


def _create_progress() -> Progress | None:
    if not sys.stderr.isatty():
        return None
    progress = Progress(
        TextColumn("{task.description:<48}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        # A refreshing thread would count as the solver's time.
        auto_refresh=False,
        transient=True,
        # Rows go to standard output unchanged.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    progress.add_task("", total=0)
    return progress


def read_count(text: str) -> int:
    """Read a count of at least 1, for ``argparse``.

    Raises
    ------
    argparse.ArgumentTypeError
        It is not a whole number of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def read_output(text: str) -> Path:
    """Read the path of a file to write, for ``argparse``; checked before the run, which is long.

    Raises
    ------
    argparse.ArgumentTypeError
        It is a folder, or its folder does not exist.
    """
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"must be a file in a folder that exists, not {text!r}; create the folder first"
        )
    return path


def print_rows(
    rows: Iterable[Row], *, as_json: bool, before: Callable[[], object] = lambda: None
) -> None:
    """Print each row as it comes."""
    if not as_json:
        print(f"{'case':<48} {'figure':<24} {'value':>12} unit  (against)")
    for row in rows:
        before()
        words = f"{row.value:>12.5g} {row.unit}  ({row.baseline})"
        print(row.to_json() if as_json else f"{row.case:<48} {row.figure:<24} {words}", flush=True)


def find_crossing(points: Sequence[tuple[float, float]], target: float) -> float | None:
    """Return where a curve falls to a target for good, on logarithms of both.

    Parameters
    ----------
    points
        ``(x, y)`` by rising x.
    target
        Wanted y.

    Returns
    -------
    float or None
        The first x where no point is above the target; None where the last one is.
    """
    above = [i for i, (_, y) in enumerate(points) if y > target]
    if not points or (above and above[-1] + 1 == len(points)):
        return None
    if not above:
        return points[0][0]
    (x0, y0), (x1, y1) = points[above[-1]], points[above[-1] + 1]
    share = math.log(y0 / target) / math.log(y0 / y1)
    return float(x0 * (x1 / x0) ** share)
