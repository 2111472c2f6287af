"""Answers of the server to a device, read without trust."""

from __future__ import annotations

from device_agent.server.messages import DeviceAnswer, StudyAnswer
from shared.wire import AnswerReader
from shared.wire.bodies.devices import DeviceStatusBody, NoticeBody, StreamBody

ANSWERS = AnswerReader("server")

_MOST_CHARACTERS = 200
_STUDY_STATES = ("open", "closed", "withdrawn")


def read_device(data: bytes, *, device: bytes) -> DeviceAnswer:
    """Read the server's knowledge of a device; raises ``TransportError``."""
    status = ANSWERS.read(DeviceStatusBody, data)
    if status.device_id != device.hex():
        raise ANSWERS.refuse("device_id")
    missing = {stream.stream: _read_missing(stream) for stream in status.streams}
    return DeviceAnswer(
        device_id=status.device_id,
        study_id=status.study_id,
        last_sequences={stream.stream: stream.last_sequence for stream in status.streams},
        server_time=status.server_time,
        generation=status.generation,
        missing={stream: ranges for stream, ranges in missing.items() if ranges},
        unnamed=frozenset(s.stream for s in status.streams if _lacks_more(s, missing[s.stream])),
    )


def read_study(data: bytes, *, etag: str) -> StudyAnswer:
    """Read a study's life cycle; raises ``TransportError``."""
    notice = ANSWERS.read(NoticeBody, data)
    if notice.state not in _STUDY_STATES:
        raise ANSWERS.refuse("state")
    is_kept = etag.isascii() and len(etag) <= _MOST_CHARACTERS
    return StudyAnswer(
        state=notice.state, accept_until=notice.accept_until, etag=etag if is_kept else ""
    )


def _read_missing(stream: StreamBody) -> tuple[tuple[int, int], ...]:
    expected = 0
    for part in stream.missing:
        if not expected <= part.first <= part.last < stream.last_sequence:
            raise ANSWERS.refuse("missing")
        expected = part.last + 1
    return tuple((part.first, part.last) for part in stream.missing)


def _lacks_more(stream: StreamBody, named: tuple[tuple[int, int], ...]) -> bool:
    """Return whether a server lacks more than it names, of which it must name something."""
    n_named = sum(last - first + 1 for first, last in named)
    if stream.n_missing < n_named or (stream.n_missing and not named):
        raise ANSWERS.refuse("n_missing")
    return stream.n_missing > n_named
