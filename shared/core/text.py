"""Text as fields and numbers: one reading of it for devices and for files; no value is an error.

Importable by whatever reads records.
"""

from __future__ import annotations

import csv
import math


def split_line(line: str, delimiter: str = ",") -> list[str] | None:
    """Split one record at its delimiters, respecting quotes; None if the quotes do not match."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def read_number(text: str) -> float:
    """Return a finite decimal number, or NaN."""
    # float() takes "1_000" and digits of other scripts, which no other program would write.
    if "_" in text or not text.isascii():
        return math.nan
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan
