"""Tables of the configuration: the owner's limits, and the operation of the agent."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from sfumato.shared.errors import ConfigError
from sfumato.shared.plan.parts import NeighbouringName, ReleaseName
from sfumato.shared.privacy import MECHANISMS
from sfumato.shared.structure import Rule, Text, declared, member

_MEGABYTE = 1_000_000
_ANY = Rule(bool, "must name at least one", "remove it to allow all")

Exact = Annotated[
    Fraction,
    Rule(
        None,
        "must be an exact number greater than zero",
        'write it in quotes, such as "1" or "1/10"',
        gt=0,
    ),
]
Digest = Annotated[
    bytes,
    Rule(
        None,
        "must be 64 hexadecimal digits",
        "copy it from the study's operator",
        min_length=32,
        max_length=32,
    ),
]


@declared
class BudgetTable:
    """The owner's limits on the loss of privacy."""

    per_record: Exact | None = member(
        "The largest epsilon that a record may lose over all plans on its source, exact and in "
        "quotes: under their relation, or under replace-one if they have both. "
        'Default: `policy.epsilon_per_window`, or else `"1"`.',
        default=None,
    )
    lifetime: Exact | None = member(
        "The largest epsilon for someone who is in every window of all studies over one source, of "
        "other times too. Default: no limit.",
        default=None,
    )
    delta: Annotated[Exact, Rule(fix='write it as "1/1000000"', lt=1)] | None = member(
        "The delta at which both are judged, where the noise of a plan has one. Default: "
        '`"1/1000000"`.',
        default=None,
    )
    ledger: Path | None = member(
        "The owner's ledger: a file outside every state folder, in which all programs of this user "
        "of the operating system count what they release. Default: the file that "
        "`SFUMATO_LEDGER` names; otherwise root's `/var/lib/sfumato/owner.ledger`, and any other "
        "user's `$XDG_DATA_HOME/sfumato/owner.ledger`.",
        default=None,
    )


@declared
class Policy:
    """Conditions on plans and servers. A key that is left out allows all."""

    epsilon_per_window: Exact | None = member("The largest epsilon of a plan.", default=None)
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
    ] = member("The mechanisms that a plan may have.", default=())
    neighbouring: Annotated[tuple[NeighbouringName, ...], _ANY] = member(
        "`replace-one`, `add-remove-one`, or both.", default=()
    )
    releases: Annotated[tuple[ReleaseName, ...], _ANY] = member(
        "The kinds of releases that a plan may have. `sum.v1` must be named here: there the device "
        "adds no noise, and its sums are safe only while two servers do not work together.",
        default=("local.v1", "phase.v1"),
    )
    helpers: tuple[Digest, ...] = member(
        "For `sum.v1`: the helpers that are trusted not to work together with the server, each by "
        "the SHA-256 of its identity. Without one, no secure sum is allowed.",
        default=(),
    )
    phases: Annotated[tuple[Literal["pilot", "sketch", "look"], ...], _ANY] = member(
        "Of a campaign: the phases that this device takes part in.", default=()
    )
    columns: Annotated[tuple[Text, ...], _ANY] = member(
        "The columns that a plan may read, and no other.", default=()
    )
    plan_digests: Annotated[tuple[Digest, ...], _ANY] = member(
        "The digests of the plans that are allowed.", default=()
    )
    servers: Annotated[tuple[Annotated[Text, lambda text: text.rstrip("/")], ...], _ANY] = member(
        "The addresses of the servers that are allowed.", default=()
    )


Share = Annotated[
    float,
    Rule(None, "must be a number from 0 to 1", "write a tenth as 0.1", ge=0, le=1),
]


@declared
class CheckTable:
    """The limits of the dry run before a stream joins; none holds anything up afterwards."""

    records: Annotated[
        int, Rule(None, "must be a whole number above zero", "write records, such as 10000", gt=0)
    ] = member("The most records of each source that are looked at.", default=10_000)
    unreadable_times: Share = member(
        "The largest share of them whose time cannot be read, for windows by time.", default=0.1
    )
    times_outside: Share = member(
        "The largest share whose time lies before the study's first window, or in the future, for "
        "windows by time.",
        default=0.1,
    )
    unreadable_values: Share = member(
        "The largest share, in each dimension, whose value cannot be read.", default=0.1
    )
    clipped: Share = member(
        "The largest share, in each dimension, whose value lies outside the plan's bounds.",
        default=0.1,
    )
    unseen: bool = member(
        "Whether a stream may join though there is no record to look at, where the plan does not "
        "let the agent wait for readable times either.",
        default=False,
    )


@declared
class OutboxTable:
    """Limit of the outbox."""

    most_megabytes: Annotated[
        float, Rule(None, "must be a number greater than zero", "write megabytes", gt=0)
    ] = member(
        "The size of waiting sketches at which no more is read and no window is closed until "
        "some are sent. A batch that was read already is finished.",
        default=256.0,
    )

    @property
    def most_bytes(self) -> int:
        """The limit in bytes."""
        return int(self.most_megabytes * _MEGABYTE)


@declared
class LogTable:
    """The log on standard error."""

    level: Literal["info", "debug", "warning", "error"] = member(
        "The least important lines to show: `info`, `debug`, `warning` or `error`.", default="info"
    )
    value_counts: bool = member(
        "Whether log lines may count records that could not be sketched or lay out of bounds. "
        "These counts are exact, without noise: one record's text moves them by one.",
        default=False,
    )


@declared
class ResultsTable:
    """Published results, which tell the cluster of this device's own records."""

    key: Digest | None = member(
        "The server's result key, 64 hexadecimal digits. Default: the one that the server showed "
        "when this device enrolled.",
        default=None,
    )
    pull: bool = member(
        "Whether `once` pulls the study's published result whenever it runs, and `run` once an "
        "hour, or every five minutes until it gets one.",
        default=False,
    )


@declared
class MetricsTable:
    """The metrics that an agent writes."""

    path: Path | None = member(
        "A file for Prometheus's text collector. Default: none.", default=None
    )
    value_counts: bool = member(
        "Whether metrics may hold the same counts as the log.", default=False
    )


@declared
class TlsSettings:
    """Certificates, in PEM."""

    ca_file: Path | None = member(
        "The authorities that the server's certificate must come from. Default: the system's.",
        default=None,
    )
    certificate: Path | None = member(
        "The device's own certificate, where the server or a proxy asks for one.", default=None
    )
    key: Path | None = member(
        "Its private key, where the certificate's file does not hold it.", default=None
    )

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise ConfigError("needs a certificate", field="key", fix="add tls.certificate")
