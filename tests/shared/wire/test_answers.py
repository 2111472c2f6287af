"""Answers are read without trust: what no aggregator sends is an error that names the setting."""

from typing import Any

import pytest

from shared.errors import TransportError
from shared.wire import AnswerReader, read_problem, read_retry_after

READER = AnswerReader("server")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"1", b"[" * 100_000, b"\xff", b'{"a":'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(TransportError, match="server: the body of the answer"):
        READER.read_document(body)
    assert read_problem(body) == {}


@pytest.mark.parametrize(
    ("value", "kind", "is_one"),
    [(1, int, True), (True, int, False), (1.5, (int, float), True), ("1", int, False)],
)
def test_a_field_has_its_kind_and_a_boolean_is_no_number(
    value: Any, kind: Any, is_one: bool
) -> None:
    if is_one:
        assert READER.require({"n": value}, "n", kind) == value
    else:
        with pytest.raises(TransportError, match="n of the answer"):
            READER.require({"n": value}, "n", kind)
    with pytest.raises(TransportError, match="n of the answer"):
        READER.require({}, "n", kind)


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
