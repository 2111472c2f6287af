"""Templates of pages: how they are filled from rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.runner import Row

_FIELD: Final = re.compile(r"\{(\w[^{}:?~.]*)([?~]?)(?:\.(\w+))?(?::([^{}]*))?\}")
_TABLE: Final = re.compile(r"\{(\w+)\}")
_EMPTY: Final = {"?": "-", "~": ""}
_FIELDS: Final = ("benchmark", "case", "figure", "value", "unit", "runs", "baseline")

Cells = Sequence[str]
Found = Mapping[str, Mapping[str, Row]]
"""Rows by case and figure."""
Table = Callable[[Sequence[Row]], Iterable[str]]
Tables = Mapping[str, Table]
"""Lines of tables that a template names."""
Show = Callable[[Mapping[str, Row]], str]
"""From the figures of a case to a cell; empty without them."""


def read_row(line: str) -> Row:
    """Read a row from JSON."""
    found = json.loads(line)
    return Row(*(found[name] for name in _FIELDS))


def group_rows(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """Return rows by case and figure, in their order."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row.case, {})[row.figure.replace(".", "_")] = row
    return found


def list_table(heads: Cells, rows: Iterable[Cells]) -> Iterator[str]:
    """Yield the lines of a table; none if it has no row."""
    listed = [f"| {' | '.join(cells)} |" for cells in rows]
    if listed:
        yield f"| {' | '.join(heads)} |"
        yield "|---" * len(heads) + "|"
        yield from listed


def pivot(
    heads: Cells, rows: Iterable[tuple[Cells, Mapping[str, str]]], columns: Iterable[str]
) -> Iterator[str]:
    """Yield a table of those columns that a row has; rows are first cells, and cells by column."""
    listed = list(rows)
    shown = [name for name in columns if any(name in cells for _, cells in listed)]
    lines = ((*first, *(cells.get(name, "-") for name in shown)) for first, cells in listed)
    yield from list_table((*heads, *shown), lines)


def pivot_cases(
    heads: Cells,
    pattern: str,
    cell: str | Show,
    columns: Iterable[str] = (),
    *,
    order: Callable[[Cells], Any] | None = None,
) -> Table:
    """Return a table of the cases of a pattern.

    Parameters
    ----------
    heads
        Headings of the columns that name a case.
    pattern
        Its groups are the first cells, and the last one the column.
    cell
        A cell of a template, or a function.
    columns
        Those to show, in their order; all by default.
    order
        Sort key of a line, given its first cells; lines keep the order of the rows by default.
    """

    def list_lines(rows: Sequence[Row]) -> Iterable[str]:
        found: dict[Cells, dict[str, str]] = {}
        for case, figures in group_rows(rows).items():
            match = re.fullmatch(pattern, case)
            text = _fill_cell(cell, case, figures) if isinstance(cell, str) else cell(figures)
            if match and text and (not columns or match.groups()[-1] in columns):
                *first, column = match.groups()
                found.setdefault(tuple(first), {})[column] = text
        names = columns or dict.fromkeys(name for cells in found.values() for name in cells)
        lines = sorted(found.items(), key=lambda each: order(each[0])) if order else found.items()
        return pivot(heads, lines, names)

    return list_lines


def describe_ends(rows: Iterable[Row]) -> str:
    """Return the least and the greatest number of runs: ``3 to 10``, or ``5`` if they are equal."""
    found = {row.runs for row in rows}
    return " to ".join(map(str, sorted({min(found), max(found)})))


def write_page(
    template: str, lines: Sequence[str], date: str, *, tables: Tables, picture: str = ""
) -> str:
    """Fill a template with rows in JSON.

    Parameters
    ----------
    template, tables
        The template, and what it names.
    lines, date
        Rows, and the day of their measurement.
    picture
        Its place, relative to the page; empty without one.
    """
    rows, raw = [read_row(line) for line in lines], [json.loads(line) for line in lines]
    # An account has one run, and is no measurement.
    measured = (row for row in rows if not row.case.startswith("account"))
    origins = {"date": date, "runs": describe_ends(measured), **_name_origins(raw)}
    for name, words in origins.items():
        template = template.replace(f"{{{name}}}", words)
    written, *sections = re.split(r"^(?=## |!\[|\{sections\})", template, flags=re.MULTILINE)
    for section in sections:
        if not section.startswith("!"):
            written += _fill_section(section, rows, tables)
        elif picture:
            written += section.format(picture=picture)
    return written.rstrip() + "\n"


def _name_origins(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    commits, machines = (sorted({row[name] for row in rows}) for name in ("commit", "machine"))
    remark = " (some rows are of earlier code)" if len(commits) > 1 else ""
    return {"commit": " and ".join(commits) + remark, "machine": ", ".join(machines)}


def _fill_section(section: str, rows: Sequence[Row], tables: Tables) -> str:
    lines: list[str] = []
    n_tables = n_full = 0
    for line in section.splitlines():
        name = _TABLE.fullmatch(line)
        if name or ("{" in line and line.startswith("|")):
            found = list(tables[name[1]](rows) if name else _fill_rows(line, rows))
            n_tables, n_full = n_tables + 1, n_full + bool(found)
            lines += found
        else:
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n\n" if n_full or not n_tables else ""


def _fill_rows(template: str, rows: Sequence[Row]) -> Iterator[str]:
    given: Iterable[tuple[str, Mapping[str, Row]]] = group_rows(rows).items()
    if "{value" in template:
        given = ((row.case, {"value": row, "figure": row}) for row in rows)
    for case, figures in given:
        cells = [_fill_cell(cell, case, figures) for cell in template.strip("| ").split(" | ")]
        if None not in cells:
            yield f"| {' | '.join(map(str, cells))} |"


def _fill_cell(cell: str, case: str, figures: Mapping[str, Row]) -> str | None:
    """Return the text of a cell; None if the case has no such row."""
    text = cell
    for field in _FIELD.finditer(cell):
        name, mark, attribute, spec = field.groups()
        if name == "case":
            match = re.fullmatch(spec or "(.*)", case)
            shown = " | ".join(match.groups()) if match else None
        elif name not in figures:
            shown = None
        elif name == "figure":
            shown = figures[name].figure.replace("_", " ")
        else:
            shown = show(figures[name], spec or "") if not attribute else None
            shown = str(getattr(figures[name], attribute)) if attribute else shown
        if shown is None:
            return _EMPTY.get(mark)
        text = text.replace(field[0], shown)
    return text


def show(row: Row, spec: str) -> str:
    """Format a value; ``short`` has three decimals, or three digits where it is 10 and more."""
    if spec == "short":
        spec = ".3f" if row.value < 10 else ".3g"
    return format(row.value, spec)


def replace_section(page: str, section: str) -> str:
    """Replace the part of a page from the first line of a section to its last."""
    first, last = (section.strip().splitlines()[i] for i in (0, -1))
    before, rest = page.split(first)
    return before + section.strip() + rest.split(last)[1]


def find_template(name: str) -> Path:
    """Return the path of a template."""
    return Path(__file__).parent / f"{name}.template"
