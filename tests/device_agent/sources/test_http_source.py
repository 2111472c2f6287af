import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import assume, given, settings, strategies as st

from sfumato.device_agent.sources import http_source, passed
from sfumato.device_agent.sources.http_source import HttpSettings
from sfumato.shared.errors import DiskError, LedgerError, RecordError
from tests.device_agent.sources.streams import DIGEST_KEY, Reader, make_stream


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
        self.drips_first = False
        self.cut: int | None = None
        """Bytes of an answer that are sent; then it stops."""
        self.hangs: threading.Event | None = None
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
                with suppress(ConnectionError):
                    while feed.drips_first:  # a head without an end
                        self.wfile.write(b"H" if self.close_connection else b"HTTP/1.1 200 OK\r\n")
                        time.sleep(0.02)
                body = feed.answer(urlsplit(self.path).query)
                self.send_response(feed.status)
                for name, value in feed.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                body = body[: feed.cut]
                n = 1 if feed.drips else max(1, len(body))
                with suppress(ConnectionError):
                    for i in range(0, len(body), n):
                        self.wfile.write(body[i : i + n])
                        time.sleep(0.02 * feed.drips)
                if feed.hangs is not None:
                    feed.hangs.wait()
                self.close_connection = True

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


def make_reader(
    feed: Feed, folder: Path = Path("/"), *, state: Path | None = None, **options: Any
) -> Reader:
    url = feed.url  # type: ignore[attr-defined]
    given = {key: value for key, value in options.items() if value is not None}
    return Reader(make_stream(folder, kind="http", url=url, **given), state=state)


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


@pytest.mark.parametrize(
    ("way", "page"),
    [("data.items", b'{"ok": 1, "data": {"n": 2, "items": [%s]}}'), (".", b"[%s]")],
)
def test_the_records_of_a_page_may_lie_deeper_or_be_all_of_it(
    way: str, page: bytes, feed: Feed
) -> None:
    reader = make_reader(feed, records=way)
    feed.body = page % b'{"x": 1}'
    assert reader.once() == [1.0]
    feed.body = page % b'{"x": 1}, {"x": 2}'
    assert reader.once() == [2.0]


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
    feed.headers = {"Retry-After": formatdate(time.time() + 600, usegmt=True)}
    assert reader.poll(source) == []
    assert 1 < source.pause_s <= 600
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


def test_a_page_of_any_number_of_records_is_read_as_it_comes(feed: Feed) -> None:
    # One record more changes one record, wherever a page ends.
    feed.records = [{"x": i} for i in range(40_000)]
    feed.answer = lambda query: json.dumps({"records": feed.records}).encode()  # type: ignore[method-assign]
    reader = make_reader(feed)
    source = reader.open()
    first = next(source.read())
    assert len(first.values) < 10_000
    assert len(first.values) + len(reader.poll(source)) == len(feed.records)
    source.close()


def test_a_page_that_was_cut_off_goes_on_behind_what_was_read(feed: Feed) -> None:
    whole = json.dumps({"records": [{"x": i} for i in range(3000)]}).encode()
    feed.answer = lambda query: whole  # type: ignore[method-assign]
    feed.headers = {"Content-Length": str(len(whole))}
    reader = make_reader(feed)
    source = reader.open()
    feed.cut = len(whole) // 2
    found = reader.poll(source)
    assert 0 < len(found) < 3000
    assert "did not answer" in source.report.describe()[0]
    feed.cut = None
    assert found + reader.poll(source) == list(range(3000))
    source.close()


@pytest.mark.parametrize(
    ("records", "named"),
    [
        ([{"x": 1}], "fewer records than before"),
        ([{"x": 0}, {"x": 1}, {"x": 2}], "other records than before"),
    ],
)
def test_a_page_that_shrank_or_was_shifted_is_refused(
    records: list[Any], named: str, feed: Feed
) -> None:
    reader = make_reader(feed)
    feed.records = [{"x": 1}, {"x": 2}]
    reader.once()
    feed.records = records
    with pytest.raises(RecordError, match=named):
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


class Graph:
    """Pages of one record each, which links and times of change decide."""

    def __init__(self, feed: Feed, links: list[int | None], later: list[int | None]) -> None:
        self.links, self.later = links, later
        self.given: list[int] = []
        feed.answer = self.answer  # type: ignore[method-assign]

    def answer(self, query: str) -> bytes:
        page = int(parse_qs(query).get("cursor", ["0"])[0])
        links = self.links if page not in self.given else self.later
        self.given.append(page)
        return json.dumps({"records": [{"x": page}], "next": links[page]}).encode()


N_PAGES = 6
LINKS = st.lists(
    st.one_of(st.none(), st.integers(0, N_PAGES - 1)), min_size=N_PAGES, max_size=N_PAGES
)


def read_in_parts(reader: Reader, stops: list[int]) -> list[float]:
    """Read and remember, with restarts behind some records, until nothing more comes."""
    found: list[float] = []
    for limit in (*stops, None, None):
        with suppress(RecordError, LedgerError):
            for batch in reader.open().read():
                reader.remember(batch.position_after, len(batch.values) - 1)
                found += batch.values[:, 0].tolist()
                if limit is not None and len(found) >= limit:
                    break
    reader.open().close()
    return found


STOPS = st.lists(st.integers(1, 3), max_size=4)


