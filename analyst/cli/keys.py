"""``sfumato key`` and ``sfumato audit``, for operators."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Literal

import typer

from sfumato.analyst.cli.options import Answer, command, list_items, show_time
from sfumato.analyst.client import Client
from sfumato.shared.command import SETTINGS
from sfumato.shared.wire.objects.studies import AuditBody, KeyBody

app = typer.Typer(help="Create, list and revoke API keys.", **SETTINGS)
audit = typer.Typer(**SETTINGS)


@command(
    app,
    "create",
    "sfumato key create --scope analyst --name ana",
    "sfumato key create --scope operator --name me     # allows everything",
    "sfumato key create --scope enrol --name factory   # allows only new enrolment tokens",
)
def _create(
    client: Client,
    scope: Annotated[Literal["operator", "analyst", "enrol"], typer.Option(help="Its rights.")],
    name: Annotated[str, typer.Option(help="Name of its owner.")],
) -> Answer:
    """Create an API key and print it once.

    The server keeps only its SHA-256. `sfumato operator-key`, on the server's host, makes the
    first key of a server.
    """
    made = client.create_key(name, scope=scope)
    yield {field: getattr(made, field) for field in ("key", "key_id", "name", "scope")}
    # The key alone is the output, so that a shell can put it in a variable.
    yield made.key
    print(f"key {made.key_id} of scope {scope} for {name}; it is not shown again", file=sys.stderr)


@command(app, "list", "sfumato key list --json")
def _list(client: Client) -> Answer:
    """List API keys without their secrets, revoked keys included."""
    columns = ("name", "scope", "created", "last used", "revoked")
    return list_items(client.keys(), *columns, identity="key", row=_describe_key)


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

    Entries cannot be changed or removed. The actor `local` is a command on the database itself.
    """
    columns = ("time", "actor", "action")
    return list_items(client.audit(), *columns, identity="target, details", row=_describe_entry)


def _describe_key(key: KeyBody) -> tuple[str, ...]:
    used, revoked = ((each or "")[:10] for each in (key.last_used, key.revoked))
    return key.name, key.scope, key.created[:10], used or "never", revoked, key.key_id


def _describe_entry(entry: AuditBody) -> tuple[str, ...]:
    details = f"\n  {json.dumps(entry.details)}" if entry.details else ""
    time, target = show_time(entry.time), f"{entry.target}{details}"
    return time, entry.actor, entry.action, target
