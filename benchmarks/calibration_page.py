"""Section of the benchmarks page on calibration, from the rows of :mod:`benchmarks.calibration`.

Run as ``python -m benchmarks.calibration_page ROWS... --page FILE``; ROWS are files of JSON lines.
The section between ``<!-- begin calibration -->`` and ``<!-- end calibration -->`` is replaced.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.calibration import BUDGETS
from benchmarks.unknown_sets import SETS

BEGIN, END = "<!-- begin calibration -->", "<!-- end calibration -->"
_SECTION = """\
{begin}
## Calibration

| | |
|---|---|
| measured | {date}, commit {commit}, {runs} seeds |
| machine | {machine} |
| command | `python -m benchmarks.calibration --json --ways pilot` |

A pilot's histogram, of other records with the whole epsilon, gives bounds, scales and the search
box of a main study; nothing is known beforehand. SSE of its centroids over that of a study with the
same epsilon whose bounds and scales were known: median and worst of {runs} runs, seed by seed.

| columns | {heads} |
|---|{rules}
{table}

In brackets: the share of runs that were *told* before the main study that a relative SSE of 1.1 is
not assured or that a cluster as rare cannot show; *above* is the share of runs whose relative SSE
was above the band of `sfumato plan refine`. `python -m benchmarks.calibration_page` writes this
section from the rows.

*units* differ by 10^4 between columns; *constants* has two constant columns and a flag; *rare* has
clusters of 0.7 % and 0.3 % forty spreads away, which a pilot cannot see below n epsilon = 1e6;
*functions* are the sizes of functions in Python's standard library. Distances on *lognormal*,
*functions* and *pareto* are on logarithms, on all others in the unit of the records. Where
the pilot chooses the other scale for a column, the answer is judged on a scale that it was not made
for: some columns of *counts*, and the arguments of *functions*.
{end}"""


def write_section(lines: Iterable[str], date: str) -> str:
    """Write rows in JSON as the section; a set that was not run at a budget has an empty cell."""
    rows = [json.loads(line) for line in lines]
    found = {(row["case"], row["figure"]): row["value"] for row in rows}

    def list_of(field: str) -> str:
        return ", ".join(sorted({str(row[field]) for row in rows}))

    def show(name: str, words: str) -> str:
        case = f"{name} n_eps={words} pilot"
        if (case, "told") not in found:
            return ""
        median, worst, told, above = (
            found[case, figure]
            for figure in ("median_over_oracle", "worst_over_oracle", "told", "above_band")
        )
        beyond = f", {above:.0%} above" if above else ""
        return f"{median:.3f}, {worst:.3f} ({told:.0%} told{beyond})"

    names = [name for name in SETS if any(row["case"].startswith(f"{name} ") for row in rows)]
    return _SECTION.format(
        begin=BEGIN,
        end=END,
        date=date,
        commit=list_of("commit"),
        runs=list_of("runs"),
        machine=list_of("machine"),
        heads=" | ".join(f"n epsilon = {words}" for words in BUDGETS),
        rules="---|" * len(BUDGETS),
        table="\n".join(
            f"| {name} | {' | '.join(show(name, words) for words in BUDGETS)} |" for name in names
        ),
    )


def replace_section(page: str, section: str) -> str:
    """Replace the section of a page."""
    before, rest = page.split(BEGIN)
    return before + section + rest.split(END)[1]


def main() -> int:
    """Read the rows and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration_page")
    parser.add_argument("rows", nargs="+", type=Path, help="files of JSON lines")
    parser.add_argument("--page", type=Path, required=True, help="the page of Markdown")
    options = parser.parse_args()
    lines = [line for path in options.rows for line in path.read_text("utf-8").splitlines()]
    section = write_section(lines, f"{datetime.now(UTC):%Y-%m-%d}")
    page = replace_section(options.page.read_text("utf-8"), section)
    options.page.write_text(page, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
