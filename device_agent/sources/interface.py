"""What every source of records offers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

SHOWN_LINES = 5
"""How many places of unusable records a report names."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where reading goes on.

    Parameters
    ----------
    source
        Which source, such as ``csv:/var/lib/meter/records.csv``.
    place
        What the source needs to find the next record, and to notice that it is another source.
    """

    source: str
    place: Mapping[str, int | str]


@dataclass(frozen=True, kw_only=True)
class KnownPosition:
    """A position that was stored, and the stream whose sketches hold the records before it."""

    stream: str
    position: Position


@dataclass(frozen=True, kw_only=True)
class RecordBatch:
    """Some records, in order.

    Parameters
    ----------
    values
        Shape ``(n, d)``, float64, data units, in the order of the plan's dimensions; NaN where a
        value cannot be used. Such a record keeps its place.
    timestamps
        Shape ``(n,)``, float64, seconds since 1970-01-01 UTC; NaN when unreadable.
    position_after
        The position behind record ``i`` of this batch; to be asked for in ascending order.
    """

    values: NDArray[np.float64]
    timestamps: NDArray[np.float64]
    position_after: Callable[[int], Position]


@dataclass(kw_only=True)
class ReadingReport:
    """What happened while reading: counts, and places without any value.

    Parameters
    ----------
    n_unusable, unusable
        Records that cannot be sketched: how many, and the first few as (line, field).
    n_untimed, untimed
        Records whose time cannot be read, in the same way.
    bytes_read
        Bytes of the records read.
    unfinished_line
        The number of a last line without an end, which was left for the next time.
    notes
        Anything else that the owner should know.
    """

    n_unusable: int = 0
    unusable: list[tuple[int, str]] = field(default_factory=list)
    n_untimed: int = 0
    untimed: list[tuple[int, str]] = field(default_factory=list)
    bytes_read: int = 0
    unfinished_line: int | None = None
    notes: list[str] = field(default_factory=list)

    def add_unusable(self, line: int, name: str) -> None:
        """Note a record that cannot be sketched."""
        self.n_unusable += 1
        if len(self.unusable) < SHOWN_LINES:
            self.unusable.append((line, name))

    def add_untimed(self, line: int, name: str) -> None:
        """Note a record without a readable time."""
        self.n_untimed += 1
        if len(self.untimed) < SHOWN_LINES:
            self.untimed.append((line, name))

    def describe(self) -> list[str]:
        """Return messages for the owner; they name lines and fields, never a value."""
        messages = list(self.notes)
        if self.n_unusable:
            messages.append(
                f"{self.n_unusable} record(s) could not be sketched and count as zero: "
                + _show_places(self.unusable, self.n_unusable)
            )
        if self.n_untimed:
            messages.append(
                f"{self.n_untimed} record(s) have no readable time and join the open window: "
                + _show_places(self.untimed, self.n_untimed)
            )
        if self.unfinished_line is not None:
            messages.append(
                f"line {self.unfinished_line} has no end yet and was left for the next time"
            )
        return messages


def _show_places(places: list[tuple[int, str]], total: int) -> str:
    shown = ", ".join(f"line {line} ({name})" for line, name in places)
    return f"{shown} and {total - len(places)} more" if total > len(places) else shown


class RecordSource(Protocol):
    """Reads the records that were not read before, each once.

    Guarantees
    ----------
    Reading needs memory for one batch, whatever the source holds. What a record's values are
    decides neither which batch it falls in nor any position but its digest.
    """

    @property
    def report(self) -> ReadingReport:
        """What has happened so far."""
        ...

    def close(self) -> None:
        """Release what the source holds open."""
        ...

    def read(self) -> Iterator[RecordBatch]:
        """Yield the new records; ends where the source ends now.

        Raises
        ------
        RecordError
            The source cannot be read any more.
        """
        ...
