"""Limits of the dry run, which keep a stream from joining, and questions, which do not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.device_agent.agent.dry_run import ColumnSample, DryRun
from sfumato.device_agent.settings.owner_tables import CheckTable
from sfumato.device_agent.sources import FileCopy
from sfumato.shared.errors import ConfigError
from sfumato.shared.reading.unreadable import guess_cause, show_share

_FEWEST = 10
"""Number of values below which one value, or a narrow spread, says nothing."""
_MOST_UNUSUAL = 0.5
_LEAST_SPREAD, _MOST_SPREAD = 0.05, 100.0
"""Least and largest spread of a column over the plan's scale: one narrow cluster, or many."""


def find_problems(run: DryRun, limits: CheckTable, *, field: str) -> list[ConfigError]:
    """Return what keeps a stream from joining: shares beyond the owner's limits.

    Parameters
    ----------
    field
        Path of the stream in the configuration.
    """
    problems = [_refuse_copies(run.copies, field)] if run.copies else []
    if not run.n_records:
        return problems
    problems += find_time_problems(run, limits, field=field)
    for i, column in enumerate(run.columns):
        where = f"{field}.columns.{column.dimension}"
        unreadable = column.n_unreadable / run.n_records
        # Where a public value stands for missing ones, many may be missing, but not all.
        most = limits.unreadable_values if column.missing is None else math.nextafter(1.0, 0.0)
        if unreadable > most:
            what = "levels of the plan" if column.levels else "numbers"
            cells = (row.cells[i] for row in run.rows)
            texts = [cell.text for cell in cells if cell.state in ("unreadable", "imputed")]
            cause, fix = guess_cause(None if column.levels or not texts else texts[0])
            problems.append(
                _make_problem(
                    f"must be a column of {what}: {show_share(unreadable)} of the values of "
                    f"{column.field!r} cannot be read{_first_place(run.unreadable)}"
                    + (f": {cause}" if texts and not column.levels else ""),
                    where,
                    fix,
                    "unreadable_values",
                )
            )
        clipped = (column.n_below + column.n_above) / run.n_records
        if clipped > limits.clipped:
            side = "below" if column.n_above == 0 else "above" if column.n_below == 0 else "outside"
            problems.append(
                _make_problem(
                    f"must mostly lie within the plan's bounds, {column.lower:g} to "
                    f"{column.upper:g} {column.unit}: {show_share(clipped)} of the values of "
                    f"{column.field!r} lie {side}",
                    where,
                    "write the column's unit as convert, or ask the study's operator",
                    "clipped",
                )
            )
    return problems


def find_questions(run: DryRun, *, field: str) -> list[str]:
    """Return what its owner should look at: values that may be right, and are seldom.

    They name no value. Bounds may be far wider than what records hold, so that values of another
    column or unit lie within them.
    """
    return [
        f"{field}.columns.{column.dimension}: is {column.field!r} the right column"
        f"{'' if column.unit == '1' else f', in {column.unit}'}? {doubt}"
        for column in run.columns
        if run.n_records - column.n_unreadable >= _FEWEST and (doubt := _find_doubt(run, column))
    ]


def _find_doubt(run: DryRun, column: ColumnSample) -> str | None:
    n_numbers = run.n_records - column.n_unreadable
    unusual = column.n_unusual / n_numbers
    if column.usual is not None and unusual > _MOST_UNUSUAL:
        lower, upper = column.usual
        where = "the study expects records" if column.is_searched else "such values usually lie"
        return (
            f"{show_share(unusual)} of its values lie outside {lower:g} to {upper:g} "
            f"{column.unit}, where {where}"
        )
    if column.least is not None and column.least == column.greatest:
        return "All records that were looked at have one value"
    if column.n_fine > _MOST_UNUSUAL * n_numbers:
        return f"Most of its values are finer than the plan's resolution, {column.resolution:g}"
    if column.scale is None or column.spread is None:
        return None
    if not _LEAST_SPREAD <= column.spread / column.scale <= _MOST_SPREAD:
        side = "less" if column.spread < column.scale else "more"
        return f"Its values spread far {side} than the plan expects"
    return None


def find_time_problems(run: DryRun, limits: CheckTable, *, field: str) -> list[ConfigError]:
    """Return the problems of times alone, which are public under replace-one."""
    times = run.times
    if times is None or not times.decides or not run.n_records:
        return []
    problems = []
    unreadable = times.n_unreadable / run.n_records
    if unreadable > limits.unreadable_times:
        problems.append(
            _make_problem(
                f"must be the format of the times: {show_share(unreadable)} of the values of "
                f"{times.field!r} cannot be read as {times.format}" + _first_place(run.untimed),
                f"{field}.source.timestamp_format",
                "correct it, or name another field as timestamp",
                "unreadable_times",
            )
        )
    # Those before a study that leaves them out harm nothing, and may be those of its pilot.
    n_before = 0 if times.leaves_out else times.n_before
    outside = (n_before + times.n_future) / run.n_records
    if outside > limits.times_outside:
        what = " and ".join(
            text
            for text, count in (
                ("before the study's first window", n_before),
                ("in the future", times.n_future),
            )
            if count
        )
        problems.append(
            _make_problem(
                f"must give times of the study: {show_share(outside)} of the values of "
                f"{times.field!r} lie {what}",
                f"{field}.source.timestamp_format",
                "correct it, or timestamp_zone, or this machine's clock",
                "times_outside",
            )
        )
    return problems


def _refuse_copies(copies: Sequence[FileCopy], field: str) -> ConfigError:
    first, n_more = copies[0], len(copies) - 1
    more = f", and {n_more} more of the kind" if n_more else ""
    remedy = (
        'to leave such files unread, state copies = "refuse"'
        if all(copy.is_left for copy in copies)
        else "move copies elsewhere"
    )
    return ConfigError(
        f"must say whether files repeat records: {first.name} may be a copy of {first.original}, "
        + ("by its name and age" if first.is_left else "because both begin with the same records")
        + more,
        field=f"{field}.source.copies",
        fix=f'{remedy}; if no file repeats records of another, state copies = "new_records"',
    )


def _first_place(places: Sequence[tuple[int, str]]) -> str:
    return f", the first in line {places[0][0]}" if places else ""


def _make_problem(rule: str, field: str, fix: str, limit: str) -> ConfigError:
    return ConfigError(
        rule,
        field=field,
        fix=f"{fix}; look at the rows with `sfumato-agent check`, and where so many are right, "
        f"raise [check] {limit}",
    )
