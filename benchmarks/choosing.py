"""Table behind the choice of a method, from the rows of :mod:`benchmarks.methods`.

Run as ``python -m benchmarks.choosing ROWS... [--write FILE] [--add] [--json]``; ROWS are files of
JSON lines. ``--write learning/planning/method_table.py`` refits the table: the geometric mean of
the median relative SSE of each method over the sets with about as many columns, at about the same
``n epsilon / k``. ``--add`` keeps the figures of what was not measured, such as of other methods.
Printed is the regret of the choice: its SSE over that of the best method of each case, for sets
that the table was fitted without (each set is left out in turn); and that of always using one
method.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from benchmarks.contenders import CHOICES, SKETCH
from benchmarks.pages.templates import read_row
from benchmarks.runner import Row as Figure, make_rows, print_rows, read_output
from sfumato.learning.planning.methods import (
    NEED_DELTA,
    TABLE,
    WITH_DELTA,
    Row,
    choose_name,
    find_row,
)

NAME = "choosing"
_DELTA = "-delta=1e-6"
_REAL: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {"weather": (4, 5), "shuttle": (9, 7), "digits": (64, 10)}
)
"""d and k of the sets whose names do not say them."""
_CASE = re.compile(
    r"(?P<source>(?:d=(?P<d>\d+) k=(?P<k>\d+).*?|weather|shuttle|digits))"
    r"(?P<unscaled> no scale)? n_eps=(?P<strength>\S+) (?P<method>\S+)"
)
_UNKNOWN = ""
"""Where no other set tells what to use: the case is left out."""
_DECADE = 2
"""Rows of the table in a factor of ten of ``n epsilon / k``."""
_COLUMNS: Final = (2, 3, 4, 6, 10, 20, 64)
"""d of the rows; a set belongs to the nearest."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What the methods reached on one set at one n epsilon.

    Parameters
    ----------
    source
        The set.
    knows_scale, n_dimensions, strength
        As in a row of the table.
    reached
        Median relative SSE by method.
    """

    source: str
    knows_scale: bool
    n_dimensions: int
    strength: float
    reached: Mapping[str, float]

    @property
    def place(self) -> tuple[bool, int, float]:
        """Key of the row that it belongs to."""
        d = min(_COLUMNS, key=lambda column: abs(math.log(column / self.n_dimensions)))
        step = round(_DECADE * math.log10(self.strength))
        return self.knows_scale, d, float(f"{10.0 ** (step / _DECADE):.2g}")


def read_trials(rows: Iterable[Figure]) -> list[Trial]:
    """Read rows; those of other figures, methods and wide boxes are left out."""
    found: dict[tuple[str, bool, float], dict[str, float]] = defaultdict(dict)
    sizes: dict[str, tuple[int, int]] = dict(_REAL)
    for row in rows:
        match = _CASE.fullmatch(row.case)
        if row.figure != "median_relative_sse" or match is None:
            continue
        source, method = match["source"], match["method"]
        if method not in CHOICES or " wide" in source:
            continue
        if match["d"] is not None:
            sizes[source] = int(match["d"]), int(match["k"])
        key = (source, match["unscaled"] is None, float(match["strength"]))
        found[key][method] = row.value
    return [
        Trial(
            source=source,
            knows_scale=knows_scale,
            n_dimensions=sizes[source][0],
            strength=n_epsilon / sizes[source][1],
            reached=MappingProxyType(reached),
        )
        for (source, knows_scale, n_epsilon), reached in sorted(found.items())
    ]


def fit_table(trials: Iterable[Trial]) -> list[Row]:
    """Fit a row for each d and strength that was measured."""
    places: dict[tuple[bool, int, float], dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for trial in trials:
        for method, sse in trial.reached.items():
            places[trial.place][_rename(method)].append(sse)
    return [
        Row(
            knows_scale=knows_scale,
            n_dimensions=d,
            strength=strength,
            expected=MappingProxyType(
                {name: float(np.exp(np.mean(np.log(all_)))) for name, all_ in found.items()}
            ),
        )
        for (knows_scale, d, strength), found in sorted(places.items())
    ]


def add_to_table(fitted: Iterable[Row], table: Iterable[Row] = TABLE) -> list[Row]:
    """Return a table with the figures of fitted rows in the place of its own, or beside them.

    A new row without a method for those who have no delta is left out.
    """
    found = {(row.knows_scale, row.n_dimensions, row.strength): row for row in table}
    for row in fitted:
        place = (row.knows_scale, row.n_dimensions, row.strength)
        if place not in found and not set(row.expected) - set(NEED_DELTA):
            continue
        before = found[place].expected if place in found else {}
        found[place] = replace(row, expected=MappingProxyType({**before, **row.expected}))
    return [found[place] for place in sorted(found)]


def _rename(method: str) -> str:
    """Return a method's name in the table: only the sketch is there without a delta and with it."""
    if method == SKETCH + _DELTA:
        return SKETCH + WITH_DELTA
    return method.removesuffix(_DELTA)


