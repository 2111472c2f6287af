"""The ring of masked sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.shared.errors import MalformedMessageError, WireError
from sfumato.shared.sharing.ring import WIDTHS, Ring

widths = st.sampled_from(WIDTHS)
words = arrays(np.uint64, 7, elements=st.integers(0, 2**64 - 1))


def in_ring(ring: Ring, values: np.ndarray) -> np.ndarray:
    return ring.add(values)


@given(widths, arrays(np.int64, 7, elements=st.integers(-(2**63), 2**63 - 1)))
def test_integers_of_the_ring_survive_wrapping_and_centring(width: int, values: np.ndarray) -> None:
    ring = Ring(width=width)
    half = 1 << (8 * width - 1)
    modulus = 1 << 8 * width

    centred = ring.centre(ring.wrap(values))

    expected = [(int(v) + half) % modulus - half for v in values]
    assert centred.tolist() == expected


@given(widths, words, words)
def test_addition_is_that_of_integers_modulo_two_to_the_8w(
    width: int, first: np.ndarray, second: np.ndarray
) -> None:
    ring, modulus = Ring(width=width), 1 << 8 * width

    total = ring.add(first, second)
    back = ring.subtract(total, second)

    expected = [(int(a) + int(b)) % modulus for a, b in zip(first, second, strict=True)]
    assert total.tolist() == expected
    assert back.tolist() == in_ring(ring, first).tolist()


@given(widths, words)
def test_words_survive_their_encoding(width: int, values: np.ndarray) -> None:
    ring = Ring(width=width)
    held = in_ring(ring, values)

    data = ring.encode(held)

    assert len(data) == width * held.size
    assert data[:width] == int(held[0]).to_bytes(width, "little")
    assert ring.decode(data, n_words=held.size).tolist() == held.tolist()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_least_width_leaves_a_sign_and_four_spare_bits(width: int) -> None:
    largest = (1 << 8 * width - 5) - 1

    assert Ring.find_width(largest) == width
    assert Ring.find_width(largest + 1) == (width + 1 if width < 8 else None)


def test_a_wrong_number_of_bytes_is_refused() -> None:
    with pytest.raises(MalformedMessageError, match="words: must have 15 bytes and has 14"):
        Ring(width=5).decode(bytes(14), n_words=3)


def test_a_width_that_no_plan_has_is_refused() -> None:
    with pytest.raises(WireError, match="payload_width"):
        Ring(width=9)
