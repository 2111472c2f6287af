"""One request at a time in a thread of its own, so that a slow server keeps nobody waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import httpx

MAX_PAGE_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class PageAnswer:
    """What came of one request.

    Parameters
    ----------
    status
        The answer's; None if there was none.
    body
        Its bytes; None if it has more than ``MAX_PAGE_BYTES``, or is not of use.
    retry_after
        What the header of that name says.
    problem
        Why there was no answer: the name of what went wrong.
    """

    status: int | None = None
    body: bytes | None = None
    retry_after: str = ""
    problem: str = ""


class PageFetcher:
    """Asks one server, one page after the other.

    Parameters
    ----------
    headers
        Sent with each request.
    timeout_s
        Within so many seconds there is a whole answer, or none.
    """

    def __init__(self, *, headers: Mapping[str, str], timeout_s: float) -> None:
        self.is_busy = False
        """Whether an answer is outstanding."""
        self._timeout_s = timeout_s
        self._urls: SimpleQueue[httpx.URL | None] = SimpleQueue()
        self._answers: SimpleQueue[PageAnswer] = SimpleQueue()
        self._headers = dict(headers)
        self._client: httpx.Client | None = None  # the thread's
        # A daemon thread: a request that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name="pages", daemon=True).start()

    def ask(self, url: httpx.URL) -> None:
        """Ask for a page; :meth:`take` gives the answer."""
        assert not self.is_busy
        self.is_busy = True
        self._urls.put(url)

    def take(self, wait_s: float | None) -> PageAnswer | None:
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

    def _fetch(self, url: httpx.URL) -> PageAnswer:
        ends_at = time.monotonic() + self._timeout_s
        if self._client is None:
            self._client = httpx.Client(timeout=self._timeout_s, headers=self._headers)
        with self._client.stream("GET", url) as answer:
            if answer.status_code != httpx.codes.OK:
                after = answer.headers.get("Retry-After", "")
                return PageAnswer(status=answer.status_code, retry_after=after)
            body = bytearray()
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > MAX_PAGE_BYTES:
                    return PageAnswer(status=answer.status_code)
                # Each piece in time is no answer in time.
                if time.monotonic() > ends_at:
                    return PageAnswer(problem="ReadTimeout")
            return PageAnswer(status=answer.status_code, body=bytes(body))
