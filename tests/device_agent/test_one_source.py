"""The same records under another name: refused, or counted. Every kind of source, really read.

The budget pays for each record once. So whatever a stream, a path, an address or a study is called
the second time, no record may be in two sketches.
"""

import json
import os
import socket
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paho.mqtt import client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from sfumato.shared.privacy import Origin
from tests.device_agent.conftest import BASE, HOUR, Agent, make_plan
from tests.device_agent.serving import TOKEN, Server, running
from tests.device_agent.sources.streams import make_stream
from tests.device_agent.sources.test_http_source import serving
from tests.device_agent.sources.test_mqtt_source import HOST, PORT, needs_broker

RECORDS = [(BASE + i, float(i % 7) - 3, float(i)) for i in range(5)]
ROWS = [dict(zip(("time", "x", "y"), record, strict=True)) for record in RECORDS]
CSV = "\n".join(["time,x,y", *(",".join(map(str, record)) for record in RECORDS), ""])
TIME = 'timestamp = "time"\ntimestamp_format = "unix"\n'


class Source:
    """Records of one kind, where they are, and how else the same can be named."""

    def __init__(self, folder: Path, name: str = "a") -> None:
        self.folder = folder
        self.place = folder / name
        self.write()

    def write(self) -> None:
        raise NotImplementedError

    def table(self) -> str:
        raise NotImplementedError

    def rename(self) -> None:
        """Move it to another path."""
        self.place = self.place.rename(self.place.with_name("b"))

    def respell(self) -> None:
        """Name the same place with other letters."""
        (self.folder / "c").symlink_to(self.place)
        self.place = self.folder / "c"

    def edit(self) -> None:
        """Correct a digit of a record that was read, in place."""
        data = self.place.read_bytes()
        changed = data.replace(b"-3.0", b"-2.0", 1)
        assert changed != data
        with self.place.open("r+b") as file:
            file.write(changed)

    @contextmanager
    def serve(self) -> Iterator[None]:
        yield


class Lines(Source):
    kind = "csv"
    options = ""

    def write(self) -> None:
        self.place.write_text(CSV)

    def table(self) -> str:
        return f'kind = "{self.kind}"\npath = "{self.place}"\n{self.options}{TIME}'


class Successors(Lines):
    options = 'replaced = "join_successors"\n'


class JsonLines(Lines):
    kind = "jsonl"

    def write(self) -> None:
        self.place.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


class Folder(Lines):
    def write(self) -> None:
        self.place.mkdir()
        (self.place / "one").write_text(CSV)

    def table(self) -> str:
        return f'kind = "folder"\npath = "{self.place}"\n{TIME}'

    def edit(self) -> None:
        self.place, whole = self.place / "one", self.place
        super().edit()
        self.place = whole


class Database(Source):
    query = "SELECT id, time, x, y FROM r WHERE id > :last ORDER BY id LIMIT :n"

    def write(self) -> None:
        with closing(sqlite3.connect(self.place)) as connection, connection:
            connection.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, time, x, y)")
            connection.executemany("INSERT INTO r (time, x, y) VALUES (?, ?, ?)", RECORDS)

    def table(self) -> str:
        return f'kind = "sqlite"\npath = "{self.place}"\nkey = "id"\nquery = "{self.query}"\n{TIME}'

    def respell(self) -> None:
        # Another query of the same rows.
        self.query = self.query.replace("SELECT ", "SELECT  ")

    def edit(self) -> None:
        with closing(sqlite3.connect(self.place)) as connection, connection:
            connection.execute("UPDATE r SET x = x + 1 WHERE id = 1")


class Rows(Source):
    def write(self) -> None:
        pq.write_table(
            pa.Table.from_pylist(ROWS), self.place, compression="none", use_dictionary=False
        )

    def table(self) -> str:
        return f'kind = "parquet"\npath = "{self.place}"\n{TIME}'

    def edit(self) -> None:
        data = bytearray(self.place.read_bytes())
        at = data.index(b"\x00\x00\x00\x00\x00\x00\x08\xc0")  # -3.0
        data[at + 6] ^= 1
        with self.place.open("r+b") as file:
            file.write(data)


