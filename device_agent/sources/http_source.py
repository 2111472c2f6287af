"""Pages of JSON records behind an address; each answer names the cursor of the next page.

``GET url?cursor=C`` gives ``{"records": [...], "next": "D"}``. A position is a cursor and how many
records of its page were read; a page without a next cursor is asked for again, and may have grown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote, urlsplit

import httpx

from sfumato.device_agent.sources.addresses import address_rule, normalise_host, read_secret
from sfumato.device_agent.sources.interface import Guarantee, RecordBatch, RecordSource
from sfumato.device_agent.sources.mapping import ReadingReport
from sfumato.device_agent.sources.pages import PageError, PageFetcher, PageReader
from sfumato.device_agent.sources.positions import DigestKey, Position
from sfumato.device_agent.sources.settings import SourceSettings
from sfumato.shared.errors import RecordError
from sfumato.shared.privacy import Origin
from sfumato.shared.reading import RecordTable, join_tables
from sfumato.shared.reading.json_lines import JsonLinesParser
from sfumato.shared.structure import Seconds, Text, declared, member

MAX_PAGE_RECORDS = 1 << 17
"""Limit of a page's records, whatever their length."""
_GROUP_RECORDS = 512
_PATIENCE_S = 0.2
"""Seconds that a call waits for an answer; other streams wait with it."""
_N_PASSED = 32
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 3600.0
_RETRIED = (408, 425, 429)


@dataclass(frozen=True, kw_only=True)
class _Page:
    """The cursor of a page, and digests of earlier cursors.

    ``passed`` holds keyed digests of the last cursors before this one: pages that lead in a circle
    would have their records counted again and again.
    """

    cursor: str | None
    key: DigestKey
    passed: tuple[str, ...] = ()

    @classmethod
    def of_place(cls, place: Mapping[str, int | str], key: DigestKey) -> _Page:
        cursor = place.get("cursor")
        passed = str(place.get("passed", "")) if place.get("key") == key.key_id else ""
        return cls(
            cursor=None if cursor is None else str(cursor),
            key=key,
            passed=tuple(filter(None, passed.split(","))),
        )

    def to_position(self, source: str, index: int) -> Position:
        place: dict[str, int | str] = {"index": index}
        if self.cursor is not None:
            place["cursor"] = self.cursor
        if self.passed:
            place |= {"passed": ",".join(self.passed), "key": self.key.key_id}
        return Position(source=source, place=place)

    def follow(self, cursor: str | None) -> _Page:
        passed = (*self.passed, self._hash(self.cursor))
        return _Page(cursor=cursor, key=self.key, passed=passed[-_N_PASSED:])

    def has_passed(self, cursor: str | None) -> bool:
        return self._hash(cursor) in self.passed

    def _hash(self, cursor: str | None) -> str:
        return self.key.compute(b"" if cursor is None else f"={cursor}".encode())


@dataclass(frozen=True, kw_only=True)
class _PageContent:
    """The records of a page from an index on, None if there are none, and the report."""

    n_records: int
    following: str | None
    table: RecordTable | None
    report: ReadingReport


@declared
class HttpSettings(SourceSettings):
    """Settings of pages of JSON records."""

    url: Annotated[str, address_rule("https", "http", example="https://example.org/records")] = (
        member("The address, `https://` or `http://`.")
    )
    parameter: Text = member("The query parameter that carries the cursor.", default="cursor")
    records: Text = member("The key of the answer that holds the records.", default="records")
    next: Text = member("The key of the answer that holds the next cursor.", default="next")
    first: Text | None = member(
        "The first cursor. Default: the first request has none.", default=None
    )
    token_file: Path | None = member(
        "A file whose content is sent as a bearer token.", default=None
    )
    poll_s: Seconds = member("Seconds between looks.", default=60.0)
    timeout_s: Seconds = member("Seconds within which a page must have arrived.", default=30.0)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """See ``SourceSettings``; other queries at one address may give the same records."""
        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        # With and without encryption, and at its usual port, it is one server.
        where = normalise_host(parts.hostname or "") + ("" if port in (80, 443) else f":{port}")
        segments = [part for part in unquote(parts.path).split("/") if part not in ("", ".")]
        path: list[str] = []
        for segment in segments:
            path = path[:-1] if segment == ".." else [*path, segment]
        return (self._origin("http", "/".join([where, *path])),)


