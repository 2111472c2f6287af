"""A guess at which columns hold times, and in which format."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sfumato.device_agent.agent.guess.tables import Guess, Table
from sfumato.device_agent.agent.guess.texts import CLOCK, FORMS, fits, is_iso
from sfumato.shared.reading.records import read_number

_UNIX: Final = {"unix": 1, "unix_ms": 10**3, "unix_us": 10**6, "unix_ns": 10**9}
_RECENT = (946_684_800, 4_102_444_800)
"""The years 2000 to 2099: a number of seconds between is likely a time."""
_TIME_NAME = re.compile(r"(?i)(?<!up)time|date|datum|zeit|uhr|stamp|\bts\b|^t$|last_changed|moment")


def find_times(table: Table, found: Guess) -> list[str]:
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
    for form in FORMS:
        # A column of numbers such as 20261201 is a date where its name says so.
        if (form != "%Y%m%d" or _TIME_NAME.search(name)) and all(fits(t, form) for t in texts):
            return form
    return None


def _is_day(text: str) -> bool:
    """Return whether a text is a number of days, as spreadsheets count the years 2000 to 2099."""
    return 36_526 <= read_number(text.replace(",", ".")) < 73_051


def _find_clock(table: Table, name: str, form: str, found: Guess) -> list[str]:
    if form == "excel" or "unix" in form or ":" in str(next(filter(None, table[name]), "")):
        return []
    for other, values in table.items():
        texts = [str(each) for each in values[:200] if each is not None]
        clock = next(
            (c for c in (CLOCK, "%H:%M") if texts and all(fits(t, c) for t in texts)), None
        )
        if other != name and clock is not None:
            date = "%Y-%m-%d" if form == "iso8601" else form
            found.source |= {"timestamp_clock": other, "timestamp_format": f"{date} {clock}"}
            return [other]
    return []


def _doubt_time(values: Sequence[Any], form: str, found: Guess) -> None:
    texts = [str(each) for each in values]
    swapped = {"%d/%m": "%m/%d", "%m/%d": "%d/%m"}.get(form[:5])
    if swapped is not None and all(fits(text, swapped + form[5:]) for text in texts[:200]):
        found.doubts.append(
            f"{texts[0]!r} may begin with its day or with its month: timestamp_format is {form!r}"
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
