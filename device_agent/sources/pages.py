"""Pages of JSON from a server: fetched in a thread, and read as they come."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from queue import Empty, Full, Queue, SimpleQueue

import httpx

from sfumato.shared.http_client import Deadline
from sfumato.shared.reading.json_document import DocumentError, ListReader

_PIECE_RECORDS = 512
_MOST_PIECES = 2
_LOOK_S = 0.1
"""Seconds after which a thread that nobody reads from looks whether it is closed."""
_MOST_TIMEOUTS = 10
"""Time-outs that an answer may take, and a body that drips."""
_LEAST_BYTES_PER_S = 100


@dataclass(frozen=True, kw_only=True)
class PagePiece:
    """Some records of a page as they came, in order, and the number of bytes read for them."""

    records: list[bytes]
    n_bytes: int


@dataclass(frozen=True, kw_only=True)
class PageEnd:
    """The end of an answer.

    Parameters
    ----------
    status
        The answer's; None if there was none, or not all of it.
    following
        The cursor of the next page; None if there is none.
    refused
        Why the answer is no page; empty if it is one.
    retry_after
        The header ``Retry-After``.
    problem
        The name of the error that left the request without a whole answer.
    """

    status: int | None = None
    following: str | None = None
    refused: str = ""
    retry_after: str = ""
    problem: str = ""


class PageFetcher:
    """Fetcher of pages from one server, one after the other, each in pieces as it comes.

    Parameters
    ----------
    client
        For the thread alone, which closes it.
    records, following
        As of :class:`ListReader`.
    timeout_s
        Seconds within which an answer must go on.

    Guarantees
    ----------
    It keeps a few pieces, however long a page is; a server that is not read from waits. An answer
    that drips is ended.
    """

    def __init__(
        self, client: httpx.Client, *, records: str, following: str, timeout_s: float
    ) -> None:
        self.is_busy = False
        """True if the end of an answer is outstanding."""
        self._keys = records, following
        self._timeout_s, self._deadline = timeout_s, Deadline()
        self._urls: SimpleQueue[httpx.URL | None] = SimpleQueue()
        self._found: Queue[PagePiece | PageEnd] = Queue(_MOST_PIECES)
        self._is_closed = threading.Event()
        self._client = client
        # A daemon thread: a request that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name="pages", daemon=True).start()

    def ask(self, url: httpx.URL) -> None:
        """Request a page; :meth:`take` gives its pieces and its end."""
        assert not self.is_busy
        self.is_busy = True
        self._urls.put(url)

    def take(self, wait_s: float | None) -> PagePiece | PageEnd | None:
        """Return what came next, waiting so long for it; None if there is nothing yet."""
        try:
            found = self._found.get(timeout=wait_s)
        except Empty:
            return None
        self.is_busy = not isinstance(found, PageEnd)
        return found

    def close(self) -> None:
        """End the thread, whose answer nobody hears."""
        self._is_closed.set()
        self._urls.put(None)

    def _work(self) -> None:
        while (url := self._urls.get()) is not None and not self._is_closed.is_set():
            try:
                end = self._fetch(url)
            except Exception as error:
                # The thread must go on; and the text of it may quote the answer.
                end = PageEnd(problem=type(error).__name__)
            self._put(end)
        self._client.close()

    def _put(self, found: PagePiece | PageEnd) -> None:
        while not self._is_closed.is_set():
            try:
                return self._found.put(found, timeout=_LOOK_S)
            except Full:
                continue

    def _fetch(self, url: httpx.URL) -> PageEnd:
        ask = self._client.build_request("GET", url, extensions={"trace": self._deadline.trace})
        # A time-out for each read never ends a head that drips.
        with self._deadline.within(_MOST_TIMEOUTS * self._timeout_s):
            answer = self._client.send(ask, stream=True)
        with closing(answer):
            if answer.status_code != httpx.codes.OK:
                after = answer.headers.get("Retry-After", "")
                return PageEnd(status=answer.status_code, retry_after=after)
            reader = ListReader(*self._keys)
            try:
                for piece in _cut(reader, self._hurry(answer.iter_bytes())):
                    self._put(piece)
                    if self._is_closed.is_set():
                        return PageEnd()
            except DocumentError as error:
                return PageEnd(status=answer.status_code, refused=f"gave {error}")
            return PageEnd(status=answer.status_code, following=reader.following)

    def _hurry(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Pass an answer on; end one that drips. Time in which nobody reads does not count."""
        waited, n_bytes = 0.0, 0
        while True:
            began = time.monotonic()
            chunk = next(chunks, None)
            if chunk is None:
                return
            waited += time.monotonic() - began
            n_bytes += len(chunk)
            if waited > _MOST_TIMEOUTS * self._timeout_s and n_bytes < waited * _LEAST_BYTES_PER_S:
                raise httpx.ReadTimeout("drips")
            yield chunk


def _cut(reader: ListReader, chunks: Iterator[bytes]) -> Iterator[PagePiece]:
    """Read a page; yield its records, those before an error of its frame too."""
    waiting: list[bytes] = []
    n_bytes = 0
    error: DocumentError | None = None
    try:
        for chunk in chunks:
            n_bytes += len(chunk)
            reader.feed(chunk)
            waiting += reader.take()
            if len(waiting) >= _PIECE_RECORDS:
                yield PagePiece(records=waiting, n_bytes=n_bytes)
                waiting, n_bytes = [], 0
        reader.finish()
    except DocumentError as caught:
        error = caught
        waiting += reader.take()
    if waiting or n_bytes:
        yield PagePiece(records=waiting, n_bytes=n_bytes)
    if error is not None:
        raise error
