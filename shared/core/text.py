"""Text as names, fields and numbers: one reading of it everywhere; no value is an error.

Importable by whatever reads records or names.
"""

from __future__ import annotations

import math
import re

PLAIN_TEXT = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]*$"
"""The pattern of text in one line without control characters, in the dialect of JSON Schema too."""
_PLAIN = re.compile(PLAIN_TEXT.removeprefix("^").removesuffix("$"))


def is_plain(text: str) -> bool:
    """Tell whether text is one line without control characters.

    Those could move the cursor of whoever looks at a list, and not every database stores them. Told
    by the code points alone, so that machines with other tables of Unicode agree.
    """
    return _PLAIN.fullmatch(text) is not None


def split_line(line: str, delimiter: str = ",") -> list[str] | None:
    """Split one record at its delimiters, respecting quotes; None if the quotes do not match."""
    if '"' not in line:
        return line.split(delimiter)
    # Loaded where a line has quotes: few do, and it takes a fifth of a megabyte.
    import csv  # noqa: PLC0415

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
