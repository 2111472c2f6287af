"""Fields of a line of text as numbers and times; what cannot be read is NaN, never an exception."""

from __future__ import annotations

import csv
import math
from datetime import UTC, datetime

NAN = math.nan
_EARLIEST, _LATEST = -62135596800.0, 253402300800.0
"""The years 1 to 9999: beyond them a number in a time column is something else."""


def split_line(line: str) -> list[str] | None:
    """Split one line at its commas, respecting quotes; None if the quotes do not match."""
    if '"' not in line:
        return line.split(",")
    try:
        rows = list(csv.reader([line], strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def read_number(text: str) -> float:
    """Return a finite decimal number, or NaN."""
    # float() takes "1_000" and digits of other scripts, which no other program would write.
    if "_" in text or not text.isascii():
        return NAN
    try:
        number = float(text)
    except ValueError:
        return NAN
    return number if math.isfinite(number) else NAN


def read_unix(text: str) -> float:
    """Return seconds since 1970-01-01 UTC, or NaN."""
    return _require_plausible(read_number(text))


def read_iso8601(text: str) -> float:
    """Return seconds since 1970-01-01 UTC of an ISO 8601 time, or NaN; without offset it is UTC."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _require_plausible(moment.timestamp())
    except (ValueError, OverflowError):
        return NAN


def _require_plausible(seconds: float) -> float:
    return seconds if _EARLIEST <= seconds < _LATEST else NAN
