"""Reads where a stream's records come from out of the configuration, strictly."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from device_agent.settings.source_settings import (
    FieldSettings,
    FileSettings,
    FolderSettings,
    HttpSettings,
    MqttSettings,
    OtherSettings,
    ParquetSettings,
    SourceSettings,
    SqliteSettings,
    StdinSettings,
    find_zone,
)
from device_agent.settings.toml_table import Table
from device_agent.settings.units import Conversion, find_conversion
from shared.errors import ConfigError

ENTRY_POINTS = "sfumato.sources"
"""Where other distributions register kinds of sources; see ``docs/how-to/sources.md``."""
KINDS = ("csv", "jsonl", "folder", "stdin", "sqlite", "mqtt", "http", "parquet")

_MAX_TOPIC_BYTES = 65535
_TIME_KEYS = ("timestamp", "timestamp_format", "timestamp_zone")
_TEXT_KEYS = ("encoding", "delimiter", "header")
_REPLACED = ("refuse", "join_successors", "rewritten")
_TIME_FORMATS = ("iso8601", "unix", "unix_ms", "unix_us", "unix_ns")


def read_source(document: Any, path: str, folder: Path) -> SourceSettings:
    """Read ``[streams.source]``; relative paths in it are relative to ``folder``.

    Raises
    ------
    ConfigError
        A key is missing, unknown or breaks its rule.
    """
    keys = tuple(document) if isinstance(document, dict) else ()
    kind = Table(document, path, keys).text("kind")
    match kind:
        case "csv" | "jsonl":
            own: tuple[str, ...] = ("path", "lock", "missing", "replaced", *_text_keys(kind))
        case "folder":
            own = (
                "path",
                "lock",
                "glob",
                "whole",
                "replaced",
                "released",
                "move_to",
                "format",
                *_TEXT_KEYS,
            )
        case "stdin":
            own = ("id", "format", *_TEXT_KEYS)
        case "sqlite":
            own = ("path", "lock", "query", "key", "first", "poll_s")
        case "mqtt":
            own = ("url", "topic", "client_id", "id", "username", "password_file", "ca_file")
            own += ("format", "encoding", "delimiter", "header")
        case "http":
            own = ("url", "parameter", "records", "next", "first", "token_file")
            own += ("poll_s", "timeout_s")
        case "parquet":
            own = ("path", "lock")
        case _:
            _require_registered(kind, f"{path}.kind")
            own = ("options",)
    table = Table(document, path, ("kind", "disjoint", *_TIME_KEYS, *own))
    common = {
        "kind": kind,
        "lock": "lock" not in table or table.flag("lock"),
        "disjoint": table.optional_text("disjoint") or "",
        **_read_time(table),
    }
    return _READERS.get(kind, _read_other)(table, folder, common)


def read_fields(table: Table) -> dict[str, FieldSettings]:
    """Read ``[streams.columns]``: for each dimension a name, or a table with a conversion.

    Raises
    ------
    ConfigError
        A conversion is unknown, or breaks its rule.
    """
    return {name: _read_field(table, name) for name in table.keys()}  # noqa: SIM118


def _read_field(table: Table, dimension: str) -> FieldSettings:
    if not isinstance(table.get(dimension), dict):
        return FieldSettings(name=table.text(dimension))
    inner = Table(
        table.get(dimension), table.name(dimension), ("field", "convert", "scale", "offset")
    )
    name = inner.optional_text("field") or dimension
    rule = inner.optional_text("convert")
    if rule is None:
        scale = inner.number("scale", 1.0)
        if scale == 0:
            raise ConfigError(
                "must not be zero", field=inner.name("scale"), fix="every value would be the same"
            )
        conversion = Conversion(scale=scale, offset=inner.number("offset", 0.0))
    elif "scale" in inner or "offset" in inner:
        raise ConfigError(
            "excludes scale and offset", field=inner.name("convert"), fix="state one of the two"
        )
    else:
        conversion = find_conversion(rule, field=inner.name("convert"))
    return FieldSettings(name=name, conversion=conversion)


def _text_keys(kind: str) -> tuple[str, ...]:
    return _TEXT_KEYS if kind == "csv" else ("encoding",)


def _require_registered(kind: str, name: str) -> None:
    from importlib.metadata import entry_points

    if not entry_points(group=ENTRY_POINTS, name=kind):
        words = ", ".join(f'"{word}"' for word in KINDS[:-1]) + f' or "{KINDS[-1]}"'
        raise ConfigError(
            f"must be {words}", field=name, fix="choose one, or install the package that adds it"
        )


def _read_time(table: Table) -> dict[str, Any]:
    text = table.optional_text("timestamp_format") or _TIME_FORMATS[0]
    if "%" not in text:
        table.choice("timestamp_format", _TIME_FORMATS)
    zone = table.optional_text("timestamp_zone") or "UTC"
    try:
        find_zone(zone)
    except (ValueError, OSError, LookupError) as error:
        raise ConfigError(
            "is not a time zone that this machine knows",
            field=table.name("timestamp_zone"),
            fix='write it as "Europe/Berlin"; on Debian the package is tzdata',
        ) from error
    return {
        "timestamp": table.optional_text("timestamp"),
        "timestamp_format": text,
        "timestamp_zone": zone,
    }


def _read_text(table: Table, formats: tuple[str, ...]) -> dict[str, Any]:
    form = table.choice("format", formats)
    delimiter = table.optional_text("delimiter") or ","
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise ConfigError(
            "must be one ASCII character and no quote",
            field=table.name("delimiter"),
            fix=r'write ";" or "\t"',
        )
    for key in ("delimiter", "header"):
        if form != "csv" and key in table:
            raise ConfigError(
                "is only for CSV", field=table.name(key), fix='remove it, or state format = "csv"'
            )
    return {
        "format": form,
        "encoding": _read_encoding(table),
        "delimiter": delimiter,
        "header": table.list_of_texts("header"),
    }


def _read_encoding(table: Table) -> str:
    name = table.optional_text("encoding") or "utf-8"
    plain = "".join(map(chr, range(32, 127))) + "\r\n\t"
    try:
        # Lines are found and numbers are read in the bytes as they are, and each line by itself: an
        # encoding in which one character changes how those behind it are read would join them.
        has_states = codecs.lookup(name).name.startswith(("iso2022", "hz", "utf-7"))
        if not has_states and plain.encode(name) == plain.encode("ascii"):
            return name
    except (LookupError, ValueError):
        pass
    raise ConfigError(
        "must be an encoding that keeps ASCII as it is, in each line by itself",
        field=table.name("encoding"),
        fix='write "utf-8", "latin-1" or "cp1252"; convert UTF-16 to UTF-8 first',
    )


def _read_path(table: Table, folder: Path, key: str = "path") -> Path:
    return (folder / Path(table.text(key)).expanduser()).resolve()


def _read_link(table: Table, folder: Path, key: str = "path") -> Path:
    """Return a path whose last part may be a link that will point elsewhere."""
    path = folder / Path(table.text(key)).expanduser()
    return path.parent.resolve() / path.name


def _read_optional_path(table: Table, folder: Path, key: str) -> Path | None:
    return _read_path(table, folder, key) if key in table else None


def _read_file(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    text = {**_read_text(table, (common["kind"],))}
    return FileSettings(
        path=_read_link(table, folder),
        missing=table.choice("missing", ("error", "wait")),
        replaced=table.choice("replaced", _REPLACED),
        **text,
        **common,
    )


def _read_folder(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    released = table.choice("released", ("keep", "delete", "move"))
    move_to = _read_optional_path(table, folder, "move_to")
    path = _read_path(table, folder)
    if (released == "move") != (move_to is not None) or move_to == path:
        raise ConfigError(
            'must be another folder with released = "move", and absent otherwise',
            field=table.name("move_to"),
            fix='write move_to = "done"' if move_to is None else 'add released = "move"',
        )
    if released != "keep" and not table.flag("whole"):
        raise ConfigError(
            "needs whole = true: what is written to a file later would go with it",
            field=table.name("released"),
            fix="let files appear whole, by renaming them into the folder, and add whole = true",
        )
    glob = table.optional_text("glob") or "*"
    if "/" in glob:
        raise ConfigError("must not have a /", field=table.name("glob"), fix='write "*.csv"')
    return FolderSettings(
        path=path,
        glob=glob,
        whole=table.flag("whole"),
        # Names are used again once their file is gone.
        replaced=table.choice(
            "replaced", _REPLACED[:2] if released == "keep" else _REPLACED[1::-1]
        ),
        released=released,
        move_to=move_to,
        **_read_text(table, ("csv", "jsonl")),
        **common,
    )


def _read_stdin(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    text = _read_text(table, ("csv", "jsonl"))
    return StdinSettings(id=table.optional_text("id"), **text, **common)


def _read_sqlite(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    query = table.text("query")
    if not re.search(r":last\b", query) or not re.search(r":n\b", query):
        raise ConfigError(
            "must use :last and :n",
            field=table.name("query"),
            fix='write "SELECT ... WHERE id > :last ORDER BY id LIMIT :n"',
        )
    first = table.get("first") if "first" in table else 0
    if isinstance(first, bool) or not isinstance(first, int | str):
        raise ConfigError(
            "must be a whole number or text",
            field=table.name("first"),
            fix="write the key behind which to begin",
        )
    return SqliteSettings(
        path=_read_path(table, folder),
        query=query,
        key=table.text("key"),
        first=first,
        poll_s=table.seconds("poll_s", 10.0),
        **common,
    )


def _read_mqtt(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    host, port, tls = _read_broker(table)
    text = _read_text(table, ("json", "csv"))
    if text["format"] == "csv" and not text["header"]:
        raise ConfigError(
            "is missing, and CSV messages have no header line",
            field=table.name("header"),
            fix='add header = ["time", "x", "y"]',
        )
    topic, identity = _read_topic(table), table.optional_text("id")
    if identity is not None and ("+" in topic or "#" in topic):
        raise ConfigError(
            "excludes wildcards in the topic: ids of several publishers do not grow together",
            field=table.name("id"),
            fix="remove it, or use one stream for each topic",
        )
    return MqttSettings(
        host=host,
        port=port,
        tls=tls,
        topic=topic,
        client_id=table.text("client_id"),
        id=identity,
        username=table.optional_text("username"),
        password_file=_read_optional_path(table, folder, "password_file"),
        ca_file=_read_optional_path(table, folder, "ca_file"),
        **text,
        **common,
    )


def _read_topic(table: Table) -> str:
    topic = table.text("topic")
    *before, last = topic.split("/")
    is_wrong = any("#" in level or (len(level) > 1 and "+" in level) for level in before)
    is_wrong |= len(last) > 1 and ("#" in last or "+" in last)
    if is_wrong or len(topic.encode()) > _MAX_TOPIC_BYTES or not topic.isprintable():
        raise ConfigError(
            "must be a topic of MQTT: + stands for one level, and # for all that follow",
            field=table.name("topic"),
            fix='write "plant/meter", "plant/+/meter" or "plant/#"',
        )
    return topic


def _read_broker(table: Table) -> tuple[str, int, bool]:
    parts = _split_url(table, ("mqtt", "mqtts"), '"mqtt://localhost:1883"')
    tls = parts.scheme == "mqtts"
    return parts.hostname or "", parts.port or (8883 if tls else 1883), tls


def _read_http(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    _split_url(table, ("https", "http"), '"https://example.org/records"')
    return HttpSettings(
        url=table.text("url"),
        parameter=table.optional_text("parameter") or "cursor",
        records=table.optional_text("records") or "records",
        next=table.optional_text("next") or "next",
        first=table.optional_text("first"),
        token_file=_read_optional_path(table, folder, "token_file"),
        poll_s=table.seconds("poll_s", 60.0),
        timeout_s=table.seconds("timeout_s", 30.0),
        **common,
    )


def _split_url(table: Table, schemes: tuple[str, ...], example: str) -> Any:
    try:
        parts = urlsplit(table.text("url"))
        # The port is only looked at when it is asked for.
        if parts.scheme in schemes and parts.hostname and parts.port != 0 and not parts.username:
            return parts
    except ValueError:
        pass
    raise ConfigError(
        f"must be an address that begins with {schemes[0]}:// or {schemes[1]}://, without a user",
        field=table.name("url"),
        fix=f"write it as {example}",
    )


def _read_parquet(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    return ParquetSettings(path=_read_path(table, folder), **common)


def _read_other(table: Table, folder: Path, common: dict[str, Any]) -> SourceSettings:
    inner = table.inner("options")
    return OtherSettings(options={key: inner.get(key) for key in inner.keys()}, **common)  # noqa: SIM118


_READERS = {
    "csv": _read_file,
    "jsonl": _read_file,
    "folder": _read_folder,
    "stdin": _read_stdin,
    "sqlite": _read_sqlite,
    "mqtt": _read_mqtt,
    "http": _read_http,
    "parquet": _read_parquet,
}
