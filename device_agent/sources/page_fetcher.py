"""Background requests, one at a time, so that a slow server delays no other stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

import httpx

from device_agent.sources.page_reader import PageError

Page = TypeVar("Page")


@dataclass(frozen=True, kw_only=True)
class PageAnswer(Generic[Page]):
    """The result of one request.

    Parameters
    ----------
    status
        The answer's; None if there was none.
    page
        The result of ``read``; None if there is nothing to read.
    refused
        Why ``read`` refused them.
    retry_after
        The header ``Retry-After``.
    problem
        The name of the error that left the request without an answer.
    """

    status: int | None = None
    page: Page | None = None
    refused: str = ""
    retry_after: str = ""
    problem: str = ""


class PageFetcher(Generic[Page]):
    """Fetcher of pages from one server, one after the other.

    Parameters
    ----------
    headers
        Sent with each request.
    timeout_s
        Seconds within which a whole answer must have arrived.
    read
        Makes a page of the bytes of an answer, as they come; called in the thread. What a
        ``PageError`` says is the answer then.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str],
        timeout_s: float,
        read: Callable[[Iterator[bytes]], Page],
    ) -> None:
        self.is_busy = False
        """True if an answer is outstanding."""
        self._timeout_s = timeout_s
        self._read = read
        self._urls: SimpleQueue[httpx.URL | None] = SimpleQueue()
        self._answers: SimpleQueue[PageAnswer[Page]] = SimpleQueue()
        self._headers = dict(headers)
        self._client: httpx.Client | None = None  # the thread's
        # A daemon thread: a request that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name="pages", daemon=True).start()

    def ask(self, url: httpx.URL) -> None:
        """Request a page; :meth:`take` gives the answer."""
        assert not self.is_busy
        self.is_busy = True
        self._urls.put(url)

    def take(self, wait_s: float | None) -> PageAnswer[Page] | None:
        """Return the answer, waiting so long for it; None if there is none yet."""
        try:
            answer = self._answers.get(timeout=wait_s)
        except Empty:
            return None
        self.is_busy = False
        return answer

    def close(self) -> None:
        """End the thread behind the request that it is at, whose answer nobody hears."""
        self._urls.put(None)

    def _work(self) -> None:
        while (url := self._urls.get()) is not None:
            try:
                answer = self._fetch(url)
            except Exception as error:
                # The thread must go on; and the text of it may quote the answer.
                answer = PageAnswer(problem=type(error).__name__)
            self._answers.put(answer)
        if self._client is not None:
            self._client.close()

    def _fetch(self, url: httpx.URL) -> PageAnswer[Page]:
        asked_at = time.monotonic()
        if self._client is None:
            self._client = httpx.Client(timeout=self._timeout_s, headers=self._headers)
        with self._client.stream("GET", url) as answer:
            if answer.status_code != httpx.codes.OK:
                after = answer.headers.get("Retry-After", "")
                return PageAnswer(status=answer.status_code, retry_after=after)
            try:
                patience_s = asked_at + self._timeout_s - time.monotonic()
                page = self._read(_end_in_time(answer.iter_bytes(), patience_s))
            except PageError as error:
                return PageAnswer(status=answer.status_code, refused=str(error))
            return PageAnswer(status=answer.status_code, page=page)


def _end_in_time(chunks: Iterator[bytes], patience_s: float) -> Iterator[bytes]:
    waited_s = 0.0
    while True:
        asked_at = time.monotonic()
        chunk = next(chunks, None)
        # The server's time alone: how long a record takes to be read must not stop its page.
        waited_s += time.monotonic() - asked_at
        if chunk is None:
            return
        # Each piece in time is no answer in time.
        if waited_s > patience_s:
            raise httpx.ReadTimeout("the answer has no end")
        yield chunk
