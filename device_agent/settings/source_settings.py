"""Where a stream's records come from, as the owner configures it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from device_agent.settings.units import Conversion
from shared.privacy import Origin


@dataclass(frozen=True, kw_only=True)
class TimeSettings:
    """Settings for reading a record's time.

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


_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def _name_host(host: str) -> str:
    """Return a host as it is compared: each address in one spelling, those of this machine as one.

    What else a name server calls the same machine is not known here.
    """
    name = host.lower().rstrip(".")
    if name in _LOCAL_NAMES:
        return _LOCAL_NAMES[0]
    address: IPv4Address | IPv6Address | None = None
    with suppress(OSError, ValueError):
        # Also 127.1 and 2130706433, as the system reads them.
        address = IPv4Address(socket.inet_aton(name))
    with suppress(ValueError):
        address = address or IPv6Address(name)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address is not None:
        return _LOCAL_NAMES[0] if address.is_loopback else str(address)
    with suppress(UnicodeError):
        name = name.encode("idna").decode()
    return name


@dataclass(frozen=True, kw_only=True)
class SourceSettings(TimeSettings):
    """Settings that every kind of source has.

    Parameters
    ----------
    kind
        Which kind it is.
    lock
        Whether files and folders are locked while they are read.
    disjoint
        Names a part of the source that shares no record with its other named parts, as its owner
        declares; empty for all of it.
    """

    kind: str
    lock: bool = True
    disjoint: str = ""

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where its records come from, as far as the settings tell; see ``Origin``."""
        return (self._origin("other", self.kind),)

    def _origin(self, kind: str, name: str) -> Origin:
        return Origin(kind=kind, name=name, part=self.disjoint)


@dataclass(frozen=True, kw_only=True)
class TextSettings(SourceSettings):
    """Records as lines of text.

    Parameters
    ----------
    format
        ``csv`` or ``jsonl``; of messages, ``json`` or ``csv``.
    encoding
        One that keeps ASCII as it is.
    delimiter
        One character between the fields of a CSV line.
    header
        Names of the CSV columns, if the file has no header line.
    """

    format: str = "csv"
    encoding: str = "utf-8"
    delimiter: str = ","
    header: tuple[str, ...] = ()


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
        What to do when another file is at the path: ``refuse`` it; ``join_successors``, which read
        it behind the one that was there (rotation by renaming); or go on in it where the other
        ended, for it is always ``rewritten`` with all that it held before.
    """

    path: Path
    missing: str = "error"
    replaced: str = "refuse"

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See the base."""
        # A link is followed anew at each look, but two links to one file are one source.
        found = {str(self.path), str(self.path.resolve())}
        return tuple(self._origin("path", name) for name in sorted(found))


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
        What to do with another file under a known name: ``refuse``, or ``join_successors``.
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
    def origins(self) -> tuple[Origin, ...]:
        """See the base; which files match decides nothing, since names change."""
        return (self._origin("folder", str(self.path)),)


@dataclass(frozen=True, kw_only=True)
class StdinSettings(TextSettings):
    """Lines from standard input; ``id`` names a field that only ever grows, or is None."""

    id: str | None = None

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See the base."""
        return (self._origin("stdin", ""),)


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
    def origins(self) -> tuple[Origin, ...]:
        """See the base; two queries of one database may select the same rows."""
        return (self._origin("path", str(self.path)),)


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
    def origins(self) -> tuple[Origin, ...]:
        """See the base."""
        # With and without encryption, at its usual port, it is one broker.
        port = "" if self.port in (1883, 8883) else f":{self.port}"
        return (self._origin("mqtt", f"{_name_host(self.host)}{port} {self.topic}"),)


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
    def origins(self) -> tuple[Origin, ...]:
        """See the base; what asks differently at one address may get the same records."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        # With and without encryption, and at its usual port, it is one server.
        where = _name_host(parts.hostname or "") + ("" if port in (80, 443) else f":{port}")
        segments = [part for part in unquote(parts.path).split("/") if part not in ("", ".")]
        path: list[str] = []
        for segment in segments:
            path = path[:-1] if segment == ".." else [*path, segment]
        return (self._origin("http", "/".join([where, *path])),)


@dataclass(frozen=True, kw_only=True)
class ParquetSettings(SourceSettings):
    """The rows of one Parquet file."""

    path: Path

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See the base."""
        return (self._origin("path", str(self.path)),)


@dataclass(frozen=True, kw_only=True)
class OtherSettings(SourceSettings):
    """A kind from another distribution, which checks its ``options`` itself."""

    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See the base; what options of a foreign kind mean is not known."""
        return (self._origin("other", self.kind),)


@dataclass(frozen=True, kw_only=True)
class FieldSettings:
    """Which field a dimension is read from, and how its unit is converted."""

    name: str
    conversion: Conversion = field(default_factory=Conversion)
