"""The definition of a record: which fields are read, and their values, levels and times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.arrays import Bools, Floats, Integers
from sfumato.shared.core import Columns, Records
from sfumato.shared.errors import RecordError
from sfumato.shared.reading.spelling import PLAIN, Spelling

NAN = math.nan
EARLIEST, LATEST = -62135596800, 253402300800
"""The years 1 to 9999: a time beyond them cannot be used."""
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units of timestamps in a second."""
LARGEST_ID = 2**63 - 1
"""An id is a whole number from 0 to this."""
NO_ID = NO_KIND = -1
_EPOCH = datetime(1970, 1, 1)


def read_number(text: str) -> float:
    """Return a finite decimal number, or NaN; spaces around it are ignored."""
    # float() takes "1_000" and digits of other scripts, which no other program would write.
    if "_" in text or not text.isascii():
        return NAN
    try:
        number = float(text)
    except ValueError:
        return NAN
    return number if math.isfinite(number) else NAN


def read_numbers(texts: Sequence[str]) -> Floats:
    """Return ``read_number`` of each text."""
    joined = "".join(texts)
    if "_" not in joined and joined.isascii():
        with suppress(ValueError):
            return _keep_finite(np.fromiter(map(float, texts), np.float64, len(texts)))
    return np.fromiter(map(read_number, texts), np.float64, len(texts))


