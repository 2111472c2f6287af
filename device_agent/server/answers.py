"""Answers of the server to a device, read field by field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from device_agent.server.messages import DeviceAnswer, StudyAnswer
from shared.wire import AnswerReader, is_stream_name

ANSWERS = AnswerReader("server")

_LATEST_S = 253402300800
"""The year 10000."""
_MOST_SKETCHES = 1 << 53
_MOST_CHARACTERS = 200
_STUDY_STATES = ("open", "closed", "withdrawn")


def read_device(document: Mapping[str, Any], *, device: bytes) -> DeviceAnswer:
    """Read what the server knows of a device; raises ``TransportError``."""
    streams = ANSWERS.require(document, "streams", list)
    if document.get("device_id") != device.hex():
        raise ANSWERS.refuse("device_id")
    entries = [_require_entry(entry, "streams") for entry in streams]
    return DeviceAnswer(
        device_id=device.hex(),
        study_id=ANSWERS.require(document, "study_id", str),
        last_sequences=dict(_read_stream(entry) for entry in entries),
        server_time=_read_time(document),
        generation=_read_generation(document),
        missing={
            ANSWERS.require(entry, "stream", str): missing
            for entry in entries
            if (missing := _read_missing(entry))
        },
        unnamed=frozenset(entry["stream"] for entry in entries if _lacks_more(entry)),
    )


def read_study(document: Mapping[str, Any], *, etag: str) -> StudyAnswer:
    """Read a study's life cycle; raises ``TransportError``."""
    state, until = ANSWERS.require(document, "state", str), document.get("accept_until")
    if state not in _STUDY_STATES:
        raise ANSWERS.refuse("state")
    if until is not None and not _is_time(until):
        raise ANSWERS.refuse("accept_until")
    is_kept = etag.isascii() and len(etag) <= _MOST_CHARACTERS
    return StudyAnswer(state=state, accept_until=until, etag=etag if is_kept else "")


def _require_entry(entry: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise ANSWERS.refuse(name)
    return entry


def _read_stream(entry: Mapping[str, Any]) -> tuple[str, int]:
    name = ANSWERS.require(entry, "stream", str)
    last = ANSWERS.require(entry, "last_sequence", int)
    if not is_stream_name(name):
        raise ANSWERS.refuse("stream")
    # More than any stream has, and what JSON writes exactly.
    if not 0 <= last < _MOST_SKETCHES:
        raise ANSWERS.refuse("last_sequence")
    return name, last


def _read_generation(document: Mapping[str, Any]) -> str:
    generation = ANSWERS.require(document, "generation", str)
    # It is kept, and each change of it is noted for good.
    if not generation.isascii() or len(generation) > _MOST_CHARACTERS:
        raise ANSWERS.refuse("generation")
    return generation


def _lacks_more(entry: Mapping[str, Any]) -> bool:
    """Return whether a server lacks more than it names, of which it must name something."""
    named = _read_missing(entry)
    n_missing = ANSWERS.require(entry, "n_missing", int)
    n_named = sum(b - a + 1 for a, b in named)
    if n_missing < n_named or (n_missing and not named):
        raise ANSWERS.refuse("n_missing")
    return n_missing > n_named


def _read_missing(entry: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    end = ANSWERS.require(entry, "last_sequence", int)
    found: list[tuple[int, int]] = []
    expected = 0
    for item in ANSWERS.require(entry, "missing", list):
        part = _require_entry(item, "missing")
        first, last = ANSWERS.require(part, "first", int), ANSWERS.require(part, "last", int)
        if not expected <= first <= last < end:
            raise ANSWERS.refuse("missing")
        found.append((first, last))
        expected = last + 1
    return tuple(found)


def _read_time(document: Mapping[str, Any]) -> float:
    value = document.get("server_time")
    # An int may be larger than any float.
    if not isinstance(value, int | float) or not abs(value) < _LATEST_S:
        raise ANSWERS.refuse("server_time")
    return float(value)


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False
