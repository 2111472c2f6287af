"""`sfumato key`."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from aggregator.cli.arguments import add_database, create_parser, read_settings, run
from aggregator.ports import SystemClock
from aggregator.services.keys import KeyService
from aggregator.settings import MEMORY
from aggregator.storage import open_store, prepare_database
from shared.errors import ConfigError

_EXAMPLES = """\
  sfumato key create --scope operator --name me      # may do all
  sfumato key create --scope analyst --name ana --json
  sfumato key list
  sfumato key revoke 3f0c9d2be41a7756"""


def key(argv: list[str]) -> int:
    """Create, list and revoke API keys, directly in the server's database.

    Returns
    -------
    int
        0 when done, 1 when there is no such key, 2 for wrong options.
    """
    parser = create_parser(
        "key", "API keys. A key is shown once; the database keeps its SHA-256 alone.", _EXAMPLES
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = commands.add_parser("create", help="make a key and show it once")
    create.add_argument("--scope", required=True, choices=("operator", "analyst"))
    create.add_argument("--name", required=True, help="whose it is")
    create.add_argument("--json", action="store_true", help="one JSON object")
    show = commands.add_parser("list", help="list keys, revoked ones too")
    show.add_argument("--json", action="store_true", help="one JSON object a line")
    revoke = commands.add_parser("revoke", help="make a key useless, at once")
    revoke.add_argument("key_id", help="from `sfumato key list`")
    for command in (create, show, revoke):
        add_database(command)
    return run(parser, argv, _run)


def _run(arguments: argparse.Namespace) -> int:
    action = {"create": _create, "list": _list, "revoke": _revoke}[arguments.command]
    return asyncio.run(_with_keys(arguments, action))


async def _with_keys(
    arguments: argparse.Namespace,
    action: Callable[[argparse.Namespace, KeyService], Awaitable[None]],
) -> int:
    settings = read_settings(database_url=arguments.database_url)
    if settings.database_url == MEMORY:
        raise ConfigError(
            "in memory cannot be reached from here",
            field="database",
            fix="`sfumato serve --database memory:` prints a key itself",
        )
    store = open_store(settings.database_url)
    try:
        await prepare_database(store)
        await action(arguments, KeyService(store, SystemClock()))
    finally:
        await store.close()
    return 0


async def _create(arguments: argparse.Namespace, keys: KeyService) -> None:
    secret, record = await keys.create(name=arguments.name, scope=arguments.scope)
    if arguments.json:
        shown = {"key": secret, "key_id": record.key_id, "name": record.name, "scope": record.scope}
        print(json.dumps(shown))
        return
    print(secret)
    print(f"key {record.key_id} of scope {record.scope} for {record.name}; it is not shown again")
    print("Use it as the header `Authorization: Bearer sfk_...`.")


async def _list(arguments: argparse.Namespace, keys: KeyService) -> None:
    for record in await keys.list_all():
        shown = {
            "key_id": record.key_id,
            "name": record.name,
            "scope": record.scope,
            "created": _day(record.created),
            "revoked": None if record.revoked is None else _day(record.revoked),
        }
        if arguments.json:
            print(json.dumps(shown))
            continue
        state = "in use" if shown["revoked"] is None else f"revoked {shown['revoked']}"
        print(f"{record.key_id}  {record.scope:<8}  {shown['created']}  {state}  {record.name}")


async def _revoke(arguments: argparse.Namespace, keys: KeyService) -> None:
    await keys.revoke(arguments.key_id)
    print(f"key {arguments.key_id} is revoked")


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
