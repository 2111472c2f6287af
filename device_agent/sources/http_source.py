"""Pages of JSON records behind an address; each answer names the cursor of the next page.

``GET url?cursor=C`` gives ``{"records": [...], "next": "D"}``. A position is a cursor, how many
records of its page were read, their digest, and the cursors behind it. A page without a next cursor
is asked for again, and may have grown. So each record of each page is read once, or the source
stops: no cursor is followed twice, and no page is read on that begins with other records.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

import httpx

from sfumato.device_agent.sources.addresses import address_rule, normalise_host, read_secret
from sfumato.device_agent.sources.interface import Guarantee, RecordBatch, RecordSource
from sfumato.device_agent.sources.pages import PageEnd, PageFetcher, PagePiece
from sfumato.device_agent.sources.passed import MOST_CURSORS, PASSED_NAME, PassedCursors
from sfumato.device_agent.sources.positions import Position
from sfumato.device_agent.sources.settings import SourceSettings
from sfumato.shared.errors import LedgerError, RecordError
from sfumato.shared.http_client import open_client
from sfumato.shared.privacy import Origin
from sfumato.shared.reading.json_lines import JsonLinesParser
from sfumato.shared.structure import Seconds, Text, declared, member
from sfumato.shared.wire import read_retry_after

_PATIENCE_S = 0.2
"""Seconds that a call waits for an answer; other streams wait with it."""
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 3600.0
_RETRIED = (408, 425, 429)


@declared
class HttpSettings(SourceSettings):
    """Settings of pages of JSON records."""

    url: Annotated[str, address_rule("https", "http", example="https://example.org/records")] = (
        member("The address, `https://` or `http://`.")
    )
    parameter: Text = member("The query parameter that carries the cursor.", default="cursor")
    records: Text = member(
        "The key of the answer that holds the records, or the way to their list, such as "
        "`data.items`; `.` for an answer that is the list.",
        default="records",
    )
    next: Text = member("The key of the answer that holds the next cursor.", default="next")
    first: Text | None = member(
        "The first cursor. Default: the first request has none, and each page is requested twice: "
        "once to see where it leads.",
        default=None,
    )
    order: Literal["increasing"] | None = member(
        "`increasing` if each cursor is larger than the one before: as a whole number, else as "
        "text. Default: every cursor is remembered, so that none leads back.",
        default=None,
    )
    token_file: Path | None = member(
        "A file whose content is sent as a bearer token.", default=None
    )
    poll_s: Seconds = member("Seconds between looks.", default=60.0)
    timeout_s: Seconds = member(
        "Seconds within which an answer must go on. After ten times as long, an answer that brings "
        "less than 100 bytes a second is ended.",
        default=30.0,
    )

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
    LedgerError
        The cursors behind the place cannot be told from new ones.
    """

    chooses = True
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
        cursor = place.get("cursor") if place else settings.first
        self._cursor = None if cursor is None else str(cursor)
        self._index = int(place.get("index", 0))
        self._is_keyed = not place or place.get("key") == self._key.key_id
        self._read_digest = str(place.get("digest", self._key.begin().hexdigest()))
        if settings.order is None and place.get("order"):
            raise LedgerError(
                "was read in the order of its cursors, and none of them was remembered",
                field=self._name,
                fix='add order = "increasing" again',
            )
        self._passed = PassedCursors(
            self._key,
            self._name_file(PASSED_NAME, self._source),
            place if settings.order is None else {},
            name=self._name,
        )
        # The first page may be named by a cursor too, if it was asked for without one. It is told
        # by where it leads: so a page is looked through, up to its next cursor, before it is read.
        self._looks_ahead = settings.first is None and settings.order is None
        self._is_looked_through = self._cursor is None or bool(self._index)
        self._n_passed_over = 0  # of the present answer
        self._running = self._key.begin()
        self._url = self._read_url()
        self._n_failures = 0
        self._wait_s: float | None = None
        self._n_read = 0
        client = open_client(settings.url, headers=self._make_headers(), timeout=settings.timeout_s)
        self._fetcher = PageFetcher(
            client,
            records=settings.records,
            following=settings.next,
            timeout_s=settings.timeout_s,
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

    @property
    def is_waiting(self) -> bool:
        """See ``RecordSource``."""
        return self._fetcher.is_busy or bool(self._n_failures)

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
            if not self._fetcher.is_busy:
                self._n_passed_over, self._running = 0, self._key.begin()
                query = {} if self._cursor is None else {self._settings.parameter: self._cursor}
                self._fetcher.ask(self._url.copy_merge_params(query))
            found = self._fetcher.take(wait_s)
            if found is None:
                return None
            if isinstance(found, PagePiece):
                self.report.bytes_read += found.n_bytes
                if self._looks_ahead and not self._is_looked_through:
                    continue
                records = self._pass_over(found.records)
                if records:
                    return self._make_batch(records)
            elif not self._end_page(found):
                return None

    def _pass_over(self, records: list[bytes]) -> list[bytes]:
        """Return the records that were not read before, which stand behind those that were."""
        n_known = min(self._index - self._n_passed_over, len(records))
        for record in records[:n_known]:
            self._running.update(_frame(record))
        self._n_passed_over += n_known
        if records[n_known:]:
            self._require_same()
        return records[n_known:]

    def _require_same(self) -> None:
        """Refuse a page that begins with other records than before: the rest may be known too."""
        if self._n_passed_over < self._index:
            raise self._make_error("gave fewer records than before for the same cursor")
        if self._is_keyed and self._running.hexdigest() != self._read_digest:
            raise self._make_error("gave other records than before for the same cursor")

    def _make_batch(self, records: list[bytes]) -> RecordBatch:
        first, running = self._index, self._running.copy()
        kept: dict[str, int | str] = {"key": self._key.key_id, **self._passed.describe()}
        if self._cursor is not None:
            kept["cursor"] = self._cursor
        if self._settings.order is not None:
            kept["order"] = self._settings.order
        n_done = 0

        def position_after(i: int) -> Position:
            nonlocal n_done
            for record in records[n_done : i + 1]:
                running.update(_frame(record))
            n_done = max(n_done, i + 1)
            place = {"index": first + i + 1, "digest": running.hexdigest(), **kept}
            return Position(source=self._source, place=place)

        places = range(self._n_read + 1, self._n_read + 1 + len(records))
        table = self._mapping.convert(
            self._parser.parse_records(records),
            self.report,
            places,
            lambda i: self._parser.read_texts(records[i]),
        )
        for record in records:
            self._running.update(_frame(record))
        self._n_read += len(records)
        self._index += len(records)
        self._n_passed_over = self._index
        self._read_digest, self._is_keyed = self._running.hexdigest(), True
        return RecordBatch.of_table(table, position_after)

    def _end_page(self, end: PageEnd) -> bool:
        """Go on behind a page; return whether there is another one now."""
        self._wait_s = None
        if end.status is None:
            self._fail(f"did not answer ({end.problem})")
            return False
        if end.status >= 500 or end.status in _RETRIED:
            self._fail(f"answered {end.status}")
            self._wait_s = read_retry_after(end.retry_after, now=time.time())
            return False
        if end.status != 200:
            raise self._make_error(f"answered {end.status}")
        if end.refused:
            raise self._make_error(end.refused)
        self._n_failures = 0
        if end.following != self._cursor and end.following in self._passed:
            raise self._make_error("gave a cursor that it gave before")
        if self._looks_ahead and not self._is_looked_through:
            self._is_looked_through = True
            return True
        self._require_same()
        if end.following is None or end.following == self._cursor:
            return False
        if self._settings.order is None:
            self._passed.add(self._cursor)
            self._warn_of_many()
        elif self._cursor is not None and _rank(end.following) <= _rank(self._cursor):
            raise self._make_error("gave a cursor that is not larger than the one before")
        self._cursor, self._index, self._is_looked_through = end.following, 0, False
        self._read_digest, self._is_keyed = self._key.begin().hexdigest(), True
        return True

    def _warn_of_many(self) -> None:
        if len(self._passed) == MOST_CURSORS // 2:
            self.report.note(
                f"{self._name} has given half of the {MOST_CURSORS:,} cursors that are remembered; "
                'add order = "increasing" if each is larger than the one before'
            )

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


def _frame(record: bytes) -> bytes:
    """Return the bytes of a record as part of a digest: with its length, so that none run on."""
    return len(record).to_bytes(8, "big") + record


def _rank(cursor: str) -> tuple[int, int, str]:
    """Return the place of a cursor in the order of all: whole numbers first, then texts."""
    if cursor.isascii() and cursor.isdecimal():
        digits = cursor.lstrip("0")
        return 0, len(digits), digits
    return 1, 0, cursor
