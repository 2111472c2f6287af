"""Pages of JSON from a server: fetched in a thread, and read as they come.

The frame of a page is the server's: quotes, brackets and commas say where each record begins and
ends. What stands between is for that record alone, and is read by itself. A record without bounds
is passed over without being kept, so that none can make a page too large.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum, auto
from queue import Empty, Full, Queue, SimpleQueue
from typing import Any

import httpx

from sfumato.shared.http_client import Deadline
from sfumato.shared.reading.intact import SCAN_ERRORS
from sfumato.shared.reading.lines import MAX_LINE_BYTES

_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
_KEPT_BYTES = MAX_LINE_BYTES + 1
_PIECE_RECORDS = 512
_MOST_PIECES = 2
_LOOK_S = 0.1
"""Seconds after which a thread that nobody reads from looks whether it is closed."""
_MOST_TIMEOUTS = 10
"""Time-outs that an answer may take, and a body that drips."""
_LEAST_BYTES_PER_S = 100
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_NO_SPACE = re.compile(rb"[^ \t\r\n]")
# Up to the quote that ends it, or to an escape that the chunk cuts off.
_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_IN_KEY = re.compile(rb'["\[\]{},:]')
_IN_VALUE = re.compile(rb'["\[\]{},]')
# A record that is an object without others in it and without escapes: most are one.
_FLAT = re.compile(rb'(\{(?:[^"\\{}\[\]]++|"[^"\\]*+")*+\})[ \t\r\n]*+(?=[,\]])')


class PageError(Exception):
    """The frame of a page is not what was configured; the text shows nothing of the page."""


class _At(Enum):
    START = auto()
    KEY = auto()
    VALUE = auto()
    RECORDS = auto()  # before the array of them
    RECORD = auto()
    BEHIND_RECORDS = auto()
    END = auto()


class PageReader:
    """Finds the records and the cursor of one page, in chunks as they come.

    Parameters
    ----------
    records, following
        The keys of the top-level object that hold them.

    Guarantees
    ----------
    It keeps less than 65 KiB of each record, and of everything else.
    """

    def __init__(self, records: str, following: str) -> None:
        self._records, self._following = records, following
        self._at = _At.START
        self._key: object = None
        self._seen: set[str] = set()
        # Of the key, value or record that is being read:
        self._kept = bytearray()
        self._depth = 0
        self._in_string = self._is_escaped = False
        self._is_first = True  # of its object or array
        self._head = b""  # of the page, while it may be a byte order mark
        self._found: list[bytes] = []
        self.following: str | None = None
        """The cursor of the next page; None if there is none."""

    def take(self) -> list[bytes]:
        """Return the bytes of each record found since the last call; of long ones the first."""
        found, self._found = self._found, []
        return found

    def feed(self, chunk: bytes) -> None:
        """Read on.

        Raises
        ------
        PageError
            This is no such page.
        """
        if self._at is _At.START and len(self._head) < len(_BOM):
            self._head += chunk
            if len(self._head) < len(_BOM):
                return
            chunk = self._head.removeprefix(_BOM)
        at = 0
        while at < len(chunk):
            if self._at in (_At.KEY, _At.VALUE, _At.RECORD):
                at = self._read_item(chunk, at)
            else:
                at = self._read_mark(chunk, at)

    def finish(self) -> None:
        """Check that the page is whole.

        Raises
        ------
        PageError
            It is not, or has no records.
        """
        if self._at is not _At.END or self._records not in self._seen:
            raise self._refuse()

    def _read_mark(self, chunk: bytes, at: int) -> int:
        """Read one mark of the frame, and return where to go on."""
        found = _NO_SPACE.search(chunk, at)
        if found is None:
            return len(chunk)
        match self._at, found.group():
            case _At.START, b"{":
                self._begin(_At.KEY, is_first=True)
            case _At.RECORDS, b"[":
                self._begin(_At.RECORD, is_first=True)
            case _At.RECORDS, _:
                raise PageError("gave records that are not a list")
            case _At.BEHIND_RECORDS, b",":
                self._begin(_At.KEY)
            case _At.BEHIND_RECORDS, b"}":
                self._at = _At.END
            case _:
                raise self._refuse()
        return found.end()

    def _begin(self, at: _At, *, is_first: bool = False) -> None:
        self._at, self._is_first = at, is_first
        self._kept.clear()

    def _read_item(self, chunk: bytes, at: int) -> int:
        """Read a key, value or record up to the mark behind it, and return where to go on."""
        if not self._kept and not self._depth:
            found = _NO_SPACE.search(chunk, at)
            if found is None:
                return len(chunk)
            at = found.start()
            if self._at is _At.RECORD and (flat := _FLAT.match(chunk, at)):
                self._kept += flat.group(1)[:_KEPT_BYTES]
                return self._end_item(chunk, flat.end())
        start, pattern = at, _IN_KEY if self._at is _At.KEY else _IN_VALUE
        while at < len(chunk):
            if self._is_escaped:
                self._is_escaped, at = False, at + 1
                continue
            if self._in_string:
                inner = _STRING.match(chunk, at)
                assert inner is not None  # it matches nothing too
                at = inner.end() + 1
                self._in_string = chunk[at - 1 : at] != b'"'
                self._is_escaped = chunk[at - 1 : at] == b"\\"
                at = min(at, len(chunk))
                continue
            found = pattern.search(chunk, at)
            if found is None:
                at = len(chunk)
                break
            mark, at = found.group(), found.end()
            if mark == b'"':
                self._in_string = True
            elif mark in b"[{":
                self._depth += 1
            elif self._depth:
                self._depth -= mark in b"]}"
            else:
                self._keep(chunk, start, at - 1)
                return self._end_item(chunk, at - 1)
        self._keep(chunk, start, at)
        return at

    def _keep(self, chunk: bytes, start: int, stop: int) -> None:
        self._kept += chunk[start : min(stop, start + _KEPT_BYTES - len(self._kept))]

    def _end_item(self, chunk: bytes, at: int) -> int:
        """Take what was read up to a mark, and return where to go on behind the mark."""
        mark, item = chunk[at : at + 1], bytes(self._kept).rstrip(_SPACE)
        is_empty = self._is_first and not item
        match self._at, mark:
            case _At.KEY, b":":
                self._take_key(item)
            case (_At.KEY, b"}") if is_empty:
                self._at = _At.END
            case _At.VALUE, (b"," | b"}"):
                if self._key == self._following:
                    self.following = _read_cursor(item)
                self._begin(_At.KEY)
                self._at = _At.KEY if mark == b"," else _At.END
            case _At.RECORD, (b"," | b"]"):
                if mark == b"," or not is_empty:
                    self._found.append(item)
                self._begin(_At.RECORD if mark == b"," else _At.BEHIND_RECORDS)
            case _:
                raise self._refuse()
        return at + 1

    def _take_key(self, item: bytes) -> None:
        self._key = _read_value(item)
        if self._key in (self._records, self._following):
            if self._key in self._seen:
                raise PageError(f"gave {self._key!r} twice")
            self._seen.add(str(self._key))
        self._begin(_At.RECORDS if self._key == self._records else _At.VALUE)

    def _refuse(self) -> PageError:
        return PageError(f"gave no JSON object with {self._records!r} in it")


def _read_value(item: bytes) -> object:
    """Return the JSON value of some bytes; an object of no use if they are anything else."""
    try:
        text = item.decode()
        value, end = _scan(text, 0)
    except SCAN_ERRORS:
        return ...
    return value if end == len(text) and len(item) < _KEPT_BYTES else ...


def _read_cursor(item: bytes) -> str | None:
    value = _read_value(item)
    if value is None or value == "":
        return None
    # JSON can name halves of characters, which nothing can send or store.
    if isinstance(value, bool) or not isinstance(value, int | str) or not _is_text(str(value)):
        raise PageError("gave a cursor that is not text")
    return str(value)


def _is_text(cursor: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in cursor)


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
        As of :class:`PageReader`.
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
            reader = PageReader(*self._keys)
            try:
                for piece in _cut(reader, self._hurry(answer.iter_bytes())):
                    self._put(piece)
                    if self._is_closed.is_set():
                        return PageEnd()
            except PageError as error:
                return PageEnd(status=answer.status_code, refused=str(error))
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


def _cut(reader: PageReader, chunks: Iterator[bytes]) -> Iterator[PagePiece]:
    """Read a page; yield its records, those before an error of its frame too."""
    waiting: list[bytes] = []
    n_bytes = 0
    error: PageError | None = None
    try:
        for chunk in chunks:
            n_bytes += len(chunk)
            reader.feed(chunk)
            waiting += reader.take()
            if len(waiting) >= _PIECE_RECORDS:
                yield PagePiece(records=waiting, n_bytes=n_bytes)
                waiting, n_bytes = [], 0
        reader.finish()
    except PageError as caught:
        error = caught
        waiting += reader.take()
    if waiting or n_bytes:
        yield PagePiece(records=waiting, n_bytes=n_bytes)
    if error is not None:
        raise error
