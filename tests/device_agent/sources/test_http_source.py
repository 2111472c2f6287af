import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.device_agent.sources.http_source import HttpSettings
from sfumato.shared.errors import LedgerError, RecordError
from tests.device_agent.sources.streams import Reader, make_stream


class Feed:
    """A server that keeps records and gives them in pages of three."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: bytes | None = None
        self.asked: list[str] = []
        self.authorization: str | None = None
        self.drips = False
        self.may_answer = threading.Event()
        self.may_answer.set()

    def answer(self, query: str) -> bytes:
        if self.body is not None:
            return self.body
        start = int(parse_qs(query).get("cursor", ["0"])[0])
        page = self.records[start : start + 3]
        following = start + 3 if len(page) == 3 else None
        return json.dumps({"records": page, "next": following}).encode()


@pytest.fixture
def feed() -> Iterator[Feed]:
    with serving() as feed:
        yield feed


class serving:  # noqa: N801
    def __enter__(self) -> Feed:
        feed = Feed()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                feed.asked.append(self.path)
                feed.may_answer.wait()
                feed.authorization = self.headers["Authorization"]
                body = feed.answer(urlsplit(self.path).query)
                self.send_response(feed.status)
                for name, value in feed.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                n = 1 if feed.drips else max(1, len(body))
                with suppress(ConnectionError):
                    for i in range(0, len(body), n):
                        self.wfile.write(body[i : i + n])
                        # Each piece in time, and all of them never.
                        time.sleep(0.02 * feed.drips)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        feed.url = f"http://127.0.0.1:{self._server.server_port}/r?a=b"  # type: ignore[attr-defined]
        return feed

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def make_reader(feed: Feed, folder: Path = Path("/"), **options: Any) -> Reader:
    url = feed.url  # type: ignore[attr-defined]
    return Reader(make_stream(folder, kind="http", url=url, **options))


def test_pages_are_followed_and_the_last_one_may_grow(feed: Feed) -> None:
    reader = make_reader(feed)
    feed.records = [{"x": i} for i in range(7)]
    source = reader.open()
    assert reader.poll(source) == list(range(7))
    assert reader.poll(source) == []
    assert source.pause_s == 60
    feed.records += [{"x": 7}, {"x": 8}, {"x": 9}]
    assert reader.poll(source) == [7, 8, 9]
    source.close()
    assert reader.once() == []
    assert feed.asked[0] == "/r?a=b"
    assert feed.asked[-1] == "/r?a=b&cursor=9"


@settings(deadline=None, max_examples=15)
@given(steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8))
def test_wherever_reading_stopped_it_goes_on(steps: list[tuple[int, int]]) -> None:
    with serving() as feed:
        reader = make_reader(feed)
        found: list[float] = []
        for n_new, limit in steps:
            feed.records += [{"x": len(feed.records) + i} for i in range(n_new)]
            found += reader.once(limit=limit)
        found += reader.once()
        assert found == list(range(len(feed.records)))


def test_what_cannot_be_used_keeps_its_place(feed: Feed) -> None:
    feed.records = [{"x": 1}, {"y": 1}, 7]
    reader = make_reader(feed)
    assert [str(value) for value in reader.once()] == ["1.0", "nan", "nan"]
    assert "2 record(s) have a value" in reader.messages[0]


def test_a_failing_server_is_asked_again_later(feed: Feed) -> None:
    feed.records = [{"x": 1}]
    feed.status = 503
    reader = make_reader(feed)
    source = reader.open()
    assert reader.poll(source) == []
    assert 1 <= source.pause_s <= 120
    assert "answered 503; the agent tries again" in source.report.describe()[0]
    feed.headers = {"Retry-After": "7"}
    assert reader.poll(source) == []
    assert source.pause_s == 7
    for asked, pause_s in (("0", 1), ("1000000000000", 3600), ("9" * 4000, 3600)):
        feed.headers = {"Retry-After": asked}
        assert reader.poll(source) == []
        assert source.pause_s == pause_s
    feed.status = 200
    assert reader.poll(source) == [1]
    source.close()


def test_a_server_that_is_gone_is_asked_again_later() -> None:
    with serving() as feed:
        reader = make_reader(feed, timeout_s=0.5)
    source = reader.open()
    assert reader.poll(source) == []
    assert "did not answer (ConnectError)" in source.report.describe()[0]
    source.close()


@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (404, b"", "answered 404"),
        (302, b"", "answered 302"),
        (200, b"987654", "gave no JSON object"),
        (200, b"{}", "gave no JSON object"),
        (200, b'{"records": 987654}', "gave records that are not a list"),
        (200, b'{"records": [], "next": [1]}', "gave a cursor that is not text"),
        (200, b'{"records": [], "next": "\\ud800"}', "gave a cursor that is not text"),
        (200, b'{"records": [], "records": []}', "gave 'records' twice"),
        (200, b'{"records": [{"x": 1}', "gave no JSON object"),
        (200, b'{"records": [{"x": 1}]} {}', "gave no JSON object"),
        (200, b"[" * 100_000, "gave no JSON object"),
        (200, b'{"records": [' + b"1," * (1 << 17) + b"1]}", "gave a page of more than 131072"),
        (204, b"", "answered 204"),
    ],
)
def test_a_wrong_answer_is_refused_without_its_values(
    status: int, body: bytes, named: str, feed: Feed
) -> None:
    feed.status, feed.body = status, body
    with pytest.raises(RecordError) as caught:
        make_reader(feed).once()
    assert named in str(caught.value)
    assert "987654" not in str(caught.value)


HUGE = [
    b'{"x": ' + b"9" * 5000 + b"}",
    b"[" * 100_000 + b"]" * 100_000,
    b'{"x": 1, "note": "' + b"a" * 3_000_000 + b'"}',
    b'{"x": 1, "x": [{}, "]}", "\\"", "\\\\"]}',
    b'"\xff"',
    b"\x00",
]


@pytest.mark.parametrize("broken", HUGE)
def test_a_record_that_cannot_be_read_is_a_matter_of_its_own(broken: bytes, feed: Feed) -> None:
    feed.body = (
        b'{"a": {"records": []}, "records": [{"x": 1},' + broken + b', {"x": 3}], "b": "]}"}'
    )
    assert [str(value) for value in make_reader(feed).once()] == ["1.0", "nan", "3.0"]


def test_a_page_is_as_large_as_its_records_are_many(feed: Feed) -> None:
    feed.body = b'{"records": [' + b",".join(HUGE[2:3] * 20) + b"]}"
    reader = make_reader(feed)
    assert len(reader.once()) == 20


def test_a_page_that_shrank_is_refused(feed: Feed) -> None:
    reader = make_reader(feed)
    feed.records = [{"x": 1}, {"x": 2}]
    reader.once()
    feed.records = [{"x": 3}]
    with pytest.raises(RecordError, match="fewer records than before"):
        reader.once()


def test_a_token_comes_from_a_file(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    make_reader(feed, tmp_path, token_file="token").once()
    assert feed.authorization == "Bearer abc"
    with pytest.raises(RecordError, match="absent"):
        make_reader(feed, tmp_path, token_file="absent").open()


def test_a_token_that_no_header_can_carry_is_refused(feed: Feed, tmp_path: Path) -> None:
    for content in (b"\xff\xfe", "t\u00e9".encode(), b"abc\nsecond"):
        (tmp_path / "token").write_bytes(content)
        with pytest.raises(RecordError, match="cannot be used"):
            make_reader(feed, tmp_path, token_file="token").open()


def test_pages_in_a_circle_are_counted_once(feed: Feed) -> None:
    pages = {"": "B", "B": "C", "C": "B"}

    def answer(query: str) -> bytes:
        cursor = parse_qs(query).get("cursor", [""])[0]
        return json.dumps({"records": [{"x": len(cursor)}], "next": pages[cursor]}).encode()

    feed.answer = answer  # type: ignore[method-assign]
    reader = make_reader(feed)
    batches = reader.open().read()
    for expected in (0, 1, 1):
        batch = next(batches)
        assert batch.values[:, 0].tolist() == [expected]
        reader.remember(batch.position_after, 0)
    with pytest.raises(RecordError, match="gave a cursor that it gave before"):
        next(batches)
    # Nor is it forgotten by who reads on from there.
    with pytest.raises(RecordError, match="gave a cursor that it gave before"):
        reader.once()


def test_empty_pages_in_a_circle_do_not_hold_it_up(feed: Feed) -> None:
    feed.answer = lambda query: json.dumps(  # type: ignore[method-assign]
        {"records": [], "next": "A" if query.endswith("=B") else "B"}
    ).encode()
    with pytest.raises(RecordError, match="gave a cursor that it gave before"):
        make_reader(feed).once()


def test_an_answer_that_cannot_be_unpacked_is_no_defect(feed: Feed) -> None:
    feed.headers, feed.body = {"Content-Encoding": "gzip"}, b"987654"
    reader = make_reader(feed)
    assert reader.once() == []
    assert "did not answer (DecodingError)" in reader.messages[0]


def test_a_slow_server_keeps_nobody_waiting_and_is_heard_later(feed: Feed) -> None:
    feed.records = [{"x": 1}]
    feed.may_answer.clear()
    reader = make_reader(feed)
    source = reader.open()
    assert source.read_batch() is None
    assert source.pause_s < 1
    assert source.read_batch() is None
    feed.may_answer.set()
    assert reader.poll(source) == [1]
    assert len(feed.asked) == 2
    source.close()


def test_what_stands_behind_a_question_mark_is_in_no_message(feed: Feed) -> None:
    feed.status = 404
    with pytest.raises(RecordError) as caught:
        make_reader(feed).once()
    assert "a=b" not in str(caught.value)


def test_an_answer_that_drips_ends_in_time(feed: Feed) -> None:
    feed.records, feed.drips = [{"x": 1, "note": "a" * 1000}], True
    reader = make_reader(feed, timeout_s=0.3)
    assert reader.once() == []
    assert "did not answer (ReadTimeout)" in reader.messages[0]
    feed.drips = False
    assert make_reader(feed).once() == [1]


def test_another_address_is_not_read_on_under_the_name_of_the_first(feed: Feed) -> None:
    feed.records = [{"x": 1}]
    reader = make_reader(feed)
    assert reader.once() == [1]
    with serving() as other:
        other.records = feed.records
        moved = make_reader(other)
        moved.known = reader.known
        with pytest.raises(LedgerError, match="cannot follow localhost:"):
            moved.open()
    assert other.asked == []


def test_times_are_read_alike_only_by_one_user_of_one_server() -> None:
    # A server may write times in the zone of the user.
    def digest(**options: Any) -> str:
        return HttpSettings(
            kind="http", url="https://example.org/records", **options
        ).digest_times()

    north, south = (digest(token_file=Path(name)) for name in ("/north", "/south"))
    assert len({digest(), north, south}) == 3
    assert digest(token_file=Path("/north"), poll_s=5.0) == north
