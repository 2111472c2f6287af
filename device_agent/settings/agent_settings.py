"""The owner's configuration of a device: one TOML file.

Everything that privacy depends on is in the study's plan. The configuration holds addresses,
sources, and the owner's limits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from sfumato.device_agent.settings.owner_tables import (
    BudgetTable,
    CheckTable,
    Digest,
    LogTable,
    MetricsTable,
    OutboxTable,
    Policy,
    ResultsTable,
    TlsSettings,
)
from sfumato.device_agent.sources.settings import StreamSettings
from sfumato.shared.core.engines import ENGINE_VARIABLE, SketchEngine, choose_engine, default_engine
from sfumato.shared.errors import ConfigError
from sfumato.shared.hosts import is_loopback
from sfumato.shared.privacy import Budget
from sfumato.shared.privacy.limits import DEFAULT_DELTA, DEFAULT_EPSILON
from sfumato.shared.structure import Rule, Text, declared, member, read_toml, structure
from sfumato.shared.wire.objects.devices import DeviceName

ENVIRONMENT_PREFIX = "SFUMATO_AGENT_"
OVERRIDABLE = ("state_dir", "server", "study")


def _is_address(text: str) -> bool:
    parts = urlsplit(text)
    known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    return known and not parts.query and not parts.fragment and not any(map(str.isspace, text))


ServerAddress = Annotated[
    Text,
    Rule(
        _is_address,
        "must be an address that begins with https:// or http://",
        'write it as "https://sketches.example.org"',
    ),
    lambda text: text.rstrip("/"),
]


@declared
class Settings:
    """The whole configuration of an agent.

    Nothing in ``outbox``, ``log``, ``metrics``, ``results`` and ``tls`` affects what is released.
    """

    state_dir: Path = member(
        "The folder of key, ledger and outbox. Studies that share it share one ledger."
    )
    server: ServerAddress = member("The address of the aggregator.")
    study: Digest = member("The study's id, 64 hexadecimal digits.")
    name: DeviceName | None = member(
        "The device's name, shown in place of its id to everybody who reads the study; it may be "
        "changed. A host's or a person's name is personal.",
        default=None,
    )
    labels: Mapping[str, Text] = member(
        "The device's labels, fixed when it enrols.", default_factory=dict
    )
    budget: BudgetTable = member(
        "The owner's limits on the loss of privacy.", default_factory=BudgetTable
    )
    policy: Policy = member("Conditions on plans and servers.", default_factory=Policy)
    check: CheckTable = member(
        "The limits of the dry run before a stream joins.", default_factory=CheckTable
    )
    outbox: OutboxTable = member("The limit of the outbox.", default_factory=OutboxTable)
    log: LogTable = member("The log.", default_factory=LogTable)
    results: ResultsTable = member("Published results.", default_factory=ResultsTable)
    metrics: MetricsTable = member("The metrics.", default_factory=MetricsTable)
    tls: TlsSettings = member("Certificates.", default_factory=TlsSettings)
    streams: Annotated[
        tuple[StreamSettings, ...],
        Rule(bool, "must be a list of at least one", "write it as [[streams]]"),
    ] = member("The streams of records, at least one.")
    engine: SketchEngine = member(
        "The engine that computes sketches, from ``SFUMATO_ENGINE``; it changes speed and no bit.",
        default_factory=default_engine,
    )

    def __post_init__(self) -> None:
        for i, stream in enumerate(self.streams):
            for other in self.streams[:i]:
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
                        fix="give each source to one stream, or its records would be sketched "
                        "twice; where the two share no record, declare it with a different "
                        '`disjoint = "NAME"` in each',
                    )

    @property
    def limits(self) -> Budget:
        """The owner's limits, with defaults.

        An owner who writes ``policy.epsilon_per_window`` and no ``budget.per_record`` has decided
        the latter too. A lifetime has no default: only the owner knows whether people are in many
        windows.
        """
        stated, usual = self.budget, self.policy.epsilon_per_window
        return Budget(
            per_record=stated.per_record or usual or DEFAULT_EPSILON,
            lifetime=stated.lifetime,
            delta=stated.delta or DEFAULT_DELTA,
            defaults=frozenset(n for n in ("per_record", "delta") if getattr(stated, n) is None),
        )

    def describe_server(self) -> str | None:
        """Return a warning about the server's address, if it deserves one."""
        parts = urlsplit(self.server)
        if parts.scheme == "https" or is_loopback(parts.hostname or ""):
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
        ``SFUMATO_ENGINE``; by default the process's environment.
    absent
        Values of scalar top-level keys that neither the file nor the environment states.

    Raises
    ------
    ConfigError
        The file cannot be read, or a key is missing, unknown or breaks its rule.
    """
    values = os.environ if environment is None else environment
    return structure(
        Settings,
        {**(absent or {}), **_read_document(path, values)},
        folder=path.resolve().parent,
        given={"engine": choose_engine(values.get(ENGINE_VARIABLE))},
    )


def find_absent(path: Path, keys: Iterable[str]) -> list[str]:
    """Return the top-level keys that neither a file nor the environment states.

    Raises
    ------
    ConfigError
        The file cannot be read.
    """
    document = _read_document(path, os.environ)
    return [key for key in keys if key not in document]


def _read_document(path: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    document = read_toml(path)
    variables = {ENVIRONMENT_PREFIX + key.upper(): key for key in OVERRIDABLE}
    for name, value in environment.items():
        # A misspelt override would do nothing, silently.
        if name.startswith(ENVIRONMENT_PREFIX) and name not in variables:
            raise ConfigError(
                "is a variable that overrides no setting",
                field=name,
                fix=f"use: {', '.join(variables)}",
            )
        if name in variables and value:
            document[variables[name]] = value
    return document
