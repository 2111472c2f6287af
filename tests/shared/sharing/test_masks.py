"""Masks of single sums."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.errors import MalformedMessageError
from sfumato.shared.sharing.masks import MaskContext, expand_mask, mask_sum, read_masked
from sfumato.shared.sharing.ring import Ring

CONTEXT = MaskContext(plan_digest=b"p" * 32, sketch_id=b"s" * 32, report_id=b"r" * 16)
RING = Ring(width=5)
SEED, BLIND = b"k" * 32, b"b" * 32
N = 64


def test_a_mask_is_the_stream_of_shake_256_cut_into_words() -> None:
    stream = hashlib.shake_256(
        b"sfumato/v1/sum/mask" + b"p" * 32 + b"s" * 32 + b"r" * 16 + SEED
    ).digest(5 * N)

    mask = expand_mask(SEED, CONTEXT, ring=RING, n_words=N)

    expected = [int.from_bytes(stream[i : i + 5], "little") for i in range(0, 5 * N, 5)]
    assert mask.tolist() == expected


@pytest.mark.parametrize(
    "other",
    [
        replace(CONTEXT, plan_digest=b"q" * 32),
        replace(CONTEXT, sketch_id=b"t" * 32),
        replace(CONTEXT, report_id=b"u" * 16),
    ],
)
def test_a_seed_that_is_used_twice_gives_another_mask_in_another_release(
    other: MaskContext,
) -> None:
    first = expand_mask(SEED, CONTEXT, ring=RING, n_words=N)
    second = expand_mask(SEED, other, ring=RING, n_words=N)

    assert (first != second).all()


@given(st.lists(st.integers(-(2**38), 2**38 - 1), min_size=3, max_size=3))
def test_the_mask_and_the_masked_words_add_up_to_the_sum(values: list[int]) -> None:
    sums = np.array(values, dtype=np.int64)

    payload = mask_sum(sums, SEED, BLIND, CONTEXT, ring=RING)
    words = read_masked(payload, ring=RING, n_words=3)

    mask = expand_mask(SEED, CONTEXT, ring=RING, n_words=3)
    assert payload[-32:] == BLIND
    assert RING.centre(RING.add(words, mask)).tolist() == values


def test_the_blind_hides_which_sum_a_payload_digest_belongs_to() -> None:
    """Somebody who knows the mask could try every likely sum against the digest."""
    candidates = [np.full(4, value, dtype=np.int64) for value in range(100)]

    def guess(blind: bytes) -> list[int]:
        payload = mask_sum(candidates[37], SEED, blind, CONTEXT, ring=RING)
        known = hashlib.sha256(payload).digest()
        tried = (mask_sum(each, SEED, bytes(32), CONTEXT, ring=RING) for each in candidates)
        return [i for i, each in enumerate(tried) if hashlib.sha256(each).digest() == known]

    assert guess(bytes(32)) == [37]
    assert guess(b"\x8f" * 32) == []


def test_a_payload_of_another_length_is_refused() -> None:
    with pytest.raises(MalformedMessageError, match="must have 47 bytes and has 46"):
        read_masked(bytes(46), ring=RING, n_words=3)
