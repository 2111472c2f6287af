"""Fields of a line of text as numbers and times; what cannot be read is NaN, never an exception."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, tzinfo

from device_agent.sources.settings import SourceSettings, find_zone
from shared.core.text import read_number

NAN = math.nan
EARLIEST, LATEST = -62135596800.0, 253402300800.0
"""The years 1 to 9999: beyond them a number in a time column is something else."""
UNIX_SCALES = {"unix": 1.0, "unix_ms": 1e3, "unix_us": 1e6, "unix_ns": 1e9}
"""By how much a number of each format is divided to give seconds."""


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


def make_time_reader(settings: SourceSettings) -> Callable[[str], float]:
    """Return what turns text into seconds since 1970-01-01 UTC, or NaN."""
    form = settings.timestamp_format
    if form in UNIX_SCALES:
        scale = UNIX_SCALES[form]
        return lambda text: require_plausible(read_number(text) / scale)
    zone = find_zone(settings.timestamp_zone)
    if form == "iso8601":
        return lambda text: _read_moment(lambda: datetime.fromisoformat(text.strip()), zone)
    return lambda text: _read_moment(lambda: datetime.strptime(text.strip(), form), zone)


def require_plausible(seconds: float) -> float:
    """Return it if it lies in the years 1 to 9999, else NaN."""
    return seconds if EARLIEST <= seconds < LATEST else NAN


def _read_moment(parse: Callable[[], datetime], zone: tzinfo) -> float:
    try:
        moment = parse()
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return require_plausible(moment.timestamp())
    except (ValueError, OverflowError):
        return NAN
