"""`sfumato serve`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import json
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from sqlalchemy import make_url

from aggregator.app import create_app
from aggregator.cli.arguments import add_database, create_parser, read_settings, run
from aggregator.cli.connections import KEEP_ALIVE_S, BoundedProtocol, allow_many_connections
from aggregator.logs import configure_logging
from aggregator.services import Services
from aggregator.settings import Settings
from aggregator.storage import open_store, prepare_database
from shared.errors import ConfigError, TransportError, UnpreparedError
from shared.system import share_one_heap

_EXAMPLES = """\
  sfumato serve                                  # SQLite file sfumato.db, http://127.0.0.1:8750
  sfumato serve --database trial.db --port 0     # a trial: a file and a port of its own
  sfumato serve --host 0.0.0.0 --port 443 --tls-cert chain.pem --tls-key key.pem
  sfumato serve --host 0.0.0.0 --behind-proxy --proxies 10.0.0.2   # that proxy ends TLS
  sfumato serve --database postgresql://sfumato@db/sfumato --log-format json
  sfumato serve --config /etc/sfumato.toml       # every setting in a file

first steps, in another terminal:
  sfumato key create --scope operator --name me  # then: export SFUMATO_KEY=sfk_...
  sfumato study create weather plan.toml         # prints the study's id
  sfumato study token STUDY                      # prints a token for one device

settings, as they are written in the file of --config; SFUMATO_PORT=9000 is the same as port = 9000:
{settings}"""


def serve(argv: list[str]) -> int:
    """Run the aggregator: take sketches in, add them up, recover centroids.

    Returns
    -------
    int
        0 after a graceful stop, 1 when the server cannot start, 2 for wrong options.
    """
    parser = create_parser(
        "serve",
        "Run the aggregator and its decoding workers. It stops gracefully on SIGTERM and Ctrl+C,\n"
        "waits for a database that is away or has no tables yet, and never logs a key, a token or\n"
        "a body.",
        _EXAMPLES.format(settings=_list_settings()),
    )
    add_database(parser)
    parser.add_argument("--host", help="address to listen on (SFUMATO_HOST; 127.0.0.1)")
    parser.add_argument("--port", type=int, help="0 takes a free one (SFUMATO_PORT; 8750)")
    parser.add_argument("--tls-cert", metavar="PEM", help="certificate chain: speak HTTPS")
    parser.add_argument("--tls-key", metavar="PEM", help="private key of the certificate")
    parser.add_argument(
        "--tls-client-ca", metavar="PEM", help="clients must show a certificate of this authority"
    )
    parser.add_argument(
        "--behind-proxy",
        action="store_true",
        default=None,
        help="a proxy in front ends TLS: allows plain HTTP beyond this machine",
    )
    parser.add_argument(
        "--proxies",
        metavar="ADDRESSES",
        help="of that proxy, by commas: whose X-Forwarded-... is believed (127.0.0.1,::1)",
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
    _require_certificate(settings)
    configure_logging(settings.log_format)
    share_one_heap()
    allow_many_connections()
    # First, for what is refused must leave no database behind.
    with _listen(settings) as listener:
        # Before the server starts, so that what is wrong is said in one line.
        asyncio.run(_prepare(settings.database_url))
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            timeout_keep_alive=KEEP_ALIVE_S,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            proxy_headers=settings.behind_proxy,
            forwarded_allow_ips=settings.proxies.split(","),
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
            ssl_ca_certs=settings.tls_client_ca,
            ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_client_ca else ssl.CERT_NONE,
            timeout_graceful_shutdown=settings.stop_s,
            lifespan="on",
        )
        server = _Server(config, settings=settings, app=app)
        # uvicorn raises the signal that stopped it once more when it is done; a stop that was
        # asked for is not a failure.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        # Not asyncio.run, which takes no loop factory before Python 3.12.
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(server.serve(sockets=[listener]))
    return 0 if server.started else 1


def require_private(settings: Settings) -> None:
    """Refuse plain HTTP that others on the network could read.

    Raises
    ------
    ConfigError
        The address is not this machine's own, and there is neither a certificate nor a proxy.
    """
    if settings.tls_cert is not None or settings.behind_proxy or _is_loopback(settings.host):
        return
    raise ConfigError(
        f"{settings.host} can be reached from other machines, and this is plain HTTP: keys and "
        "tokens could be read on the way",
        field="host",
        fix="give --tls-cert and --tls-key, keep 127.0.0.1, or put a proxy with TLS in front and "
        "say `--behind-proxy`",
    )


def _require_certificate(settings: Settings) -> None:
    """Read the files of TLS once, so that what is wrong is said in one line.

    Raises
    ------
    ConfigError
        One is missing, cannot be read, or does not fit another.
    """
    if settings.tls_cert is None:
        for name in ("tls_key", "tls_client_ca"):
            if getattr(settings, name) is not None:
                raise ConfigError("needs a certificate", field=name, fix="give --tls-cert as well")
        return
    if settings.tls_key is None:
        raise ConfigError("is missing", field="tls_key", fix="give --tls-key with --tls-cert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _named("tls_cert"):
        # Without a password here, one would be asked for at the terminal.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
    if settings.tls_client_ca is not None:
        with _named("tls_client_ca"):
            context.load_verify_locations(settings.tls_client_ca)


@contextmanager
def _named(field: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # which TLS errors are too
        raise ConfigError(
            f"cannot be used ({error})",
            field=field,
            fix="name readable PEM files; the key must be that of the certificate",
        ) from error


def _list_settings() -> str:
    """Write every setting with its default, as TOML."""
    lines = []
    for name, field in Settings.model_fields.items():
        default: Any = field.default
        shown = json.dumps(default) if default is not None else '"..."'
        lines.append(f"  {name} = {shown}".replace("%", "%%"))
    return "\n".join(lines)


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
    except (TransportError, UnpreparedError):
        return  # the server waits for it, and says so
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
        scheme = "https" if self._settings.tls_cert is not None else "http"
        print(self._announce(f"{scheme}://{host}:{port}"), flush=True)
        _spare_collector()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; streams of events end first, for they would be waited for."""
        self._services.watch.close()
        await super().shutdown(sockets)

    def _announce(self, url: str) -> str:
        settings = self._settings
        lines = [f"Sfumato is listening on {url}", f"  database  {_show(settings.database_url)}"]
        lines.append(f"  workers   {settings.n_workers}")
        lines += [
            "Next, in another terminal:",
            f"  sfumato key create --scope operator --name me{_database_option(settings)}",
            f"  {url}/  shows studies and decodes in a browser, with a key",
            f"  {url}/docs  lists every call",
            "Stop with Ctrl+C.",
        ]
        return "\n".join(lines)


def _show(database_url: str) -> str:
    url = make_url(database_url)
    if url.drivername.startswith("sqlite"):
        return str(url.database)
    return url.render_as_string(hide_password=True)


def _database_option(settings: Settings) -> str:
    default: Any = Settings.model_fields["database_url"].default
    if settings.database_url == default:
        return ""
    return f" --database {_show(settings.database_url)}"


def _spare_collector() -> None:
    """Leave what start-up made out of every later garbage collection.

    It never goes, and looking through its half a million objects would hold up all requests for a
    tenth of a second, every few seconds under load.
    """
    gc.collect()
    gc.freeze()
