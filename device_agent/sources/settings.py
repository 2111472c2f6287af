"""Settings of streams, the settings that every source has, and the registry of kinds of sources.

Each kind declares its own settings beside its code; ``sfumato.shared.structure`` reads them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from sfumato.shared.errors import ConfigError
from sfumato.shared.file_identity import identify
from sfumato.shared.plan import SketchPlan
from sfumato.shared.plan.quantities import Conversion, find_conversion
from sfumato.shared.privacy import ANY_TIME, Origin, TimeSpan
from sfumato.shared.reading.layout import PLAIN_TEXT, Layout
from sfumato.shared.reading.spelling import ValueSettings
from sfumato.shared.structure import Rule, Short, Tagged, Text, declared, member
from sfumato.shared.wire import STREAM_NAME_RULE, is_stream_name

if TYPE_CHECKING:
    from sfumato.device_agent.sources.interface import RecordSource
    from sfumato.device_agent.sources.positions import Position

ENTRY_POINTS = "sfumato.sources"
"""Group of entry points where other distributions register kinds of sources."""
KINDS = {
    "csv": "file_source:FileSource",
    "jsonl": "file_source:FileSource",
    "influx": "file_source:FileSource",
    "folder": "folder_source:FolderSource",
    "stdin": "stdin_source:StdinSource",
    "sqlite": "sqlite_source:SqliteSource",
    "mqtt": "mqtt_source:MqttSource",
    "http": "http_source:HttpSource",
    "parquet": "row_source:RowSource",
    "npy": "row_source:RowSource",
}
"""The registry. A module is imported when a configuration names its kind, never before."""

_FILE = "file:"
_EITHER = "iso8601 or "
ARRIVAL = "arrival"
"""The time at which a record came, where a source knows it."""
_TIME_FORMATS = ("iso8601", "unix", "unix_ms", "unix_us", "unix_ns", "excel")


_OPERATIONAL = (
    *("path", "url", "topic", "lock", "disjoint", "missing", "replaced", "released", "copies"),
    *("poll_s", "timeout_s", "token_file", "username", "password_file", "ca_file"),
)
"""Settings that do not decide how a record is read; where it is read from is in the origins."""
_PLACES = ("url", "topic", "username", "token_file")
"""Settings by which a server may choose how it writes a record's time: it may know the user's."""


def find_source(kind: str) -> type[RecordSource]:
    """Return the class of a kind of source.

    Raises
    ------
    ConfigError
        No package provides the kind, or a library that it needs is not installed.
    """
    if kind in KINDS:
        module, name = KINDS[kind].split(":")
        found: type[RecordSource] = getattr(
            import_module(f"sfumato.device_agent.sources.{module}"), name
        )
        return found
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS, name=kind):
        loaded: type[RecordSource] = entry.load()
        return loaded
    raise ConfigError(
        f"must be one of {', '.join(KINDS)}", fix="choose one, or install the package that adds it"
    )


def _find_settings(kind: str) -> type[SourceSettings]:
    return find_source(kind).settings


def _is_time_format(text: str) -> bool:
    is_unix = text.removeprefix(_EITHER).startswith("unix")
    return "%" in text or (text.removeprefix(_EITHER) if is_unix else text) in _TIME_FORMATS


def find_zone(name: str) -> tzinfo:
    """Find a time zone; may raise ``ValueError``, ``OSError`` or ``LookupError``."""
    if name == "UTC":
        return UTC
    # Loaded where it is needed: with the paths of its data it takes half a megabyte.
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _read_time(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError
    return moment.timestamp()


_IsTime = Rule(
    _read_time, "must be a time with its offset", 'write it as "2026-12-01T00:00:00+01:00"'
)


@declared
class Join:
    """Messages of one value each are joined to records, one a group and interval.

    The field of a column, in `[streams.columns]`, is then the text that `key` has in its messages.
    """

    key: Text = member("The field that says what a message measures, such as its topic.")
    value: Text = member("The field that holds its value.", default="value")
    every_s: Annotated[float, Rule(ge=1)] = member("Length of an interval, in seconds.")
    since: Annotated[Text, _IsTime] = member("The time at which the first interval begins.")
    until: Annotated[Text, _IsTime] | None = member(
        "The time at which the last one ends; none by default.", default=None
    )
    groups: Annotated[tuple[Text, ...], Rule(max_length=1000)] = member(
        "The names of the groups, such as rooms: each has a record in every interval, also a "
        "silent one.",
        default=(),
    )
    group: Text | None = member(
        "The field with the name of its group. Default: the texts of `key` hold it, where the "
        "field of a column has `{group}`.",
        default=None,
    )
    take: Literal["last", "mean", "min", "max"] = member(
        "What stands for several messages of one column in an interval.", default="last"
    )
    grace_s: Annotated[float, Rule(ge=0)] = member(
        "Seconds after an interval within which its messages may come.", default=60.0
    )

    def __post_init__(self) -> None:
        """Refuse cells that are none, or without a name."""
        if self.until_s is not None and self.until_s < self.since_s + self.every_s:
            raise ConfigError(
                "must be an interval after since, or later", field="until", fix="leave it out"
            )
        if self.group is not None and not self.groups:
            raise ConfigError(
                "is missing: a group that nobody declared would show that it is there",
                field="groups",
                fix='list them, such as groups = ["room1", "room2"]',
            )
        if len(set(self.groups)) < len(self.groups):
            raise ConfigError("must be different names", field="groups", fix="list each once")

    @property
    def since_s(self) -> float:
        """``since`` in seconds since 1970-01-01 UTC."""
        return _read_time(self.since)

    @property
    def until_s(self) -> float | None:
        """``until`` in seconds since 1970-01-01 UTC."""
        return None if self.until is None else _read_time(self.until)

    def list_kinds(self, columns: Sequence[str]) -> dict[tuple[str, ...], int]:
        """Return the texts of a message's key, and of its group, for each group and column.

        Raises
        ------
        ConfigError
            Two of them are alike.
        """
        found: dict[tuple[str, ...], int] = {}
        for i, group in enumerate(self.groups or ("",)):
            for j, column in enumerate(columns):
                texts: tuple[str, ...] = (column.replace("{group}", group),)
                if self.group is not None:
                    texts = (column, group)
                if texts in found:
                    raise ConfigError(
                        f"must tell groups and columns apart, and {column!r} does not",
                        field="streams.columns",
                        fix="write {group} where the key has the name of the group, such as "
                        '"{group}/temperature", or name the field with it as join.group',
                    )
                found[texts] = i * len(columns) + j
        return found


@declared
class SourceSettings(ValueSettings):
    """Settings that every kind of source has."""

    kind: Text = member(
        "`csv`, `jsonl`, `influx`, `folder`, `stdin`, `sqlite`, `mqtt`, `http`, `parquet`, `npy`, "
        "or a kind that another package provides."
    )
    disjoint: Text = member(
        "A name for a part of the source. You declare that parts with different names share "
        "no record.",
        default="",
    )
    timestamp: Text | None = member(
        "The field that holds a record's time. Of `mqtt` and `stdin` it may be `arrival`, this "
        "machine's clock when the record came.",
        default=None,
    )
    timestamp_format: Annotated[
        str,
        Rule(
            _is_time_format,
            f"must be {', '.join(_TIME_FORMATS)}, {_EITHER}unix or a format of strptime",
            'write it as "%d.%m.%Y %H:%M"',
        ),
    ] = member(
        "`iso8601`, `unix` (seconds since 1970-01-01 UTC), `unix_ms`, `unix_us`, `unix_ns`, "
        "`iso8601 or unix` (or another of these: a number is the latter, and other text the "
        "former), `excel` (days, as spreadsheets count them), or a format of `strptime`, which has "
        "a `%` in it.",
        default="iso8601",
    )
    timestamp_zone: Annotated[
        str,
        Rule(
            find_zone,
            "must be a time zone that this machine knows",
            'write it as "Europe/Berlin"; on Debian install the package tzdata',
        ),
    ] = member("The zone of times that state none, as IANA names it.", default="UTC")
    join: Join | None = member(
        "How messages of one value each become records; by default each is a record.", default=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.join is not None and self.timestamp is None:
            raise ConfigError(
                "is missing: a message belongs to the interval of its own time",
                field="timestamp",
                fix="name the field that holds it",
            )

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Origins of the records, as far as the settings tell."""
        return (self._origin("other", self.kind),)

    @property
    def stamps_arrival(self) -> bool:
        """Whether the source itself states each record's time: no field holds it."""
        return False

    @property
    def identity(self) -> str | None:
        """The field that only ever grows, where a kind of source has the setting `id`."""
        return getattr(self, "id", None)

    def list_reading(self) -> dict[str, str]:
        """Return the settings that decide how a record is read.

        Defaults are left out: a setting that a later release adds must not stop any stream.
        """
        return {
            f"source.{field.name}": repr(value)
            for field in fields(self)
            if field.name not in _OPERATIONAL
            and (value := getattr(self, field.name)) != field.default
            and value != {}
        }

    def digest_times(self) -> str:
        """Return the SHA-256 of all that decides which time a record has, once it can be read."""
        places = {name: getattr(self, name, None) for name in _PLACES}
        found = sorted((self.list_reading() | places).items())
        return hashlib.sha256(repr(found).encode()).hexdigest()

    def _origin(self, kind: str, name: str) -> Origin:
        return Origin(kind=kind, name=name, part=self.disjoint)


