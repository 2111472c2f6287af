"""`sfumato backup`, `sfumato restore` and `sfumato copy`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from aggregator.cli.arguments import add_database, create_parser, read_settings, run
from aggregator.records import LOCAL_ACTOR, SystemClock
from aggregator.services.audit import write_entry
from aggregator.settings import normalise_database_url
from aggregator.storage import Store, back_up_file, copy_database, open_store, path_of
from shared.errors import ConfigError

_BACKUP_EXAMPLES = """\
  sfumato backup /backups/sfumato-2026-03-01.db
  sfumato backup /backups/now.db --database /var/lib/sfumato/sfumato.db"""
_RESTORE_EXAMPLES = """\
  mv /var/lib/sfumato/sfumato.db /var/lib/sfumato/broken.db     # with every server stopped
  sfumato restore /backups/sfumato-2026-03-01.db --database /var/lib/sfumato/sfumato.db"""
_COPY_EXAMPLES = """\
  sfumato copy --to postgresql://sfumato@db/sfumato
  sfumato copy --database postgresql://sfumato@db/sfumato --to sfumato.db"""


def backup(argv: list[str]) -> int:
    """Write a backup of a SQLite database to a new file, while servers go on.

    Returns
    -------
    int
        0 when done, 1 when the copy is damaged, 2 for wrong options.
    """
    parser = create_parser(
        "backup",
        "Back up a SQLite database, as it is at one moment, while servers go on. The file appears\n"
        "whole and checked, or not at all. For Postgres use pg_dump.",
        _BACKUP_EXAMPLES,
    )
    parser.add_argument("file", type=Path, help="where to; it must not exist")
    add_database(parser)
    return run(parser, argv, _backup)


def restore(argv: list[str]) -> int:
    """Put a backup in the place of a SQLite database, under a new generation.

    Returns
    -------
    int
        0 when done, 1 when the backup is damaged, 2 for wrong options.
    """
    parser = create_parser(
        "restore",
        "Make a SQLite database from a backup. It has a new generation, by which devices learn\n"
        "that they have to send again what they sent in the last 30 days; what is there already\n"
        "counts once. Stop every server, and move the old file away with its -wal and -shm.",
        _RESTORE_EXAMPLES,
    )
    parser.add_argument("file", type=Path, help="a backup, which stays as it is")
    add_database(parser)
    return run(parser, argv, lambda arguments: asyncio.run(_restore(arguments)))


def copy(argv: list[str]) -> int:
    """Copy a database into an empty one, such as from SQLite to Postgres.

    Returns
    -------
    int
        0 when done, 1 when a database does not answer or the copy is not right, 2 for wrong
        options.
    """
    parser = create_parser(
        "copy",
        "Copy all studies, devices, sketches, sums, results and keys into a database that holds\n"
        "nothing. Stop every server first. All rows arrive together, after every sum was checked\n"
        "against its sketches; a copy that is interrupted can be run again.",
        _COPY_EXAMPLES,
    )
    add_database(parser)
    parser.add_argument("--to", required=True, metavar="PATH_OR_URL", help="the empty database")
    return run(parser, argv, lambda arguments: asyncio.run(_copy(arguments)))


def _backup(arguments: argparse.Namespace) -> int:
    settings = read_settings(config=arguments.config, database_url=arguments.database_url)
    n_bytes = back_up_file(path_of(settings.database_url), arguments.file)
    print(f"{arguments.file}: {n_bytes} bytes")
    return 0


async def _restore(arguments: argparse.Namespace) -> int:
    settings = read_settings(config=arguments.config, database_url=arguments.database_url)
    target = path_of(settings.database_url)
    for left in (target, *(target.with_name(target.name + end) for end in ("-wal", "-shm"))):
        if left.exists():
            raise ConfigError(
                f"{left} exists", field="database", fix="stop every server, and move it away"
            )
    # Made ready under another name, so that no server finds it without its new generation.
    made = target.with_name(target.name + ".restored")
    made.unlink(missing_ok=True)
    back_up_file(arguments.file, made)
    try:
        store = open_store(normalise_database_url(str(made)))
        try:
            await store.require_ready()
            print(f"generation {await _renew_generation(store)}")
        finally:
            await store.close()
        made.rename(target)
    finally:
        for end in ("", "-wal", "-shm"):
            made.with_name(made.name + end).unlink(missing_ok=True)
    print(f"{target}: restored; start the servers")
    return 0


async def _copy(arguments: argparse.Namespace) -> int:
    settings = read_settings(config=arguments.config, database_url=arguments.database_url)
    destination = normalise_database_url(arguments.to)
    if destination == settings.database_url:
        raise ConfigError("is the database itself", field="to", fix="name another")
    source, target = open_store(settings.database_url), open_store(destination)
    try:
        counts = await copy_database(source, target)
        generation = await _renew_generation(target)
    finally:
        await source.close()
        await target.close()
    for name, count in counts.items():
        print(f"{name}: {count}")
    print(f"generation {generation}")
    return 0


async def _renew_generation(store: Store) -> str:
    async with store.begin(write=True) as transaction:
        generation = await transaction.renew_generation()
        await write_entry(
            transaction,
            now=SystemClock().now(),
            actor=LOCAL_ACTOR,
            action="generation.renew",
            target=generation.hex(),
        )
    return generation.hex()
