"""Mapping from the fields of a source to the plan's dimensions, and the report of reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np

from sfumato.device_agent.sources.settings import (
    FieldSettings,
    SourceSettings,
    StreamSettings,
    TextSettings,
    find_zone,
)
from sfumato.device_agent.sources.shown_rows import RowKeeper
from sfumato.shared.arrays import Bools, Integers
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Dimension
from sfumato.shared.plan.quantities import Conversion
from sfumato.shared.reading import Block, Fields, LineParser, RecordTable, TimeField, make_parser
from sfumato.shared.reading.records import NAN, NO_KIND, read_exact

SHOWN_LINES = 5
"""Number of places of unusable records that a report names."""
_DAY_0, _MARCH_1900 = datetime(1899, 12, 30), 61
_UNIX_SCALES = {"unix": 1, "unix_ms": 10**3, "unix_us": 10**6, "unix_ns": 10**9}


@dataclass(kw_only=True)
class ReadingReport:
    """Events of reading: counts, and places without any value.

    Parameters
    ----------
    n_unusable, unusable
        The number of records with a missing or unreadable value, and the first few as (line,
        field). What they add is for the plan to say.
    n_untimed, untimed
        The same of records whose time cannot be read.
    bytes_read
        Bytes of the records read.
    unfinished_line
        The number of a last line without an end, which was left for the next time.
    n_late, n_outside, n_ahead
        Where messages are joined: how many came after their cell was closed, have a time outside
        the cells or none, and have a time ahead of this machine's clock.
    notes
        Anything else that the owner should know.
    """

    n_unusable: int = 0
    unusable: list[tuple[int, str]] = field(default_factory=list)
    n_untimed: int = 0
    untimed: list[tuple[int, str]] = field(default_factory=list)
    bytes_read: int = 0
    unfinished_line: int | None = None
    n_late: int = 0
    n_outside: int = 0
    n_ahead: int = 0
    notes: list[str] = field(default_factory=list)

    def add_unusable(self, line: int, name: str) -> None:
        """Note a record of which a value is missing or cannot be read."""
        self.n_unusable += 1
        if len(self.unusable) < SHOWN_LINES:
            self.unusable.append((line, name))

    def add_untimed(self, line: int, name: str) -> None:
        """Note a record without a readable time."""
        self.n_untimed += 1
        if len(self.untimed) < SHOWN_LINES:
            self.untimed.append((line, name))

    def note(self, note: str) -> None:
        """Add a note, once."""
        if note not in self.notes:
            self.notes.append(note)

    def include(self, other: ReadingReport) -> None:
        """Add the events of another report."""
        for name in ("unusable", "untimed"):
            shown = getattr(self, name)
            shown += getattr(other, name)[: SHOWN_LINES - len(shown)]
        self.n_unusable += other.n_unusable
        self.n_late += other.n_late
        self.n_outside += other.n_outside
        self.n_ahead += other.n_ahead
        self.n_untimed += other.n_untimed
        self.bytes_read += other.bytes_read

    def describe(self) -> list[str]:
        """Return messages for the owner; they name lines and fields, never a value."""
        return [*self.describe_reading(), *self.describe_values()]

    def describe_values(self, *, hides_counts: bool = False) -> list[str]:
        """Return messages that depend on values: for the owner's eyes, never for a log.

        Where counts are hidden they stand here too, for they tell them.
        """
        messages = self._describe_lines() if hides_counts else []
        if self.n_unusable:
            messages.append(
                f"{self.n_unusable} record(s) have a value that is missing or cannot be read: "
                + _show_places(self.unusable, self.n_unusable)
            )
        return messages

    def describe_reading(self, *, hides_counts: bool = False) -> list[str]:
        """Return messages that depend on no value; without any line where counts are hidden."""
        return [*self.notes, *([] if hides_counts else self._describe_lines())]

    def _describe_lines(self) -> list[str]:
        messages = []
        if self.n_untimed:
            messages.append(
                f"{self.n_untimed} record(s) have no readable time; they join the open window, or "
                "none if the plan protects a device as a whole: "
                + _show_places(self.untimed, self.n_untimed)
            )
        for n, what in (
            (self.n_late, "came after their interval was closed, and are in no record"),
            (self.n_outside, "have a time outside the intervals or none, and are in no record"),
            (
                self.n_ahead,
                "have a time ahead of this machine's clock: they wait for it, and after each "
                "restart the source is read again from there",
            ),
        ):
            if n:
                messages.append(f"{n} message(s) {what}")
        if self.unfinished_line is not None:
            messages.append(
                f"line {self.unfinished_line} has no end yet and was left for the next time"
            )
        return messages


def _show_places(places: list[tuple[int, str]], total: int) -> str:
    shown = ", ".join(f"line {line} ({name})" for line, name in places)
    return f"{shown} and {total - len(places)} more" if total > len(places) else shown


class RecordMapping:
    """Map the fields of a record to dimensions in their units, to its time and to its id.

    Parameters
    ----------
    stream
        The stream's settings.
    dimensions
        The plan's dimensions, in order.

    Raises
    ------
    ConfigError
        The settings convert a dimension that has levels, or read one field into two dimensions.
    """

    def __init__(self, stream: StreamSettings, dimensions: Sequence[Dimension]) -> None:
        names = [dimension.name for dimension in dimensions]
        columns = [stream.find_field(name) for name in names]
        join = stream.source.join
        _require_apart(names, columns)
        for dimension, column in zip(dimensions, columns, strict=True):
            _require_unconverted(dimension, column)
        keys, kinds = _list_kinds(stream, columns)
        read = {column.name for column in columns} if join is None else {join.value}
        if measured := sorted(read & set(keys)):
            raise ConfigError(
                f"cannot choose by {measured[0]!r}, which is read as a value: what it says would "
                "decide whether there is a record",
                field="streams.source.where" if join is None else "streams.source.join",
                fix="choose by the name of a sensor, a place or a quantity",
            )
        self.fields = Fields(
            values=tuple(column.name if join is None else join.value for column in columns),
            levels=tuple(dimension.levels for dimension in dimensions),
            time=_make_time_field(stream.source),
            identity=stream.source.identity,
            keys=keys,
            kinds=kinds,
            spelling=stream.source.spelling,
            are_chosen=join is not None or [column.name for column in columns] != names,
            advice="correct the header, or name the column in [streams.columns] or "
            "[streams.source]; check encoding and delimiter too",
        )
        self._is_joined = join is not None
        self._scale = np.array([column.conversion.scale for column in columns])
        self._offset = np.array([column.conversion.offset for column in columns])
        self._converts = bool((self._scale != 1).any() or (self._offset != 0).any())
        self.rows: RowKeeper | None = None
        """Keeps the rows that a dry run shows, if any."""

    def make_parser(self, settings: TextSettings) -> LineParser:
        """Return a new parser of the configured format; one for each file."""
        return make_parser(settings.format, self.fields, settings)

    def parse(self, parser: LineParser, block: Block, report: ReadingReport) -> RecordTable:
        """Return the records of a block, in the plan's units; see ``convert``."""

        def read_texts(i: int) -> Sequence[str] | None:
            return parser.read_texts(block.part(i, i + 1).data)

        return self.convert(parser.parse(block), report, block.places, read_texts)

    def convert(
        self,
        table: RecordTable,
        report: ReadingReport,
        places: Sequence[int],
        read_texts: Callable[[int], Sequence[str] | None] | None = None,
    ) -> RecordTable:
        """Return records in the plan's units, as a matrix, and count those that are unusable.

        ``read_texts`` gives the texts of a record, for the rows that a dry run shows.
        """
        raw = values = table.to_matrix()
        if self._converts:
            with np.errstate(over="ignore"):
                values = values * self._scale + self._offset
            values[~np.isfinite(values)] = NAN
        if self.rows is not None:
            self.rows.add(raw, values, table, places, read_texts)
        bad = np.isnan(values)
        if table.kinds is not None:
            bad &= self._find_read(table.kinds)
        for i in np.flatnonzero(bad.any(axis=1)).tolist():
            what = table.damaged.get(i) or self.fields.values[int(bad[i].argmax())]
            report.add_unusable(places[i], what)
        # Of messages it is for the join to say.
        if self.fields.time is not None and not self._is_joined:
            is_untimed = np.isnan(table.timestamps)
            if table.chosen is not None:
                is_untimed &= table.chosen
            for i in np.flatnonzero(is_untimed).tolist():
                report.add_untimed(places[i], self.fields.time.name)
        return replace(table, values=values)

    def _find_read(self, kinds: Integers) -> Bools:
        """Return which values of records are read: shape ``(n, d)``."""
        is_read: Bools = (kinds != NO_KIND)[:, np.newaxis]
        if self._is_joined:
            d = len(self.fields.values)
            is_read = is_read & ((kinds % d)[:, np.newaxis] == np.arange(d))
        return is_read


