"""Sources of records: each reads new records once, in order, and reports its position.

A source knows nothing of windows, sketches or the store. ``interface`` shows how to add a kind;
``docs/how-to/sources.md`` lists what each kind guarantees.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sfumato.device_agent.sources.interface import (
    FileCopy,
    Guarantee,
    RecordBatch,
    RecordSource,
)
from sfumato.device_agent.sources.mapping import ReadingReport
from sfumato.device_agent.sources.positions import (
    KnownPosition,
    Position,
    SourceChanges,
    require_never_joined,
)
from sfumato.device_agent.sources.settings import StreamSettings, find_source
from sfumato.shared.plan import Dimension

__all__ = [
    "FileCopy",
    "Guarantee",
    "KnownPosition",
    "Position",
    "ReadingReport",
    "RecordBatch",
    "RecordSource",
    "SourceChanges",
    "open_source",
]


def open_source(
    stream: StreamSettings,
    dimensions: Sequence[Dimension],
    known: Sequence[KnownPosition],
    digest_key: bytes,
    folder: Path | None = None,
    *,
    now: Callable[[], float] = time.time,
) -> RecordSource:
    """Open a stream's source at the first record that was not read yet.

    Parameters
    ----------
    stream
        The stream's settings.
    dimensions
        The plan's dimensions, in order.
    known
        Every position that this device has stored, of all streams.
    digest_key
        The secret of this device's digests, 32 bytes.
    folder
        The folder of the study's keys, for what no position can hold; None for a look at a source
        that stores nothing.
    now
        Returns the time by which cells close, where messages are joined.

    Raises
    ------
    RecordError
        The source cannot be read, or lacks a column.
    LedgerError
        It is not the source that was read before, or another agent reads it, so that its records
        could be counted twice.
    ConfigError
        What it needs is not installed, or a dimension with levels is converted.
    """
    if stream.source.join is not None:
        from sfumato.device_agent.sources.cells import JoinSource

        return JoinSource(stream, dimensions, known, digest_key, folder, now=now)
    require_never_joined(stream.name, known)
    return find_source(stream.source.kind)(stream, dimensions, known, digest_key, folder)
