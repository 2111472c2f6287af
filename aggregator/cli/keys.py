"""`sfumato key` and `sfumato audit`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

from aggregator.cli.arguments import add_database, create_parser, run
from aggregator.cli.local import open_services
from aggregator.cli.remote import RemoteServer, add_url
from aggregator.records import AuditRecord, KeyRecord
from shared.wire.bodies.declaring import maybe_rfc3339, to_rfc3339

_KEY_EXAMPLES = """\
  sfumato key create --scope operator --name me      # may do all
  sfumato key create --scope analyst --name ana --json
  sfumato key create --scope enrol --name factory    # may only hand out enrolment tokens
  sfumato key list
  sfumato key revoke 3f0c9d2be41a7756
  SFUMATO_KEY=sfk_... sfumato key list --url https://sfumato.example.org"""
_AUDIT_EXAMPLES = """\
  sfumato audit list
  sfumato audit list --json --database postgresql://sfumato@db/sfumato
  SFUMATO_KEY=sfk_... sfumato audit list --url https://sfumato.example.org"""
_PAGE = 500


def key(argv: list[str]) -> int:
    """Create, list and revoke API keys, in the server's database or over its interface.

    Returns
    -------
    int
        0 when done, 1 when there is no such key, 2 for wrong options.
    """
    parser = create_parser(
        "key",
        "API keys. A key is shown once; the database keeps its SHA-256 alone.",
        _KEY_EXAMPLES,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = commands.add_parser("create", help="make a key and show it once")
    create.add_argument("--scope", required=True, choices=("operator", "analyst", "enrol"))
    create.add_argument("--name", required=True, help="whose it is")
    create.add_argument("--json", action="store_true", help="one JSON object")
    show = commands.add_parser("list", help="list keys, revoked ones too")
    show.add_argument("--json", action="store_true", help="one JSON object a line")
    revoke = commands.add_parser("revoke", help="make a key useless, at once")
    revoke.add_argument("key_id", help="from `sfumato key list`")
    for command in (create, show, revoke):
        add_database(command)
        add_url(command)
    return run(parser, argv, _run_key)


def audit(argv: list[str]) -> int:
    """List what operators did: who, what, when and to what.

    Returns
    -------
    int
        0 when done, 1 when the server or database does not answer, 2 for wrong options.
    """
    parser = create_parser(
        "audit",
        "The append-only log of what operators did. The actor `local` is a command on the "
        "database itself.",
        _AUDIT_EXAMPLES,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show = commands.add_parser("list", help="list all entries, the oldest first")
    show.add_argument("--json", action="store_true", help="one JSON object a line")
    add_database(show)
    add_url(show)
    return run(parser, argv, _run_audit)


def _run_key(arguments: argparse.Namespace) -> int:
    action = {"create": _create, "list": _list, "revoke": _revoke}[arguments.command]
    action(arguments)
    return 0


def _create(arguments: argparse.Namespace) -> None:
    body = {"name": arguments.name, "scope": arguments.scope}
    if arguments.url:
        made = RemoteServer(arguments.url).call("POST", "/v1/keys", json=body)
    else:
        made = asyncio.run(_create_locally(arguments))
    if arguments.json:
        print(json.dumps({name: made[name] for name in ("key", "key_id", "name", "scope")}))
        return
    # The key alone is the output, so that a shell can put it in a variable.
    print(made["key"])
    print(
        f"key {made['key_id']} of scope {made['scope']} for {made['name']}; it is not shown again. "
        "The commands take it from SFUMATO_KEY, the API as `Authorization: Bearer sfk_...`.",
        file=sys.stderr,
    )


async def _create_locally(arguments: argparse.Namespace) -> dict[str, Any]:
    async with open_services(arguments, create=True) as services:
        secret, record = await services.keys.create(name=arguments.name, scope=arguments.scope)
    return {"key": secret} | _describe_key(record)


def _list(arguments: argparse.Namespace) -> None:
    if arguments.url:
        keys = RemoteServer(arguments.url).call("GET", "/v1/keys")["items"]
    else:
        keys = asyncio.run(_list_locally(arguments))
    for record in keys:
        if arguments.json:
            print(json.dumps(record))
            continue
        state = f"revoked {_day(record['revoked'])}" if record["revoked"] else "in use"
        used = f"last used {_day(record['last_used'])}" if record["last_used"] else "never used"
        print(
            f"{record['key_id']}  {record['scope']:<8}  {_day(record['created'])}  {used:<20}  "
            f"{state}  {record['name']}"
        )


async def _list_locally(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    async with open_services(arguments) as services:
        return [_describe_key(record) for record in await services.keys.list_all()]


def _revoke(arguments: argparse.Namespace) -> None:
    if arguments.url:
        RemoteServer(arguments.url).call("DELETE", f"/v1/keys/{arguments.key_id}")
    else:
        asyncio.run(_revoke_locally(arguments))
    print(f"key {arguments.key_id} is revoked")


async def _revoke_locally(arguments: argparse.Namespace) -> None:
    async with open_services(arguments) as services:
        await services.keys.revoke(arguments.key_id)


def _run_audit(arguments: argparse.Namespace) -> int:
    entries: Iterator[dict[str, Any]]
    if arguments.url:
        entries = RemoteServer(arguments.url).pages("/v1/audit")
    else:
        entries = iter(asyncio.run(_read_audit(arguments)))
    for entry in entries:
        if arguments.json:
            print(json.dumps(entry))
            continue
        details = json.dumps(entry["details"]) if entry["details"] else ""
        print(
            f"{entry['time']}  {entry['actor']:<16}  {entry['action']:<16}  {entry['target']}  "
            f"{details}".rstrip()
        )
    return 0


async def _read_audit(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    found: list[AuditRecord] = []
    async with open_services(arguments) as services:
        while True:
            after = (found[-1].time, found[-1].entry_id) if found else None
            page = await services.audit.list_page(after=after, limit=_PAGE)
            found += page
            if len(page) < _PAGE:
                return [_describe_entry(record) for record in found]


def _describe_key(record: KeyRecord) -> dict[str, Any]:
    return {
        "key_id": record.key_id,
        "name": record.name,
        "scope": record.scope,
        "created": to_rfc3339(record.created),
        "last_used": maybe_rfc3339(record.last_used),
        "revoked": maybe_rfc3339(record.revoked),
    }


def _describe_entry(record: AuditRecord) -> dict[str, Any]:
    return {
        "time": to_rfc3339(record.time),
        "actor": record.actor,
        "action": record.action,
        "target": record.target,
        "details": dict(record.details),
    }


def _day(time: str) -> str:
    return time.partition("T")[0]
