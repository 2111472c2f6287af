"""Batches of reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from sfumato.shared.sharing.batches import (
    BatchKey,
    add_noise_to_masks,
    choose_part,
    compute_members,
    compute_report,
    open_total,
)
from sfumato.shared.sharing.masks import MaskContext, expand_mask, mask_sum, read_masked
from sfumato.shared.sharing.ring import Ring

KEY = BatchKey(plan_digest=b"p" * 32, slot=3, labels={"ward": "north"}, part=0, number=0)


@pytest.mark.parametrize(
    "other",
    [
        replace(KEY, plan_digest=b"q" * 32),
        replace(KEY, slot=4),
        replace(KEY, labels={"ward": "south"}),
        replace(KEY, labels={}),
        replace(KEY, part=1),
        replace(KEY, number=1),
    ],
)
def test_batches_that_differ_in_anything_have_other_identities(other: BatchKey) -> None:
    assert len(KEY.batch_id) == 32
    assert other.batch_id != KEY.batch_id


def test_the_digest_of_members_knows_no_order_and_every_member() -> None:
    reports = [compute_report(name) for name in (b"a", b"b", b"c")]
    digests = {compute_members(order) for order in permutations(reports)}

    assert len(digests) == 1
    assert compute_members(reports[:2]) not in digests
    assert compute_members([*reports, reports[0]]) not in digests


def test_reports_spread_evenly_over_parts() -> None:
    """Seeded by a hash: 16 cells of 250 expected; the largest deviation allowed is 5 sd."""
    counts = Counter(
        choose_part(compute_report(bytes([i % 256, i // 256])), 16) for i in range(4000)
    )

    assert set(counts) == set(range(16))
    assert max(abs(count - 250) for count in counts.values()) < 5 * 250**0.5


@pytest.mark.parametrize("width", [2, 5, 8])
def test_a_batch_opens_to_the_exact_sum_plus_both_noises(width: int) -> None:
    ring, rng, n_words = Ring(width=width), np.random.default_rng(width), 9
    reach = 1 << (8 * width - 9)
    sums = rng.integers(-reach, reach, size=(50, n_words), dtype=np.int64)
    helper_noise, leader_noise = rng.integers(-reach, reach, size=(2, n_words), dtype=np.int64)
    masked, masks = [], []
    for i, each in enumerate(sums):
        context = MaskContext(plan_digest=b"p" * 32, sketch_id=bytes([i]) * 32, report_id=bytes(16))
        payload = mask_sum(each, bytes([i]) * 32, b"b" * 32, context, ring=ring)
        masked.append(read_masked(payload, ring=ring, n_words=n_words))
        masks.append(expand_mask(bytes([i]) * 32, context, ring=ring, n_words=n_words))

    helpers_half = add_noise_to_masks(ring.add(*masks), helper_noise, ring=ring)
    total = open_total(ring.add(*masked), helpers_half, leader_noise, ring=ring)

    expected = sums.sum(axis=0) + helper_noise + leader_noise
    half = 1 << (8 * width - 1)
    assert total.tolist() == [(int(t) + half) % (2 * half) - half for t in expected]