@declared
class LocalSettings(SourceSettings):
    """Settings of a source on this machine's disks."""

    path: Annotated[Path, Path.resolve] = member(
        "The file or folder, relative to the configuration."
    )
    lock: bool = member("Whether it is locked while it is read.", default=True)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See ``SourceSettings``."""
        return (self._origin("path", str(self.path)),)


@declared
class TextSettings(SourceSettings, Layout):
    """Settings of a source of text."""

    timestamp_clock: Text | None = member(
        "The field with the time of day, where `timestamp` has the date alone.", default=None
    )

    @property
    def format(self) -> str:
        """The format of a line or message: ``csv``, ``jsonl`` or ``json``."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        SourceSettings.__post_init__(self)
        Layout.__post_init__(self)
        for name in ("delimiter", "header", "skip_lines", "comment"):
            if getattr(self, name) != getattr(PLAIN_TEXT, name) and self.format != "csv":
                raise ConfigError(
                    "cannot be combined with a format other than CSV", field=name, fix="remove it"
                )
        if self.timestamp_clock is not None and (
            self.timestamp is None
            or not ("%" in self.timestamp_format or self.timestamp_format == "iso8601")
        ):
            raise ConfigError(
                "needs a timestamp that is a date in text",
                field="timestamp_clock",
                fix="name the field with the date as timestamp, and the format of both with a "
                'space between as timestamp_format, such as "%d.%m.%Y %H:%M:%S"',
            )


