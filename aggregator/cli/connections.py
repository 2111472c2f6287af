"""Connections to `sfumato serve`, with limits on the size and the time of a request's head.

uvicorn limits neither. :mod:`sfumato.aggregator.api.middleware` limits bodies.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MOST_HEAD_BYTES = 32 << 10
"""Limit in bytes of a request line and its headers together."""
KEEP_ALIVE_S = 75
"""Seconds that an idle connection stays open.

Longer than clients and proxies keep theirs (5 s in httpx, 60 s in nginx): one that the server
closes at the moment when the next request is sent loses it without an answer.
"""
_HEAD_TIMEOUT_S = 30.0
_MOST_FILES = 1 << 16
_TOO_LONG = f"headers: must have at most {MOST_HEAD_BYTES} bytes together. Leave some out".encode()


def allow_many_connections() -> None:
    """Raise the limit on open files as far as the system allows: each connection is one."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a limit on the head of a request."""

    _n_unserved = 0
    _is_head = True
    _is_too_long = False
    _timer: asyncio.TimerHandle | None = None
    head_timeout_s: ClassVar[float] = _HEAD_TIMEOUT_S

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the first request."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; refuse a head, or trailers, above the limit."""
        self._n_unserved += len(data)
        super().data_received(data)
        if self._n_unserved > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self._is_head:
                self._refuse()
            else:
                self.transport.close()

    def on_message_begin(self) -> None:
        """Start counting a head."""
        super().on_message_begin()
        self._n_unserved = 0
        if not self._is_head:
            self._expect_head()

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body on; the application counts it."""
        self._n_unserved = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._n_unserved = 0
        super().on_message_complete()

    def on_headers_complete(self) -> None:
        """Serve the request, unless the head is too long."""
        length = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if length > MOST_HEAD_BYTES:
            self._is_too_long = True
            raise httptools.HttpParserError("the head is too long")
        self._is_head = False
        self._stop_timer()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request."""
        if self._is_too_long:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _refuse(self) -> None:
        lines = [
            STATUS_LINE[431],
            b"content-type: text/plain; charset=utf-8\r\n",
            b"content-length: %d\r\n" % len(_TOO_LONG),
            b"connection: close\r\n\r\n",
            _TOO_LONG,
        ]
        self.transport.write(b"".join(lines))
        self.transport.close()

    def _expect_head(self) -> None:
        self._is_head = True
        self._stop_timer()
        self._timer = self.loop.call_later(self.head_timeout_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
