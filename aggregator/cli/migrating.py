"""`sfumato migrate`."""

from __future__ import annotations

import argparse
import asyncio

from aggregator.cli.arguments import add_database, create_parser, read_settings, run
from aggregator.records import LOCAL_ACTOR, SystemClock
from aggregator.services.audit import write_entry
from aggregator.storage import migrate_database, open_store
from aggregator.storage.engine import mapped_errors
from aggregator.storage.schema import require_file

_EXAMPLES = """\
  sfumato migrate --database postgresql://sfumato@db/sfumato
  sfumato migrate --new-generation     # after restoring the database from a backup"""


def migrate(argv: list[str]) -> int:
    """Bring the database to the schema of this release.

    Returns
    -------
    int
        0 when done, 1 when the database does not answer, 2 for wrong options.
    """
    parser = create_parser(
        "migrate",
        "Create or migrate the tables. Stop every server on the database and make a backup first.",
        _EXAMPLES,
    )
    add_database(parser)
    parser.add_argument(
        "--to",
        default="head",
        metavar="VERSION",
        help="an earlier version, too; base is none at all",
    )
    parser.add_argument(
        "--new-generation",
        action="store_true",
        help="tell devices that the database was restored, so that they send again what is missing",
    )
    return run(parser, argv, lambda arguments: asyncio.run(_migrate(arguments)))


async def _migrate(arguments: argparse.Namespace) -> int:
    settings = read_settings(config=arguments.config, database_url=arguments.database_url)
    store = open_store(settings.database_url)
    try:
        if arguments.new_generation:
            # What was restored is there.
            require_file(store.engine)
        with mapped_errors():
            version = await migrate_database(store.engine, arguments.to)
        print(f"schema version {version or 'none'}")
        if arguments.new_generation:
            async with store.begin(write=True) as transaction:
                generation = await transaction.renew_generation()
                await write_entry(
                    transaction,
                    now=SystemClock().now(),
                    actor=LOCAL_ACTOR,
                    action="generation.renew",
                    target=generation.hex(),
                )
            print(f"generation {generation.hex()}")
    finally:
        await store.close()
    return 0
