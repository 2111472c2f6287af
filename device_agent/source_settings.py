"""Where a stream's records come from, as the owner configures it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from device_agent.units import Conversion


@dataclass(frozen=True, kw_only=True)
class TimeSettings:
    """How a record's time is read.

    Parameters
    ----------
    timestamp
        The field that holds it; None if there is none.
    timestamp_format
        ``iso8601``, ``unix`` (seconds since 1970-01-01 UTC), ``unix_ms``, ``unix_us``,
        ``unix_ns``, or a format of ``strptime``, which has a ``%`` in it.
    timestamp_zone
        The zone of times that state none, as IANA names it.
    """

    timestamp: str | None = None
    timestamp_format: str = "iso8601"
    timestamp_zone: str = "UTC"


def find_zone(name: str) -> tzinfo:
    """Find a time zone; may raise ``ValueError``, ``OSError`` or ``LookupError``."""
    if name == "UTC":
        return UTC
    # Loaded where it is needed: with the paths of its data it takes half a megabyte.
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


@dataclass(frozen=True, kw_only=True)
class SourceSettings(TimeSettings):
    """What every kind of source has.

    Parameters
    ----------
    kind
        Which kind it is.
    lock
        Whether files and folders are locked while they are read.
    """

    kind: str
    lock: bool = True

    @property
    def origin(self) -> tuple[str, ...]:
        """What two streams may not share, or their records would be sketched twice."""
        return (self.kind,)


@dataclass(frozen=True, kw_only=True)
class TextSettings(SourceSettings):
    """Records as lines of text.

    Parameters
    ----------
    format
        ``csv`` or ``jsonl``; also ``parquet`` in a folder, ``json`` in messages.
    encoding
        One that keeps ASCII as it is.
    delimiter
        One character between the fields of a CSV line.
    header
        Names of the CSV columns, if the file has no header line.
    multiline
        Whether quoted CSV fields may contain line ends.
    """

    format: str = "csv"
    encoding: str = "utf-8"
    delimiter: str = ","
    header: tuple[str, ...] = ()
    multiline: bool = False


@dataclass(frozen=True, kw_only=True)
class FileSettings(TextSettings):
    """One file that grows.

    Parameters
    ----------
    path
        Absolute.
    missing
        ``error``, or ``wait`` until it is there.
    replaced
        What to do when another file is at the path: ``refuse``, or ``follow`` it (rotation).
    """

    path: Path
    missing: str = "error"
    replaced: str = "refuse"

    @property
    def origin(self) -> tuple[str, ...]:
        """See the base."""
        # A link is followed anew at each look, but two links to one file are one source.
        return ("file", str(self.path.resolve()))


@dataclass(frozen=True, kw_only=True)
class FolderSettings(TextSettings):
    """The files of a folder.

    Parameters
    ----------
    path
        The folder, absolute.
    glob
        Which files, such as ``*.csv``.
    whole
        Whether files appear whole, so that a last line without an end is a record.
    replaced
        What to do with other content under a known name: ``refuse``, or ``follow``.
    released
        What to do with a file when all of it is in released sketches: ``keep``, ``delete`` or
        ``move``.
    move_to
        Where to, with ``move``; absolute.
    """

    path: Path
    glob: str = "*"
    whole: bool = False
    replaced: str = "refuse"
    released: str = "keep"
    move_to: Path | None = None

    @property
    def origin(self) -> tuple[str, ...]:
        """See the base."""
        return ("folder", str(self.path), self.glob)


@dataclass(frozen=True, kw_only=True)
class StdinSettings(TextSettings):
    """Lines from standard input; ``id`` names a field that only ever grows, or is None."""

    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class SqliteSettings(SourceSettings):
    """Rows of a query of a SQLite file.

    Parameters
    ----------
    path
        The file, absolute.
    query
        A SELECT with ``:last`` and ``:n``, ordered by ``key``.
    key
        The column that only ever grows.
    first
        The value of ``:last`` at the very beginning.
    poll_s
        Seconds between looks.
    """

    path: Path
    query: str
    key: str
    first: int | str = 0
    poll_s: float = 10.0

    @property
    def origin(self) -> tuple[str, ...]:
        """See the base."""
        return ("sqlite", str(self.path), self.query)


@dataclass(frozen=True, kw_only=True)
class MqttSettings(TextSettings):
    """Messages of a topic; QoS 1, a persistent session named ``client_id``."""

    host: str
    port: int
    topic: str
    client_id: str
    id: str | None = None
    username: str | None = None
    password_file: Path | None = None
    tls: bool = False
    ca_file: Path | None = None

    @property
    def origin(self) -> tuple[str, ...]:
        """See the base."""
        return ("mqtt", self.host, str(self.port), self.topic)


@dataclass(frozen=True, kw_only=True)
class HttpSettings(SourceSettings):
    """Pages of JSON records behind an address; each names the cursor of the next.

    Parameters
    ----------
    url
        Where to ask.
    parameter
        The query parameter that carries the cursor.
    records, next
        The keys of the answer that hold the records and the next cursor.
    first
        The first cursor; None to ask without one.
    token_file
        A file whose content is sent as a bearer token.
    poll_s, timeout_s
        Seconds between looks, and until an answer.
    """

    url: str
    parameter: str = "cursor"
    records: str = "records"
    next: str = "next"
    first: str | None = None
    token_file: Path | None = None
    poll_s: float = 60.0
    timeout_s: float = 30.0

    @property
    def origin(self) -> tuple[str, ...]:
        """See the base."""
        return ("http", self.url)


@dataclass(frozen=True, kw_only=True)
class ParquetSettings(SourceSettings):
    """The rows of one Parquet file."""

    path: Path

    @property
    def origin(self) -> tuple[str, ...]:
        """See the base."""
        return ("file", str(self.path))


@dataclass(frozen=True, kw_only=True)
class OtherSettings(SourceSettings):
    """A kind from another distribution, which checks its ``options`` itself."""

    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origin(self) -> tuple[str, ...]:
        """See the base."""
        return (self.kind, repr(sorted(self.options.items())))


@dataclass(frozen=True, kw_only=True)
class FieldSettings:
    """Which field a dimension is read from, and how its unit is converted."""

    name: str
    conversion: Conversion = field(default_factory=Conversion)