def read_value(value: object) -> float:
    """Return a finite number from a number or text, or NaN; truth values are no numbers."""
    if isinstance(value, str):
        return read_number(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NAN
    try:
        number = float(value)
    except OverflowError:
        return NAN
    return number if math.isfinite(number) else NAN


def read_values(values: Sequence[object]) -> Floats:
    """Return ``read_value`` of each value."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return read_numbers(cast("Sequence[str]", values))
    # Truth values are of another type.
    if {float, int}.issuperset(kinds):
        with suppress(OverflowError):
            return _keep_finite(np.array(values, dtype=np.float64))
    return np.fromiter(map(read_value, values), np.float64, len(values))


_WHITE_SPACE = " \t\n\r\v\f"
_MOST_EXACT = 1 << 53


def read_exact(value: object) -> int | float | Decimal | None:
    """Return the very number that a value states, or None; see ``read_value``."""
    if math.isnan(read_value(value)):
        return None
    try:
        return Decimal(value) if isinstance(value, str) else cast("int | float", value)
    except InvalidOperation:  # an exponent that only floats round to zero
        return None


def read_ids(values: Sequence[object]) -> Integers:
    """Return the id that each value states, or ``NO_ID``: shape ``(n,)``."""
    numbers = _read_integers(values)
    if numbers is None:
        return np.fromiter(map(_read_id, values), np.int64, len(values))
    return np.maximum(numbers, NO_ID)


def _read_id(value: object) -> int:
    number = read_exact(value)
    # A float stands for its neighbours too where it is so large.
    most = _MOST_EXACT - 1 if isinstance(number, float) else LARGEST_ID
    is_id = number is not None and 0 <= number <= most and int(number) == number
    return int(number) if is_id else NO_ID  # type: ignore[arg-type]  # it is not None


def _read_integers(values: Sequence[object]) -> Integers | None:
    """Return integers of 64 bits, or texts of them; None if any value is something else."""
    kinds = set(map(type, values))
    if kinds == {str}:
        joined = "".join(cast("Sequence[str]", values))
        values = [] if "_" in joined or not joined.isascii() else values
    elif kinds != {int}:
        values = []
    with suppress(ValueError, OverflowError):
        return np.array(list(map(int, cast("Any", values))), dtype=np.int64) if values else None
    return None


def spell_value(value: object) -> str | None:
    """Return the text that a value is compared with levels by; None if it is like no level.

    Text is itself without white space around it; truth values are ``true`` and ``false``; a whole
    number is its decimal digits, also where it is stored in floating point; any other number is the
    shortest decimal text that gives it back.
    """
    if isinstance(value, str):
        return value.strip(_WHITE_SPACE)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) <= _MOST_EXACT else repr(value)
    return str(value) if isinstance(value, int) else None


def read_levels(values: Sequence[object], levels: Sequence[str]) -> Floats:
    """Return the number of each value's level, from 0 on; NaN for what is no level."""
    numbers = {level: float(i) for i, level in enumerate(levels)}
    found = (numbers.get(spell_value(value) or "", NAN) for value in values)
    return np.fromiter(found, np.float64, len(values))


def match_levels(column: NDArray[Any], levels: Sequence[str]) -> Floats:
    """Return ``read_levels`` of an array of numbers, truth values or text.

    Numbers of 32 bits are compared as such: they are alike a level whose number they round.
    """
    if column.dtype.kind not in "biuf":
        texts = column.tolist()
        if column.dtype.kind == "S":
            texts = [text.decode("utf-8", "replace") for text in texts]
        return read_levels(texts, levels)
    found = np.full(len(column), NAN)
    for i, level in enumerate(levels):
        number = _find_number(level, column.dtype)
        if number is not None:
            found[column == number] = i
    return found


def _find_number(level: str, kind: np.dtype[Any]) -> Any:
    """Return the value of a type that a level spells, or None."""
    if kind.kind == "b":
        return {"true": np.True_, "false": np.False_}.get(level)
    try:
        number: int | float = int(level) if kind.kind in "iu" else float(level)
    except ValueError:
        return None
    if spell_value(number) != level:
        return None
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            return kind.type(number)
    limits = np.iinfo(kind)
    return kind.type(number) if limits.min <= number <= limits.max else None


def _keep_finite(numbers: Floats) -> Floats:
    numbers[~np.isfinite(numbers)] = NAN
    return numbers


@dataclass(frozen=True, kw_only=True)
class TimeField:
    """The field that holds a record's time, read as seconds since 1970-01-01 UTC.

    Parameters
    ----------
    name
        Name of the field.
    clock
        Name of the field with the time of day, where ``name`` has the date alone.
    unix_scale
        Units of a number in a second.
    parse
        Reads text of another format, or raises ``ValueError`` or ``OverflowError``. Then numbers
        are no times.
    is_mixed
        Whether numbers are times all the same, also in text, and ``parse`` reads any other text.
    zone
        The zone of timestamps that state none.
    """

    name: str
    clock: str | None = None
    unix_scale: int = 1
    parse: Callable[[str], datetime] | None = None
    is_mixed: bool = False
    zone: tzinfo = UTC

    def read(self, value: object) -> float:
        """Return the time that a value states, or NaN."""
        if self.parse is None or (self.is_mixed and not math.isnan(read_value(value))):
            return self._read_unix(value)
        if not isinstance(value, str):
            return NAN
        try:
            seconds = self.parse(value).timestamp()
        except (ValueError, OverflowError):
            return NAN
        return seconds if EARLIEST <= seconds < LATEST else NAN

    def _read_unix(self, value: object) -> float:
        number, scale = read_exact(value), self.unix_scale
        if number is None or not EARLIEST * scale <= number < LATEST * scale:
            return NAN
        whole = math.floor(number) // scale
        return min(max(float(number) / scale, whole), math.nextafter(whole + 1, -math.inf))

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that a time is read from."""
        return (self.name,) if self.clock is None else (self.name, self.clock)

    def read_columns(self, columns: Sequence[Sequence[object]]) -> Floats:
        """Return ``read`` of each value, or of date and time of day with a space between."""
        if len(columns) == 1:
            return self.read_all(columns[0])
        return self.read_all([" ".join(map(str, both)) for both in zip(*columns, strict=True)])

    def read_all(self, values: Sequence[object]) -> Floats:
        """Return ``read`` of each value."""
        if self.parse is not None:
            return np.fromiter(map(self.read, values), np.float64, len(values))
        integers = _read_integers(values)
        if integers is not None:
            return self.convert(integers)
        numbers = read_values(values)
        seconds = self.convert(numbers)
        # Rounding may have made others a whole second, or the integer beside theirs.
        rounded = (numbers % self.unix_scale == 0) | (np.abs(numbers) >= _MOST_EXACT)
        for i in np.flatnonzero(rounded).tolist():
            seconds[i] = self.read(values[i])
        return seconds

    def convert(self, numbers: NDArray[np.number[Any]]) -> Floats:
        """Return ``read`` of each number."""
        if self.parse is not None and not self.is_mixed:
            return np.full(len(numbers), NAN)
        return count_seconds(numbers, self.unix_scale)

    def convert_local(self, ticks: NDArray[np.integer[Any]], rate: int) -> Floats:
        """Return the times of a clock of ``zone``; in an hour that occurs twice, the first."""
        seconds = count_seconds(ticks, rate)
        if str(self.zone) == "UTC":
            return seconds
        whole, places = np.unique(np.floor(seconds), return_inverse=True)
        offsets = np.array([self._find_offset(second) for second in whole.tolist()])[places]
        return _keep_second(seconds - offsets, np.floor(seconds) - offsets)

    def _find_offset(self, second: float) -> float:
        if math.isnan(second):
            return NAN
        offset = (_EPOCH + timedelta(seconds=second)).replace(tzinfo=self.zone).utcoffset()
        return NAN if offset is None else offset.total_seconds()


def count_seconds(ticks: NDArray[Any], rate: int) -> Floats:
    """Return the seconds of so many ticks, ``rate`` a second; NaN outside the years 1 to 9999.

    They are never rounded up to the next whole second, where another slot may begin.
    """
    if ticks.dtype != np.uint64:
        ticks = ticks.astype(np.float64 if ticks.dtype.kind == "f" else np.int64)
    with np.errstate(invalid="ignore"):
        whole = (ticks // ticks.dtype.type(rate)).astype(np.float64)
    return _keep_second(ticks.astype(np.float64) / rate, whole)


def _keep_second(seconds: Floats, whole: Floats) -> Floats:
    """Return times within the whole seconds that they are known to lie in."""
    kept = np.clip(seconds, whole, np.nextafter(whole + 1, -np.inf))
    return np.where((kept >= EARLIEST) & (kept < LATEST), kept, NAN)


@dataclass(frozen=True, kw_only=True)
class RecordTable:
    """Some records, in order.

    Parameters
    ----------
    values
        n records of d values, in the units of the source, or numbers of levels; one that is NaN or
        infinite is missing.
    timestamps
        Shape ``(n,)``, seconds since 1970-01-01 UTC; NaN when unreadable.
    ids
        Shape ``(n,)``, int64; ``NO_ID`` when unreadable, or when no field is an id.
    damaged
        Records that cannot be split into fields, and what is wrong with each.
    kinds
        Shape ``(n,)``, int64: which of ``Fields.kinds`` a record is, or ``NO_KIND``; None where all
        are wanted.
    """

    values: Records
    timestamps: Floats
    ids: Integers
    damaged: Mapping[int, str] = field(default_factory=dict)
    kinds: Integers | None = None

    @property
    def chosen(self) -> Bools | None:
        """Which records are wanted: shape ``(n,)``; None if all are."""
        return None if self.kinds is None else self.kinds != NO_KIND

    @property
    def wanted(self) -> Records:
        """The values of the records that are wanted."""
        chosen = self.chosen
        if chosen is None:
            return self.values
        if isinstance(self.values, Columns):
            return Columns(tuple(column[chosen] for column in self.values.columns))
        return self.values[chosen]

    def to_matrix(self) -> Floats:
        """Return the values with shape ``(n, d)``, float64; NaN for each that is not finite."""
        if isinstance(self.values, Columns):
            return _keep_finite(self.values.to_array())
        return _keep_finite(self.values.astype(np.float64, copy=False))


def join_tables(tables: Sequence[RecordTable]) -> RecordTable:
    """Return the records of all tables, in order; at least one table."""
    if len(tables) == 1:
        return tables[0]
    damaged, n_records = {}, 0
    for table in tables:
        damaged.update({n_records + i: what for i, what in table.damaged.items()})
        n_records += len(table.values)
    return RecordTable(
        values=join_records([table.values for table in tables]),
        timestamps=np.concatenate([table.timestamps for table in tables]),
        ids=np.concatenate([table.ids for table in tables]),
        damaged=damaged,
        kinds=_join_kinds(tables),
    )


def _join_kinds(tables: Sequence[RecordTable]) -> Integers | None:
    found = [table.kinds for table in tables if table.kinds is not None]
    return np.concatenate(found) if found else None


def join_records(parts: Sequence[Records]) -> NDArray[np.floating]:
    """Return the records of all parts, in order, as one array."""
    return np.concatenate([p.to_array() if isinstance(p, Columns) else p for p in parts])


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The fields that are read of each record.

    Parameters
    ----------
    values
        The field of each dimension, in the plan's order.
    levels
        The levels of each dimension, none for a number; empty where all are numbers.
    time, identity
        The fields that hold its time and its id, which are public; None if there is none.
    keys, kinds
        Fields, which are public, and the numbers of the texts that they have in the records that
        are wanted; of any other record nothing is read. Without keys all records are wanted.
    spelling
        How the numbers in ``values`` are spelled, and missing values.
    are_chosen
        Whether a person named any of ``values``, rather than the plan.
    advice
        What to do when a field is not found.
    shows_header
        Whether messages may quote the header.
    """

    values: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...] = ()
    time: TimeField | None = None
    identity: str | None = None
    keys: tuple[str, ...] = ()
    kinds: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    spelling: Spelling = PLAIN
    are_chosen: bool = False
    advice: str = "correct the header"
    shows_header: bool = False

    @property
    def columns(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The field of each dimension, and its levels."""
        return zip(self.values, self.levels or ((),) * len(self.values), strict=True)

    @property
    def has_levels(self) -> bool:
        """True if a dimension has levels."""
        return any(self.levels)

    @property
    def public(self) -> tuple[str, ...]:
        """The fields that decide where a record belongs: time, id and keys."""
        times = self.time.names if self.time else ()
        return (*times, *filter(None, (self.identity,)), *self.keys)

    @property
    def names(self) -> tuple[str, ...]:
        """All fields: values, and those that are public."""
        return self.values + self.public

    def find(self, header: Sequence[str], where: str) -> list[int]:
        """Return where in a header each of ``names`` stands.

        Raises
        ------
        RecordError
            One is absent, or there more than once.
        """
        return [self._find_one(header, name, where) for name in self.names]

    def _find_one(self, header: Sequence[str], name: str, where: str) -> int:
        if header.count(name) == 1:
            return header.index(name)
        what = "is in the header more than once" if name in header else "is not in the header"
        quoted = f" ({', '.join(header)})" if self.shows_header else ""
        raise RecordError(f"the column {what} of {where}{quoted}", field=name, fix=self.advice)

    def make_table(
        self,
        columns: Sequence[Sequence[Any]],
        damaged: Mapping[int, str] | None = None,
        *,
        read: Callable[[Sequence[Any]], Floats] = read_values,
    ) -> RecordTable:
        """Return records from the columns of ``names``; ``read`` turns values into numbers."""
        d = len(self.values)
        spelling = self.spelling
        values = [
            read_levels(column, levels)
            if levels
            else spelling.clear(read(spelling.read_all(column)))
            for column, (_, levels) in zip(columns[:d], self.columns, strict=True)
        ]
        public = list(columns[d:])
        times = ids = None
        if self.time:
            n_names = len(self.time.names)
            times = self.time.read_columns(public[:n_names])
            del public[:n_names]
        if self.identity:
            ids = read_ids(public.pop(0))
        table = make_table(np.column_stack(values), times, ids, damaged)
        return replace(table, kinds=self.find_kinds(public)) if self.keys else table

    def find_kinds(self, columns: Sequence[Sequence[object]]) -> Integers | None:
        """Return the kind of each record from the columns of ``keys``: shape ``(n,)``."""
        if not columns:
            return None
        texts = zip(*(map(spell_value, column) for column in columns), strict=True)
        kinds: Mapping[Any, int] = self.kinds
        return np.fromiter((kinds.get(each, NO_KIND) for each in texts), np.int64, len(columns[0]))


def make_table(
    values: Records,
    timestamps: Floats | None = None,
    ids: Integers | None = None,
    damaged: Mapping[int, str] | None = None,
) -> RecordTable:
    """Return a table; without times they are NaN, without ids ``NO_ID``."""
    n = len(values)
    return RecordTable(
        values=values,
        timestamps=np.full(n, NAN) if timestamps is None else timestamps,
        ids=np.full(n, NO_ID, dtype=np.int64) if ids is None else ids,
        damaged=damaged or {},
    )