def _list_kinds(
    stream: StreamSettings, columns: Sequence[FieldSettings]
) -> tuple[tuple[str, ...], dict[tuple[str, ...], int]]:
    """Return the fields that tell which records are wanted, and the number of each kind."""
    where, join = stream.source.where, stream.source.join
    if join is None:
        return tuple(where), {tuple(where.values()): 0}
    keys = (join.key,) if join.group is None else (join.key, join.group)
    kinds = join.list_kinds([column.name for column in columns])
    return (
        (*where, *keys),
        {(*where.values(), *texts): number for texts, number in kinds.items()},
    )


def _require_apart(names: Sequence[str], columns: Sequence[FieldSettings]) -> None:
    """Refuse one field in two dimensions: the plan means two, and one of them would be wrong."""
    first: dict[str, str] = {}
    for name, column in zip(names, columns, strict=True):
        other = first.setdefault(column.name, name)
        if other != name:
            raise ConfigError(
                f"cannot be read from {column.name!r}, which {other} is read from",
                field=f"streams.columns.{name}",
                fix=f"name the field that holds {name}, or correct that of {other}",
            )


def _require_unconverted(dimension: Dimension, column: FieldSettings) -> None:
    if dimension.is_categorical and column.conversion != Conversion():
        raise ConfigError(
            "cannot be converted: the plan has levels for it, not numbers",
            field=f"streams.columns.{dimension.name}",
            fix="remove convert, scale and offset",
        )


