"""A guess at which columns hold times, and in which format."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sfumato.device_agent.agent.guess.foreign import refuse_elements
from sfumato.device_agent.agent.guess.tables import Guess, Table
from sfumato.device_agent.agent.guess.texts import (
    CLOCKS,
    FORMS,
    PACKED_CLOCKS,
    PACKED_TIMES,
    fits,
    is_iso,
    parse_time,
)
from sfumato.shared.reading.records import read_number

_UNIX: Final = {"unix": 1, "unix_ms": 10**3, "unix_us": 10**6, "unix_ns": 10**9}
_RECENT = (946_684_800, 4_102_444_800)
"""The years 2000 to 2099: a number of seconds between is likely a time."""
_PARTS: Final = {"d": "day", "m": "month", "y": "year", "Y": "year"}
_PART_NAMES: Final = (
    ("yy", "yyyy", "year", "yr", "jahr"),
    ("mm", "mo", "month", "monat"),
    ("dd", "dy", "day", "tag"),
)
_ALL_PARTS: Final = {
    *(each for names in _PART_NAMES for each in names),
    *("hh", "hr", "hour", "stunde", "min", "mn", "minute", "ss", "sec", "second", "sekunde"),
}
_TIME_NAME = re.compile(
    r"(?i)(?<!up)time(?!.?zone)|date|datum|zeit|uhr|stamp|\bts\b|^t$|last_changed|moment"
)


def find_times(table: Table, found: Guess) -> list[str]:
    """Find the column of times, or of dates and times of day; return their names.

    Raises
    ------
    ConfigError
        Times are in lists alone, where no source reads them.
    """
    is_json = found.source["kind"] == "jsonl"
    listed = [name for name in table if is_json and any(map(str.isdigit, name.split(".")))]
    ordered = sorted(table, key=lambda name: (name in listed, not _TIME_NAME.search(name)))
    for name in ordered:
        values = [each for each in table[name] if each is not None]
        if not values:
            continue
        form = _find_form(values, name)
        if form is None:
            continue
        if name in listed:
            raise refuse_elements(name, found.source.get("records", ""), Path(found.source["path"]))
        found.source["timestamp"] = name
        if form != "iso8601":
            found.source["timestamp_format"] = form
        names = [name, *_find_clock(table, name, form, found)]
        _doubt_time(values, form, name, found)
        return names
    parts = _find_parts(table)
    named = [name for name in table if _TIME_NAME.search(name)]
    doubt = "no column of times was found: windows by time need one as timestamp"
    if parts:
        doubt = (
            f"the time stands in {', '.join(parts)}: write it into one column, or one of the date "
            "and one of the time of day"
        )
    elif named:
        doubt += f", and timestamp_format; look at {', '.join(named)}"
    found.doubts.append(doubt)
    return parts


def _find_parts(table: Table) -> list[str]:
    """Return the columns of year, month, day and what follows them, each a number; none if not."""
    names = [name.strip("# ").lower() for name in table]
    places = [
        next((i for i, each in enumerate(names) if each in words), None) for words in _PART_NAMES
    ]
    if None in places:
        return []
    first = min(place for place in places if place is not None)
    is_part = [each in _ALL_PARTS for each in names[first:]]
    stop = first + (is_part.index(False) if False in is_part else len(is_part))
    return list(table)[first:stop]


def _find_form(values: Sequence[Any], name: str) -> str | None:
    texts = _choose_texts(values)
    if all(map(is_iso, texts)):
        return "iso8601"
    numbers = [number for text in texts if not math.isnan(number := read_number(text))]
    others = [text for text in texts if math.isnan(read_number(text))]
    for unix, scale in _UNIX.items():
        is_unix = all(_RECENT[0] * scale <= each < _RECENT[1] * scale for each in numbers)
        if numbers and is_unix and all(map(is_iso, others)):
            return f"iso8601 or {unix}" if others else unix
    if _TIME_NAME.search(name) and all(_is_day(text) for text in texts):
        return "excel"
    if not isinstance(values[0], str):
        return None
    forms = _list_forms(texts, name)
    return min(forms, key=lambda form: forms[form], default=None)


def _choose_texts(values: Sequence[Any]) -> list[str]:
    """Return some texts of the whole sample: the first may all be of one day."""
    return [str(each).strip() for each in values[:: 1 + len(values) // 200]]


def _list_forms(texts: Sequence[str], name: str) -> dict[str, timedelta]:
    """Return the formats that all texts have, each with the stretch of time that they then cover.

    Where days and months may be confused, records follow each other: the shortest is most likely.
    """
    found = {}
    for form in FORMS:
        if form in PACKED_TIMES and not _TIME_NAME.search(name):
            continue
        times = [moment for text in texts if (moment := parse_time(text, form)) is not None]
        if len(times) == len(texts) and all(2000 <= each.year < 2100 for each in times):
            found[form] = max(times) - min(times)
    return found


def _is_day(text: str) -> bool:
    """Return whether a text is a number of days, as spreadsheets count the years 2000 to 2099."""
    return 36_526 <= read_number(text.replace(",", ".")) < 73_051


def _find_clock(table: Table, name: str, form: str, found: Guess) -> list[str]:
    has_clock = "%H" in form or ":" in str(next(filter(None, table[name]), ""))
    if form == "excel" or "unix" in form or has_clock:
        return []
    for other, values in table.items():
        texts = [str(each) for each in values[:200] if each is not None]
        # No number such as 1230 is a time of day unless its name says so.
        clocks = (*CLOCKS, *PACKED_CLOCKS) if _TIME_NAME.search(other) else CLOCKS
        clock = next((c for c in clocks if texts and all(fits(t, c) for t in texts)), None)
        if other != name and clock is not None:
            date = "%Y-%m-%d" if form == "iso8601" else form
            found.source |= {"timestamp_clock": other, "timestamp_format": f"{date} {clock}"}
            return [other]
    return []


def _doubt_time(values: Sequence[Any], form: str, name: str, found: Guess) -> None:
    texts = [str(each) for each in values]
    others = [each for each in _list_forms(_choose_texts(values), name) if each != form]
    if others and form in FORMS:
        begins = {_PARTS[each[1]]: None for each in (form, *others)}
        found.doubts.append(
            f"{texts[0]!r} may begin with its {' or with its '.join(begins)}: timestamp_format "
            f"begins {form!r}"
        )
    dates = [text for text in texts if form.startswith("iso8601") and is_iso(text)]
    has_zone = (
        form.startswith("unix")
        or form.endswith("UTC")
        or (bool(dates) and datetime.fromisoformat(dates[0]).tzinfo is not None)
    )
    if not has_zone:
        found.doubts.append(
            "the times state no zone, and UTC is taken: write timestamp_zone, such as "
            '"Europe/Berlin"'
        )


def find_first(source: Mapping[str, Any], times: Sequence[Any]) -> str:
    """Return the midnight before the first time, in UTC."""
    form = source.get("timestamp_format", "iso8601")
    form, _, unix = form.partition(" or ")
    text = next(str(each) for each in times if each is not None)
    if not math.isnan(read_number(text)):
        form = unix or form
    if form == "excel":
        moment = datetime(1899, 12, 30, tzinfo=UTC) + timedelta(
            days=read_number(text.replace(",", "."))
        )
    elif form in _UNIX:
        moment = datetime.fromtimestamp(read_number(text) / _UNIX[form], UTC)
    elif form.startswith("iso8601"):
        moment = datetime.fromisoformat(text)
    else:
        moment = datetime.strptime(text.split(" ", maxsplit=1)[0], form.split(" ")[0])
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    moment = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return moment.isoformat()
