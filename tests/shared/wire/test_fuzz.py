"""What is deep, long or unfolds is refused soon; ``tests/fuzz`` looks for what none thought of."""

from __future__ import annotations

import hashlib
import tracemalloc
from fractions import Fraction
from typing import Any

import cbor2
import pytest

from sfumato.shared.cbor import decode_deterministic, encode_deterministic
from sfumato.shared.errors import MalformedMessageError
from sfumato.shared.wire import decode_message
from tests.shared.wire.samples import make_message

MESSAGE = make_message()


@pytest.mark.parametrize("depth", [17, 400, 1_000, 100_000])
@pytest.mark.parametrize("opening", [b"\x81", b"\xc1", b"\xd2", b"\xa1\x00", b"\xa1", b"\x9f"])
def test_deeply_nested_cbor_is_refused(depth: int, opening: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_message(opening * depth + b"\x00")


@pytest.mark.parametrize("kind", [0x5B, 0x7B, 0x9B, 0xBB])
@pytest.mark.parametrize("length", [1 << 20, 1 << 40, (1 << 63) - 1, (1 << 64) - 1])
def test_a_length_that_is_not_there_costs_nothing(kind: int, length: int) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessageError):
            decode_message(bytes([kind]) + length.to_bytes(8, "big"))
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def share(depth: int) -> bytes:
    """Encode a list that holds itself twice at each level: a few bytes that unfold to 2^depth."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value, value]
    return cbor2.dumps(value, value_sharing=True)


def refer(count: int) -> bytes:
    """Encode one long string and many references to it, which take two bytes each."""
    return cbor2.dumps(["x" * 10_000] * count, string_referencing=True)


@pytest.mark.parametrize(
    "bomb",
    [
        share(4),
        share(40),
        refer(10_000),
        cbor2.dumps(cbor2.CBORTag(5, [1 << 60, 3])),
        cbor2.dumps(cbor2.CBORTag(4, [1 << 60, 3])),
        cbor2.dumps(cbor2.CBORTag(35, "(a{0,60000}){0,60000}" * 1000)),
    ],
    ids=["shared", "shared deeply", "strings", "bigfloat", "decimal", "expression"],
)
def test_a_cbor_bomb_is_refused_before_it_unfolds(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        for data in (bomb, b"\x82" + bomb + b"\x40"):
            with pytest.raises(MalformedMessageError):
                decode_message(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_no_tag_becomes_anything_but_a_tag_or_an_exact_number() -> None:
    samples = [0, 1.5, "2020-01-01", b"\x01", [1, 2], {}, "a"]
    # Those that the library or a registry gives a meaning, and others.
    for tag in (*range(1200), 43_000, 43_001, 55_799, 65_535):
        for sample in samples if tag < 300 else samples[:2]:
            data = encode_deterministic(cbor2.CBORTag(tag, sample))
            try:
                value = decode_deterministic(data, what="message")
            except MalformedMessageError:
                continue
            assert isinstance(value, cbor2.CBORTag | int | Fraction), (tag, value)


def test_big_integers_and_rationals_still_pass() -> None:
    for value in (1 << 64, -(1 << 64) - 1, 1 << 500, Fraction(1 << 70, 3)):
        assert decode_deterministic(encode_deterministic(value), what="plan") == value
    digest = hashlib.sha256(MESSAGE).digest()
    assert decode_deterministic(encode_deterministic(digest), what="digest") == digest
