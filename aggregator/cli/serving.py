"""`sfumato serve`."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import signal
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from sqlalchemy import make_url

from aggregator.app import create_app
from aggregator.cli.arguments import add_database, create_parser, read_settings, run
from aggregator.logs import configure_logging
from aggregator.services import Services
from aggregator.settings import MEMORY, Settings
from aggregator.storage import open_store, prepare_database
from shared.errors import ConfigError

_GRACE_S = 5
_EXAMPLES = """\
  sfumato serve                                  # SQLite file sfumato.db, http://127.0.0.1:8750
  sfumato serve --database /var/lib/sfumato.db --port 9000
  sfumato serve --database postgresql://sfumato@db/sfumato --host 0.0.0.0 --behind-proxy
  sfumato serve --database memory: --port 0      # a trial: nothing is kept"""


def serve(argv: list[str]) -> int:
    """Run the aggregator: take sketches in, add them up, recover centroids.

    Returns
    -------
    int
        0 after a graceful stop, 1 when the server cannot start, 2 for wrong options.
    """
    parser = create_parser("serve", "Run the aggregator and its decoding workers.", _EXAMPLES)
    add_database(parser)
    parser.add_argument("--host", help="address to listen on (SFUMATO_HOST; 127.0.0.1)")
    parser.add_argument("--port", type=int, help="0 takes a free one (SFUMATO_PORT; 8750)")
    parser.add_argument(
        "--behind-proxy",
        action="store_true",
        default=None,
        help="a proxy in front ends TLS: allows plain HTTP beyond this machine",
    )
    parser.add_argument(
        "--workers", dest="n_workers", type=int, metavar="N", help="decoding processes (1)"
    )
    parser.add_argument(
        "--no-worker",
        dest="n_workers",
        action="store_const",
        const=0,
        help="start none; run `sfumato worker` elsewhere",
    )
    parser.add_argument("--log-format", choices=("console", "json"), help="of standard error")
    return run(parser, argv, _serve)


def _serve(arguments: argparse.Namespace) -> int:
    settings = read_settings(**vars(arguments))
    require_private(settings)
    configure_logging(settings.log_format)
    if settings.database_url != MEMORY:
        # Before the server starts, so that what is wrong is said in one line.
        asyncio.run(_prepare(settings.database_url))
    with _listen(settings) as listener:
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=settings.behind_proxy,
            timeout_graceful_shutdown=_GRACE_S,
            lifespan="on",
        )
        server = _Server(config, settings=settings, app=app)
        # uvicorn raises the signal that stopped it once more when it is done; a stop that was
        # asked for is not a failure.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        asyncio.run(server.serve(sockets=[listener]))
    return 0 if server.started else 1


def require_private(settings: Settings) -> None:
    """Refuse plain HTTP that others on the network could read.

    Raises
    ------
    ConfigError
        The address is not this machine's own, and no proxy is declared.
    """
    if settings.behind_proxy or _is_loopback(settings.host):
        return
    raise ConfigError(
        f"{settings.host} can be reached from other machines, and this is plain HTTP: keys and "
        "tokens could be read on the way",
        field="host",
        fix="keep 127.0.0.1, or put a proxy with TLS in front and say `--behind-proxy`",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _prepare(database_url: str) -> None:
    store = open_store(database_url)
    try:
        await prepare_database(store)
    finally:
        await store.close()


def _listen(settings: Settings) -> socket.socket:
    """Take the port here, so that a free one can be chosen and told."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{settings.port} on {settings.host} cannot be listened on: {error.strerror}",
            field="port",
            fix="stop what uses it, or choose another with --port",
        ) from error
    return listener


class _Server(uvicorn.Server):
    """uvicorn, which says what to do next once it is ready."""

    def __init__(self, config: uvicorn.Config, *, settings: Settings, app: FastAPI) -> None:
        super().__init__(config)
        self._settings = settings
        self._services: Services = app.state.services

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the address."""
        await super().startup(sockets)
        if not self.started or not sockets:
            return
        port = sockets[0].getsockname()[1]
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        print(await self._announce(f"http://{host}:{port}"), flush=True)

    async def _announce(self, url: str) -> str:
        settings = self._settings
        lines = [f"Sfumato is listening on {url}", f"  database  {_show(settings.database_url)}"]
        lines.append(f"  workers   {settings.n_workers}")
        if settings.database_url == MEMORY:
            # No command can reach this process's memory, so the first key is made here.
            secret, _ = await self._services.keys.create(name="trial", scope="operator")
            lines.append(f"  operator key, for this run alone: {secret}")
        else:
            option = _database_option(settings)
            lines += [
                "Next, in another terminal:",
                f"  sfumato key create --scope operator --name me{option}",
            ]
        lines += [f"  {url}/docs  lists every call", "Stop with Ctrl+C."]
        return "\n".join(lines)


def _show(database_url: str) -> str:
    if database_url == MEMORY:
        return "in memory: nothing is kept"
    url = make_url(database_url)
    if url.drivername.startswith("sqlite"):
        return str(url.database)
    return url.render_as_string(hide_password=True)


def _database_option(settings: Settings) -> str:
    default: Any = Settings.model_fields["database_url"].default
    if settings.database_url == default:
        return ""
    return f" --database {_show(settings.database_url)}"
