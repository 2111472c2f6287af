"""The services of a command that works on the server's database itself."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggregator.cli.arguments import read_settings
from aggregator.records import SystemClock
from aggregator.services import Services
from aggregator.storage import open_store, prepare_database


@asynccontextmanager
async def open_services(
    arguments: argparse.Namespace, *, create: bool = False
) -> AsyncIterator[Services]:
    """Open the database that the options name; ``create`` makes a SQLite file that is not there.

    Raises
    ------
    ConfigError
        It is not there, or is of another schema version.
    TransportError
        It does not answer.
    """
    settings = read_settings(config=arguments.config, database_url=arguments.database_url)
    store = open_store(settings.database_url)
    try:
        if create:
            await prepare_database(store)
        else:
            await store.require_ready()
        yield Services(store, SystemClock())
    finally:
        await store.close()
