"""Values that cannot be read: how many are too many, and the likely reason.

A sketch of noise looks like one of records. So before anything is spent, more unreadable values
than a limit are refused. The refusal tells of the records: it is for their owner, and is never
released.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sfumato.shared.arrays import Integers
from sfumato.shared.core import Columns, Records
from sfumato.shared.errors import TableError

MOST_UNREADABLE = 0.1
"""Limit of the share of one column, unless its owner sets another."""
MOST_LOST = 0.5
"""Limit of the share of records with such a value in any column."""

_CAUSES = (
    (
        re.compile(r"[+-]?\d+\.\d+"),
        "the numbers have points in them, and the decimal mark is stated as a comma",
        'leave the decimal mark out, or state that points separate thousands (thousands = ".")',
    ),
    (
        re.compile(r"[+-]?[\d.]*\d,[\d,]*\d(?:\.\d+)?"),
        "the numbers have commas in them",
        "state what the commas are: the decimal mark (--read decimal=, or in the settings "
        'decimal = ","), or the mark of thousands (thousands = ",")',
    ),
    (
        re.compile(
            r"(?i)|-+|\?|\.|nan|n/?a|null|none|nil|missing|unavailable|unknown|inf(?:inity)?"
        ),
        "their cells say that the value is missing",
        "name another column, or say what stands for a missing value",
    ),
    (
        re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*(?!x\d)[^\d\s.,:/+-].*"),
        "something stands behind the number, such as a unit",
        'state it (--read strip=°C, or in the settings strip = ["°C"])',
    ),
)


def count_unreadable(records: Records) -> Integers:
    """Return the number of values of each column that are no finite number: shape ``(d,)``."""
    if isinstance(records, Columns):
        counts = [np.count_nonzero(~np.isfinite(column)) for column in records.columns]
        return np.array(counts, dtype=np.int64)
    finite = np.isfinite(records)
    # Most chunks have none, and this check is cheaper than the count.
    if finite.all():
        return np.zeros(records.shape[1], dtype=np.int64)
    counted: Integers = np.sum(~finite, axis=0, dtype=np.int64)
    return counted


def guess_cause(text: str | None) -> tuple[str, str]:
    """Return why a value cannot be read, and what to do; nothing of its text.

    Parameters
    ----------
    text
        What a source spells; None if that is not known.
    """
    if text is not None:
        for pattern, cause, fix in _CAUSES:
            if pattern.fullmatch(text.strip()):
                return cause, fix
        return "they are no numbers", "name another column, or correct delimiter or encoding"
    return "they are missing or no numbers", "name another column, or state what stands for them"


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """Too many unreadable values: which column, and what is wrong.

    Parameters
    ----------
    column
        Number of the worst column.
    share
        Unreadable share of its values.
    share_lost
        Share of the records that add nothing, if these are too many and no column is to blame.
    """

    column: int
    share: float
    share_lost: float | None = None

    def describe(self, names: Sequence[str], cause: str) -> str:
        """Return the rule that is broken."""
        what = f"{show_share(self.share)} of the values of {names[self.column]!r} cannot be read"
        if self.share_lost is None:
            return f"must mostly be numbers: {what}; {cause}. Nothing was spent"
        return (
            f"must mostly be whole records: {show_share(self.share_lost)} have a value that "
            f"cannot be read; {what}; {cause}. Nothing was spent"
        )


def find_unreadable(
    n_unreadable: Sequence[int], n_records: int, *, n_lost: int, most: float = MOST_UNREADABLE
) -> Unreadable | None:
    """Return what is wrong where too many values cannot be read; None otherwise.

    Parameters
    ----------
    n_unreadable
        Values of each column that cannot be read, and for which nothing stands in.
    n_records, n_lost
        All records, and those that add zero for such a value.
    most
        The largest share of one column. From ``MOST_LOST`` on it limits that of the records too.
    """
    if not n_records or not n_unreadable:
        return None
    worst = int(np.argmax(n_unreadable))
    share, lost = n_unreadable[worst] / n_records, n_lost / n_records
    if share > most:
        return Unreadable(column=worst, share=share)
    if lost > max(most, MOST_LOST):
        return Unreadable(column=worst, share=share, share_lost=lost)
    return None


class UnreadableError(TableError):
    """More values of a table or a file than allowed cannot be read; nothing was spent.

    Parameters
    ----------
    found, names
        What is wrong, and the names of the columns.
    text
        What the source spells for such a value; None if that is not known.
    field
        The table or file.
    """

    def __init__(
        self, found: Unreadable, names: Sequence[str], *, text: str | None, field: str
    ) -> None:
        cause, fix = guess_cause(text)
        super().__init__(
            found.describe(names, cause),
            field=field,
            fix=f"{fix}; where so many are right, raise max_unreadable",
        )
        self.found, self.names = found, names

    def of_file(self, path: Path, text: str | None) -> UnreadableError:
        """Return the error for the file that the table was read from."""
        return UnreadableError(self.found, self.names, text=text, field=str(path))


def require_few_lost(n_lost: int, n_records: int, *, most: float, field: str) -> None:
    """Refuse a sum of parts of which too many records added nothing.

    Raises
    ------
    TableError
        They are more than ``most`` and ``MOST_LOST`` of all.
    """
    if n_lost > max(most, MOST_LOST) * n_records:
        raise TableError(
            f"must mostly be whole records: {show_share(n_lost / n_records)} of those that were "
            "added have a value that cannot be read. Nothing was spent",
            field=field,
            fix="begin anew with the right columns; where so many are right, raise max_unreadable",
        )


def show_share(share: float) -> str:
    """Return a share in per cent; only all and none are written as such."""
    return f"{share:.0%}" if share in (0, 1) else f"{min(max(share, 0.001), 0.999):.1%}"
