"""`sfumato serve`: TLS, the listening socket, and the server on it."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from fastapi import FastAPI
from sqlalchemy import make_url

from sfumato.aggregator.app import create_app
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.cli.connections import KEEP_ALIVE_S, BoundedProtocol, allow_many_connections
from sfumato.aggregator.database.schema import prepare_database
from sfumato.aggregator.logs import configure_logging
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from sfumato.shared.errors import ConfigError, TransportError, UnpreparedError
from sfumato.shared.hosts import is_loopback
from sfumato.shared.system import describe_readers, share_one_heap


def run_server(settings: Settings) -> int:
    """Serve until a signal.

    Returns
    -------
    int
        0 after a graceful stop, 1 when the server cannot start.
    """
    require_private(settings)
    _require_certificate(settings)
    configure_logging(settings.log_format)
    share_one_heap()
    allow_many_connections()
    # First, so that a refused start leaves no database behind.
    with _listen(settings) as listener:
        # Before the server starts, so that an error is one line.
        redirect_uri = asyncio.run(_prepare(settings))
        _warn_of_readers(settings.database_url)
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
        server = _Server(config, settings=settings, app=app, redirect_uri=redirect_uri)
        # uvicorn raises the signal that stopped it again; a requested stop is no failure.
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
    if settings.tls_cert is not None or settings.behind_proxy or is_loopback(settings.host):
        return
    raise ConfigError(
        f"{settings.host} can be reached from other machines, and this is plain HTTP: keys and "
        "tokens could be read on the way",
        field="host",
        fix="give --tls-cert and --tls-key, keep 127.0.0.1, or put a proxy with TLS in front and "
        "give --behind-proxy",
    )


def _require_certificate(settings: Settings) -> None:
    """Load the files of TLS once, so that an error is one line.

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


def _warn_of_readers(database_url: str) -> None:
    url = make_url(database_url)
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    if warning := describe_readers(Path(url.database)):
        structlog.get_logger("aggregator.serving").warning(warning)


async def _prepare(settings: Settings) -> str | None:
    """Check sign-in and prepare the database; return the redirect URI to register, if any."""
    store = open_store(settings.database_url)
    try:
        redirect_uri = await Services(store, SystemClock(), settings).sign_in.check()
        # The server waits for a database, and says so.
        with suppress(TransportError, UnpreparedError):
            await prepare_database(store)
        return redirect_uri
    finally:
        await store.close()


def _listen(settings: Settings) -> socket.socket:
    """Bind the port here, so that port 0 can be announced."""
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
    """uvicorn, with an announcement once it is ready."""

    def __init__(
        self, config: uvicorn.Config, *, settings: Settings, app: FastAPI, redirect_uri: str | None
    ) -> None:
        super().__init__(config)
        self._settings = settings
        self._redirect_uri = redirect_uri
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
        _freeze_heap()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; end event streams first, because uvicorn would wait for them."""
        self._services.watch.close()
        await super().shutdown(sockets)

    def _announce(self, url: str) -> str:
        settings = self._settings
        lines = [f"Sfumato is listening on {url}", f"  database  {_show(settings.database_url)}"]
        lines.append(f"  workers   {settings.n_workers}")
        if self._redirect_uri:
            lines.append(f"  sign-in   {settings.oidc_issuer}, redirect URI {self._redirect_uri}")
        lines += [
            "Next, in another terminal:",
            f"  sfumato operator-key --name me{_database_option(settings)}",
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


def _freeze_heap() -> None:
    """Exclude the objects of start-up from garbage collection.

    They are never freed, and scanning half a million of them would hold up all requests for a tenth
    of a second, every few seconds under load.
    """
    gc.collect()
    gc.freeze()
