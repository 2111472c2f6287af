"""The interface of every source of records.

A kind of source is a class with ``settings``, ``guarantee``, ``_open`` and ``read_batch``. This one
yields the numbers below a limit, ten at a time, and can go on where it stopped:

>>> @dataclass(frozen=True, kw_only=True)
... class CountingSettings(SourceSettings):
...     limit: int
>>> class Counting(RecordSource):
...     settings = CountingSettings
...     guarantee = Guarantee(delivery="exactly once", loses="nothing")
...
...     def _open(self):
...         self._source = f"counting:{self._settings.limit}"
...         self._next = int(self._find_place(self._source, name="counting").get("next", 0))
...
...     def read_batch(self):
...         first, self._next = self._next, min(self._next + 10, self._settings.limit)
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

It is registered as an entry point, ``sfumato.sources``: ``counting = "my_package:Counting"``, and
configured with ``kind = "counting"`` and ``limit = 25`` in ``[streams.source]``. A kind of this
package is registered in ``settings.KINDS``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from sfumato.device_agent.sources.mapping import ReadingReport, RecordMapping
from sfumato.device_agent.sources.positions import DigestKey, KnownPosition, Position, SourceChanges
from sfumato.device_agent.sources.settings import SourceSettings, StreamSettings
from sfumato.device_agent.sources.shown_rows import RowKeeper
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.errors import ConfigError, LedgerError
from sfumato.shared.plan import Dimension
from sfumato.shared.reading import LineParser, RecordTable
from sfumato.shared.reading.records import NO_KIND


@dataclass(frozen=True, kw_only=True)
class RecordBatch:
    """Some records, in order.

    Parameters
    ----------
    values
        Shape ``(n, d)``, float64, in the order of the plan's dimensions: data units, or the number
        of a level; NaN where a value cannot be used. Such a record keeps its place.
    timestamps
        Shape ``(n,)``, float64, seconds since 1970-01-01 UTC; NaN when unreadable.
    position_after
        The position behind record ``i`` of this batch; called in ascending order.
    beside
        Returns positions that are stored with that of the last record, behind it.
    kinds
        Shape ``(n,)``: which kind a record is, where a stream joins messages of several.
    """

    values: Floats
    timestamps: Floats
    position_after: Callable[[int], Position]
    beside: Callable[[], tuple[Position, ...]] = tuple
    kinds: Integers | None = None

    @classmethod
    def of_table(cls, table: RecordTable, position_after: Callable[[int], Position]) -> RecordBatch:
        """Return the records of a table that are wanted; there may be none."""
        values, timestamps = table.to_matrix(), table.timestamps
        if table.kinds is None:
            return cls(values=values, timestamps=timestamps, position_after=position_after)
        places = np.flatnonzero(table.kinds != NO_KIND)
        return cls(
            values=values[places],
            timestamps=timestamps[places],
            position_after=lambda i: position_after(int(places[i])),
            # Behind what was passed over: a file of which nothing else is left is done.
            beside=lambda: (position_after(len(timestamps) - 1),),
            kinds=table.kinds[places],
        )


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


@dataclass(frozen=True, kw_only=True)
class FileCopy:
    """A file that may repeat the records of another one.

    Parameters
    ----------
    name, original
        Their paths.
    is_left
        Whether it is not read; name and age tell this, and no record does.
    """

    name: str
    original: str
    is_left: bool


class RecordSource(ABC):
    """Reads the records that were not read before, each once.

    The agent calls ``read_batch`` until it returns None, then again after ``pause_s`` seconds; it
    stores the position behind the last record of a window in the transaction that releases it, and
    calls ``released`` behind that.

    Parameters
    ----------
    stream, dimensions, known, digest_key, folder
        See ``sfumato.device_agent.sources.open_source``.

    Guarantees
    ----------
    Reading needs memory for one batch, whatever the source holds. Whether a record is read, in
    which batch, and with which time and values depends on no other record: on counts, on what
    stands where, and on when it came, never on what another says. A record that cannot be used
    keeps its place. No position depends on values but by offsets and keyed digests.
    """

    settings: ClassVar[type[SourceSettings]] = SourceSettings
    """The declaration of ``[streams.source]``."""
    chooses: ClassVar[bool] = False
    """Whether it reads what ``where`` and ``join`` name: by ``RecordBatch.of_table``."""
    _settings: SourceSettings
    _parser: LineParser | None = None

    def __init__(
        self,
        stream: StreamSettings,
        dimensions: Sequence[Dimension],
        known: Sequence[KnownPosition],
        digest_key: bytes,
        folder: Path | None = None,
    ) -> None:
        self.report = ReadingReport()
        """The events so far."""
        self._stream = stream.name
        self._settings = stream.source
        self._mapping = RecordMapping(stream, dimensions)
        if self._mapping.fields.keys and not self.chooses:
            raise ConfigError(
                "cannot be combined with where or join: this kind of source reads all records",
                field="streams.source.kind",
                fix="let it choose its records itself",
            )
        self._known = known
        self._key = DigestKey(digest_key)
        self._folder = folder
        self._resources = ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _open(self) -> None:
        """Find the first record that was not read; what is open goes into ``_resources``."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee under the source's settings."""

    @property
    def pause_s(self) -> float:
        """Seconds until the next poll, once ``read_batch`` has returned None."""
        return 1.0

    @property
    def delay_s(self) -> float:
        """Seconds after its time at which a record is given; no window closes by the clock before.

        0 where that is for the program that writes the records.
        """
        return 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether ``read_batch`` gave nothing because the source did not answer."""
        return False

    @property
    def ended(self) -> bool:
        """Whether no record will ever follow."""
        return False

    @property
    def caveats(self) -> list[str]:
        """Warnings for the owner about fields that can disturb the time or id of their record."""
        return [] if self._parser is None else self._parser.caveats

    @abstractmethod
    def read_batch(self) -> RecordBatch | None:
        """Return new records, or None when there are none now; never wait long.

        Where records are chosen, none of those that were read may be among them.

        Raises
        ------
        RecordError
            The source cannot be read any more.
        """

    def read(self) -> Iterator[RecordBatch]:
        """Yield the new records; ends where the source ends now."""
        while (batch := self.read_batch()) is not None:
            yield batch

    def find_copies(self) -> list[FileCopy]:
        """Return the files that may repeat records of others; for the owner's look alone."""
        return []

    def keep_rows(self) -> RowKeeper:
        """Keep the first rows that are read from now on, to show them to the owner."""
        self._mapping.rows = RowKeeper(has_times=self._mapping.fields.time is not None)
        return self._mapping.rows

    def released(self, positions: Iterable[Position]) -> None:  # noqa: B027
        """Clean up behind a release: the records up to these positions are in released sketches.

        Called after the release is stored, never before. Work that a crash leaves undone is done
        at a later call.
        """

    def take_changes(self) -> SourceChanges:
        """Return the changes since the last call, which are stored apart from records."""
        return SourceChanges()

    def close(self) -> None:
        """Close all files and connections."""
        self._resources.close()

    def _name_file(self, kind: str, source: str) -> Path | None:
        """Return the file for what no position of a source can hold; None to store nothing."""
        if self._folder is None:
            return None
        digest = hashlib.sha256(f"{self._stream}\0{source}".encode()).hexdigest()
        return self._folder / f"{kind}.{digest[:16]}"

    def _find_place(self, source: str, *, name: str) -> Mapping[str, int | str]:
        """Return the place that the stream has reached in a source named ``KIND:NAME``; or none.

        Raises
        ------
        LedgerError
            The stream has read another source of this kind, which may have had the same records:
            they would then be in two windows.
        """
        kind, _, _ = source.partition(":")
        own = {k.position.source: k.position.place for k in self._known if k.stream == self._stream}
        for other in own:
            if other.startswith(f"{kind}:") and other != source:
                raise LedgerError(
                    f"cannot follow {other.removeprefix(f'{kind}:')}, which the stream has read "
                    "before",
                    field=name,
                    fix="name that source, or give this one to a stream with another name",
                )
        return own.get(source, {})
