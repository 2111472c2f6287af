"""Requests to one server, whose answers are bounded in size and in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from ssl import SSLContext
from typing import Any

import httpx

from sfumato.shared import __version__
from sfumato.shared.errors import TransportError
from sfumato.shared.http_client import PLAIN_FIX, PROXY_FIX, Deadline, lacks_tls, open_client

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_WHOLE_S = 120.0
_MAX_ANSWER_BYTES = 4 << 20
_FIX = "check the address and the network"
_OF_THE_BYTES = (b"content-encoding", b"content-length", b"transfer-encoding")


class NoAnswerError(TransportError):
    """The server could not be reached at all; there is no use in trying the next sketch now."""


class HttpConnection:
    """Connection to one server, for one request at a time.

    Parameters
    ----------
    address
        Address of the server, without a slash at the end.
    clock
        Seconds since 1970-01-01 UTC.
    context
        Verifies the server's certificate; httpx's own rules when not given.

    Raises
    ------
    ConfigError
        The environment names a proxy that cannot be used.
    """

    def __init__(
        self, address: str, *, clock: Callable[[], float], context: SSLContext | None = None
    ) -> None:
        self._clock = clock
        self._deadline = Deadline()
        self._http = open_client(
            address,
            timeout=_TIMEOUT,
            # A few bytes of what is compressed may fill the memory.
            headers={"User-Agent": f"sfumato-agent/{__version__}", "Accept-Encoding": "identity"},
            verify=True if context is None else context,
        )

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Make a request and read the whole answer, whatever its status.

        Raises
        ------
        NoAnswerError
            There was none, or one that is too long or takes too long.
        """
        ends_at = time.monotonic() + _WHOLE_S
        extensions = {"trace": self._deadline.trace}
        try:
            # Whatever answers may go on for ever: neither memory nor the others wait for it.
            with (
                self._deadline.within(_WHOLE_S),
                self._http.stream(method, path, extensions=extensions, **options) as answer,
            ):
                if answer.headers.get("Content-Encoding", "identity") != "identity":
                    raise self._unanswered("its answer is compressed, which was not asked for")
                body = bytearray()
                for chunk in answer.iter_raw():
                    body += chunk
                    if len(body) > _MAX_ANSWER_BYTES:
                        raise self._unanswered("its answer has no end")
                headers = [(k, v) for k, v in answer.headers.raw if k.lower() not in _OF_THE_BYTES]
                # Where the length is not stated, being cut off looks like the end.
                if time.monotonic() < ends_at:
                    return httpx.Response(answer.status_code, headers=headers, content=bytes(body))
        except httpx.HTTPError as error:
            if time.monotonic() < ends_at:
                why = f"{type(error).__name__}: {error}"
                fix = PROXY_FIX if isinstance(error, httpx.ProxyError) else _FIX
                if lacks_tls(error):
                    why, fix = "it speaks http, not https", PLAIN_FIX
                raise self._unanswered(why, fix) from error
        raise self._unanswered("its answer has no end")

    def _unanswered(self, why: str, fix: str = _FIX) -> NoAnswerError:
        if "not yet valid" in why or "has expired" in why:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
            fix = (
                f"set this machine's clock if it is wrong (it says {now}), or renew the certificate"
            )
        return NoAnswerError(
            f"{self._http.base_url} did not answer ({why})", field="server", fix=fix
        )
