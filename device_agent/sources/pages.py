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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

import httpx

from sfumato.shared.reading.intact import SCAN_ERRORS
from sfumato.shared.reading.lines import MAX_LINE_BYTES

Page = TypeVar("Page")

_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
_KEPT_BYTES = MAX_LINE_BYTES + 1
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
