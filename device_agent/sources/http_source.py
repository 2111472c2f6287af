"""Pages of JSON records behind an address; each answer names the cursor of the next page.

``GET url?cursor=C`` gives ``{"records": [...], "next": "D"}``. A position is a cursor and how many
records of its page were read; a page without a next cursor is asked for again, and may have grown.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from device_agent.settings import StreamSettings
from device_agent.source_settings import HttpSettings, TextSettings
from device_agent.sources.interface import (
    Guarantee,
    KnownPosition,
    Position,
    ReadingReport,
    RecordBatch,
    RecordSource,
)
from device_agent.sources.json_lines import JsonLinesParser
from device_agent.sources.mapping import RecordMapping
from device_agent.sources.page_fetcher import MAX_PAGE_BYTES, PageFetcher
from device_agent.sources.secrets import read_secret
from shared.errors import RecordError

_PATIENCE_S = 0.2
"""So long a call waits for an answer; other streams wait with it."""
_N_PASSED = 32
_LONGEST_PAUSE_S = 3600.0
_RETRIED = (408, 425, 429)


@dataclass(frozen=True, kw_only=True)
class _Page:
    """Which page is read, and which were before it.

    ``passed`` holds digests of the last cursors before this one: pages that lead in a circle would
    have their records counted again and again.
    """

    cursor: str | None
    passed: tuple[str, ...] = ()

    @classmethod
    def of_place(cls, place: Mapping[str, int | str]) -> _Page:
        cursor = place.get("cursor")
        return cls(
            cursor=None if cursor is None else str(cursor),
            passed=tuple(filter(None, str(place.get("passed", "")).split(","))),
        )

    def to_position(self, source: str, index: int) -> Position:
        place: dict[str, int | str] = {"index": index}
        if self.cursor is not None:
            place["cursor"] = self.cursor
        if self.passed:
            place["passed"] = ",".join(self.passed)
        return Position(source=source, place=place)

    def follow(self, cursor: str | None) -> _Page:
        passed = (*self.passed, _hash_cursor(self.cursor))
        return _Page(cursor=cursor, passed=passed[-_N_PASSED:])

    def has_passed(self, cursor: str | None) -> bool:
        return _hash_cursor(cursor) in self.passed


def _is_text(cursor: str) -> bool:
    # JSON can name halves of characters, which nothing can send or store.
    return not any("\ud800" <= letter <= "\udfff" for letter in cursor)


def _hash_cursor(cursor: str | None) -> str:
    text = "" if cursor is None else f"={cursor}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class HttpSource(RecordSource):
    """The new records of an address; see ``RecordSource``. Redirects are not followed.

    Raises
    ------
    RecordError
        The token cannot be read, or the answer is not what was configured.
    """

    def __init__(
        self, stream: StreamSettings, dimensions: Sequence[str], known: Sequence[KnownPosition]
    ) -> None:
        assert isinstance(stream.source, HttpSettings)
        self.report = ReadingReport()
        self._settings = stream.source
        mapping = RecordMapping(stream, dimensions)
        self._parser = JsonLinesParser(
            TextSettings(kind="http", timestamp=stream.source.timestamp), mapping
        )
        self._source = f"http:{stream.source.url}"
        self._name = stream.source.url.partition("?")[0]  # the rest may be a secret
        self._url = self._read_url()
        self._page, self._index = _Page(cursor=stream.source.first), 0
        for k in known:
            if (k.stream, k.position.source) == (stream.name, self._source):
                self._page = _Page.of_place(k.position.place)
                self._index = int(k.position.place["index"])
        self._error: RecordError | None = None
        self._n_failures = 0
        self._wait_s: float | None = None
        self._n_read = 0
        self._fetcher = PageFetcher(headers=self._make_headers(), timeout_s=stream.source.timeout_s)

    @property
    def guarantee(self) -> Guarantee:
        """See ``RecordSource``."""
        return Guarantee(
            delivery="exactly once",
            loses="nothing while a cursor always gives the same page, longer at most",
        )

    @property
    def pause_s(self) -> float:
        """See ``RecordSource``; after failures full-jitter back-off, or what the server asks."""
        if self._fetcher.is_busy:
            return _PATIENCE_S
        if self._wait_s is not None:
            return min(self._wait_s, _LONGEST_PAUSE_S)
        if not self._n_failures:
            return self._settings.poll_s
        most = self._settings.poll_s * float(1 << min(self._n_failures, 12))
        return random.uniform(1.0, max(1.0, min(most, _LONGEST_PAUSE_S)))

    def close(self) -> None:
        """See ``RecordSource``."""
        self._fetcher.close()

    def read(self) -> Iterator[RecordBatch]:
        """Yield the new records; waits for the server."""
        while True:
            batch = self._read_pages(wait_s=None)
            if batch is None:
                return
            yield batch

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``; what the server takes longer for is read at a later call."""
        return self._read_pages(wait_s=_PATIENCE_S)

    def _read_pages(self, *, wait_s: float | None) -> RecordBatch | None:
        while True:
            if self._error is not None:
                raise self._error
            body = self._fetch(wait_s)
            if body is None:
                return None
            records, following = self._check_page(body)
            fresh, first, before = records[self._index :], self._index, self._page
            moves = following is not None and following != before.cursor
            if moves and before.has_passed(following):
                # What is new on this page is handed out first; its position leads here again.
                moves = False
                self._error = self._complain("gave a cursor again that it gave before")
            if moves:
                self._page, self._index = before.follow(following), 0
            else:
                self._index = len(records)
            if fresh:
                return self._make_batch(fresh, before, first, moves)
            if not moves and self._error is None:
                return None

    def _make_batch(self, records: list[Any], page: _Page, first: int, moves: bool) -> RecordBatch:
        objects = [record if isinstance(record, dict) else {} for record in records]
        places = list(range(self._n_read + 1, self._n_read + len(records) + 1))
        table = self._parser.map_objects(objects, self.report, places)
        self._n_read += len(records)
        following = self._page

        def position_after(i: int) -> Position:
            if moves and i == len(records) - 1:
                return following.to_position(self._source, 0)
            return page.to_position(self._source, first + i + 1)

        return RecordBatch(
            values=table.values, timestamps=table.timestamps, position_after=position_after
        )

    def _fetch(self, wait_s: float | None) -> bytes | None:
        """Return a page, or None if the server has not given it yet, or cannot now."""
        if not self._fetcher.is_busy:
            cursor = self._page.cursor
            query = {} if cursor is None else {self._settings.parameter: cursor}
            self._fetcher.ask(self._url.copy_merge_params(query))
        answer = self._fetcher.take(wait_s)
        if answer is None:
            return None
        self._wait_s = None
        if answer.status is None:
            self._fail(f"did not answer ({answer.problem})")
            return None
        if answer.status >= 500 or answer.status in _RETRIED:
            self._fail(f"answered {answer.status}")
            after = answer.retry_after
            self._wait_s = float(after) if after.isdecimal() else None
            return None
        if answer.status != 200:
            raise self._complain(f"answered {answer.status}")
        if answer.body is None:
            raise self._complain(f"gave a page of more than {MAX_PAGE_BYTES} bytes")
        self._n_failures = 0
        self.report.bytes_read += len(answer.body)
        return answer.body

    def _check_page(self, body: bytes) -> tuple[list[Any], str | None]:
        try:
            page = json.loads(body)
            records, following = page[self._settings.records], page.get(self._settings.next)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self._complain(
                f"gave no JSON object with {self._settings.records!r} in it"
            ) from error
        if not isinstance(records, list) or isinstance(following, bool | float | list | dict):
            raise self._complain("gave records that are no list, or a cursor that is no text")
        if isinstance(following, str) and not _is_text(following):
            raise self._complain("gave a cursor that is no text")
        if len(records) < self._index:
            raise self._complain("gave fewer records than before for the same cursor")
        return records, None if following in (None, "") else str(following)

    def _read_url(self) -> httpx.URL:
        try:
            return httpx.URL(self._settings.url)
        except httpx.InvalidURL as error:
            raise self._complain("is no address") from error

    def _make_headers(self) -> dict[str, str]:
        path = self._settings.token_file
        return {} if path is None else {"Authorization": f"Bearer {read_secret(path)}"}

    def _fail(self, what: str) -> None:
        self._n_failures += 1
        note = f"{self._name} {what}; will be tried again"
        if note not in self.report.notes:
            self.report.notes.append(note)

    def _complain(self, what: str) -> RecordError:
        return RecordError(
            what, field=self._name, fix="correct [streams.source], or ask its operator"
        )
