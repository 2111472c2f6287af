"""Look at the first records of a source as they will be sketched, before a stream joins.

How many are looked at depends on public facts alone: on a setting, and on how many there are.
Nothing is drawn, stored or sent, and no sum is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np

from sfumato.device_agent.settings.owner_tables import CheckTable
from sfumato.device_agent.sources import (
    FileCopy,
    KnownPosition,
    RecordBatch,
    RecordSource,
    open_source,
)
from sfumato.device_agent.sources.settings import LocalSettings, StreamSettings
from sfumato.device_agent.sources.shown_rows import ShownRow
from sfumato.device_agent.windows import WindowCutter, WindowState
from sfumato.shared.arrays import Floats
from sfumato.shared.plan import Dimension, SketchPlan
from sfumato.shared.plan.catalogue import find_usual_bounds
from sfumato.shared.wire import CLOCK_LEEWAY_S, format_time

SearchBox = Mapping[str, Sequence[float]]
CONSUMES = "reading takes its records away, so none was read"
EMPTY = "it holds no new record now"


@dataclass(frozen=True, kw_only=True)
class ColumnSample:
    """One dimension of the sample.

    Parameters
    ----------
    dimension, field, unit, lower, upper, levels
        As plan and settings state them; a category has levels and no bounds.
    resolution
        Resolution of a logarithmic scale; None for a linear one.
    missing
        The public value that stands for one that cannot be read, if any.
    n_unreadable, n_below, n_above
        Records whose value cannot be read or is no level, and those out of bounds.
    least, greatest
        Range of the numbers that can be read, in the plan's unit; None without any.
    usual
        Where numbers are expected: where the study searches, or else what the catalogue says of
        name and unit; None if neither does, and of a category.
    is_searched
        Whether the study says it.
    n_unusual, n_fine
        Records whose number lies elsewhere, or is not zero and below the resolution.
    scale, spread
        The plan's, and the standard deviation of the numbers within bounds, both on the scale that
        is sketched; None without any.
    """

    dimension: str
    field: str
    unit: str
    lower: float | None
    upper: float | None
    levels: tuple[str, ...]
    resolution: float | None
    missing: float | str | None
    n_unreadable: int
    n_below: int
    n_above: int
    least: float | None
    greatest: float | None
    usual: tuple[float, float] | None = None
    is_searched: bool = False
    n_unusual: int = 0
    n_fine: int = 0
    scale: float | None = None
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class TimeSample:
    """Times of the sample.

    Parameters
    ----------
    field, format, zone
        As the settings state them.
    decides
        Whether windows are by time.
    n_unreadable, n_before, n_after, n_future
        Records without a readable time, before the study's first window, behind the end of a study
        that has one, and later than now.
    leaves_out
        Whether all of these but the last join no window.
    earliest, latest
        Seconds since 1970-01-01 UTC; None if no time can be read.
    states_zone
        Whether the times say which zone they are in; None if that is not known.
    n_slots, first_slot, last_slot, slot_s
        Slots that the records would join, and their length in seconds; none with windows by count.
    """

    field: str
    format: str
    zone: str
    decides: bool
    n_unreadable: int
    n_before: int
    n_future: int
    earliest: float | None
    latest: float | None
    states_zone: bool | None
    n_after: int = 0
    leaves_out: bool = False
    n_slots: int = 0
    first_slot: int | None = None
    last_slot: int | None = None
    slot_s: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One value of a row.

    Parameters
    ----------
    text
        As the source spells it.
    value, bounded
        In the plan's unit, and within its bounds, where a public value stands for a missing one; a
        category's are levels. None if there is none.
    step
        The quantisation step on the dimension's scale, or the number of the level; None where the
        record adds zero.
    """

    text: str
    value: float | str | None
    bounded: float | str | None
    step: int | None
    state: Literal["kept", "below", "above", "imputed", "unreadable"]