@settings(deadline=None, max_examples=30)
@given(links=LINKS, later=LINKS, stops=STOPS)
def test_whatever_leads_where_and_changes_each_page_is_read_once_or_the_source_stops(
    links: list[int | None], later: list[int | None], stops: list[int]
) -> None:
    with serving() as feed, TemporaryDirectory() as state:
        Graph(feed, links, later)
        found = read_in_parts(make_reader(feed, state=Path(state), first="0"), stops)
        assert len(found) == len(set(found))


@settings(deadline=None, max_examples=30)
@given(links=LINKS, stops=STOPS, first=st.sampled_from([None, "0"]))
def test_pages_that_stay_are_read_in_their_order_up_to_the_first_that_leads_back(
    links: list[int | None], stops: list[int], first: str | None
) -> None:
    way: list[int] = []
    at: int | None = 0
    while at is not None and at not in way:
        way.append(at)
        at = links[at]
    if first is None:
        # No cursor is known to name the first page: pages are looked through before they are read.
        assume(links[0] != 0)
        way = way[: -1 if at in way[1:-1] else None]
    with serving() as feed, TemporaryDirectory() as state:
        Graph(feed, links, links)
        reader = make_reader(feed, state=Path(state), first=first)
        assert read_in_parts(reader, stops) == way


@pytest.mark.parametrize("length", [3, 200])
def test_pages_in_a_circle_of_any_length_are_read_once(
    length: int, feed: Feed, tmp_path: Path
) -> None:
    links: list[int | None] = [*range(1, length), 0]
    Graph(feed, links, links)
    reader = make_reader(feed, state=tmp_path)
    assert read_in_parts(reader, [length // 2]) == list(range(length))
    with pytest.raises(RecordError, match="gave a cursor that it gave before"):
        reader.once()


def test_empty_pages_in_a_circle_do_not_hold_it_up(feed: Feed) -> None:
    feed.answer = lambda query: json.dumps(  # type: ignore[method-assign]
        {"records": [], "next": "A" if query.endswith("=B") else "B"}
    ).encode()
    with pytest.raises(RecordError, match="gave a cursor that it gave before"):
        make_reader(feed).once()


def test_in_the_order_of_cursors_none_is_remembered_and_none_may_be_smaller(
    feed: Feed, tmp_path: Path
) -> None:
    links: list[int | None] = [2, 1, 9, None, None, None, None, None, None, 10, 1]
    Graph(feed, links, links)
    reader = make_reader(feed, state=tmp_path, order="increasing")
    with pytest.raises(RecordError, match="is not larger than the one before"):
        reader.once()
    assert [known.position.place["cursor"] for known in reader.known.values()] == ["10"]
    assert not list(tmp_path.iterdir())
    without = make_reader(feed, state=tmp_path)
    without.known = reader.known
    with pytest.raises(LedgerError, match='Add order = "increasing" again'):
        without.open()


def test_cursors_that_were_lost_or_are_under_an_erased_key_let_nothing_be_read(
    feed: Feed, tmp_path: Path
) -> None:
    links: list[int | None] = [1, 2, None]
    Graph(feed, links, links)
    reader = make_reader(feed, state=tmp_path)
    assert reader.once() == [0, 1, 2]
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    assert len(whole) == 16
    for damaged in (whole[:8], whole[:8] + bytes(8), b""):
        path.write_bytes(damaged)
        with pytest.raises(LedgerError, match="are not those that"):
            reader.open()
    # What was appended behind the place is of no account.
    path.write_bytes(whole + bytes(8))
    assert reader.once() == []
    reader.key = bytes(32)
    with pytest.raises(LedgerError, match="the key of their digests was erased"):
        reader.open()
    path.unlink()
    path.mkdir()
    reader.key = DIGEST_KEY
    with pytest.raises(DiskError, match="cannot be read or written now"):
        reader.open()


def test_half_of_the_cursors_that_are_remembered_is_a_warning_and_more_than_all_an_error(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (http_source, passed):
        monkeypatch.setattr(module, "MOST_CURSORS", 6)
    Graph(feed, links := [*range(1, 9), None], links)
    reader = make_reader(feed)
    source = reader.open()
    with pytest.raises(LedgerError, match="no more of them can be remembered"):
        reader.poll(source)
    assert "half of the 6 cursors" in source.report.describe()[0]


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
    assert len(feed.asked) == 1
    source.close()


def test_what_stands_behind_a_question_mark_is_in_no_message(feed: Feed) -> None:
    feed.status = 404
    with pytest.raises(RecordError) as caught:
        make_reader(feed).once()
    assert "a=b" not in str(caught.value)


def test_an_answer_that_stops_ends_in_time_and_one_that_drips_is_read(feed: Feed) -> None:
    feed.records, feed.cut = [{"x": 1, "note": "a" * 20}], 30
    feed.hangs = threading.Event()
    reader = make_reader(feed, timeout_s=0.3)
    assert reader.once() == []
    assert "did not answer (ReadTimeout)" in reader.messages[0]
    feed.hangs.set()
    feed.cut, feed.drips = None, True
    assert make_reader(feed, timeout_s=0.3).once() == [1]


@pytest.mark.parametrize("where", ["body", "head"])
def test_an_answer_that_drips_for_ever_ends_the_look_and_costs_no_record(
    where: str, feed: Feed
) -> None:
    feed.records = [{"x": 1}, {"x": 2}]
    reader = make_reader(feed, timeout_s=0.1)
    if where == "body":
        feed.body, feed.drips = b" " * 100_000, True
    else:
        feed.drips_first = True
    assert reader.once() == []
    assert "did not answer" in reader.messages[0]
    feed.body, feed.drips, feed.drips_first = None, False, False
    assert reader.once() == [1, 2]


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
