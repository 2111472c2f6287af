"""Requests to an aggregator; every failure becomes an error of this project."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

from shared.errors import ConfigError, TransportError
from shared.wire import (
    AnswerReader,
    error_from_problem,
    is_api_key,
    read_problem,
    read_retry_after,
)
from shared.wire.bodies.studies import Paged

ANSWERS = AnswerReader("url")

_COME_AGAIN = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_DEFAULT_PAUSE_S = 1.0
_EVENTS = "text/event-stream"
_JITTER = 0.1


class Connection:
    """Sends requests, and retries when the server asks for it.

    Parameters
    ----------
    url
        Address of the server, without a slash at the end.
    key
        An API key, if any.
    timeout
        Seconds to wait for one answer.
    patience_s
        Longest time in seconds for which one call retries answers 429 and 503. `Retry-After` gives
        the pauses.
    sleep, monotonic
        The clock.
    transport
        Replaces the network.

    Raises
    ------
    ConfigError
        The address or the key is malformed.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        patience_s: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if key is not None and not is_api_key(key):
            raise ConfigError(
                "must be sfk_, 16 hexadecimal digits, _ and 43 letters or digits",
                field="key",
                fix="pass the line that `sfumato key create` prints, and nothing else",
            )
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        _require_address(url)
        self.url = url
        self.http = httpx.Client(
            base_url=url, headers=headers, timeout=timeout, transport=transport
        )
        self.sleep = sleep
        self._monotonic = monotonic
        self._patience_s = patience_s

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return the document of an answer; raises as :meth:`send`."""
        answer = self.send(method, path, body, **options)
        return ANSWERS.read_document(answer.content) if answer.content else {}

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """Send a request; retry while the server asks for it, until patience ends.

        Raises
        ------
        ConfigError
            The connection was closed.
        TransportError
            The server did not answer, or stays busy.
        SketchError
            The server refused; its problem document names the class.
        """
        self.require_open()
        give_up = self._monotonic() + self._patience_s
        while True:
            try:
                answer = self.http.request(
                    method, path, json=body, params=params, headers=headers, content=content
                )
            except httpx.RequestError as error:
                raise self.unreachable(error) from error
            pause = read_pause(answer)
            if pause is None or self._monotonic() + pause > give_up:
                require_success(answer)
                return answer
            self.sleep(pause)

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        page: str | None = None
        while True:
            answer = self.call("GET", path, params={"page": page} if page else None)
            found = ANSWERS.read(Paged, answer)
            yield from found.items
            page = found.next_page
            if not page:
                return

    def events(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the names and documents of a stream of server-sent events, as they come.

        Raises
        ------
        ConfigError
            The connection was closed.
        TransportError
            The server did not answer, or stopped in the middle.
        SketchError
            The server refused; its problem document names the class.
        """
        self.require_open()
        name = ""
        try:
            with self.http.stream("GET", path, headers={"Accept": _EVENTS}) as answer:
                if not answer.is_success:
                    answer.read()
                    require_success(answer)
                for line in answer.iter_lines():
                    field, _, value = line.partition(": ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        yield name, ANSWERS.read_document(value)
        except (httpx.RequestError, httpx.StreamError) as error:
            raise self.unreachable(error) from error

    def is_answering(self, path: str) -> bool:
        """Return whether a path is answered with 200; raises ``ConfigError`` once closed."""
        self.require_open()
        try:
            return self.http.get(path).status_code == httpx.codes.OK
        except httpx.RequestError:
            return False

    def require_open(self) -> None:
        """Raise ``ConfigError`` after :meth:`close`."""
        if self.http.is_closed:
            raise ConfigError(
                "is closed",
                field="client",
                fix="make another, or stay inside its `with` block while it is used",
            )

    def unreachable(self, error: Exception) -> TransportError:
        """Return the error of a server that does not answer."""
        return TransportError(
            f"{self.url} does not answer ({type(error).__name__})",
            field="url",
            fix="check that the aggregator runs there, for instance with `sfumato serve`",
        )


def _require_address(url: str) -> None:
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


def require_success(answer: httpx.Response) -> None:
    """Raise the error of an answer that is no success."""
    if answer.is_success:
        return
    raise error_from_problem(read_problem(answer.content), answer.status_code)


def read_pause(answer: httpx.Response) -> float | None:
    """Return the seconds to wait before a retry; None if the answer is final.

    Jitter is added, because clients that were refused together would otherwise retry together.
    """
    if answer.status_code not in _COME_AGAIN:
        return None
    pause = read_retry_after(answer.headers.get("Retry-After", ""), now=time.time())
    return (_DEFAULT_PAUSE_S if pause is None else pause) * (1.0 + _JITTER * random.random())
