"""The queue of a relay: what it keeps, how much of it, and what it does with damage."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sfumato.device_agent.cli import main
from sfumato.device_agent.relay import queue as queues
from sfumato.device_agent.relay.answers import Answer
from sfumato.device_agent.relay.queue import LONGEST_HOLD_S, QUEUE_NAME, Queue
from sfumato.shared.errors import OverloadedError, StoreError
from sfumato.shared.wire import SketchHeader, decode_message
from tests.commands import run_inside
from tests.device_agent.relay.sensors import Relay, Sensor, relay_in
from tests.device_agent.serving import Server

NOW = 1_700_000_000.0
STORED = Answer(status=201, headers={"Content-Type": "application/json"}, body=b"{}")


@pytest.fixture
def messages(server: Server) -> list[tuple[SketchHeader, bytes]]:
    sensor = Sensor(server)
    signed = [sensor.sign(number).data for number in range(5)]
    return [(decode_message(data).header, data) for data in signed]


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    with closing(Queue(tmp_path, most_bytes=10_000)) as opened:
        yield opened


def keep(queue: Queue, message: tuple[SketchHeader, bytes], name: str | None = None) -> bytes:
    return queue.keep(*message, source="test", now=NOW, name=name)


def test_only_so_many_answers_are_kept_but_those_that_the_spool_waits_for(
    queue: Queue, messages: list[tuple[SketchHeader, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "KEEP_ANSWERS", 2)
    digests = [keep(queue, each, "first" if i == 0 else None) for i, each in enumerate(messages)]
    for i, digest in enumerate(digests):
        queue.settle(digest, STORED, problem="", now=NOW + i)
    found = [queue.find_answer(digest) for digest in digests]
    assert found == [STORED, None, None, STORED, STORED]
    assert queue.list_spooled() == [("first", STORED)]
    # Who sends again after that has the server answer again.
    assert keep(queue, messages[1]) == digests[1]
    waiting = queue.next_due(NOW)
    assert waiting is not None
    assert waiting.message == messages[1][1]


def test_a_full_queue_takes_no_further_message_and_answers_free_room(
    tmp_path: Path, messages: list[tuple[SketchHeader, bytes]]
) -> None:
    size = len(messages[0][1])
    with closing(Queue(tmp_path, most_bytes=2 * size)) as queue:
        first = keep(queue, messages[0])
        keep(queue, messages[1])
        with pytest.raises(OverloadedError, match="is full: "):
            keep(queue, messages[2])
        # What is kept already is no further message.
        assert keep(queue, messages[0]) == first
        queue.settle(first, STORED, problem="", now=NOW)
        keep(queue, messages[2])
        assert queue.count().waiting == 2


def test_a_message_that_is_held_is_due_again_though_the_clock_was_set_back(
    queue: Queue, messages: list[tuple[SketchHeader, bytes]]
) -> None:
    digest = keep(queue, messages[0])
    queue.hold(digest, problem="too-early", not_before=NOW + 60)
    assert queue.next_due(NOW) is None
    assert queue.next_due(NOW + 60) is not None
    assert queue.next_due(NOW - LONGEST_HOLD_S) is not None
    assert queue.count().held == {"too-early": 1}


def test_a_message_that_the_disk_has_changed_is_dropped_and_comes_again(
    tmp_path: Path, server: Server
) -> None:
    signed = Sensor(server).sign(0)
    with relay_in(tmp_path / "relay", server.url) as relay:
        bring(relay, signed.data)
        server.stop()
        assert run(relay) == 75
        connection = sqlite3.connect(tmp_path / "relay/queue" / QUEUE_NAME)
        with closing(connection), connection:
            changed = signed.data[:-1] + bytes([signed.data[-1] ^ 1])
            connection.execute("UPDATE messages SET message = ?", (changed,))
        server.start()
        assert run(relay) == 0
        assert server.received == []
        bring(relay, signed.data)
        assert run(relay) == 0
        assert server.received == [(signed.sketch_id, signed.data)]


def bring(relay: Relay, data: bytes) -> None:
    (relay.spool / "in").mkdir(parents=True, exist_ok=True)
    (relay.spool / "in/it.sketch").write_bytes(data)


def run(relay: Relay) -> int:
    return run_inside(main, ["relay", "--config", str(relay.config), "--once"]).returncode


@pytest.mark.parametrize("content", [b"no database at all, but more than a page" * 200, None])
def test_a_file_that_is_no_queue_is_refused_and_not_changed(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / QUEUE_NAME
    if content is None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 7")
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(StoreError) as refused:
        Queue(tmp_path, most_bytes=1)
    assert refused.value.field == QUEUE_NAME
    assert path.read_bytes()[100:] == before[100:]
