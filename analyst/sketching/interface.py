"""The interface of every reader of a file of records."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from shared.core import Records
from shared.core.masks import BLOCK_RECORDS
from shared.errors import ConfigError

_BATCH_BYTES = 1 << 23


class RecordReader(Protocol):
    """Reads the records of one file in order, once, in memory that does not grow with the file."""

    @property
    def n_records(self) -> int | None:
        """Records in the file, where that is known before they are read."""
        ...

    @property
    def bytes_read(self) -> int:
        """Bytes of the file that were read so far; an estimate for compressed formats."""
        ...

    def batches(self, n_threads: int) -> Generator[Records, None, None]:
        """Yield all records, in order; ``n_threads`` may help to read them.

        Raises
        ------
        RecordError
            The file breaks its format, or shrinks meanwhile.
        """
        ...


@dataclass(frozen=True)
class ColumnNames:
    """Which column holds each dimension of a plan, in the plan's order.

    Parameters
    ----------
    names
        One column a dimension.
    are_given
        Whether a person named any, rather than the plan.
    """

    names: tuple[str, ...]
    are_given: bool = False

    @classmethod
    def from_options(cls, dimensions: Sequence[str], options: Sequence[str]) -> ColumnNames:
        """Read ``dimension=column`` options; a dimension without one is its own column's name.

        Raises
        ------
        ConfigError
            An option has another form, or names no dimension, or one that has a column already.
        """
        given: dict[str, str] = {}
        for option in options:
            dimension, equals, column = option.partition("=")
            if not equals or not column or dimension not in dimensions or dimension in given:
                raise ConfigError(
                    f"must be DIMENSION=COLUMN, once a dimension, and is {option!r}",
                    field="--column",
                    fix=f"the plan's dimensions are {', '.join(dimensions)}",
                )
            given[dimension] = column
        return cls(tuple(given.get(name, name) for name in dimensions), bool(given))


def find_columns(
    header: Sequence[str], wanted: ColumnNames, *, path: str, hint: str = ""
) -> tuple[int, ...]:
    """Return the place of each wanted column in a header.

    Raises
    ------
    ConfigError
        A column is missing, or there more than once.
    """
    for name in wanted.names:
        if header.count(name) != 1:
            what = "more than once" if name in header else "not"
            raise ConfigError(
                f"the column is {what} among those of {path} ({', '.join(header)})",
                field=name,
                fix=f"name the column with --column DIMENSION=COLUMN, or correct the header{hint}",
            )
    return tuple(header.index(name) for name in wanted.names)


def choose_batch_records(bytes_per_record: int) -> int:
    """Return how many records to read at a time: a power of two, at most a block of masks.

    Then no batch crosses the boundary of a block, where a masked sketch starts anew.
    """
    rows = BLOCK_RECORDS
    while rows > 1 and rows * bytes_per_record > _BATCH_BYTES:
        rows //= 2
    return rows
