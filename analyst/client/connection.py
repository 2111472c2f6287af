"""Requests to an aggregator; every failure becomes an error of this project."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol

import httpx

from sfumato.analyst.requests import (
    ANSWERS,
    EVENTS,
    AsyncSleep,
    AsyncStream,
    make_headers,
    read_pause,
    require_address,
    require_open,
    require_success,
    unreachable,
)
from sfumato.shared.http_client import open_async_client, open_client
from sfumato.shared.wire.objects.studies import Paged

# The most that a server sends at a time: thousands of studies or devices take few requests.
_PAGE = "1000"
_KEY_BYTES = 16
_PAUSE_S = 1.0
_LOST = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
"""After one of these nobody knows whether the server has carried the request out."""


class Exchange(Protocol):
    """Requests and their answers, over the network or a stand-in of it."""

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        ...

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Return the answer to a request; raises ``httpx.RequestError``."""
        ...

    def lines(self, path: str, headers: Mapping[str, str]) -> AsyncStream[str]:
        """Yield the lines of an answer as they come; raises as :func:`require_success`."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class AsyncExchange:
    """Exchange that waits on an event loop; arguments as of ``open_async_client``."""

    def __init__(self, url: str, **options: Any) -> None:
        self._http = open_async_client(url, **options)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._http.is_closed

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """See ``Exchange``."""
        return await self._http.request(method, path, **options)

    async def lines(self, path: str, headers: Mapping[str, str]) -> AsyncStream[str]:
        """See ``Exchange``."""
        async with self._http.stream("GET", path, headers=headers) as answer:
            if not answer.is_success:
                await answer.aread()
                require_success(answer)
            async for line in answer.aiter_lines():
                yield line

    async def aclose(self) -> None:
        """See ``Exchange``."""
        await self._http.aclose()


class BlockingExchange:
    """Exchange whose coroutines never wait: they block; arguments as of ``open_client``."""

    def __init__(self, url: str, **options: Any) -> None:
        self._http = open_client(url, **options)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._http.is_closed

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """See ``Exchange``."""
        return self._http.request(method, path, **options)

    async def lines(self, path: str, headers: Mapping[str, str]) -> AsyncStream[str]:
        """See ``Exchange``."""
        with self._http.stream("GET", path, headers=headers) as answer:
            if not answer.is_success:
                answer.read()
                require_success(answer)
            for line in answer.iter_lines():
                yield line

    async def aclose(self) -> None:
        """See ``Exchange``."""
        self._http.close()


async def block(seconds: float) -> None:
    """Sleep without an event loop."""
    time.sleep(seconds)


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
    blocks
        Whether its coroutines block, so that they need no event loop.
    sleep, monotonic
        The clock; None for that of the kind.
    transport
        Replaces the network.

    Raises
    ------
    ConfigError
        The address or the key is malformed, or the environment names no proxy that can be used.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        patience_s: float = 60.0,
        blocks: bool = False,
        sleep: AsyncSleep | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        transport: httpx.AsyncBaseTransport | httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url
        self.sleep: AsyncSleep = sleep or (block if blocks else asyncio.sleep)
        headers = make_headers(key)
        kind = BlockingExchange if blocks else AsyncExchange
        self._http: Exchange = kind(
            require_address(url), headers=headers, timeout=timeout, transport=transport
        )
        self._monotonic = monotonic
        self._patience_s = patience_s

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return the document of an answer; raises as :meth:`send`."""
        answer = await self.send(method, path, body, **options)
        return ANSWERS.read_document(answer.content) if answer.content else {}

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        makes: bool = False,
    ) -> httpx.Response:
        """Send a request; retry while the server asks for it, until patience ends.

        One that makes something has an idempotency key, so it is also sent again when the
        connection is lost: it makes nothing twice.

        Raises
        ------
        ConfigError
            The connection was closed.
        TransportError
            The server did not answer, or stays busy.
        SketchError
            The server refused; its problem document names the class.
        """
        require_open(is_closed=self._http.is_closed)
        give_up = self._monotonic() + self._patience_s
        was_lost = False
        if makes:
            headers = {**(headers or {}), "Idempotency-Key": secrets.token_urlsafe(_KEY_BYTES)}
        while True:
            try:
                answer = await self._http.request(
                    method, path, json=body, params=params, headers=headers, content=content
                )
            except httpx.RequestError as error:
                # Before anything was sent, a server that is not there is an answer.
                was_lost = was_lost or isinstance(error, _LOST)
                if not (makes and was_lost) or self._monotonic() + _PAUSE_S > give_up:
                    raise unreachable(self.url, error) from error
                await self.sleep(_PAUSE_S)
                continue
            pause = read_pause(answer)
            if pause is None or self._monotonic() + pause > give_up:
                require_success(answer)
                return answer
            await self.sleep(pause)

    async def pages(
        self, path: str, params: Mapping[str, str] | None = None
    ) -> AsyncStream[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        query = {"limit": _PAGE, **(params or {})}
        while True:
            answer = await self.call("GET", path, params=query)
            # A list that is sent whole, such as that of keys, names no next page.
            found = ANSWERS.read(Paged, {"next_page": None, **answer})
            for item in found.items:
                if not isinstance(item, dict):
                    raise ANSWERS.refuse("items")
                yield item
            if not found.next_page:
                return
            query["page"] = found.next_page

    async def events(self, path: str) -> AsyncStream[tuple[str, dict[str, Any]]]:
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
        require_open(is_closed=self._http.is_closed)
        name = ""
        try:
            async with aclosing(self._http.lines(path, {"Accept": EVENTS})) as lines:
                async for line in lines:
                    field, _, value = line.partition(": ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        yield name, ANSWERS.read_document(value)
        except (httpx.RequestError, httpx.StreamError) as error:
            raise unreachable(self.url, error) from error

    async def is_answering(self, path: str) -> bool:
        """Return whether a path is answered with 200; raises ``ConfigError`` once closed."""
        require_open(is_closed=self._http.is_closed)
        try:
            answer = await self._http.request("GET", path)
        except httpx.RequestError:
            return False
        return answer.status_code == httpx.codes.OK
