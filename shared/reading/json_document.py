"""Find the records of a JSON document, in bytes as they come, and read each by itself.

The frame of a document is its writer's: quotes, brackets and commas say where each record begins
and ends. What stands between is for that record alone. A record without bounds is passed over
without being kept, so that none can make a document too large.
"""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from typing import Any

from sfumato.shared.reading.intact import SCAN_ERRORS
from sfumato.shared.reading.lines import BOM, MAX_LINE_BYTES

_scan: Any = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # not in the stubs
_KEPT_BYTES = MAX_LINE_BYTES + 1
_SPACE = b" \t\r\n"
_NO_SPACE = re.compile(rb"[^ \t\r\n]")
# Up to the quote that ends it, or to an escape that the chunk cuts off.
_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_IN_KEY = re.compile(rb'["\[\]{},:]')
_IN_VALUE = re.compile(rb'["\[\]{},]')
# A record that is an object without others in it and without escapes: most are one.
_FLAT = re.compile(rb'(\{(?:[^"\\{}\[\]]++|"[^"\\]*+")*+\})[ \t\r\n]*+(?=[,\]])')
DOCUMENT = "."
"""In place of a path: the document is the list of records itself."""


class DocumentError(Exception):
    """The frame of a document is not what was stated; the text, behind a verb, shows no record."""


class _At(Enum):
    START = auto()
    OPENING = auto()  # before an object or array on the way to the records
    KEY = auto()
    VALUE = auto()
    RECORD = auto()
    BEHIND = auto()  # such an object or array
    END = auto()


class ListReader:
    """Finds the records of one document, in chunks as they come, and where the next one is.

    Parameters
    ----------
    records
        The way to the list of records: keys of nested objects with dots between, or ``DOCUMENT``.
    following
        The key of the top-level object that holds the cursor of the next document.

    Guarantees
    ----------
    It keeps less than 65 KiB of each record, and of everything else.
    """

    def __init__(self, records: str, following: str | None = None) -> None:
        self._name = records
        self._following: object = object() if following is None else following
        self._path = [] if records == DOCUMENT else records.split(".")
        self._level = 0  # how many keys of the path were entered
        self._at = _At.START
        self._key: object = None
        self._seen: set[tuple[int, str]] = set()
        # Of the key, value or record that is being read:
        self._kept = bytearray()
        self._depth = 0
        self._in_string = self._is_escaped = False
        self._is_first = True  # of its object or array
        self._head = b""  # of the document, while it may be a byte order mark
        self._found: list[bytes] = []
        self._is_found = False  # the list
        self.following: str | None = None
        """The cursor of the next document; None if there is none."""

    def take(self) -> list[bytes]:
        """Return the bytes of each record found since the last call; of long ones the first."""
        found, self._found = self._found, []
        return found

    def feed(self, chunk: bytes) -> None:
        """Read on.

        Raises
        ------
        DocumentError
            This is no such document.
        """
        if self._at is _At.START and len(self._head) < len(BOM):
            self._head += chunk
            if len(self._head) < len(BOM) and BOM.startswith(self._head):
                return
            chunk = self._head.removeprefix(BOM)
        at = 0
        while at < len(chunk):
            if self._at in (_At.KEY, _At.VALUE, _At.RECORD):
                at = self._read_item(chunk, at)
            else:
                at = self._read_mark(chunk, at)

    def finish(self) -> None:
        """Check that the document is whole.

        Raises
        ------
        DocumentError
            It is not, or has no records.
        """
        if self._at is not _At.END or not self._is_found:
            raise self._refuse()

    def _read_mark(self, chunk: bytes, at: int) -> int:
        """Read one mark of the frame, and return where to go on."""
        found = _NO_SPACE.search(chunk, at)
        if found is None:
            return len(chunk)
        match self._at, found.group():
            case ((_At.START | _At.OPENING), b"{") if self._level < len(self._path):
                self._begin(_At.KEY, is_first=True)
            case ((_At.START | _At.OPENING), b"[") if self._level == len(self._path):
                self._is_found = True
                self._begin(_At.RECORD, is_first=True)
            case _At.OPENING, _:
                raise DocumentError("records that are not a list")
            case _At.BEHIND, b",":
                self._begin(_At.KEY)
            case _At.BEHIND, b"}":
                self._leave()
            case _:
                raise self._refuse()
        return found.end()

    def _leave(self) -> None:
        """Leave an object or array on the way to the records."""
        self._at = _At.BEHIND if self._level else _At.END
        self._level -= 1

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
                self._leave()
            case _At.VALUE, (b"," | b"}"):
                if not self._level and self._key == self._following:
                    self.following = _read_cursor(item)
                self._begin(_At.KEY)
                if mark == b"}":
                    self._leave()
            case _At.RECORD, (b"," | b"]"):
                if mark == b"," or not is_empty:
                    self._found.append(item)
                self._begin(_At.RECORD)
                if mark == b"]":
                    self._leave()
            case _:
                raise self._refuse()
        return at + 1

    def _take_key(self, item: bytes) -> None:
        self._key = _read_value(item)
        is_way = self._level < len(self._path) and self._key == self._path[self._level]
        if is_way or (not self._level and self._key == self._following):
            if (self._level, self._key) in self._seen:
                raise DocumentError(f"{self._key!r} twice")
            self._seen.add((self._level, str(self._key)))
        self._level += is_way
        self._begin(_At.OPENING if is_way else _At.VALUE)

    def _refuse(self) -> DocumentError:
        if not self._path:
            return DocumentError("no JSON list")
        return DocumentError(f"no JSON object with {self._name!r} in it")


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
        raise DocumentError("a cursor that is not text")
    return str(value)


def _is_text(cursor: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in cursor)