@dataclass(frozen=True, kw_only=True)
class FieldSettings:
    """Name and conversion of the field that a dimension is read from."""

    name: str
    conversion: Conversion = field(default_factory=Conversion)


@declared
class Column:
    """Where a dimension's values come from; `dimension = "field"` is short for the first key."""

    field: Text | None = member(
        "The field of a record; by default it has the dimension's name.", default=None
    )
    convert: Text | None = member(
        'Two units of one quantity, such as `"degF -> degC"`.', default=None
    )
    scale: Annotated[
        float, Rule(bool, "must be a finite number other than zero", "write it without quotes")
    ] = member("Instead of `convert`: the value is scale times the field plus offset.", default=1.0)
    offset: float = member(
        "Instead of `convert`: the value is scale times the field plus offset.", default=0.0
    )

    def __post_init__(self) -> None:
        if self.convert is not None and (self.scale, self.offset) != (1.0, 0.0):
            raise ConfigError(
                "cannot be combined with scale and offset", field="convert", fix="remove one"
            )
        _ = self.conversion

    @property
    def conversion(self) -> Conversion:
        """The conversion, or a ``ConfigError`` where its units are unknown."""
        if self.convert is None:
            return Conversion(scale=self.scale, offset=self.offset)
        return find_conversion(self.convert, field="convert")


@declared
class StreamSettings:
    """Settings of one stream of records."""

    name: Annotated[
        str, Rule(is_stream_name, STREAM_NAME_RULE, "choose another, such as 'main'")
    ] = member("The stream's name. The server sees it.")
    source: Annotated[SourceSettings, Tagged("kind", _find_settings)] = member(
        "Where the records come from."
    )
    columns: Mapping[
        str,
        Annotated[
            Column, Short("field"), Rule(bool, "must be text or a table", 'write it as x = "field"')
        ],
    ] = member(
        "The field of each dimension whose field has another name or unit.", default_factory=dict
    )

    def find_field(self, dimension: str) -> FieldSettings:
        """Return the field that a dimension is read from."""
        column = self.columns.get(dimension, Column())
        return FieldSettings(name=column.field or dimension, conversion=column.conversion)

    def find_origins(
        self, plan: SketchPlan | None, positions: Iterable[Position] = ()
    ) -> set[Origin]:
        """Return the origins of the records that a stream of a plan reads, with their times.

        Parameters
        ----------
        plan
            The plan; None where it is not known any more.
        positions
            Positions behind records, in files that the settings do not name any more.
        """
        found = self._find_places() | self._read_from(positions)
        return {replace(origin, times=self.find_times(plan)) for origin in found}

    def find_times(self, plan: SketchPlan | None) -> str:
        """Return the times of the records that a stream of a plan reads, as an origin has them."""
        if plan is None or not plan.is_bounded:
            return ANY_TIME
        window = plan.window
        reading = self.source.digest_times()
        return TimeSpan(since=window.origin, until=window.end, reading=reading).text

    def _find_places(self) -> set[Origin]:
        """Return the origins in the settings, and the files' identities.

        A path alone is not enough: a file, folder or database that was renamed is the same one.
        """
        found = set(self.source.origins)
        for origin in self.source.origins:
            with suppress(OSError):
                if origin.kind in ("path", "folder"):
                    found.add(self._identify(identify(Path(origin.name)).source))
                # A file that the shell has put there is that file.
                elif origin.kind == "stdin" and stat.S_ISREG(os.fstat(0).st_mode):
                    found.add(self._identify(identify(0).source))
        return found

    def _read_from(self, positions: Iterable[Position]) -> set[Origin]:
        return {self._identify(p.source) for p in positions if p.source.startswith(_FILE)}

    def _identify(self, source: str) -> Origin:
        return Origin(kind="file", name=source.removeprefix(_FILE), part=self.source.disjoint)
