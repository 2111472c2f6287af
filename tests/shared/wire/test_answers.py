"""Answers are read without trust: what no aggregator sends is an error that names the setting."""

from typing import Any

import pytest

from sfumato.shared.errors import TransportError
from sfumato.shared.structure import declared, member
from sfumato.shared.wire import AnswerReader, read_problem, read_retry_after

READER = AnswerReader("server")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"1", b"[" * 100_000, b"\xff", b'{"a":'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(TransportError, match="server: the body of the answer"):
        READER.read_document(body)
    assert read_problem(body) == {}


@declared
class Answer:
    n: int = member("A number.")
    x: list[float] | None = member("Others.", default=None)


def test_an_answer_is_read_as_declared_and_other_members_are_ignored() -> None:
    assert READER.read(Answer, {"n": 1, "x": [1, 2.5], "new": 0}) == Answer(n=1, x=[1.0, 2.5])
    assert READER.read(Answer, b'{"n": 1, "x": null}') == Answer(n=1)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({}, "n"),
        ({"n": True}, "n"),
        ({"n": 1.0}, "n"),
        ({"n": None}, "n"),
        ({"n": 1, "x": [1, "2"]}, r"x\[1\]"),
        ({"n": 1, "x": [10**400]}, r"x\[0\]"),
        ({"n": 1, "x": [float("nan")]}, r"x\[0\]"),
    ],
)
def test_what_no_aggregator_sends_is_named(document: dict[str, Any], place: str) -> None:
    with pytest.raises(TransportError, match=f"server: {place} of the answer"):
        READER.read(Answer, document)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:05 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("\u0663", None),
    ],
)
def test_a_pause_is_in_seconds_or_until_a_date(text: str, seconds: float | None) -> None:
    assert read_retry_after(text, now=10.0) == seconds
