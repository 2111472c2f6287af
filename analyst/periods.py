"""Periods of time as slots of a plan: days and months in UTC, or times with their zone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypedDict

from sfumato.shared.errors import ConfigError
from sfumato.shared.plan.parts import WindowRule

When = date | datetime | str
"""A day, a month (`2013-03`) or a time with its zone; text is ISO 8601."""


class Choice(TypedDict, total=False):
    """A selection of sketches: times, or slots; and labels that a device must have."""

    start: When | None
    end: When | None
    first_slot: int | None
    last_slot: int | None
    labels: Mapping[str, str] | None


_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
_EXAMPLES = "such as 2013-03-01 (a day), 2013-03 (a month) or 2013-03-01T06:00+01:00"


def read_period(when: When, field: str) -> tuple[datetime, datetime]:
    """Return where a day or month begins and ends in UTC; a time begins and ends at once.

    Raises
    ------
    ConfigError
        It is not one of these, or a time has no zone.
    """
    if isinstance(when, str):
        text = when.strip()
        if _MONTH.fullmatch(text):
            begin, _ = read_period(f"{text}-01", field)
            following = (begin.year + begin.month // 12, begin.month % 12 + 1)
            return begin, datetime(*following, 1, tzinfo=UTC)
        when = _read_text(text, field)
    if isinstance(when, datetime):
        if when.tzinfo is None or when.utcoffset() is None:
            raise ConfigError(
                f"must have a time zone, and {when.isoformat()} has none",
                field=field,
                fix="add its offset, such as Z or +01:00; a day without a time is one of UTC",
            )
        return when.astimezone(UTC), when.astimezone(UTC)
    if isinstance(when, date):
        begin = datetime(when.year, when.month, when.day, tzinfo=UTC)
        return begin, begin + timedelta(days=1)
    raise ConfigError(
        f"must be a day, a month or a time, and is a {type(when).__name__}",
        field=field,
        fix=f"write it as text {_EXAMPLES}",
    )


def _read_text(text: str, field: str) -> date:
    try:
        try:
            return date.fromisoformat(text)
        except ValueError:
            return datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"must be a day, a month or a time, and is {text!r}",
            field=field,
            fix=f"write it {_EXAMPLES}",
        ) from error


def find_slots(
    window: WindowRule,
    start: When | None,
    end: When | None,
    *,
    fields: tuple[str, str] = ("start", "end"),
) -> tuple[int | None, int | None]:
    """Return the first and the last slot that begin in a period; None where it is open.

    A slot counts where it begins, so that periods that follow each other share none.

    Parameters
    ----------
    start, end
        The first day or month, and the last, which is included; or the time from which on, and
        the time before which slots begin.
    fields
        What errors call them.

    Raises
    ------
    ConfigError
        A time is malformed or has no zone, no slot begins in the period, or slots have no time.
    """
    if start is None and end is None:
        return None, None
    if window.kind != "time":
        raise ConfigError(
            "cannot be chosen by time: the plan cuts windows by the number of records",
            field=fields[0] if start is not None else fields[1],
            fix="leave it out, or choose devices by their labels",
        )
    first = last = None
    if start is not None:
        first = max(0, _count_before(window, read_period(start, fields[0])[0]))
    if end is not None:
        last = _count_before(window, read_period(end, fields[1])[1]) - 1
    if last is not None and last < (first or 0):
        raise ConfigError(
            f"leaves no slot: slots begin every {timedelta(seconds=window.length_s)} from "
            f"{_show(datetime.fromtimestamp(window.origin, UTC))} on",
            field=fields[1],
            fix="choose a later end, or an earlier start",
        )
    return first, last


def _count_before(window: WindowRule, time: datetime) -> int:
    """Return the number of slots that begin before a time, counted from the origin."""
    whole = (time - datetime.fromtimestamp(window.origin, UTC)) // timedelta(microseconds=1)
    return -(-whole // (window.length_s * 1_000_000))


def make_selection(
    window: WindowRule,
    *,
    start: When | None = None,
    end: When | None = None,
    first_slot: int | None = None,
    last_slot: int | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a selection as its JSON object.

    Raises
    ------
    ConfigError
        Times and slots are both given, or as :func:`find_slots` raises.
    """
    if (start is not None or end is not None) and not first_slot is last_slot is None:
        raise ConfigError(
            "cannot be combined with first_slot and last_slot",
            field="start" if start is not None else "end",
            fix="give times or slots",
        )
    if start is not None or end is not None:
        first_slot, last_slot = find_slots(window, start, end)
    return {"first_slot": first_slot, "last_slot": last_slot, "labels": dict(labels or {})}


def require_choice(choice: Choice, field: str) -> Choice:
    """Return a selection whose members are known.

    Raises
    ------
    ConfigError
        It has another member.
    """
    if others := sorted({*choice} - Choice.__annotations__.keys()):
        raise ConfigError(
            "is not a known member",
            field=f"{field}.{others[0]}",
            fix=f"use: {', '.join(Choice.__annotations__)}",
        )
    return choice


def describe_slots(window: WindowRule, first: int | None, last: int | None) -> str:
    """Return slots in words: where they begin and end in UTC, and their numbers."""
    if first is None and last is None:
        return "all slots"
    numbers = f"slots {'...' if first is None else first} to {'...' if last is None else last}"
    if window.kind != "time":
        return numbers
    bounds = [
        *([] if first is None else [f"from {_show_slot(window, first)}"]),
        *([] if last is None else [f"to {_show_slot(window, last + 1)}"]),
    ]
    return f"{' '.join(bounds)} UTC ({numbers})"


def _show_slot(window: WindowRule, slot: int) -> str:
    return _show(datetime.fromtimestamp(window.slot_bounds(slot)[0], UTC))


def _show(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}" if time.second == 0 else f"{time:%Y-%m-%d %H:%M:%S}"