@dataclass(frozen=True, kw_only=True)
class RowSample:
    """One record; the steps of its cells are what the sketch is computed from.

    A record of which a value cannot be read has no steps: it adds zero.
    """

    place: int
    time_text: str | None
    time: float | None
    slot: int | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """Result of looking at a stream's first records.

    Parameters
    ----------
    stream
        The stream's name.
    n_records
        Records that were looked at.
    unseen
        The reason why none was; None if some were.
    n_windows
        Windows that they make, the open one included.
    n_unsketchable
        Records of which a value cannot be read, so that they add zero.
    times
        None if the settings name no time.
    columns, rows
        The plan's dimensions, and a few records to show.
    unreadable, untimed
        Where the first unusable records are, as (line, field).
    notes
        What the source reported, without any value.
    copies
        Files that may repeat the records of others.
    """

    stream: str
    n_records: int
    unseen: str | None
    n_windows: int
    n_unsketchable: int
    times: TimeSample | None
    columns: tuple[ColumnSample, ...]
    rows: tuple[RowSample, ...]
    unreadable: tuple[tuple[int, str], ...]
    untimed: tuple[tuple[int, str], ...]
    notes: tuple[str, ...]
    copies: tuple[FileCopy, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; times as text."""
        document = asdict(self)
        times = [document["times"] or {}, *document["rows"]]
        for table in times:
            for key in table.keys() & {"earliest", "latest", "time"}:
                table[key] = None if table[key] is None else format_time(table[key])
        return document


class Sampler:
    """Collects the first records of a stream, up to the owner's setting.

    Parameters
    ----------
    now
        The latest time that is believed, seconds since 1970-01-01 UTC.
    box
        The study's search box, by dimension.
    """

    def __init__(
        self,
        stream: StreamSettings,
        plan: SketchPlan,
        limits: CheckTable,
        *,
        now: float,
        box: SearchBox | None = None,
    ) -> None:
        self._box = box or {}
        self._stream = stream
        self._plan = plan
        self._most = limits.records
        self._now = now
        self._values: list[Floats] = []
        self._timestamps: list[Floats] = []
        self._n_records = 0

    @property
    def is_full(self) -> bool:
        """True if no more records are wanted."""
        return self._n_records >= self._most

    def add(self, batch: RecordBatch) -> None:
        """Add records; those beyond the setting are left out."""
        values = batch.values[: self._most - self._n_records]
        self._values.append(values)
        self._timestamps.append(batch.timestamps[: len(values)])
        self._n_records += len(values)

    def finish(self, source: RecordSource, rows: Sequence[ShownRow]) -> DryRun:
        """Return what was found in the records that were added.

        Parameters
        ----------
        source
            Where they come from.
        rows
            The rows to show.
        """
        dimensions = self._plan.dimensions
        values = np.concatenate([np.empty((0, len(dimensions))), *self._values])
        report, times = source.report, self._examine_times(rows)
        unseen = CONSUMES if source.guarantee.consumes else EMPTY
        return DryRun(
            stream=self._stream.name,
            n_records=self._n_records,
            unseen=None if self._n_records else unseen,
            n_unsketchable=int(np.count_nonzero(~self._plan.find_sketchable(values))),
            n_windows=self._count_windows(times),
            times=times,
            columns=tuple(
                _examine_column(dimension, self._stream, values[:, i], self._box)
                for i, dimension in enumerate(dimensions)
            ),
            rows=tuple(self._make_row(row) for row in rows),
            unreadable=tuple(report.unusable),
            untimed=tuple(report.untimed),
            notes=(*report.notes, *source.caveats),
            copies=tuple(source.find_copies()),
        )

    def _count_windows(self, times: TimeSample | None) -> int:
        if self._plan.releases_count:
            return times.n_slots if times else 0
        cutter, state, n_closed = WindowCutter.of_plan(self._plan), WindowState(), 0
        for timestamps in self._timestamps:
            for cut in cutter.cut(state, timestamps, now=self._now):
                n_closed += cut.closed is not None
                state = cut.state
        return n_closed + (state.n_records > 0)

    def _examine_times(self, rows: Sequence[ShownRow]) -> TimeSample | None:
        source, rule = self._stream.source, self._plan.window
        if source.timestamp is None:
            return None
        timestamps = np.concatenate([np.empty(0), *self._timestamps])
        readable = timestamps[~np.isnan(timestamps)]
        by_time = rule.kind == "time"
        is_future = readable > self._now + CLOCK_LEEWAY_S
        joining = readable[rule.find_inside(readable)] if self._plan.is_bounded else readable
        found = TimeSample(
            field=source.timestamp,
            format=source.timestamp_format,
            zone=source.timestamp_zone,
            decides=by_time,
            n_unreadable=len(timestamps) - len(readable),
            n_before=int((readable < rule.origin).sum()) if by_time else 0,
            n_future=int(is_future.sum()),
            n_after=0 if rule.end is None else int(((readable >= rule.end) & ~is_future).sum()),
            leaves_out=self._plan.is_bounded,
            earliest=float(readable.min()) if len(readable) else None,
            latest=float(readable.max()) if len(readable) else None,
            states_zone=_find_zone_statement(source.timestamp_format, rows),
        )
        slots = {self._find_slot(t) for t in joining.tolist()} if by_time else set()
        if not slots:
            return found
        return replace(
            found,
            n_slots=len(slots),
            first_slot=min(slots),
            last_slot=max(slots),
            slot_s=rule.length_s,
        )

    def _find_slot(self, timestamp: float) -> int:
        return self._plan.window.slot_of(min(timestamp, self._now))

    def _make_row(self, row: ShownRow) -> RowSample:
        values = np.array([row.values])
        steps: list[int | None] = [None] * len(row.values)
        if self._plan.find_sketchable(values)[0]:
            steps = self._find_steps(values)
        rule = self._plan.window
        has_slot = rule.kind == "time" and not math.isnan(row.timestamp)
        if self._plan.is_bounded:
            has_slot = bool(rule.find_inside(np.array([row.timestamp]))[0])
        return RowSample(
            place=row.place,
            time_text=row.time_text,
            time=None if math.isnan(row.timestamp) else row.timestamp,
            slot=self._find_slot(row.timestamp) if has_slot else None,
            cells=tuple(
                _make_cell(dimension, text, value, step)
                for dimension, text, value, step in zip(
                    self._plan.dimensions, row.texts, row.values, steps, strict=True
                )
            ),
        )

    def _find_steps(self, values: Floats) -> list[int | None]:
        """Return the step of each dimension of one record; that of a category is its level.

        None for a missing value, which some statistics count.
        """
        dimensions, quantiser = self._plan.dimensions, self._plan.space.column_quantiser
        encodings = [dimension.encoding for dimension in dimensions]
        columns = [e.impute(e.transform(values[:, i])) for i, e in enumerate(encodings)]
        found = np.column_stack(columns)
        # Each by itself: to a quantiser one missing value makes the whole record so.
        steps, _ = quantiser.quantise(np.where(np.isnan(found), quantiser.centre, found))
        return [
            None
            if np.isnan(found[0, i])
            else int(found[0, i] if dimension.is_categorical else steps[0, i])
            for i, dimension in enumerate(dimensions)
        ]


def _find_zone_statement(form: str, rows: Sequence[ShownRow]) -> bool | None:
    """Return whether times state their zone, by the format or else by the first one shown."""
    if not form.startswith("iso8601"):
        return form.startswith("unix") or "%z" in form
    for row in rows:
        with suppress(ValueError):
            return datetime.fromisoformat((row.time_text or "").strip()).tzinfo is not None
    return None


def _examine_column(
    dimension: Dimension, stream: StreamSettings, values: Floats, box: SearchBox
) -> ColumnSample:
    # A number that is no level is as good as none.
    readable = values[~np.isnan(dimension.encoding.transform(values))]
    has_range = len(readable) > 0 and not dimension.is_categorical
    below = dimension.lower is not None and readable < dimension.lower
    above = dimension.upper is not None and readable > dimension.upper
    within = dimension.encoding.transform(np.clip(readable, *dimension.bounds))
    resolution = 0.0 if dimension.transform is None else dimension.transform.resolution
    usual = None if dimension.is_categorical else _find_usual(dimension, box)
    is_usual = True if usual is None else (readable >= usual[0]) & (readable <= usual[1])
    return ColumnSample(
        usual=usual,
        is_searched=dimension.name in box,
        n_unusual=int(np.count_nonzero(np.logical_not(is_usual))),
        n_fine=int(np.count_nonzero((readable != 0) & (np.abs(readable) < resolution))),
        scale=dimension.scale,
        spread=float(within.std()) if has_range else None,
        dimension=dimension.name,
        field=stream.find_field(dimension.name).name,
        unit=dimension.unit,
        lower=dimension.lower,
        upper=dimension.upper,
        levels=dimension.levels,
        resolution=resolution or None,
        missing=dimension.missing,
        n_unreadable=len(values) - len(readable),
        n_below=int(np.count_nonzero(below)),
        n_above=int(np.count_nonzero(above)),
        least=float(readable.min()) if has_range else None,
        greatest=float(readable.max()) if has_range else None,
    )


def _find_usual(dimension: Dimension, box: SearchBox) -> tuple[float, float] | None:
    if dimension.name in box:
        lower, upper = box[dimension.name]
        return lower, upper
    found, bounds = find_usual_bounds(dimension.name, dimension.unit), dimension.bounds
    # A plan that expects other values means something else by the name.
    is_meant = found is not None and found[0] <= bounds[1] and bounds[0] <= found[1]
    return found if is_meant else None


def _make_cell(dimension: Dimension, text: str, value: float, step: int | None) -> Cell:
    if np.isnan(dimension.encoding.transform(np.array([value])))[0]:
        state: Literal["imputed", "unreadable"] = (
            "unreadable" if dimension.missing is None else "imputed"
        )
        return Cell(text=text, value=None, bounded=dimension.missing, step=step, state=state)
    if dimension.is_categorical:
        level = dimension.levels[int(value)]
        return Cell(text=text, value=level, bounded=level, step=step, state="kept")
    lower, upper = dimension.bounds
    side: Literal["kept", "below", "above"] = (
        "below" if value < lower else "above" if value > upper else "kept"
    )
    return Cell(
        text=text, value=value, bounded=min(max(value, lower), upper), step=step, state=side
    )


def examine_stream(
    stream: StreamSettings,
    plan: SketchPlan,
    limits: CheckTable,
    *,
    known: Sequence[KnownPosition],
    digest_key: bytes,
    now: float,
    box: SearchBox | None = None,
) -> DryRun:
    """Look at the first records of a stream that were not read yet; nothing is taken away.

    Parameters
    ----------
    known, digest_key
        As ``open_source`` takes them.
    now, box
        As :class:`Sampler` takes them.

    Raises
    ------
    RecordError, LedgerError, ConfigError
        The source cannot be opened or read.
    """
    sampler = Sampler(stream, plan, limits, now=now, box=box)
    with closing(
        open_source(without_lock(stream), plan.dimensions, known, digest_key, now=lambda: now)
    ) as source:
        keeper = source.keep_rows()
        if not source.guarantee.consumes:
            for batch in source.read():
                sampler.add(batch)
                if sampler.is_full:
                    break
        return sampler.finish(source, keeper.rows)


def without_lock(stream: StreamSettings) -> StreamSettings:
    """Return a stream whose source a dry run may read while an agent reads it."""
    source = stream.source
    if isinstance(source, LocalSettings):
        source = replace(source, lock=False)
    return replace(stream, source=source)
