"""Tables of the configuration: the owner's limits, and the operation of the agent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from shared.errors import ConfigError
from shared.plan.parts import NeighbouringName
from shared.privacy import MECHANISMS
from shared.structure import Rule, Text

_MEGABYTE = 1_000_000
_ANY = Rule(bool, "must name at least one", "remove it to allow all")

Exact = Annotated[
    Fraction,
    Rule(
        lambda value: value > 0,
        "must be an exact number greater than zero",
        'write it in quotes, such as "1" or "1/10"',
    ),
]
Digest = Annotated[
    bytes,
    Rule(
        lambda digest: len(digest) == 32,
        "must be 64 hexadecimal digits",
        "copy it from the study's operator",
    ),
]


@dataclass(frozen=True, kw_only=True)
class BudgetTable:
    """The owner's limits on the loss of privacy.

    Parameters
    ----------
    per_record
        The largest epsilon that a record may lose over all plans on its source, exact and in
        quotes. Default: `policy.epsilon_per_window`, or else `"1"`.
    lifetime
        The largest epsilon for someone who is in every window. Default: no limit.
    delta
        The delta at which both are judged, where the noise of a plan has one. Default:
        `"1/1000000"`.
    ledger
        A file through which agents with states of their own share the budget.
    """

    per_record: Exact | None = None
    lifetime: Exact | None = None
    delta: (
        Annotated[
            Exact, Rule(lambda value: value < 1, "must be below 1", 'write it as "1/1000000"')
        ]
        | None
    ) = None
    ledger: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Conditions on plans and servers. A key that is left out allows all.

    Parameters
    ----------
    epsilon_per_window
        The largest epsilon of a plan.
    mechanisms
        The mechanisms that a plan may have.
    neighbouring
        `replace-one`, `add-remove-one`, or both.
    plan_digests
        The digests of the plans that are allowed.
    servers
        The addresses of the servers that are allowed.
    """

    epsilon_per_window: Exact | None = None
    mechanisms: Annotated[
        tuple[
            Annotated[
                str,
                Rule(
                    MECHANISMS.__contains__,
                    f"must be one of {', '.join(MECHANISMS)}",
                    "choose one of them",
                ),
            ],
            ...,
        ],
        _ANY,
    ] = ()
    neighbouring: Annotated[tuple[NeighbouringName, ...], _ANY] = ()
    plan_digests: Annotated[tuple[Digest, ...], _ANY] = ()
    servers: Annotated[tuple[Annotated[Text, lambda text: text.rstrip("/")], ...], _ANY] = ()


@dataclass(frozen=True, kw_only=True)
class OutboxTable:
    """Limit of the outbox.

    Parameters
    ----------
    most_megabytes
        The size of waiting sketches at which no more is read and no window is closed until some
        are sent. A batch that was read already is finished.
    """

    most_megabytes: Annotated[
        float, Rule(lambda x: x > 0, "must be a number greater than zero", "write megabytes")
    ] = 256.0

    @property
    def most_bytes(self) -> int:
        """The limit in bytes."""
        return int(self.most_megabytes * _MEGABYTE)


@dataclass(frozen=True, kw_only=True)
class LogTable:
    """The log on standard error.

    Parameters
    ----------
    level
        The least important lines to show: `info`, `debug`, `warning` or `error`.
    value_counts
        Whether log lines may count records that could not be sketched or lay out of bounds. These
        counts are exact, without noise: one record's text moves them by one.
    """

    level: Literal["info", "debug", "warning", "error"] = "info"
    value_counts: bool = False


@dataclass(frozen=True, kw_only=True)
class MetricsTable:
    """The metrics that an agent writes.

    Parameters
    ----------
    path
        A file for Prometheus's text collector. Default: none.
    value_counts
        Whether metrics may hold the same counts as the log.
    """

    path: Path | None = None
    value_counts: bool = False


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """Certificates, in PEM.

    Parameters
    ----------
    ca_file
        The authorities that the server's certificate must come from. Default: the system's.
    certificate
        The device's own certificate, where the server or a proxy asks for one.
    key
        Its private key, where the certificate's file does not hold it.
    """

    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise ConfigError("needs a certificate", field="key", fix="add tls.certificate")
