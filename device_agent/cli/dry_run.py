"""The dry run of a stream as a table for people, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from sfumato.device_agent.agent.dry_run import Cell, ColumnSample, DryRun, RowSample, TimeSample
from sfumato.device_agent.sources.settings import find_zone
from sfumato.shared.core.quantise import STEPS

_MARGIN = "      "
_MOST_SHOWN = 12
_NAME_WIDTH, _TEXT_WIDTH, _BOUNDS_WIDTH = 18, 17, 24
_DAY_S = 86400
_LENGTHS = ((_DAY_S, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def show_dry_run(run: DryRun) -> str:
    """Write times, dimensions and a few rows of a stream's first records."""
    lines = [f"{_count(run.n_records, 'record')}, in {_count(run.n_windows, 'window')}"]
    if run.n_unsketchable:
        lines[0] += (
            f"; {run.n_unsketchable:,} of them ({_share(run.n_unsketchable, run)}) cannot be "
            "sketched and add zero"
        )
    for part in (_show_times(run), _show_columns(run), _show_rows(run)):
        lines += ["", *part] if part else []
    return "\n".join((_MARGIN + line).rstrip() for line in lines)


def _show_times(run: DryRun) -> list[str]:
    times = run.times
    if times is None:
        return []
    lines = [f"times       {times.field}, read as {times.format}; {_describe_zone(times)}"]
    if times.earliest is not None and times.latest is not None:
        here = _find_here(times)
        lines += [
            f"{name:<12}{_show_time(t, UTC)}{_show_here(t, here)}"
            for name, t in (("earliest", times.earliest), ("latest", times.latest))
        ]
    if times.slot_s is not None:
        which = f"{times.first_slot}"
        which += f" to {times.last_slot}" if times.n_slots > 1 else ""
        lines.append(
            f"slots       {times.n_slots:,} of {_show_length(times.slot_s)} (number {which})"
        )
    shares = [("unreadable", times.n_unreadable)]
    if times.decides:
        left_out = ", left out" if times.leaves_out else ""
        shares.append((f"before the study{left_out}", times.n_before))
        if times.n_after:
            shares.append((f"behind its end{left_out}", times.n_after))
    shares.append(("in the future", times.n_future))
    lines.append(
        "of these    " + ", ".join(f"{_share(count, run)} {name}" for name, count in shares)
    )
    return lines


def _describe_zone(times: TimeSample) -> str:
    if times.format.startswith("unix"):
        return "counted from 1970 in UTC"
    if times.states_zone:
        return "they state their zone"
    read = f"read in {times.zone}"
    return (
        f"they state no zone, and are {read}"
        if times.states_zone is False
        else (f"those without a zone are {read}")
    )


def _find_here(times: TimeSample) -> tzinfo | None:
    """Return the zone of the settings, or this machine's."""
    return find_zone(times.zone) if times.zone != "UTC" else None


def _show_here(t: float, zone: tzinfo | None) -> str:
    text = _show_time(t, zone)
    return "" if text == _show_time(t, UTC) else f"    {text}"


def _show_time(t: float, zone: tzinfo | None) -> str:
    moment = datetime.fromtimestamp(t, UTC).astimezone(zone)
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"


def _show_length(seconds: int) -> str:
    if seconds > _DAY_S:
        return f"{seconds / _DAY_S:.6g} days"
    size, name = next((s, name) for s, name in _LENGTHS if seconds % s == 0)
    return _count(seconds // size, name)


def _show_columns(run: DryRun) -> list[str]:
    rows = [
        (
            _cut(column.dimension, _NAME_WIDTH),
            _cut(column.field, _NAME_WIDTH),
            _cut(_show_bounds(column), _BOUNDS_WIDTH),
            "-"
            if column.least is None
            else f"{_show_value(column.least)} to {_show_value(column.greatest)}",
            _share(column.n_below, run),
            _share(column.n_above, run),
            _share(column.n_unreadable, run),
        )
        for column in run.columns
    ]
    header = ("dimension", "field", "bounds", "records", "below", "above", "unreadable")
    return _table(header, rows, right=(4, 5, 6))


def _show_bounds(column: ColumnSample) -> str:
    if column.lower is None or column.upper is None:
        return ", ".join(column.levels)
    unit = "" if column.unit == "1" else f" {column.unit}"
    scale = "" if column.resolution is None else ", log"
    return f"{column.lower:g} to {column.upper:g}{unit}{scale}"


def _show_rows(run: DryRun) -> list[str]:
    names = [column.dimension for column in run.columns]
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        cells = [
            ("", _cut(name, _NAME_WIDTH), *_show_cell(cell))
            for name, cell in zip(names[:_MOST_SHOWN], row.cells, strict=False)
        ]
        if run.times is not None:
            cells.insert(0, ("", run.times.field, _show_text(row.time_text), *_show_moment(row)))
        cells[0] = (str(row.place), *cells[0][1:])
        rows += cells
    if not rows:
        return []
    lines = _table(
        ("line", "dimension", "in the source", "in the plan's unit", "within bounds", "step"),
        rows,
        right=(5,),
    )
    lines.append(f"The sketch is computed from the steps, whole numbers from -{STEPS} to {STEPS}.")
    if len(names) > _MOST_SHOWN:
        lines.append(f"Each record has {len(names) - _MOST_SHOWN} more dimension(s).")
    return lines


def _show_moment(row: RowSample) -> tuple[str, str, str]:
    if row.time is None:
        return "unreadable", "", ""
    return _show_time(row.time, UTC), "" if row.slot is None else f"slot {row.slot}", ""


def _show_cell(cell: Cell) -> tuple[str, str, str, str]:
    remark = {"below": " (was below)", "above": " (was above)", "imputed": " (instead)"}
    return (
        _show_text(cell.text),
        "unreadable" if cell.value is None else _show_value(cell.value),
        "" if cell.bounded is None else f"{_show_value(cell.bounded)}{remark.get(cell.state, '')}",
        "adds zero" if cell.step is None else str(cell.step),
    )


def _show_text(text: str | None) -> str:
    if text is None:
        return "-"
    return _cut(text, _TEXT_WIDTH) if text else "(nothing)"


def _show_value(value: float | str | None) -> str:
    if isinstance(value, str):
        return _cut(value, _TEXT_WIDTH)
    return "-" if value is None else f"{value:.6g}"


def _share(count: int, run: DryRun) -> str:
    """Write a share so that some never look like none, and not quite all never like all."""
    share = 100 * count / max(1, run.n_records)
    if count and share < 0.1:
        return "<0.1%"
    return ">99.9%" if 99.9 < share < 100 else f"{share:.1f}%"


def _count(n: int, name: str) -> str:
    return f"{n:,} {name}" if n == 1 else f"{n:,} {name}s"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int]
) -> list[str]:
    cells = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if i in right else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
