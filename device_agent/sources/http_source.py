"""Pages of JSON records behind an address; each answer names the cursor of the next page.

``GET url?cursor=C`` gives ``{"records": [...], "next": "D"}``. A position is a cursor and how many
records of its page were read; a page without a next cursor is asked for again, and may have grown.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
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
from shared.errors import RecordError

MAX_PAGE_BYTES = 16 << 20
_LONGEST_PAUSE_S = 3600.0
_RETRIED = (408, 425, 429)


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
        self._cursor, self._index = stream.source.first, 0
        for k in known:
            if (k.stream, k.position.source) == (stream.name, self._source):
                cursor = k.position.place.get("cursor")
                self._cursor = None if cursor is None else str(cursor)
                self._index = int(k.position.place["index"])
        self._n_failures = 0
        self._wait_s: float | None = None
        self._n_read = 0
        self._client = httpx.Client(timeout=stream.source.timeout_s, headers=self._make_headers())

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
        if self._wait_s is not None:
            return min(self._wait_s, _LONGEST_PAUSE_S)
        if not self._n_failures:
            return self._settings.poll_s
        most = self._settings.poll_s * float(1 << min(self._n_failures, 12))
        return random.uniform(1.0, max(1.0, min(most, _LONGEST_PAUSE_S)))

    def close(self) -> None:
        """See ``RecordSource``."""
        self._client.close()

    def read_batch(self) -> RecordBatch | None:
        """See ``RecordSource``."""
        while True:
            page = self._fetch()
            if page is None:
                return None
            records, following = self._check_page(page)
            fresh, first, cursor = records[self._index :], self._index, self._cursor
            moves = following is not None and following != cursor
            if moves:
                self._cursor, self._index = following, 0
            else:
                self._index = len(records)
            if fresh:
                return self._make_batch(fresh, cursor, first, moves)
            if not moves:
                return None

    def _make_batch(
        self, records: list[Any], cursor: str | None, first: int, moves: bool
    ) -> RecordBatch:
        objects = [record if isinstance(record, dict) else {} for record in records]
        places = list(range(self._n_read + 1, self._n_read + len(records) + 1))
        table = self._parser.map_objects(objects, self.report, places)
        self._n_read += len(records)
        following = self._cursor

        def position_after(i: int) -> Position:
            if moves and i == len(records) - 1:
                return self._position(following, 0)
            return self._position(cursor, first + i + 1)

        return RecordBatch(
            values=table.values, timestamps=table.timestamps, position_after=position_after
        )

    def _position(self, cursor: str | None, index: int) -> Position:
        place: dict[str, int | str] = {"index": index}
        if cursor is not None:
            place["cursor"] = cursor
        return Position(source=self._source, place=place)

    def _fetch(self) -> bytes | None:
        """Return a page, or None if the server cannot give it now."""
        query = {} if self._cursor is None else {self._settings.parameter: self._cursor}
        url = httpx.URL(self._settings.url).copy_merge_params(query)
        self._wait_s = None
        try:
            with self._client.stream("GET", url) as answer:
                if answer.status_code >= 500 or answer.status_code in _RETRIED:
                    self._fail(f"answered {answer.status_code}")
                    after = answer.headers.get("Retry-After", "")
                    self._wait_s = float(after) if after.isdecimal() else None
                    return None
                if answer.status_code != 200:
                    raise self._complain(f"answered {answer.status_code}")
                body = self._read_bounded(answer)
        except httpx.TransportError as error:
            self._fail(f"did not answer ({type(error).__name__})")
            return None
        self._n_failures = 0
        self.report.bytes_read += len(body)
        return body

    def _read_bounded(self, answer: httpx.Response) -> bytes:
        body = bytearray()
        for chunk in answer.iter_bytes():
            body += chunk
            if len(body) > MAX_PAGE_BYTES:
                raise self._complain(f"gave a page of more than {MAX_PAGE_BYTES} bytes")
        return bytes(body)

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
        if len(records) < self._index:
            raise self._complain("gave fewer records than before for the same cursor")
        return records, None if following in (None, "") else str(following)

    def _make_headers(self) -> dict[str, str]:
        path = self._settings.token_file
        if path is None:
            return {}
        try:
            return {"Authorization": f"Bearer {path.read_text(encoding='utf-8').strip()}"}
        except OSError as error:
            raise RecordError(
                f"cannot be read ({error.strerror})",
                field=str(path),
                fix="name a file with the token of this client",
            ) from error

    def _fail(self, what: str) -> None:
        self._n_failures += 1
        note = f"{self._settings.url} {what}; will be tried again"
        if note not in self.report.notes:
            self.report.notes.append(note)

    def _complain(self, what: str) -> RecordError:
        return RecordError(
            what, field=self._settings.url, fix="correct [streams.source], or ask its operator"
        )
