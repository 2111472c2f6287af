"""``sfumato key`` and ``sfumato audit``: what operators do."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

import typer

from analyst.cli.options import DEFAULT_URL, Json, Key, Url, print_items
from analyst.client import Client
from shared.command import SETTINGS, list_examples

app = typer.Typer(help="Create, list and revoke API keys.", **SETTINGS)
audit = typer.Typer(**SETTINGS)


@app.command(
    "create",
    epilog=list_examples(
        "sfumato key create --scope analyst --name ana",
        "sfumato key create --scope operator --name me     # may do all",
        "sfumato key create --scope enrol --name factory   # may only hand out enrolment tokens",
    ),
)
def _create(
    key: Key,
    scope: Annotated[Literal["operator", "analyst", "enrol"], typer.Option(help="What it may do.")],
    name: Annotated[str, typer.Option(help="Whose it is.")],
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Make an API key and print it; it is shown this once, and the server keeps its SHA-256 alone.

    The first key of a server is made on its host, by `sfumato operator-key`.
    """
    with Client(url, key=key) as client:
        made = client.create_key(name, scope=scope)
    if as_json:
        print(json.dumps({field: made[field] for field in ("key", "key_id", "name", "scope")}))
        return
    # The key alone is the output, so that a shell can put it in a variable.
    print(made["key"])
    print(
        f"key {made['key_id']} of scope {scope} for {name}; it is not shown again", file=sys.stderr
    )


@app.command("list", epilog=list_examples("sfumato key list --json"))
def _list(key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List API keys, revoked ones too; none is shown itself."""
    with Client(url, key=key) as client:
        print_items(
            client.keys(),
            *("name", "scope", "created", "last used", "revoked"),
            identity="key",
            min_width=16,
            row=_describe,
            as_json=as_json,
        )


@app.command("revoke", epilog=list_examples("sfumato key revoke 3f0c9d2be41a7756"))
def _revoke(
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="Its identity: `sfumato key list`.")],
    key: Key,
    url: Url = DEFAULT_URL,
    as_json: Json = False,
) -> None:
    """Revoke an API key, at once and for good; your own, too."""
    with Client(url, key=key) as client:
        revoked = client.revoke_key(key_id)
    print(json.dumps(revoked) if as_json else f"key {key_id} is revoked")


@audit.command(epilog=list_examples("sfumato audit", "sfumato audit --json"))
def _audit(key: Key, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List what operators did: who, what, when and to what, the oldest first.

    Nothing can be changed or removed. The actor `local` is a command on the database itself.
    """
    with Client(url, key=key) as client:
        print_items(
            client.audit(),
            *("time", "actor", "action", "details"),
            identity="target",
            row=lambda entry: (
                *(entry[name] for name in ("time", "actor", "action")),
                json.dumps(entry["details"]) if entry["details"] else "",
                entry["target"],
            ),
            as_json=as_json,
        )


def _describe(record: dict[str, Any]) -> tuple[str, ...]:
    days = (str(record[name] or "").partition("T")[0] for name in ("last_used", "revoked"))
    used, revoked = days
    created = record["created"].partition("T")[0]
    return record["name"], record["scope"], created, used or "never", revoked, record["key_id"]