def format_table(table: Sequence[Row]) -> str:
    """Write a table as a module."""
    columns = tuple(sorted({_rename(method) for method in CHOICES}))
    lines = "\n".join(
        f"    ({row.knows_scale}, {row.n_dimensions}, {row.strength:.0f}.0, "
        f"({', '.join(f'{row.expected.get(name, 0.0):.3g}' for name in columns)})),"
        for row in table
    )
    return f'''"""Relative SSE of private methods; see :mod:`sfumato.learning.planning.methods`.

Written by ``python -m benchmarks.choosing ROWS --write FILE``. A row is: whether the spread inside
a cluster is known; d; n epsilon / k under replace-one; and the median SSE over that of k-means, by
column, 0 where a method has no answer. A delta is 1e-6.
"""

from typing import Final

COLUMNS: Final = (
{"".join(f'    "{name}",{chr(10)}' for name in columns)})
# fmt: off
ROWS: Final[tuple[tuple[bool, int, float, tuple[float, ...]], ...]] = (
{lines}
)
'''


def measure_regret(trials: Sequence[Trial]) -> Iterator[Figure]:
    """Yield the regret of the choice on sets that it was not fitted to, and of each method."""
    for knows_scale in (True, False):
        chosen = [trial for trial in trials if trial.knows_scale == knows_scale]
        for with_delta in (False, True):
            words = f"{'a scale' if knows_scale else 'no scale'}{', delta' * with_delta}"
            rules = {"choice": _choose_elsewhere(chosen, with_delta)}
            for name in dict.fromkeys(map(_rename, CHOICES)):
                rules[f"always {name}"] = lambda trial, options, name=name: name  # type: ignore[misc]
            for rule, choose in rules.items():
                regrets = _list_regrets(chosen, with_delta, choose)
                yield from _summarise(f"{rule}, {words}", regrets)


Choose = Callable[[Trial, Mapping[str, float]], str]


def _choose_elsewhere(trials: Sequence[Trial], with_delta: bool) -> Choose:
    tables = {
        source: fit_table(trial for trial in trials if trial.source != source)
        for source in {trial.source for trial in trials}
    }

    def choose(trial: Trial, options: Mapping[str, float]) -> str:
        table = tables[trial.source]
        if not table:
            return _UNKNOWN
        row = find_row(
            trial.n_dimensions, trial.strength, knows_scale=trial.knows_scale, table=table
        )
        known = _list_options(row.expected, with_delta)
        shared = {name: known[name] for name in options if name in known}
        return choose_name(shared) if shared else _UNKNOWN

    return choose


def _list_options(reached: Mapping[str, float], with_delta: bool) -> dict[str, float]:
    """Return what each method reaches with a delta, or without one."""
    named = {_rename(method): sse for method, sse in reached.items()}
    better = named.pop(SKETCH + WITH_DELTA, None)
    if not with_delta:
        for name in NEED_DELTA:
            named.pop(name, None)
    elif better is not None:
        named[SKETCH] = better
    return named


def _list_regrets(trials: Sequence[Trial], with_delta: bool, choose: Choose) -> list[float]:
    regrets = []
    for trial in trials:
        options = _list_options(trial.reached, with_delta)
        name = choose(trial, options)
        if name in options:
            regrets.append(options[name] / min(options.values()))
    return regrets


def _summarise(case: str, regrets: Sequence[float]) -> Iterator[Figure]:
    if regrets:
        figures = (
            ("mean_regret", np.exp(np.mean(np.log(regrets)))),
            ("p90_regret", np.quantile(regrets, 0.9)),
            ("worst_regret", np.max(regrets)),
        )
        beside = "best method of the case"
        yield from make_rows(NAME, case, figures, runs=len(regrets), baseline=beside)


def main() -> None:
    """Read rows, print regrets, and write the table on request."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{NAME}", description=__doc__)
    parser.add_argument("rows", nargs="+", type=Path, metavar="ROWS", help="files of JSON lines")
    parser.add_argument("--write", type=read_output, metavar="FILE", help="write the table there")
    parser.add_argument("--add", action="store_true", help="keep what was not measured")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, nothing else")
    given = parser.parse_args()
    lines = (line for path in given.rows for line in path.read_text(encoding="utf-8").splitlines())
    trials = read_trials(map(read_row, lines))
    print_rows(measure_regret(trials), as_json=given.json)
    if given.write:
        fitted = fit_table(trials)
        table = add_to_table(fitted) if given.add else fitted
        given.write.write_text(format_table(table), encoding="utf-8")


if __name__ == "__main__":
    main()
