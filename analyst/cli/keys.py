"""``sfumato key`` and ``sfumato audit``, for operators."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

import typer

from sfumato.analyst.cli.options import Answer, command, list_items, read_period, show_time
from sfumato.analyst.client import Client
from sfumato.analyst.periods import read_period as read_day
from sfumato.shared.command import SETTINGS
from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.objects.studies import AuditBody, KeyBody

app = typer.Typer(help="Create, list and revoke API keys.", **SETTINGS)
audit = typer.Typer(**SETTINGS)
_FAR_S = 1e10
_COLUMNS = ("name", "scope", "study", "created", "last used", "expires", "revoked")


@command(
    app,
    "create",
    "sfumato key create --scope analyst --name ana",
    "sfumato key create --scope operator --name me     # allows everything",
    "sfumato key create --scope enrol --name factory   # allows only new enrolment tokens",
    "sfumato key create --scope viewer --name guest --study STUDY --expires 90d",
)
def _create(
    client: Client,
    scope: Annotated[
        Literal["operator", "analyst", "viewer", "enrol"], typer.Option(help="Its rights.")
    ],
    name: Annotated[str, typer.Option(help="Name of its owner.")],
    study: Annotated[
        str | None, typer.Option(help="The only study that it gives access to; default: all.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="PERIOD|DAY",
            help="When it expires, as 12h, 90d or 2027-01-31 (from its start in UTC); default: "
            "never.",
        ),
    ] = None,
) -> Answer:
    """Create an API key and print it once.

    A viewer reads results; it starts nothing, changes nothing and sees no devices.
    The server keeps only its SHA-256. `sfumato operator-key`, on the server's host, makes the
    first key of a server.
    """
    end = None if expires is None else _read_expiry(expires)
    made = client.create_key(name, scope=scope, study=study, expires=end)
    shown = ("key", "key_id", "name", "scope", "study_id", "expires")
    yield {field: getattr(made, field) for field in shown}
    # The key alone is the output, so that a shell can put it in a variable.
    yield made.key
    print(f"key {made.key_id} of scope {scope} for {name}; it is not shown again", file=sys.stderr)


@command(app, "list", "sfumato key list --json")
def _list(client: Client) -> Answer:
    """List API keys without their secrets, revoked keys included."""
    return list_items(client.keys(), *_COLUMNS, identity="key", row=_describe_key)


@command(app, "show", "sfumato key show")
def _show(client: Client) -> Answer:
    """Show the key that the command is called with."""
    own = client.own_key()
    yield own
    _, *lines = list_items([own], *_COLUMNS, identity="key", row=_describe_key)
    yield from lines


@command(app, "revoke", "sfumato key revoke 3f0c9d2be41a7756")
def _revoke(
    client: Client,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="Its id (`sfumato key list`).")],
) -> Answer:
    """Revoke an API key, at once and for good. It may be your own."""
    yield client.revoke_key(key_id)
    yield f"key {key_id} is revoked"


@command(audit, None, "sfumato audit", "sfumato audit --json")
def _audit(client: Client) -> Answer:
    """List the actions of operators, oldest first.

    Entries cannot be changed or removed. The actor `local` is a command on the database itself,
    and `sign-in` a person who got a key from the OpenID provider.
    """
    columns = ("time", "actor", "action")
    return list_items(client.audit(), *columns, identity="target, details", row=_describe_entry)


def _describe_key(key: KeyBody) -> tuple[str, ...]:
    used, expires, revoked = (
        (each or "")[:10] for each in (key.last_used, key.expires, key.revoked)
    )
    study = (key.study_id or "all")[:12]
    dates = key.created[:10], used or "never", expires or "never", revoked
    return key.name, key.scope, study, *dates, key.key_id


def _read_expiry(text: str) -> datetime:
    if re.fullmatch(r"[0-9.]+[mhdw]", text):
        # The server refuses more than ten years; a calendar overflows only later.
        seconds = min(read_period(text, "--expires"), _FAR_S)
        return datetime.now(UTC) + timedelta(seconds=seconds)
    if not re.match(r"[0-9]{4}-", text):
        raise ConfigError(
            f"must be a period, a day or a time, and is {text!r}",
            field="--expires",
            fix="write it as 90d, 12h or 2027-01-31",
        )
    return read_day(text, "--expires")[0]


def _describe_entry(entry: AuditBody) -> tuple[str, ...]:
    details = f"\n  {json.dumps(entry.details)}" if entry.details else ""
    time, target = show_time(entry.time), f"{entry.target}{details}"
    actor = f"{entry.actor} {entry.actor_name}" if entry.actor_name else entry.actor
    return time, actor, entry.action, target
