"""Sources of records: each reads new records once, in order, and can say where it stands.

Only ``device_agent.agent`` and tests may import it. A source knows nothing of windows, sketches or
the store; a new kind implements ``RecordSource`` and is added to ``open_source``.
"""

from __future__ import annotations

from collections.abc import Sequence

from device_agent.settings import StreamSettings
from device_agent.sources.csv_source import CsvSource
from device_agent.sources.interface import (
    KnownPosition,
    Position,
    ReadingReport,
    RecordBatch,
    RecordSource,
)

__all__ = [
    "KnownPosition",
    "Position",
    "ReadingReport",
    "RecordBatch",
    "RecordSource",
    "open_source",
]


def open_source(
    stream: StreamSettings, dimensions: Sequence[str], known: Sequence[KnownPosition]
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

    Raises
    ------
    RecordError
        The source cannot be read, or lacks a column.
    LedgerError
        It is not the source that was read before, so its records could be counted twice.
    """
    return CsvSource(stream, dimensions, known)
