"""Parts of requests to an aggregator that both clients share: addresses, bodies and failures."""

from __future__ import annotations

import math
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import httpx

from sfumato.shared.errors import ConfigError, TransportError
from sfumato.shared.http_client import PLAIN_FIX, PROXY_FIX, lacks_tls
from sfumato.shared.wire import (
    AnswerReader,
    error_from_problem,
    is_api_key,
    read_problem,
    read_retry_after,
)

T = TypeVar("T")
ANSWERS = AnswerReader("url")
EVENTS = "text/event-stream"
SearchBox = Mapping[str, Sequence[float]]
"""Lower and upper bound by dimension."""
AsyncSleep = Callable[[float], Awaitable[None]]
AsyncStream = AsyncGenerator[T, None]
"""Items as they come, from a request that must be closed."""

_COME_AGAIN = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_MAYBE = httpx.codes.CONFLICT
"""Only with Retry-After: the same request is being answered."""
_DEFAULT_PAUSE_S = 1.0
_JITTER = 0.1


def make_headers(key: str | None) -> dict[str, str]:
    """Return the headers that carry an API key, if there is one.

    Raises
    ------
    ConfigError
        The key is malformed.
    """
    if key is None:
        return {}
    if not is_api_key(key):
        raise ConfigError(
            "must be sfk_, 16 hexadecimal digits, _ and 43 letters or digits",
            field="key",
            fix="pass the line that `sfumato key create` prints, and nothing else",
        )
    return {"Authorization": f"Bearer {key}"}


def require_address(url: str) -> str:
    """Return an address that HTTP reaches; raises ``ConfigError`` for others."""
    try:
        address = httpx.URL(url)
        is_one = address.scheme in ("http", "https") and bool(address.host)
    except httpx.InvalidURL:
        is_one = False
    if not is_one:
        raise ConfigError(
            "must be an address with http:// or https://",
            field="url",
            fix="use one such as http://127.0.0.1:8750",
        )
    return url


def require_open(*, is_closed: bool) -> None:
    """Raise ``ConfigError`` if connections were closed."""
    if is_closed:
        raise ConfigError(
            "is closed",
            field="client",
            fix="make another, or stay inside its `with` block while it is used",
        )


def require_success(answer: httpx.Response) -> None:
    """Raise the error of an answer that is no success."""
    if answer.is_success:
        return
    raise error_from_problem(read_problem(answer.content), answer.status_code)


def unreachable(url: str, error: Exception) -> TransportError:
    """Return the error of a server that does not answer, or of the proxy before it."""
    if isinstance(error, httpx.ProxyError):
        return TransportError(f"{url} is not reached: {error}", field="url", fix=PROXY_FIX)
    if lacks_tls(error):
        return TransportError(f"{url} speaks http, not https", field="url", fix=PLAIN_FIX)
    return TransportError(
        f"{url} does not answer ({type(error).__name__})",
        field="url",
        fix="check that the aggregator runs there, for instance with `sfumato serve`",
    )


def read_pause(answer: httpx.Response) -> float | None:
    """Return the seconds to wait before a retry; None if the answer is final.

    Jitter is added, because clients that were refused together would otherwise retry together.
    """
    stated = answer.headers.get("Retry-After", "")
    if answer.status_code not in _COME_AGAIN and not (answer.status_code == _MAYBE and stated):
        return None
    pause = read_retry_after(stated, now=time.time())
    return (_DEFAULT_PAUSE_S if pause is None else pause) * (1.0 + _JITTER * random.random())


def list_bounds(search_box: SearchBox | None) -> dict[str, list[float]] | None:
    """Return a search box as its JSON object.

    Raises
    ------
    ConfigError
        A bound is not finite.
    """
    if search_box is None:
        return None
    box = {name: [float(bound) for bound in bounds] for name, bounds in search_box.items()}
    for name, bounds in box.items():
        if not all(map(math.isfinite, bounds)):
            raise ConfigError("must be finite", field=f"search_box.{name}", fix="leave it out")
    return box
