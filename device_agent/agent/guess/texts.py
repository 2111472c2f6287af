"""Texts that are numbers, with a unit or not, and times."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Any

from sfumato.shared.reading.records import read_number
from sfumato.shared.reading.spelling import PLAIN, Spelling

NUMBERS = (
    PLAIN,
    Spelling(decimal=","),
    Spelling(decimal=",", thousands="."),
    Spelling(thousands=","),
    Spelling(decimal=",", thousands=" "),
    Spelling(thousands="'"),
)
CLOCKS = ("%H:%M:%S", "%H:%M", "%I:%M:%S %p", "%I:%M %p")
PACKED_CLOCKS = ("%H%M%S", "%H%M")
"""Digits alone: a time of day where the column's name says so."""
_DATES = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%d/%m/%y", "%m/%d/%Y", "%m/%d/%y"),
    *("%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%Y-%m-%d"),
)
_PACKED_DATES = ("%Y%m%d", "%y%m%d", "%d%m%y")
PACKED_TIMES = (*_PACKED_DATES, "%Y%m%d%H", "%Y%m%d%H%M", "%Y%m%d%H%M%S")
"""Digits alone: a date or a time where the column's name says so."""
FORMS = (
    tuple(
        f"{date}{clock}"
        for date in (*_DATES, *_PACKED_DATES)
        for clock in (
            " %H:%M:%S",
            " %H:%M",
            ", %H:%M:%S",
            " %I:%M:%S %p",
            " %I:%M %p",
            " %H:%M:%S UTC",
            "",
        )
    )
    + PACKED_TIMES[len(_PACKED_DATES) :]
)
UNIT = re.compile(r"[+-]?[0-9][0-9.,' \u00a0]*?\s*([^0-9\s.,:/+-][^0-9]{0,9})")


def is_value(text: str) -> bool:
    """Return whether a text is a number, with a unit or not, or a time: no name of a column."""
    is_number = any(find_number(text, each) is not None for each in NUMBERS)
    is_time = is_iso(text) or any(fits(text, form) for form in (*FORMS, *CLOCKS))
    return is_number or is_time or bool(UNIT.fullmatch(text))


def is_iso(text: str) -> bool:
    """Return whether a text is a time in ISO 8601, and no number."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return not text.isdigit()


def fits(text: str, form: str) -> bool:
    """Return whether a text is a time in a format of ``strptime``."""
    return parse_time(text, form) is not None


def parse_time(text: str, form: str) -> datetime | None:
    """Return the time that a text states in a format of ``strptime``, None if it states none."""
    try:
        moment = datetime.strptime(text, form)
    except ValueError:
        return None
    # Of digits alone each has its place: 3600 is neither the third of June nor half past six.
    return moment if form not in PACKED_TIMES or moment.strftime(form) == text else None


def find_number(value: Any, spelling: Spelling) -> float | None:
    """Return the number that a value states, spelled like that; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    number = read_number(str(spelling.read(value) if isinstance(value, str) else value))
    return None if math.isnan(number) else number
