"""Sources of records: each reads new records once, in order, and can say where it stands.

Only ``device_agent.agent`` and tests may import it. A source knows nothing of windows, sketches or
the store. How to add a kind is in ``interface``; what each kind guarantees is in
``docs/how-to/sources.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from device_agent.settings.agent_settings import StreamSettings
from device_agent.settings.source_tables import ENTRY_POINTS
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    Position,
    ReadingReport,
    RecordBatch,
    RecordSource,
    SourceChanges,
)

__all__ = [
    "Guarantee",
    "KnownPosition",
    "Position",
    "ReadingReport",
    "RecordBatch",
    "RecordSource",
    "SourceChanges",
    "open_source",
]

# Imported when configured, so that a device carries no more than it uses.
_CLASSES = {
    "csv": "file_source:FileSource",
    "jsonl": "file_source:FileSource",
    "folder": "folder_source:FolderSource",
    "stdin": "stdin_source:StdinSource",
    "sqlite": "sqlite_source:SqliteSource",
    "mqtt": "mqtt_source:MqttSource",
    "http": "http_source:HttpSource",
    "parquet": "row_source:RowSource",
}


def open_source(
    stream: StreamSettings,
    dimensions: Sequence[str],
    known: Sequence[KnownPosition],
    digest_key: bytes,
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

    Raises
    ------
    RecordError
        The source cannot be read, or lacks a column.
    LedgerError
        It is not the source that was read before, or another agent reads it, so that its records
        could be counted twice.
    ConfigError
        What it needs is not installed.
    """
    return _find_class(stream.source.kind)(stream, dimensions, known, digest_key)


def _find_class(kind: str) -> Callable[..., RecordSource]:
    if kind in _CLASSES:
        module, name = _CLASSES[kind].split(":")
        found: Any = getattr(import_module(f"{__name__}.{module}"), name)
        return found  # type: ignore[no-any-return]
    from importlib.metadata import entry_points

    (entry,) = entry_points(group=ENTRY_POINTS, name=kind)
    loaded: Callable[..., RecordSource] = entry.load()
    return loaded
