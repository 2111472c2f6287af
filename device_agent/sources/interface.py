"""The interface of every source of records.

A kind of source is a class with ``settings``, ``read_batch``, ``guarantee`` and ``close``. This
one yields the numbers below a limit, ten at a time, and can go on where it stopped:

>>> @dataclass(frozen=True, kw_only=True)
... class CountingSettings(SourceSettings):
...     limit: int
>>> class Counting(RecordSource):
...     settings = CountingSettings
...     guarantee = Guarantee(delivery="exactly once", loses="nothing")
...
...     def __init__(self, stream, dimensions, known, digest_key):
...         self.report = ReadingReport()
...         self._limit = stream.source.limit
...         self._source = f"counting:{self._limit}"
...         places = [k.position.place for k in known if k.position.source == self._source]
...         self._next = max((int(place["next"]) for place in places), default=0)
...
...     def read_batch(self):
...         first, self._next = self._next, min(self._next + 10, self._limit)
...         n_records = self._next - first
...         if n_records == 0:
...             return None
...         return RecordBatch(
...             values=np.arange(first, self._next, dtype=np.float64)[:, np.newaxis],
...             timestamps=np.full(n_records, np.nan),
...             position_after=lambda i: Position(
...                 source=self._source, place={"next": first + i + 1}
...             ),
...         )
...
...     def close(self):
...         pass

It is registered as an entry point, ``sfumato.sources``: ``counting = "my_package:Counting"``, and
configured with ``kind = "counting"`` and ``limit = 25`` in ``[streams.source]``. A kind of this
package is registered in ``settings.KINDS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from device_agent.sources.settings import SourceSettings, StreamSettings
from shared.errors import LedgerError

SHOWN_LINES = 5
"""Number of places of unusable records that a report names."""


@dataclass(frozen=True, kw_only=True)
class Position:
    """A place in a source, behind the records that were read.

    Parameters
    ----------
    source
        Identity of the source: a file's identity (``file_identity``), or a name such as ``stdin``.
    place
        State that finds the next record and detects another source. Digests in it are keyed,
        because it is stored and may be stolen.
    """

    source: str
    place: Mapping[str, int | str]


@dataclass(frozen=True, kw_only=True)
class KnownPosition:
    """A stored position, and the stream whose sketches hold the records before it."""

    stream: str
    position: Position


@dataclass(frozen=True, kw_only=True)
class SourceChanges:
    """Changes of a source to be stored apart from its records.

    Parameters
    ----------
    gone
        Sources whose positions can be forgotten.
    seen
        Positions of files that were opened, even without a record. They are stored unless a later
        place of their source is known: whether a file is known must not depend on whether it holds
        a record.
    """

    gone: tuple[str, ...] = ()
    seen: tuple[Position, ...] = ()


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
        The position behind record ``i`` of this batch; called in ascending order.
    """

    values: NDArray[np.float64]
    timestamps: NDArray[np.float64]
    position_after: Callable[[int], Position]


@dataclass(kw_only=True)
class ReadingReport:
    """Events of reading: counts, and places without any value.

    Parameters
    ----------
    n_unusable, unusable
        The number of records that cannot be sketched, and the first few as (line, field).
    n_untimed, untimed
        The same of records whose time cannot be read.
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

    def include(self, other: ReadingReport) -> None:
        """Add the events of another report."""
        for name in ("unusable", "untimed"):
            shown = getattr(self, name)
            shown += getattr(other, name)[: SHOWN_LINES - len(shown)]
        self.n_unusable += other.n_unusable
        self.n_untimed += other.n_untimed
        self.bytes_read += other.bytes_read

    def describe(self) -> list[str]:
        """Return messages for the owner; they name lines and fields, never a value."""
        return [*self.describe_reading(), *self.describe_values()]

    def describe_values(self) -> list[str]:
        """Return messages that depend on values: for the owner's eyes, never for a log."""
        if not self.n_unusable:
            return []
        return [
            f"{self.n_unusable} record(s) could not be sketched and count as zero: "
            + _show_places(self.unusable, self.n_unusable)
        ]

    def describe_reading(self) -> list[str]:
        """Return messages that depend on no value."""
        messages = list(self.notes)
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


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The guarantee of a source, as the owner sees it.

    Parameters
    ----------
    delivery
        How often a record is read over all restarts and crashes; never twice.
    loses
        Records that can be lost, and when.
    consumes
        Whether reading removes records from the source: a dry run must not read then.
    """

    delivery: Literal["exactly once", "at most once"]
    loses: str
    consumes: bool = False

    def describe(self) -> str:
        """Return one line."""
        return f"each record is read {self.delivery}; can be lost: {self.loses}"


def require_same_source(
    source: str, stream: str, known: Sequence[KnownPosition], *, kind: str, name: str
) -> None:
    """Refuse a source other than the one that the stream has read, with a ``LedgerError``.

    Another address may have the same records, which would then be in two windows.
    """
    for k in known:
        other = k.position.source
        if k.stream == stream and other.startswith(f"{kind}:") and other != source:
            raise LedgerError(
                f"the stream has read {other.removeprefix(f'{kind}:')} before",
                field=name,
                fix="name that source, or give this one to a stream with another name",
            )


class RecordSource(ABC):
    """Reads the records that were not read before, each once.

    The agent calls ``read_batch`` until it returns None, then again after ``pause_s`` seconds; it
    stores the position behind the last record of a window in the transaction that releases it, and
    calls ``released`` behind that.

    Guarantees
    ----------
    Reading needs memory for one batch, whatever the source holds. Whether a record is read, in
    which batch, and with which time and values depends on no other record: on counts, on what
    stands where, and on when it came, never on what another says. A record that cannot be used
    keeps its place. No position depends on values but by offsets and keyed digests.
    """

    settings: ClassVar[type[SourceSettings]] = SourceSettings
    """The declaration of ``[streams.source]``."""
    report: ReadingReport
    """The events so far."""

    @abstractmethod
    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[str],
        known: Sequence[KnownPosition],
        digest_key: bytes,
    ) -> None: ...

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee under the source's settings."""

    @property
    def pause_s(self) -> float:
        """Seconds until the next poll, once ``read_batch`` has returned None."""
        return 1.0

    @property
    def ended(self) -> bool:
        """Whether no record will ever follow."""
        return False

    @property
    def caveats(self) -> list[str]:
        """Warnings for the owner about fields that can disturb the time or id of their record."""
        return []

    @abstractmethod
    def read_batch(self) -> RecordBatch | None:
        """Return at least one new record, or None when there are none now; never wait long.

        Raises
        ------
        RecordError
            The source cannot be read any more.
        """

    def read(self) -> Iterator[RecordBatch]:
        """Yield the new records; ends where the source ends now."""
        while (batch := self.read_batch()) is not None:
            yield batch

    def released(self, positions: Iterable[Position]) -> None:  # noqa: B027
        """Clean up behind a release: the records up to these positions are in released sketches.

        Called after the release is stored, never before. Work that a crash leaves undone is done
        at a later call.
        """

    def take_changes(self) -> SourceChanges:
        """Return the changes since the last call, which are stored apart from records."""
        return SourceChanges()

    @abstractmethod
    def close(self) -> None:
        """Close all files and connections."""
