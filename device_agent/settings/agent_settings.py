"""The owner's decisions about a device, read from one TOML file.

Everything that privacy depends on is in the study's plan; here are the addresses, the sources, and
how much the owner lets the device spend.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from device_agent.settings.owner_tables import (
    BUDGET_KEYS,
    Housekeeping,
    Policy,
    read_housekeeping,
    read_limits,
)
from device_agent.settings.source_settings import FieldSettings, SourceSettings
from device_agent.settings.source_tables import read_fields, read_source
from device_agent.settings.toml_table import Table
from shared.core.engines import ENGINE_VARIABLE, SketchEngine, choose_engine, default_engine
from shared.errors import ConfigError
from shared.privacy import Budget
from shared.wire import STREAM_NAME_RULE, is_stream_name

ENVIRONMENT_PREFIX = "SFUMATO_AGENT_"
OVERRIDABLE = ("state_dir", "server", "study")
_TABLES = ("labels", "budget", "policy", "outbox", "log", "metrics", "tls", "streams")
_STUDY_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """One stream of records: its name, its source, and a field for each dimension.

    A dimension that ``columns`` leaves out is read as it is from the field of its own name.
    """

    name: str
    source: SourceSettings
    columns: Mapping[str, FieldSettings] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The whole configuration of an agent.

    Parameters
    ----------
    state_dir
        Where keys, ledger and outbox live, absolute; several studies may share it, and then share
        the owner's ledger.
    server
        Address of the aggregator, without a slash at the end.
    study
        The study's identity, 32 bytes.
    labels
        The device's declared labels, fixed when it enrols.
    budget
        What the owner allows, or the default where nothing is written.
    ledger
        A file that states in other folders share the budget through, absolute; None for none.
    streams
        At least one.
    policy
        What a plan and a server must be.
    house
        What changes nothing about what is released.
    engine
        What computes the sketch; changes its speed and no bit of it.
    """

    state_dir: Path
    server: str
    study: bytes
    labels: Mapping[str, str]
    budget: Budget
    streams: tuple[StreamSettings, ...]
    ledger: Path | None = None
    policy: Policy = field(default_factory=Policy)
    house: Housekeeping = field(default_factory=Housekeeping)
    engine: SketchEngine = field(default_factory=default_engine)

    def describe_server(self) -> str | None:
        """Return a warning about the server's address, if it deserves one."""
        parts = urlsplit(self.server)
        if parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1"):
            return None
        return (
            "server: the connection is not encrypted; sketches are private by themselves, but "
            "others can see that and when this device takes part. Use https"
        )


def load_settings(
    path: Path,
    environment: Mapping[str, str] | None = None,
    *,
    absent: Mapping[str, str] | None = None,
) -> Settings:
    """Read and check a configuration file.

    Parameters
    ----------
    path
        The TOML file; relative paths inside it are relative to its folder.
    environment
        Overrides of scalar top-level keys, ``SFUMATO_AGENT_SERVER`` and so on, and the engine as
        ``SFUMATO_ENGINE``; that of the process when not given.
    absent
        Values of scalar top-level keys that stand neither in the file nor in the environment.

    Raises
    ------
    ConfigError
        The file cannot be read, or a key is missing, unknown or breaks its rule.
    """
    values = os.environ if environment is None else environment
    document = {**(absent or {}), **_read_document(path, values)}
    table = Table(document, "", (*OVERRIDABLE, *_TABLES))
    folder = path.resolve().parent
    budget, policy = read_limits(table)
    return Settings(
        state_dir=folder / Path(table.text("state_dir")).expanduser(),
        server=_read_server(table.text("server")),
        study=_read_study(table.text("study")),
        labels=table.texts("labels"),
        budget=budget,
        ledger=_read_ledger(table, folder),
        streams=_read_streams(table, folder),
        policy=policy,
        house=read_housekeeping(table, folder),
        engine=choose_engine(values.get(ENGINE_VARIABLE)),
    )


def find_absent(path: Path, keys: Iterable[str]) -> list[str]:
    """Return which of some top-level keys stand neither in a file nor in the environment.

    Raises
    ------
    ConfigError
        The file cannot be read.
    """
    document = _read_document(path, os.environ)
    return [key for key in keys if key not in document]


def _read_document(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror})",
            field="--config",
            fix="name a file that exists and that this user may read",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} is not TOML: {error}", field="--config", fix="correct it at that place"
        ) from error
    _require_known_variables(environment)
    for key in OVERRIDABLE:
        if override := environment.get(ENVIRONMENT_PREFIX + key.upper()):
            document[key] = override
    return document


def _require_known_variables(environment: Mapping[str, str]) -> None:
    """Refuse a variable that overrides nothing: what its owner meant by it would not happen."""
    known = [ENVIRONMENT_PREFIX + key.upper() for key in OVERRIDABLE]
    for name in environment:
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            raise ConfigError(
                "is a variable that overrides no setting",
                field=name,
                fix=f"use: {', '.join(known)}",
            )


def _read_server(text: str) -> str:
    if not _is_address(text):
        raise ConfigError(
            "must be an address that begins with https:// or http://",
            field="server",
            fix='write it as "https://sketches.example.org"',
        )
    return text.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    known = parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
    return known and not parts.query and not parts.fragment and not any(map(str.isspace, text))


def _read_study(text: str) -> bytes:
    try:
        study = bytes.fromhex(text)
    except ValueError:
        study = b""
    if len(study) != _STUDY_BYTES:
        raise ConfigError(
            "must be 64 hexadecimal digits",
            field="study",
            fix="copy the study's identity from its operator",
        )
    return study


def _read_ledger(top: Table, folder: Path) -> Path | None:
    text = Table(top.get("budget") or {}, "budget", BUDGET_KEYS).optional_text("ledger")
    return None if text is None else folder / Path(text).expanduser()


def _read_streams(top: Table, folder: Path) -> tuple[StreamSettings, ...]:
    documents = top.require("streams", "[[streams]] with a name and a source")
    if not isinstance(documents, list) or not documents:
        raise ConfigError(
            "must be a list of at least one", field="streams", fix="write it as [[streams]]"
        )
    streams = tuple(_read_stream(d, f"streams[{i}]", folder) for i, d in enumerate(documents))
    for i, stream in enumerate(streams):
        for other in streams[:i]:
            if other.name == stream.name:
                raise ConfigError(
                    "must differ from the names of other streams",
                    field=f"streams[{i}].name",
                    fix="choose another name",
                )
            if any(a.overlaps(b) for a in stream.source.origins for b in other.source.origins):
                raise ConfigError(
                    f"may give records of stream {other.name!r} too",
                    field=f"streams[{i}].source",
                    fix="give each source to one stream, or its records would be sketched twice; "
                    "where the two share no record, say so with a different "
                    '`disjoint = "NAME"` in each',
                )
    return streams


def _read_stream(document: Any, path: str, folder: Path) -> StreamSettings:
    table = Table(document, path, ("name", "source", "columns"))
    name = table.text("name")
    if not is_stream_name(name):
        raise ConfigError(
            STREAM_NAME_RULE, field=table.name("name"), fix="choose another, such as 'main'"
        )
    source = table.require("source", '[streams.source] with kind = "csv" and a path')
    return StreamSettings(
        name=name,
        source=read_source(source, table.name("source"), folder),
        columns=read_fields(table.inner("columns")),
    )