class Pages(Source):
    url = ""

    def write(self) -> None:
        self.rows = [dict(row) for row in ROWS]

    @contextmanager
    def serve(self) -> Iterator[None]:
        with serving() as feed:
            feed.records = self.rows
            self.url = feed.url  # type: ignore[attr-defined]
            yield

    def table(self) -> str:
        return f'kind = "http"\nurl = "{self.url}"\n{TIME}'

    def rename(self) -> None:
        self.url = self.url.replace("/r?a=b", "/r/?a=b")

    def respell(self) -> None:
        self.url = self.url.replace("127.0.0.1", "LOCALHOST").replace("?a=b", "?a=c")

    def edit(self) -> None:
        self.rows[0]["x"] = 2.5


KINDS = [Lines, Successors, JsonLines, Folder, Database, Rows, Pages]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Source]:
    found = request.param(tmp_path)
    with found.serve():
        yield found


def write_config(agent: Agent, *tables: str, names: tuple[str, ...] = ("meter", "other")) -> None:
    top = agent.config.read_text().partition("[[streams]]")[0]
    streams = [
        f'[[streams]]\nname = "{name}"\n[streams.source]\n{table}'
        for name, table in zip(names, tables, strict=False)
    ]
    agent.config.write_text(top + "\n".join(streams))


def count_released(*agents: Agent) -> int:
    """Count the records in all sketches that any server holds."""
    messages = [message for agent in agents for message in agent.server.stored.values()]
    return sum(message.header.n_records or 0 for message in messages)


@pytest.fixture
def released(agent: Agent, source: Source) -> Agent:
    """A device that has released all records of a source, and has nothing left of its budget."""
    write_config(agent, source.table())
    agent.init()
    report = agent.once()
    assert report["released"] == 1
    assert count_released(agent) == len(RECORDS)
    return agent


def test_records_under_another_path_spelling_or_digit_are_not_released_again(
    released: Agent, source: Source
) -> None:
    require_released_once((*CHANGES[1:], Source.edit), source, released)


def test_records_under_another_streams_name_are_not_released_again(
    released: Agent, source: Source
) -> None:
    require_released_once(CHANGES, source, released, name="renamed")


def test_two_streams_over_one_source_are_refused_before_anything_is_read(
    agent: Agent, source: Source
) -> None:
    first = source.table()
    source.respell()
    write_config(agent, first, source.table())
    assert agent.run("check") == 2
    assert "may give records of stream 'meter' too" in agent.err
    assert "disjoint" in agent.err


def test_records_of_another_study_are_counted_so_the_budget_refuses_them(
    released: Agent, source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(make_plan(n_frequencies=9)) as server:
        second = join(released, server, tmp_path / "second", capsys)
        require_released_once(CHANGES, source, released, second, name="another")


def join(first: Agent, server: Server, folder: Path, capsys: pytest.CaptureFixture[str]) -> Agent:
    """The same device in another study, with a budget for each record of its own."""
    folder.mkdir()
    agent = Agent(folder, server, capsys)
    agent.state = first.state
    agent.write_config(state_dir="../state")
    return agent


def test_pages_in_a_long_circle_are_released_once_and_the_agent_says_why_it_stops(
    agent: Agent,
) -> None:
    with serving() as feed:
        n_pages, last = 40, None

        def answer(query: str) -> bytes:
            page = int(parse_qs(query).get("cursor", ["0"])[0])
            rows = [{"time": BASE + HOUR * page + i, "x": 1.0, "y": 2.0} for i in range(5)]
            following = last if page == n_pages - 1 else page + 1
            return json.dumps({"records": rows, "next": following}).encode()

        feed.answer = answer  # type: ignore[method-assign]
        url = feed.url  # type: ignore[attr-defined]
        write_config(agent, f'kind = "http"\nurl = "{url}"\n{TIME}')
        agent.init()
        last = 0
        for _ in range(2):
            assert agent.run("once", "--json") == 2
            assert "gave a cursor that it gave before" in agent.err
    # Those of the last page are in the open window.
    assert count_released(agent) == 5 * (n_pages - 1)


@contextmanager
def feeding(data: bytes) -> Iterator[None]:
    """Give this process other bytes on standard input."""
    reading, writing = os.pipe()
    kept = os.dup(0)
    try:
        os.write(writing, data)
        os.close(writing)
        os.dup2(reading, 0)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)


def test_standard_input_is_one_source_whatever_the_stream_is_called(agent: Agent) -> None:
    write_config(agent, f'kind = "stdin"\n{TIME}')
    agent.init()
    with feeding(CSV.encode()):
        agent.once()
    assert count_released(agent) == len(RECORDS)
    write_config(agent, f'kind = "stdin"\n{TIME}', names=("renamed",))
    with feeding(CSV.encode()):
        assert agent.run("once") == 3
    assert "stream 'meter' may have sketched already" in agent.err
    assert count_released(agent) == len(RECORDS)