class HttpSource(RecordSource):
    """The new records of an address; see ``RecordSource``. Redirects are not followed.

    Raises
    ------
    RecordError
        The token cannot be read, or the answer is not what was configured.
    """

    settings = HttpSettings
    _settings: HttpSettings
    _parser: JsonLinesParser

    def _open(self) -> None:
        settings = self._settings
        self._parser = JsonLinesParser(self._mapping.fields)
        # However the address is spelt, and whatever is asked of it: it is one source.
        (origin,) = settings.origins
        self._source = f"http:{origin.name}"
        self._name = settings.url.partition("?")[0]  # the rest may be a secret
        place = self._find_place(self._source, name=self._source)
        self._page = (
            _Page.of_place(place, self._key)
            if place
            else _Page(cursor=settings.first, key=self._key)
        )
        self._index = int(place.get("index", 0))
        self._url = self._read_url()
        self._error: RecordError | None = None
        self._n_failures = 0
        self._wait_s: float | None = None
        self._n_read = 0
        self._fetcher = PageFetcher(
            headers=self._make_headers(), timeout_s=settings.timeout_s, read=self._read_content
        )
        self._resources.callback(self._fetcher.close)

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
            return min(max(self._wait_s, _SHORTEST_PAUSE_S), _LONGEST_PAUSE_S)
        if not self._n_failures:
            return self._settings.poll_s
        most = self._settings.poll_s * float(1 << min(self._n_failures, 12))
        return random.uniform(
            _SHORTEST_PAUSE_S, max(_SHORTEST_PAUSE_S, min(most, _LONGEST_PAUSE_S))
        )

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
            content = self._fetch(wait_s)
            if content is None:
                return None
            following, first, before = content.following, self._index, self._page
            moves = following is not None and following != before.cursor
            if moves and before.has_passed(following):
                # What is new on this page is handed out first; its position leads here again.
                moves = False
                self._error = self._make_error("gave a cursor that it gave before")
            if moves:
                self._page, self._index = before.follow(following), 0
            else:
                self._index = content.n_records
            if content.table is not None:
                return self._make_batch(content.table, before, first, moves)
            if not moves and self._error is None:
                return None

    def _make_batch(self, table: RecordTable, page: _Page, first: int, moves: bool) -> RecordBatch:
        n_records, following = len(table.values), self._page
        self._n_read += n_records

        def position_after(i: int) -> Position:
            if moves and i == n_records - 1:
                return following.to_position(self._source, 0)
            return page.to_position(self._source, first + i + 1)

        return RecordBatch.of_table(table, position_after)

    def _read_content(self, chunks: Iterator[bytes]) -> _PageContent:
        """Read a page as it comes; in the thread, while nothing here changes."""
        reader = PageReader(self._settings.records, self._settings.next)
        report = ReadingReport()
        tables: list[RecordTable] = []
        waiting: list[bytes] = []
        n_records = 0

        def read_waiting() -> None:
            place = self._n_read + sum(len(table.values) for table in tables) + 1
            places = range(place, place + len(waiting))
            table = self._parser.parse_records(waiting)
            tables.append(
                self._mapping.convert(
                    table, report, places, lambda i: self._parser.read_texts(waiting[i])
                )
            )
            waiting.clear()

        for chunk in chunks:
            report.bytes_read += len(chunk)
            reader.feed(chunk)
            found = reader.take()
            waiting += found[max(0, self._index - n_records) :]
            n_records += len(found)
            if n_records > MAX_PAGE_RECORDS:
                raise PageError(f"gave a page of more than {MAX_PAGE_RECORDS} records")
            if len(waiting) >= _GROUP_RECORDS:
                read_waiting()
        reader.finish()
        if n_records < self._index:
            raise PageError("gave fewer records than before for the same cursor")
        if waiting:
            read_waiting()
        return _PageContent(
            n_records=n_records,
            following=reader.following,
            table=join_tables(tables) if tables else None,
            report=report,
        )

    def _fetch(self, wait_s: float | None) -> _PageContent | None:
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
            raise self._make_error(f"answered {answer.status}")
        if answer.page is None:
            raise self._make_error(answer.refused)
        self._n_failures = 0
        self.report.include(answer.page.report)
        return answer.page

    def _read_url(self) -> httpx.URL:
        try:
            return httpx.URL(self._settings.url)
        except httpx.InvalidURL as error:
            raise self._make_error("must be an address") from error

    def _make_headers(self) -> dict[str, str]:
        path = self._settings.token_file
        return {} if path is None else {"Authorization": f"Bearer {read_secret(path)}"}

    def _fail(self, what: str) -> None:
        self._n_failures += 1
        self.report.note(f"{self._name} {what}; the agent tries again")

    def _make_error(self, what: str) -> RecordError:
        return RecordError(
            what, field=self._name, fix="correct [streams.source], or ask its operator"
        )
