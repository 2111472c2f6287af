"""Requests to an aggregator: every answer becomes a value, or an error of this project."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from shared.errors import ConfigError, TransportError
from shared.wire import error_from_problem

_COME_AGAIN = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_DEFAULT_PAUSE_S = 1.0
_EVENTS = "text/event-stream"
_JITTER = 0.1


class Connection:
    """Sends requests, and sends again what the server asks to be sent again.

    Parameters
    ----------
    url
        Of the server, without a slash at the end.
    key
        An API key, if any.
    timeout
        Seconds to wait for one answer.
    patience_s
        Most seconds that one call waits where the server answers 429 or 503, which say that nothing
        was done and when to come again.
    sleep, monotonic
        The clock.
    transport
        In the place of the network.
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
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise ConfigError(
                "holds a space, a line break or a letter that no key has",
                field="key",
                fix="pass the line that `sfumato key create` prints, and nothing else",
            )
        headers = {"Authorization": f"Bearer {key}"} if key else {}
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
        return dict(answer.json()) if answer.content else {}

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
        """Send a request until it is answered or patience ends.

        Raises
        ------
        TransportError
            The server did not answer, or cannot even after a while.
        SketchError
            The class that the problem document names.
        """
        give_up = self._monotonic() + self._patience_s
        while True:
            try:
                answer = self.http.request(
                    method, path, json=body, params=params, headers=headers, content=content
                )
            except httpx.TransportError as error:
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
            yield from answer["items"]
            page = answer.get("next_page")
            if not page:
                return

    def events(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the names and documents of a stream of server-sent events, as they come.

        Raises
        ------
        TransportError
            The server did not answer, or stopped in the middle.
        SketchError
            The class that the problem document names.
        """
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
                        yield name, dict(json.loads(value))
        except (httpx.TransportError, ValueError) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: Exception) -> TransportError:
        """Return the error that says so."""
        return TransportError(
            f"{self.url} does not answer ({type(error).__name__})",
            field="url",
            fix="check that the aggregator runs there, for instance with `sfumato serve`",
        )


def require_success(answer: httpx.Response) -> None:
    """Raise the error that an answer stands for, if it is none of success."""
    if answer.is_success:
        return
    try:
        document = answer.json()
    except ValueError:
        document = {}
    problem = document if isinstance(document, dict) else {}
    raise error_from_problem(problem, answer.status_code)


def read_pause(answer: httpx.Response) -> float | None:
    """Return the seconds after which to send again; None if that makes no sense.

    A little more than the server says, and not the same for everybody: those whom it sent away
    together would come back together.
    """
    if answer.status_code not in _COME_AGAIN:
        return None
    pause = _read_retry_after(answer.headers.get("Retry-After", ""))
    return pause * (1.0 + _JITTER * random.random())


def _read_retry_after(text: str) -> float:
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError):
        return _DEFAULT_PAUSE_S
