"""One benchmark figure as a row: a JSON line for scripts, a table for people."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


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
    model = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = (
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            )
            model = next(names, model)
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


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


def measure_cpu_seconds(work: Callable[[], object], runs: int) -> float:
    """Return the median thread CPU time of some runs, after one uncounted run."""
    work()
    seconds = []
    for _ in range(runs):
        start = time.thread_time()
        work()
        seconds.append(time.thread_time() - start)
    return float(np.median(seconds))


def measure_in_turn(
    works: Sequence[Callable[[], object]],
    runs: int,
    clock: Callable[[], float] = time.thread_time,
    *,
    warm_up: Callable[[int], object] | None = None,
) -> NDArray[np.float64]:
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


def run_benchmark(name: str, describe: str, measure: Callable[[bool], Iterator[Row]]) -> None:
    """Read ``--quick`` and ``--json`` and print what ``measure(quick)`` yields."""
    options = create_parser(name, describe).parse_args()
    print_rows(measure(options.quick), as_json=options.json)


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


def read_page(text: str) -> Path:
    """Read the path of a page to write, for ``argparse``; checked before the run, which is long.

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


def create_parser(name: str, describe: str) -> argparse.ArgumentParser:
    """Create a parser with the options of every benchmark: ``--quick`` and ``--json``."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=describe)
    parser.add_argument("--quick", action="store_true", help="fewer runs and cases")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, nothing else")
    return parser


def print_rows(rows: Iterable[Row], *, as_json: bool) -> None:
    """Print each row as it comes."""
    if not as_json:
        print(f"{'case':<48} {'figure':<24} {'value':>12} unit  (against)")
    for row in rows:
        if as_json:
            print(row.to_json(), flush=True)
        else:
            line = (
                f"{row.case:<48} {row.figure:<24} {row.value:>12.5g} {row.unit}  ({row.baseline})"
            )
            print(line, flush=True)
