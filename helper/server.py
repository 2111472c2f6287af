"""Run the helper: open what it keeps, compare the journal, and serve."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import typer
import uvicorn
from sqlalchemy import Engine
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool

from sfumato.helper.acceptance import Plans
from sfumato.helper.app import create_app
from sfumato.helper.batches import Batches
from sfumato.helper.journal import Journal
from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import open_database
from sfumato.shared.errors import ConfigError, SketchError
from sfumato.shared.hosts import is_loopback
from sfumato.shared.system import SystemSource

_SWEEP_S = 3600.0
_LOG = logging.getLogger("sfumato.helper")


def open_helper(*, database: str, keys: Path, journal: Path) -> tuple[Engine, Batches]:
    """Open database, keys and journal.

    Raises
    ------
    ConfigError, TransportError
        One of them cannot be read, or another process serves with the journal.
    """
    engine, folder = open_database(database), KeyFolder(keys)
    return engine, Batches(
        database=engine,
        plans=Plans(database=engine, keys=folder),
        journal=Journal.open(journal, is_alone=True),
        identity=folder.load_identity(),
        source=SystemSource(),
        now=time.time,
    )


def run_helper(
    *,
    host: str,
    port: int,
    database: str,
    keys: Path,
    journal: Path,
    tls_cert: str | None,
    tls_key: str | None,
    version: str,
) -> None:
    """Serve until a signal.

    Raises
    ------
    ConfigError
        The address can be reached from other machines, and there is no certificate.
    HelperRestoredError
        The database is older than the journal.
    """
    if tls_cert is None and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines, and this is plain HTTP",
            field="host",
            fix="give --tls-cert and --tls-key, or keep 127.0.0.1 behind a proxy with TLS",
        )
    engine, batches = open_helper(database=database, keys=keys, journal=journal)
    with contextlib.closing(batches.journal):
        batches.require_up_to_date()
        app = create_app(engine, batches, version=version)
        app.router.lifespan_context = lambda each: _sweep_meanwhile(each, batches)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            ssl_certfile=tls_cert,
            ssl_keyfile=tls_key,
        )
        with _listen(host, port) as listener:
            scheme = "http" if tls_cert is None else "https"
            name = f"[{host}]" if ":" in host else host
            typer.echo(f"The helper is listening on {scheme}://{name}:{listener.getsockname()[1]}")
            typer.echo("Stop with Ctrl-C.")
            uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be listened on: {error.strerror}",
            field="port",
            fix="choose another port, or stop what listens there",
        ) from error


@contextlib.asynccontextmanager
async def _sweep_meanwhile(_: Starlette, batches: Batches) -> AsyncIterator[None]:
    async def sweep() -> None:
        while True:
            try:
                removed = await run_in_threadpool(batches.forget_late)
                if removed:
                    _LOG.info("removed %d report(s) of slots that are over", removed)
            except SketchError as error:
                _LOG.warning("cannot remove old reports: %s", error)
            await asyncio.sleep(_SWEEP_S)

    task = asyncio.create_task(sweep())
    try:
        yield
    finally:
        task.cancel()
