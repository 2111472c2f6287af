"""Standard input or a pipe: reading consumes its lines."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from sfumato.device_agent.sources.growing_ids import GrowingIds
from sfumato.device_agent.sources.interface import Guarantee, RecordBatch, RecordSource
from sfumato.device_agent.sources.line_file import LineBatcher
from sfumato.device_agent.sources.settings import ARRIVAL, TextSettings
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import Origin
from sfumato.shared.reading import Block, LineCutter
from sfumato.shared.structure import Text, declared, member

_CHUNK_BYTES = 1 << 16
_NAME = "standard input"
_WAIT_S = 3600.0


@declared
class StdinSettings(TextSettings):
    """Settings of standard input."""

    format: Literal["csv", "jsonl", "influx"] = member(
        "`csv`, `jsonl`, or `influx`: line protocol.", default="csv"
    )
    id: Text | None = member(
        "A field with a whole number that grows from record to record.", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stamps_arrival and self.timestamp_clock is not None:
            raise ConfigError(
                'cannot be combined with timestamp = "arrival"',
                field="timestamp_clock",
                fix="remove it, or name the field with the date as timestamp",
            )

    @property
    def stamps_arrival(self) -> bool:
        """See ``SourceSettings``."""
        return self.timestamp == ARRIVAL

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See ``SourceSettings``."""
        return (self._origin("stdin", ""),)


class StdinSource(RecordSource):
    """The records of a pipe; see ``RecordSource``.

    Parameters
    ----------
    stream, dimensions, known, digest_key
        As for every source.
    fd
        The file descriptor to read.
    """

    chooses = True
    settings = StdinSettings
    _settings: StdinSettings

    def __init__(self, *args: Any, fd: int = 0) -> None:
        self._fd = fd
        super().__init__(*args)

    def _open(self) -> None:
        self._parser = self._mapping.make_parser(self._settings)
        self._lines = LineBatcher(self._parser, self._mapping, self.report, name=_NAME)
        place = self._find_place("stdin", name=_NAME)
        self._ids = GrowingIds("stdin", place, in_use=self._settings.id is not None)
        self._cutter = LineCutter()
        self._ended = False

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        loses = "what was read since the last checkpoint, at a crash"
        if self._settings.id is not None:
            loses += ", unless it is fed again; ids tell what was counted"
        return Guarantee(delivery="at most once", loses=loses, consumes=True)

    @property
    def pause_s(self) -> float:
        """See ``RecordSource``."""
        return 0.2

    @property
    def ended(self) -> bool:
        """See ``RecordSource``."""
        return self._ended and self._lines.is_empty and not self._cutter.has_partial_line

    def read(self) -> Iterator[RecordBatch]:
        """Yield records until the pipe is closed; waits for them."""
        while not self.ended:
            batch = self.read_batch()
            if batch is not None:
                yield batch
            elif not self._ended:
                select.select([self._fd], [], [], _WAIT_S)

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        while (found := self._lines.read(self._fetch)) is not None:
            table = found[0]
            if self._settings.stamps_arrival:
                table = replace(table, timestamps=np.full(len(table.timestamps), time.time()))
            batch = self._ids.make_batch(table)
            self.report.notes[:] = self._ids.describe()
            if batch is not None:
                return batch
        return None

    def _fetch(self) -> Block | None:
        while not self._ended and select.select([self._fd], [], [], 0)[0]:
            chunk = os.read(self._fd, _CHUNK_BYTES)
            self._ended = not chunk
            if (block := self._cutter.feed(chunk)) is not None:
                return block
        return self._cutter.finish() if self._ended else None
