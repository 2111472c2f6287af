"""The owner's limits and the agent's operational settings, read from the configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from device_agent.settings.toml_table import Table
from shared.errors import ConfigError
from shared.privacy import MECHANISMS, Budget
from shared.privacy.limits import DEFAULT_DELTA, DEFAULT_EPSILON

BUDGET_KEYS = ("per_record", "lifetime", "delta", "ledger")
LOG_LEVELS = ("info", "debug", "warning", "error")
NEIGHBOURING = ("replace-one", "add-remove-one")
_DIGEST_BYTES = 32
_MEGABYTE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Conditions on the plans and servers that are obeyed; None and empty allow everything.

    Parameters
    ----------
    epsilon_per_window
        The largest.
    mechanisms, neighbouring
        As plans name them.
    plan_digests
        32 bytes each.
    servers
        Addresses without a slash at the end.
    """

    epsilon_per_window: Fraction | None = None
    mechanisms: tuple[str, ...] = ()
    neighbouring: tuple[str, ...] = ()
    plan_digests: tuple[bytes, ...] = ()
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """Files in PEM, absolute: whom to believe, and as whom to come; None for the usual.

    Parameters
    ----------
    ca_file
        The authorities that the server's certificate must come from, instead of the system's.
    certificate, key
        The device's own, where the server or a proxy asks for one; the key may be in the former.
    """

    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Housekeeping:
    """Operational settings; they never affect what is released.

    Parameters
    ----------
    outbox_bytes
        When so many wait nothing more is read and no window closed until some were sent; a batch of
        records that was read already is finished.
    log_level
        The least important lines to show.
    metrics
        File that metrics are written to, absolute; None for none.
    log_value_counts, metrics_value_counts
        Whether log lines and metrics may depend on values: how many records could not be sketched
        or lay out of bounds. These are exact, without noise, and both are made to leave the device:
        one record's text moves them by one, which is what the noise of a sketch hides.
    tls
        How the server is spoken with.
    """

    outbox_bytes: int = 256 * _MEGABYTE
    log_level: str = field(default=LOG_LEVELS[0])
    metrics: Path | None = None
    log_value_counts: bool = False
    metrics_value_counts: bool = False
    tls: TlsSettings = field(default_factory=TlsSettings)


def read_limits(top: Table) -> tuple[Budget, Policy]:
    """Read ``[budget]`` and ``[policy]``, with a default for what a record may lose.

    Whoever writes ``policy.epsilon_per_window`` and no ``budget.per_record`` has decided that too;
    without both it is ``DEFAULT_EPSILON``. A lifetime has no default: whether people are in many
    windows only the owner knows.

    Raises
    ------
    ConfigError
        A key is unknown or breaks its rule.
    """
    policy = _read_policy(top)
    table = Table(top.get("budget") or {}, "budget", BUDGET_KEYS)
    per_record, delta = read_exact(table, "per_record"), read_exact(table, "delta")
    if delta is not None and delta >= 1:
        raise ConfigError(
            "must be below 1",
            field=table.name("delta"),
            fix='write it as "1/1000000", or remove it',
        )
    defaults = {"per_record": per_record, "delta": delta}
    budget = Budget(
        per_record=per_record or policy.epsilon_per_window or DEFAULT_EPSILON,
        lifetime=read_exact(table, "lifetime"),
        delta=delta or DEFAULT_DELTA,
        defaults=frozenset(name for name, value in defaults.items() if value is None),
    )
    return budget, policy


def _read_policy(top: Table) -> Policy:
    known = ("epsilon_per_window", "mechanisms", "neighbouring", "plan_digests", "servers")
    table = Table(top.get("policy") or {}, "policy", known)
    return Policy(
        epsilon_per_window=read_exact(table, "epsilon_per_window"),
        mechanisms=_read_known(table, "mechanisms", tuple(MECHANISMS)),
        neighbouring=_read_known(table, "neighbouring", NEIGHBOURING),
        plan_digests=tuple(_read_digest(table, text) for text in _texts(table, "plan_digests")),
        servers=tuple(text.rstrip("/") for text in _texts(table, "servers")),
    )


def read_housekeeping(top: Table, folder: Path) -> Housekeeping:
    """Read ``[outbox]``, ``[log]``, ``[metrics]`` and ``[tls]``; raises as :func:`read_limits`."""
    outbox = Table(top.get("outbox") or {}, "outbox", ("most_megabytes",))
    log = Table(top.get("log") or {}, "log", ("level", "value_counts"))
    metrics = Table(top.get("metrics") or {}, "metrics", ("path", "value_counts"))
    path = metrics.optional_text("path")
    most = outbox.number("most_megabytes", 256.0)
    if most <= 0:
        raise ConfigError(
            "must be greater than zero",
            field=outbox.name("most_megabytes"),
            fix="write megabytes, such as 256",
        )
    return Housekeeping(
        outbox_bytes=int(most * _MEGABYTE),
        log_level=log.choice("level", LOG_LEVELS),
        metrics=None if path is None else folder / Path(path).expanduser(),
        log_value_counts=log.flag("value_counts"),
        metrics_value_counts=metrics.flag("value_counts"),
        tls=_read_tls(top, folder),
    )


def _read_tls(top: Table, folder: Path) -> TlsSettings:
    names = ("ca_file", "certificate", "key")
    table = Table(top.get("tls") or {}, "tls", names)
    if "key" in table and "certificate" not in table:
        raise ConfigError(
            "is there without the certificate that it belongs to",
            field=table.name("key"),
            fix="add tls.certificate",
        )
    found = {name: table.optional_text(name) for name in names}
    return TlsSettings(
        **{name: folder / Path(text).expanduser() for name, text in found.items() if text}
    )


def read_exact(table: Table, key: str) -> Fraction | None:
    """Read an exact number greater than zero; None if the key is absent."""
    value = table.get(key)
    if value is None:
        return None
    try:
        # A float would silently stand for its binary neighbour: 0.1 is larger than 1/10.
        if type(value) not in (int, str):
            raise TypeError
        exact = Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise ConfigError(
            "must be an exact number in quotes", field=table.name(key), fix='write "1" or "1/10"'
        ) from error
    if exact <= 0:
        raise ConfigError("must be greater than zero", field=table.name(key), fix='write "1"')
    return exact


def _texts(table: Table, key: str) -> tuple[str, ...]:
    """Return a list that allows something: an empty one would allow nothing, or everything."""
    texts = table.list_of_texts(key)
    if key in table and not texts:
        raise ConfigError(
            "must name at least one", field=table.name(key), fix="remove it to allow all"
        )
    return texts


def _read_known(table: Table, key: str, known: tuple[str, ...]) -> tuple[str, ...]:
    texts = _texts(table, key)
    for text in texts:
        if text not in known:
            raise ConfigError(
                f"{text!r} is not known", field=table.name(key), fix=f"use: {', '.join(known)}"
            )
    return texts


def _read_digest(table: Table, text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != _DIGEST_BYTES:
        raise ConfigError(
            "must be 64 hexadecimal digits each",
            field=table.name("plan_digests"),
            fix="copy the plan's digest from the study's operator",
        )
    return digest
