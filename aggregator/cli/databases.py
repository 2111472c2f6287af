"""`sfumato operator-key | migrate | copy`: work on the database itself."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.engine import mapped_errors
from sfumato.aggregator.base.generation import renew_generation
from sfumato.aggregator.base.store import Store, open_store
from sfumato.aggregator.cli.settings import read_settings
from sfumato.aggregator.database.copy import copy_database
from sfumato.aggregator.database.schema import migrate_database, prepare_database, require_file
from sfumato.aggregator.logs import describe_cause
from sfumato.aggregator.resources.keys.record import LOCAL_ACTOR
from sfumato.aggregator.resources.keys.service.audit import write_entry
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import normalise_database_url
from sfumato.shared.errors import ConfigError, TransportError, UnpreparedError


@asynccontextmanager
async def open_database(url: str) -> AsyncIterator[Store]:
    """Open a database for one command; an error names its cause, which may name hosts and users.

    Raises
    ------
    ConfigError
        It is not there, or is of another schema version.
    TransportError
        It does not answer.
    """
    store = open_store(url)
    try:
        yield store
    except (TransportError, UnpreparedError) as error:
        if error.__cause__:
            error.rule = f"{error.rule} ({describe_cause(error)})"
        raise
    finally:
        await store.close()


async def create_operator_key(
    config: Path | None, database_url: str | None, *, name: str, as_json: bool
) -> None:
    """Create an operator key and print it."""
    settings = read_settings(config=config, database_url=database_url)
    async with open_database(settings.database_url) as store:
        await prepare_database(store)
        services = Services(store, SystemClock(), settings)
        secret, record = await services.keys.create(name=name, scope="operator")
    if as_json:
        made = {"key": secret, "key_id": record.key_id, "name": name, "scope": record.scope}
        print(json.dumps(made))
        return
    # The key alone is the output, so that a shell can put it in a variable.
    print(secret)
    print(
        f"key {record.key_id} of scope operator for {name}; it is not shown again. The commands "
        "take it from SFUMATO_KEY.",
        file=sys.stderr,
    )


async def migrate_tables(
    config: Path | None, database_url: str | None, *, to: str, new_generation: bool
) -> None:
    """Migrate the tables to a version of the schema."""
    settings = read_settings(config=config, database_url=database_url)
    async with open_database(settings.database_url) as store:
        if new_generation:
            # A restored database exists.
            require_file(store.engine)
        with mapped_errors():
            version = await migrate_database(store.engine, to)
        print(f"schema version {version or 'none'}")
        if new_generation:
            await renew_database(store)


async def copy_into(to: str, config: Path | None, database_url: str | None) -> None:
    """Copy a database into an empty one."""
    settings = read_settings(config=config, database_url=database_url)
    destination = normalise_database_url(to)
    if destination == settings.database_url:
        raise ConfigError("cannot be the database itself", field="to", fix="name another")
    async with (
        open_database(settings.database_url) as source,
        open_database(destination) as target,
    ):
        for name, count in (await copy_database(source, target)).items():
            print(f"{name}: {count}")
        await renew_database(target)


async def renew_database(store: Store) -> None:
    """Give a database another generation, so that devices send again what it lacks."""
    async with store.begin(write=True) as transaction:
        generation = await renew_generation(transaction)
        await write_entry(
            transaction,
            now=SystemClock().now(),
            actor=LOCAL_ACTOR,
            action="generation.renew",
            target=generation.hex(),
        )
    print(f"generation {generation.hex()}")
