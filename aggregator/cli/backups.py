"""`sfumato backup | restore`: copies of a SQLite database, checked as `check-store` checks it."""

from __future__ import annotations

import sys
from pathlib import Path

from sfumato.aggregator.base.files import back_up_file, describe_damage, path_of
from sfumato.aggregator.cli.checks import inspect_database
from sfumato.aggregator.cli.databases import open_database, renew_database
from sfumato.aggregator.cli.settings import read_settings
from sfumato.aggregator.settings import normalise_database_url
from sfumato.shared.errors import ConfigError, TransportError


async def write_backup(file: Path, config: Path | None, database_url: str | None) -> None:
    """Back up a SQLite database."""
    source = path_of(read_settings(config=config, database_url=database_url).database_url)

    async def check(part: Path) -> None:
        try:
            await _require_sound(part, source)
        except ConfigError as error:
            # Made before an upgrade, perhaps, with the software of after it.
            print(f"{file}: only its pages were checked: {error}", file=sys.stderr)

    n_bytes = await back_up_file(source, file, check=check)
    print(f"{file}: {n_bytes} bytes")


async def restore_backup(file: Path, config: Path | None, database_url: str | None) -> None:
    """Restore a SQLite database from a backup."""
    settings = read_settings(config=config, database_url=database_url)
    target = path_of(settings.database_url)
    for left in (target, *(target.with_name(target.name + end) for end in ("-wal", "-shm"))):
        if left.exists():
            raise ConfigError(
                f"{left} exists", field="database", fix="stop every server, and move it away"
            )

    async def prepare(part: Path) -> None:
        # Under another name, so that no server opens it before its new generation.
        await _require_sound(part, file)
        async with open_database(normalise_database_url(str(part))) as store:
            await renew_database(store)

    await back_up_file(file, target, check=prepare)
    print(f"{target}: restored; start the servers")


async def _require_sound(part: Path, source: Path) -> None:
    try:
        reports = await inspect_database(normalise_database_url(str(part)))
    except TransportError as error:
        raise describe_damage(source, str(error)) from error
    found = [
        f"{one.check}: {fault}" for one in reports if not one.is_warning for fault in one.faults
    ]
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise describe_damage(source, found[0] + more)
