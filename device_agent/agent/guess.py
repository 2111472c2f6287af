"""A first configuration from a look at a file, with what is doubtful about it.

The look is for the owner, on the device: nothing is stored, sent or spent. It proposes how records
are read, never what a plan says of them: bounds and levels are public knowledge, not the records'.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from sfumato.device_agent.agent.dry_run import without_lock
from sfumato.device_agent.sources import open_source
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import Dimension
from sfumato.shared.reading import naming, open_regular
from sfumato.shared.reading.csv_lines import split_line
from sfumato.shared.reading.layout import BLANKS
from sfumato.shared.reading.line_protocol import read_point
from sfumato.shared.reading.records import read_number
from sfumato.shared.reading.spelling import PLAIN, Spelling
from sfumato.shared.structure import structure

SAMPLE_BYTES: Final = 1 << 18
N_SHOWN: Final = 5
_MOST_LINES, _MOST_COLUMNS = 2000, 40
_MOSTLY = 0.8
_MOST_KEYS = 50
_DELIMITERS = (",", ";", "\t", "|")
_NUMBERS = (
    PLAIN,
    Spelling(decimal=","),
    Spelling(decimal=",", thousands="."),
    Spelling(thousands=","),
    Spelling(decimal=",", thousands=" "),
    Spelling(thousands="'"),
)
_UNIX: Final = {"unix": 1, "unix_ms": 10**3, "unix_us": 10**6, "unix_ns": 10**9}
_RECENT = (946_684_800, 4_102_444_800)
"""The years 2000 to 2099: a number of seconds between is likely a time."""
_CLOCK = "%H:%M:%S"
_DATES = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d")
_FORMS = tuple(
    f"{date}{clock}"
    for date in (*_DATES, "%Y-%m-%d")
    for clock in (" %H:%M:%S", " %H:%M", ", %H:%M:%S", " %I:%M:%S %p", " %I:%M %p", "")
)
_TIME_NAME = re.compile(r"(?i)time|date|datum|zeit|uhr|stamp|\bts\b|^t$|last_changed|moment")
_ID_NAME = re.compile(r"(?i)(^|[_. ])(id|index|no|nr|row|seq)$|^unnamed")
_KEY_NAME = re.compile(
    r"(?i)topic|entity|sensor|metric|measure|quantity|variable|series|name|field|key|tag|channel"
)
_UNIT = re.compile(r"[+-]?[0-9][0-9.,' \u00a0]*?\s*([^0-9\s.,:/+-][^0-9]{0,9})")
_SENTINELS = ("-999", "-9999", "-99", "-99.9", "-999.9", "-9999.0", "999", "9999", "99999", "65535")
_MAGIC = (
    (b"PAR1", "parquet"),
    (b"\x93NUMPY", "npy"),
    (b"SQLite format 3\0", "sqlite"),
)
_PACKED = ((b"\x1f\x8b", "gunzip"), (b"\x28\xb5\x2f\xfd", "unzstd"), (b"PK\x03\x04", "unzip"))


@dataclass(kw_only=True)
class Guess:
    """A guess at how a file is read.

    Attributes
    ----------
    source
        Keys of ``[streams.source]``.
    columns
        A name for a dimension of each column of numbers, and the column, or its key.
    doubts
        What the owner must decide.
    rows
        The first records as they will be read: time, then a value a column.
    """

    source: dict[str, Any]
    columns: dict[str, str] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    rows: list[tuple[str, ...]] = field(default_factory=list)


def guess_file(path: Path) -> Guess:
    """Guess how a file is read.

    Raises
    ------
    ConfigError
        It is of no kind that a source reads; the fix says how to make one of it.
    RecordError
        It cannot be opened.
    """
    with naming(path), open_regular(path) as file:
        data = file.read(SAMPLE_BYTES)
        is_whole = not file.read(1)
    for magic, command in _PACKED:
        if data.startswith(magic):
            raise ConfigError("is compressed", field=str(path), fix=f"unpack it with {command}")
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return _name_other(kind, path)
    text, encoding = _decode(data, path)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    lines = (lines if is_whole else lines[:-1])[:_MOST_LINES]
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise ConfigError("holds no line", field=str(path), fix="name a file with some records")
    found = Guess(source={"kind": "csv", "path": str(path)})
    if encoding != "utf-8":
        found.source["encoding"] = encoding
        found.doubts.append(f"the text is not UTF-8; {encoding} is a guess: look at its letters")
    points = [point for line in lines if (point := read_point(line)) is not None]
    if len(points) >= _MOSTLY * len(lines):
        found.source["kind"] = "influx"
        table = _list_columns(points)
    elif lines[0].lstrip()[:1] in ("{", "["):
        table = _read_objects(lines, path, found)
    else:
        table = _read_lines(lines, found)
    _examine(table, found)
    _show(found)
    return found


def _name_other(kind: str, path: Path) -> Guess:
    found = Guess(source={"kind": kind, "path": str(path)})
    if kind == "sqlite":
        found.source |= {
            "query": "SELECT rowid AS id, * FROM TABLE WHERE rowid > :last ORDER BY rowid LIMIT :n",
            "key": "id",
        }
        found.doubts.append("write the table in the query, and the columns that are read")
    found.doubts.append("name the column of times as timestamp, if it has one")
    return found


def _decode(data: bytes, path: Path) -> tuple[str, str]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(
            "is UTF-16, in which no byte ends a line",
            field=str(path),
            fix=f"convert it: iconv -f utf-16 -t utf-8 {path.name} > {path.stem}.utf8{path.suffix}",
        )
    try:
        # A character may be cut at the end of the sample.
        return data.decode("utf-8-sig", "strict" if len(data) < SAMPLE_BYTES else "ignore"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), "cp1252"


Table = dict[str, list[Any]]
"""The values of each column, None where there is none."""


def _read_objects(lines: Sequence[str], path: Path, found: Guess) -> Table:
    items = []
    for line in lines:
        try:
            item = json.loads(line)
        except ValueError:
            item = None
        items.append(item)
    objects = [item for item in items if isinstance(item, dict)]
    if 2 * len(objects) <= len(items):
        raise ConfigError(
            "is a JSON document, and not one object a line",
            field=str(path),
            fix=f"write one object a line: jq -c '.[]' {path.name} > {path.stem}.jsonl, or "
            "'.data.items[]' with the way to its list",
        )
    found.source["kind"] = "jsonl"
    return _list_columns([dict(_flatten(item)) for item in objects])


def _list_columns(items: Sequence[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for each in items for name in each))[:_MOST_COLUMNS]
    return {name: [each.get(name) for each in items] for name in names}


def _flatten(item: object, path: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(item, dict | list):
        pairs = item.items() if isinstance(item, dict) else enumerate(item)
        for key, value in pairs:
            yield from _flatten(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, item


def _read_lines(lines: Sequence[str], found: Guess) -> Table:
    delimiter, n_fields = _find_delimiter(lines)
    if delimiter != ",":
        found.source["delimiter"] = delimiter
    rows = [_split(line, delimiter) for line in lines]
    whole = [i for i, row in enumerate(rows) if row is not None and len(row) == n_fields]
    if not whole:
        raise ConfigError(
            "has no line that can be split into fields: quotes do not match",
            field=found.source["path"],
            fix="name a file of CSV, JSON lines or line protocol",
        )
    first = whole[0]
    before = lines[:first]
    if before and before[0].startswith("sep="):
        before = before[1:]
    if before and all(line.lstrip().startswith("#") for line in before):
        found.source["comment"] = "#"
    elif before:
        found.source["skip_lines"] = first
    names = [name.strip() for name in rows[first] or ()]
    body = [row for row in rows[first + 1 :] if row is not None and len(row) == n_fields]
    if any(_is_value(name) for name in names):
        body = [names, *body]
        names = [f"column{i + 1}" for i in range(n_fields)]
        found.source["header"] = names
        if "comment" in found.source:
            found.source["skip_lines"] = first
            del found.source["comment"]
        found.doubts.append("no line names the columns: write their names in header")
    n_odd = len(lines) - first - 1 - len(body) + (1 if "header" in found.source else 0)
    if n_odd > 0:
        found.doubts.append(
            f"{n_odd} line(s) have another number of fields, and are records that add nothing"
        )
    columns = zip(*body, strict=True) if body else ([] for _ in names)
    return {
        name: [cell.strip() or None for cell in column]
        for name, column in zip(names[:_MOST_COLUMNS], columns, strict=False)
    }


def _split(line: str, delimiter: str) -> list[str] | None:
    return line.split() if delimiter == BLANKS else split_line(line, delimiter)


def _find_delimiter(lines: Sequence[str]) -> tuple[str, int]:
    """Return what separates most fields of most lines, and how many fields there are."""
    body = lines[len(lines) // 3 :]
    best: tuple[float, str, int] = (0.0, ",", 1)
    for delimiter in (*_DELIMITERS, BLANKS):
        counts = Counter(len(row) for line in body if (row := _split(line, delimiter)) is not None)
        if not counts:
            continue
        n_fields, n_lines = counts.most_common(1)[0]
        if n_fields == 1:
            continue
        cells = [cell for line in body[:50] for cell in _split(line, delimiter) or ()]
        n_read = sum(_is_value(cell.strip()) or not cell.strip() for cell in cells)
        # Blanks stand in texts and in times as well.
        weight = 0.5 if delimiter == BLANKS else 1.0
        score = weight * n_lines / len(body) * (0.1 + n_read / max(1, len(cells)))
        if score > best[0]:
            best = score, delimiter, n_fields
    return best[1], best[2]


def _is_value(text: str) -> bool:
    """Return whether a text is a number, with a unit or not, or a time: no name of a column."""
    is_number = any(_read(text, each) is not None for each in _NUMBERS)
    is_time = _is_iso(text) or any(_fits(text, form) for form in (*_FORMS, _CLOCK, "%H:%M"))
    return is_number or is_time or bool(_UNIT.fullmatch(text))


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return not text.isdigit()


def _fits(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _examine(table: Table, found: Guess) -> None:
    """Find times, numbers and keys among the columns."""
    times = _find_times(table, found)
    others = {name: values for name, values in table.items() if name not in times}
    spelling = _find_spelling(others, found)
    numbers = [
        name
        for name, values in others.items()
        if not _ID_NAME.search(name) and _share(values, spelling) >= _MOSTLY
    ]
    texts = {name: values for name, values in others.items() if name not in numbers}
    _find_sentinels({name: others[name] for name in numbers}, spelling, found)
    key = _find_key(texts, numbers) if times else None
    if key is not None:
        _propose_join(key, texts, numbers[0], table[times[0]], found)
        return
    _name_columns(numbers, found)
    if not numbers:
        found.doubts.append("no column is mostly numbers: look at delimiter, decimal and header")
    words = [
        name
        for name, values in texts.items()
        if not _ID_NAME.search(name) and any(each is not None for each in values)
    ]
    if words:
        found.doubts.append(
            f"there is text in {', '.join(words)}: a column of text is read where the plan has "
            "levels for it"
        )


def _name_columns(columns: Iterable[str], found: Guess) -> None:
    """Name a dimension after each column, or after the key of its messages."""
    for column in columns:
        name = re.sub(r"[^a-z0-9]+", "_", column.lower()).strip("_") or "x"
        others = (f"{name}_{i}" for i in count(2))
        while name in found.columns:
            name = next(others)
        found.columns[name] = column


def _find_times(table: Table, found: Guess) -> list[str]:
    """Find the column of times, or of dates and times of day; return their names."""
    ordered = sorted(table, key=lambda name: not _TIME_NAME.search(name))
    for name in ordered:
        values = [each for each in table[name] if each is not None]
        if not values:
            continue
        form = _find_form(values, name)
        if form is None:
            continue
        found.source["timestamp"] = name
        if form != "iso8601":
            found.source["timestamp_format"] = form
        names = [name, *_find_clock(table, name, form, found)]
        _doubt_time(values, form, found)
        return names
    found.doubts.append("no column of times was found: windows by time need one as timestamp")
    return []


def _find_form(values: Sequence[Any], name: str) -> str | None:
    texts = [str(each).strip() for each in values[:200]]
    if all(map(_is_iso, texts)):
        return "iso8601"
    numbers = [read_number(text) for text in texts]
    for unix, scale in _UNIX.items():
        if all(_RECENT[0] * scale <= number < _RECENT[1] * scale for number in numbers):
            return unix
    if not isinstance(values[0], str):
        return None
    for form in _FORMS:
        # A column of numbers such as 20261201 is a date where its name says so.
        if (form != "%Y%m%d" or _TIME_NAME.search(name)) and all(_fits(t, form) for t in texts):
            return form
    return None


def _find_clock(table: Table, name: str, form: str, found: Guess) -> list[str]:
    if form.startswith("unix") or ":" in str(next(filter(None, table[name]), "")):
        return []
    for other, values in table.items():
        texts = [str(each) for each in values[:200] if each is not None]
        clock = next(
            (c for c in (_CLOCK, "%H:%M") if texts and all(_fits(t, c) for t in texts)), None
        )
        if other != name and clock is not None:
            date = "%Y-%m-%d" if form == "iso8601" else form
            found.source |= {"timestamp_clock": other, "timestamp_format": f"{date} {clock}"}
            return [other]
    return []


def _doubt_time(values: Sequence[Any], form: str, found: Guess) -> None:
    texts = [str(each) for each in values]
    swapped = {"%d/%m": "%m/%d", "%m/%d": "%d/%m"}.get(form[:5])
    if swapped is not None and all(_fits(text, swapped + form[5:]) for text in texts[:200]):
        found.doubts.append(
            f"{texts[0]!r} may begin with its day or with its month: timestamp_format is {form!r}"
        )
    has_zone = form.startswith("unix") or (
        form == "iso8601" and datetime.fromisoformat(texts[0]).tzinfo is not None
    )
    if not has_zone:
        found.doubts.append(
            "the times state no zone, and UTC is taken: write timestamp_zone, such as "
            '"Europe/Berlin"'
        )


def _share(values: Sequence[Any], spelling: Spelling) -> float:
    """Return the share of numbers among the values that are there."""
    there = [each for each in values if each is not None]
    n = sum(_read(each, spelling) is not None for each in there)
    return n / len(there) if there else 0.0


def _read(value: Any, spelling: Spelling) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    number = read_number(str(spelling.read(value) if isinstance(value, str) else value))
    return None if math.isnan(number) else number


def _find_spelling(table: Table, found: Guess) -> Spelling:
    """Find how most numbers are spelled."""
    texts = [each for values in table.values() for each in values if isinstance(each, str)]
    ends = Counter(match[1] for text in texts if (match := _UNIT.fullmatch(text)))
    units = [end.strip() for end, n in ends.most_common(5) if 20 * n >= len(texts)]
    strip = tuple(unit for unit in units if not set(unit) & set("0123456789"))
    tried = [replace(each, strip=strip) for each in _NUMBERS]
    counts = [sum(_read(text, each) is not None for text in texts) for each in tried]
    best = max(range(len(tried)), key=lambda i: (counts[i], -i))
    spelling = tried[best]
    plain = sum(_read(text, replace(spelling, strip=())) is not None for text in texts)
    if strip and counts[best] > plain:
        found.source["strip"] = list(strip)
    else:
        spelling = replace(spelling, strip=())
    for key in ("decimal", "thousands"):
        if getattr(spelling, key) != getattr(PLAIN, key):
            found.source[key] = getattr(spelling, key)
    if spelling.decimal == "," and all(
        re.search(r",[0-9]{3}(?![0-9])", text) for text in texts if "," in text
    ):
        found.doubts.append(
            'every comma stands before three digits: if 1,234 is 1234, write thousands = "," and '
            "no decimal"
        )
    return spelling


def _find_sentinels(table: Table, spelling: Spelling, found: Guess) -> None:
    """Note numbers such as -999 that are far from all others: they may mean a missing value."""
    for name, values in table.items():
        numbers = [number for each in values if (number := _read(each, spelling)) is not None]
        for mark in _SENTINELS:
            others = [number for number in numbers if number != float(mark)]
            if not others or len(others) == len(numbers):
                continue
            low, high = min(others), max(others)
            if not low - (high - low) <= float(mark) <= high + (high - low):
                found.doubts.append(
                    f"{mark} in {name} is far from all others: if it is no value, write "
                    f'missing_values = ["{mark}"]'
                )


def _find_key(texts: Table, numbers: Sequence[str]) -> str | None:
    """Return the column that says what the one column of numbers measures, if there is one."""
    if len(numbers) != 1:
        return None
    for name, values in texts.items():
        n_kinds = len(set(map(str, values)))
        is_key = 2 <= n_kinds <= _MOST_KEYS and 3 * n_kinds <= len(values)
        if is_key and _KEY_NAME.search(name) and None not in values:
            return name
    return None


def _propose_join(key: str, texts: Table, value: str, times: Sequence[Any], found: Guess) -> None:
    """Propose that messages of one value each are joined to records."""
    since = _find_first(found.source, times)
    found.source["join"] = {"key": key, "value": value, "every_s": 300, "since": since}
    _name_columns(dict.fromkeys(map(str, texts[key])), found)
    found.doubts.append(
        f"each line has one value, and {key} says of what: every_s must be no shorter than the "
        "sensors' own period; name groups where several rooms or machines have the same columns"
    )


def _find_first(source: Mapping[str, Any], times: Sequence[Any]) -> str:
    """Return the midnight before the first time, in UTC."""
    form = source.get("timestamp_format", "iso8601")
    text = next(str(each) for each in times if each is not None)
    if form in _UNIX:
        moment = datetime.fromtimestamp(read_number(text) / _UNIX[form], UTC)
    elif form == "iso8601":
        moment = datetime.fromisoformat(text)
    else:
        moment = datetime.strptime(text.split(" ", maxsplit=1)[0], form.split(" ")[0])
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    moment = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return moment.isoformat()


def _show(found: Guess) -> None:
    """Read the first records as the agent would."""
    if not found.columns:
        return
    names = list(found.columns)
    dimensions = [Dimension(name=name, unit="1", lower=-1.0, upper=1.0) for name in names]
    document = {"name": "guess", "source": found.source, "columns": found.columns}
    stream = without_lock(structure(StreamSettings, document, "streams[0]"))
    with closing(open_source(stream, dimensions, (), bytes(32))) as source:
        for batch in source.read():
            for moment, values in zip(batch.timestamps, batch.values, strict=True):
                if "join" in found.source and np.isnan(values).all():
                    # Silent intervals are records too, and say nothing of how others are read.
                    continue
                time_text = ""
                if not math.isnan(moment):
                    time_text = datetime.fromtimestamp(moment, UTC).isoformat(sep=" ")
                cells = ("missing" if math.isnan(value) else f"{value:.6g}" for value in values)
                found.rows.append((time_text, *cells))
                if len(found.rows) == N_SHOWN:
                    return
