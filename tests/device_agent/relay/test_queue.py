"""The queue of a relay, over time."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from device_agent.relay.answers import Answer
from device_agent.relay.queue import ANSWER_LASTS_S, Queue
from shared.errors import OverloadedError
from shared.wire import decode_message
from tests.device_agent.relay.sensors import Sensor
from tests.device_agent.serving import Server

RECEIPT = Answer(status=201, body=b"stored")


@pytest.fixture
def message(server: Server) -> bytes:
    return Sensor(server).sign(0).data


@pytest.fixture
def queue(tmp_path: Path, message: bytes) -> Iterator[Queue]:
    """A queue with room for one message, whose receipt came at time 100."""
    with closing(Queue(tmp_path, most_bytes=len(message))) as queue:
        keep(queue, message, now=99.0)
        queue.settle(digest_of(message), RECEIPT, problem="", now=100.0)
        yield queue


def keep(queue: Queue, message: bytes, *, now: float) -> None:
    queue.keep(decode_message(message).header, message, source="http", now=now)


def digest_of(message: bytes) -> bytes:
    return hashlib.sha256(message).digest()


def test_a_receipt_is_given_again_to_who_has_not_heard_it(queue: Queue, message: bytes) -> None:
    keep(queue, message, now=100.0 + ANSWER_LASTS_S)
    assert queue.find_answer(digest_of(message)) == RECEIPT
    assert queue.next_due(1e9) is None


@pytest.mark.parametrize("later", [ANSWER_LASTS_S + 1.0, 1e6, -5.0])
def test_later_or_after_the_clock_was_set_back_the_server_is_asked_again(
    queue: Queue, message: bytes, later: float
) -> None:
    keep(queue, message, now=100.0 + later)
    assert queue.find_answer(digest_of(message)) is None
    waiting = queue.next_due(100.0 + later)
    assert waiting is not None
    assert (waiting.message, waiting.attempts) == (message, 0)
    assert queue.count().waiting == 1
    queue.settle(waiting.digest, RECEIPT, problem="", now=101.0 + later)
    assert (queue.count().waiting, queue.count().stored) == (0, 1)


def test_what_was_answered_long_ago_needs_room_again(
    queue: Queue, message: bytes, server: Server
) -> None:
    keep(queue, Sensor(server).sign(0).data, now=200.0)
    with pytest.raises(OverloadedError, match="full"):
        keep(queue, message, now=1e6)
    assert queue.find_answer(digest_of(message)) == RECEIPT