@needs_broker
def test_overlapping_topics_of_one_broker_are_one_source_for_two_studies(
    agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"sfumato-test/{uuid.uuid4().hex}"

    def table(filter_: str, host: str = HOST) -> str:
        url, client = f"mqtt://{host}:{PORT}", uuid.uuid4().hex[:16]
        return f'kind = "mqtt"\nurl = "{url}"\ntopic = "{filter_}"\nclient_id = "{client}"\n{TIME}'

    with running(make_plan(n_frequencies=9)) as server:
        second = join(agent, server, tmp_path / "second", capsys)
        write_config(agent, table(f"{topic}/+/heat"))
        write_config(second, table(f"{topic}/north/#", socket.getfqdn("localhost")))
        for each in (agent, second):
            each.init()
            each.once()  # subscribes
        publisher = mqtt.Client(CallbackAPIVersion.VERSION2)
        publisher.connect(HOST, PORT)
        publisher.loop_start()
        for row in ROWS:
            publisher.publish(f"{topic}/north/heat", json.dumps(row), qos=1).wait_for_publish(10)
        publisher.disconnect()
        publisher.loop_stop()
        agent.once()
        assert count_released(agent) == len(RECORDS)
        report = second.once(status=3)
        assert "budget.per_record" in report["errors"][0]
        assert count_released(agent, second) == len(RECORDS)


def test_parts_that_the_owner_declares_disjoint_are_released_one_by_one(
    agent: Agent, tmp_path: Path
) -> None:
    database = Database(tmp_path)
    even, odd = (
        database.table().replace("id > :last", f"id > :last AND id % 2 = {rest}")
        + f'disjoint = "{rest}"\n'
        for rest in (0, 1)
    )
    write_config(agent, even, odd)
    agent.init()
    assert agent.once()["epsilon_spent_per_record"] == "1"
    assert count_released(agent) == len(RECORDS)


def test_a_stream_does_not_read_its_source_again_by_another_key_part_or_host(
    agent: Agent, tmp_path: Path
) -> None:
    database = Database(tmp_path)
    write_config(agent, database.table())
    agent.init()
    agent.once()
    write_config(agent, database.table().replace('key = "id"', 'key = "time"'))
    assert agent.run("once") == 2
    assert "is read in another way than when it joined" in agent.err
    assert agent.run("init") == 3
    assert "streams.source.key" in agent.err
    assert count_released(agent) == len(RECORDS)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"])
def test_an_address_is_one_source_however_its_host_is_written(host: str) -> None:
    def origins(name: str, kind: str) -> tuple[Origin, ...]:
        scheme, rest = ("http", "/r") if kind == "http" else ("mqtt", "")
        table: dict[str, Any] = {
            "kind": kind,
            "url": f"{scheme}://{name}:1883{rest}",
            "timestamp": "t",
        }
        if kind == "mqtt":
            table |= {"topic": "a", "client_id": "c"}
        return make_stream(Path("/"), **table).source.origins

    for kind in ("http", "mqtt"):
        assert origins(host, kind) == origins("127.0.0.1", kind)
        assert origins("b\u00fccher.example", kind) == origins("xn--bcher-kva.example", kind)
        assert origins("10.0.0.1", kind) != origins("10.0.0.2", kind)


def test_a_part_that_is_declared_later_reads_nothing_again(released: Agent, source: Source) -> None:
    write_config(released, source.table() + 'disjoint = "a"\n')
    assert released.run("once", "--json") in (0, 2, 3), released.err
    assert count_released(released) == len(RECORDS)


CHANGES: tuple[Callable[[Source], None] | None, ...] = (None, Source.rename, Source.respell)


def require_released_once(
    changes: Iterable[Callable[[Source], None] | None],
    source: Source,
    agent: Agent,
    *others: Agent,
    name: str = "meter",
) -> None:
    """Change a source step by step; check that the last of the agents releases nothing again."""
    for change in changes:
        if change is not None:
            getattr(source, change.__name__)()
        last = (agent, *others)[-1]
        write_config(last, source.table(), names=(name,))
        if others:
            assert last.run("init", "--token", TOKEN) == 3
            assert "budget.per_record" in last.err
        # Whatever comes of it: a refusal, nothing new, or a budget that is spent.
        assert last.run("once", "--json") in (0, 2, 3), last.err
        assert count_released(agent, *others) == len(RECORDS), change


"""A source where it was, at another path, and under another spelling of that."""
