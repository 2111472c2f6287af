"""Pages of Markdown that a command writes from files of rows."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, read_page

_FIELDS = ("benchmark", "case", "figure", "value", "unit", "runs", "baseline")


def list_table(title: str, words: str, heads: Sequence[str], rows: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a section with a table; none if it has no row."""
    listed = list(rows)
    if listed:
        yield f"## {title}\n\n{words}\n"
        yield f"| {' | '.join(heads)} |"
        yield "|---" * len(heads) + "|"
        yield from listed
        yield ""


def describe_ends(values: Iterable[int]) -> str:
    """Return the least and the greatest in words: ``3 to 10``, or ``5`` where they are one."""
    found = set(values)
    return " to ".join(map(str, sorted({min(found), max(found)})))


def read_row(line: str) -> Row:
    """Read a row from JSON."""
    found = json.loads(line)
    return Row(*(found[name] for name in _FIELDS))


def run_page(
    name: str,
    write: Callable[[Sequence[str], str, str], str],
    load_draw: Callable[[], Callable[[Sequence[Row], Path], None]],
) -> None:
    """Read files of rows, write their page, and draw their picture on request.

    Parameters
    ----------
    name
        Of the module.
    write
        From lines, their date and the place of the picture, empty without one, to the page.
    load_draw
        Returns what draws rows into a file; called for a picture only, because matplotlib takes a
        second to load.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("rows", nargs="+", type=Path, help="files of JSON lines")
    parser.add_argument("--page", type=read_page, required=True, help="the page of Markdown")
    parser.add_argument("--plot", type=read_page, help="the picture, in a folder beside the page's")
    options = parser.parse_args()
    lines = [line for path in options.rows for line in path.read_text("utf-8").splitlines()]
    newest = max(path.stat().st_mtime for path in options.rows)
    date = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d}"
    picture = ""
    if options.plot:
        load_draw()([read_row(line) for line in lines], options.plot)
        picture = f"../{options.plot.parent.name}/{options.plot.name}"
    options.page.write_text(write(lines, date, picture), "utf-8")


def name_origins(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Name the commits and the machines of rows in JSON, for the first line of a page."""
    commits = sorted({row["commit"] for row in rows})
    remark = " (some rows are of earlier code)" if len(commits) > 1 else ""
    machines = sorted({row["machine"] for row in rows})
    return {"commit": " and ".join(commits) + remark, "machine": ", ".join(machines)}