def _make_time_field(settings: SourceSettings) -> TimeField | None:
    name, form = settings.timestamp, settings.timestamp_format
    if name is None or settings.stamps_arrival:
        return None
    zone = find_zone(settings.timestamp_zone)
    form, _, unix = form.partition(" or ") if form.startswith("iso8601") else (form, "", "")
    if form in _UNIX_SCALES:
        return TimeField(name=name, unix_scale=_UNIX_SCALES[form], zone=zone)
    clock = getattr(settings, "timestamp_clock", None)

    def parse(text: str) -> datetime:
        text = text.strip()
        if form == "iso8601":
            moment = datetime.fromisoformat(text)
        else:
            moment = _read_days(text) if form == "excel" else datetime.strptime(text, form)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)

    return TimeField(
        name=name,
        clock=clock,
        parse=parse,
        unix_scale=_UNIX_SCALES.get(unix, 1),
        is_mixed=bool(unix),
        zone=zone,
    )


def _read_days(text: str) -> datetime:
    """Return the time that a spreadsheet counts in days, to the millisecond."""
    days = read_exact(text.replace(",", "."))
    # It counts a 29 February 1900, so that days before are another's.
    if not isinstance(days, Decimal) or days < _MARCH_1900:
        raise ValueError
    return _DAY_0 + timedelta(milliseconds=round(days * 86_400_000))
