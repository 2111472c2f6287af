"""One honest server's noise, at one feature, has the exact law that the proof is about.

The other server cheats: its noise, and all masks or all payloads, are known to it. What is left is
one draw of K-norm noise, whatever the records are. The norms of 190 draws of each server are
compared with their law, which is enumerated; an honest score exceeds 4.9 standard deviations with a
probability below 1e-6, and 2/3 and 3/2 of the scale reach more.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.mechanisms.knorm import DiscreteKNorm
from sfumato.shared.privacy.polygon import GON24
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.sharing.batches import BatchKey, compute_members, compute_report
from sfumato.shared.sharing.masks import read_masked
from sfumato.shared.wire import decode_message
from sfumato.shared.wire.sum_messages import CommitRequest, ReportsRequest, SumAnswer
from tests.aggregator.batches.conftest import Pair, open_pair
from tests.statistical.test_knorm import score

pytestmark = pytest.mark.anyio
N_DRAWS, N_CELLS = 190, 12


@cache
def count_points() -> NDArray[np.float64]:
    """Return E(t), for each t up to 25 times the largest scale here."""
    counts = [GON24.count_points(each) for each in range(25 * 4100)]
    return np.array(counts, dtype=np.float64)


def compute_norms(scale: float) -> NDArray[np.float64]:
    """Return P(N <= n) of the norm N of K-norm noise at m = 1: for each n, up to 25 scales.

    The radius t is negative binomial, and the point uniform among the E(t) of that norm or less.
    """
    q, shift = math.exp(-1.0 / scale), 2
    t = np.arange(int(25 * scale))
    points = count_points()[: t.size]
    radius = (t - shift + 1) * (t - shift + 2) / 2 * (1 - q) ** 3 * q ** (t - shift)
    mass = np.where(t < shift, 0.0, radius) / points
    tail = mass[::-1].cumsum()[::-1]
    law: NDArray[np.float64] = (np.diff(points, prepend=0.0) * tail).cumsum()
    return law


def compare(noises: NDArray[np.int64], scale: float) -> float:
    """Compare norms with their law in cells that are equally likely: shape ``(n, 2)``."""
    law = compute_norms(scale)
    assert law[-1] == pytest.approx(1.0, abs=1e-6)
    edges = np.searchsorted(law, np.arange(1, N_CELLS) / N_CELLS)
    norms = GON24.norm(noises[:, 0], noises[:, 1])
    counts = np.bincount(np.searchsorted(edges, norms, side="left"), minlength=N_CELLS)
    # The exact chance of each cell: norms are whole numbers.
    bounds = np.concatenate([[0.0], law[edges], [1.0]])
    return score(counts.astype(np.float64), np.diff(bounds) * len(noises))


def draw_at_the_helper(pair: Pair, n_draws: int) -> NDArray[np.int64]:
    """Let the helper answer for batches of neighbours; return what it adds to the masks it knows.

    Every second batch has other records in one report than the batch before.
    """
    plan, helper = pair.plan, pair.helper.batches
    ring, n_words = plan.ring, plan.n_coordinates
    helper.source = SeededSource(1)
    digest, found = None, []
    for number in range(n_draws):
        reports = [pair.report(device, slot=0, count=1 + number % 2) for device in pair.devices]
        # Each batch has sketches of its own.
        pair.devices = [type(each)(each.seed + len(pair.devices), {}) for each in pair.devices]
        messages = [decode_message(each.message) for each in reports]
        digest = digest or messages[0].header.plan_digest
        key = BatchKey(plan_digest=digest, slot=0, labels={}, part=0, number=number)
        headers = tuple(each.header_bytes for each in messages)
        helper.check(key.batch_id, ReportsRequest(batch=key, headers=headers))
        members = compute_members(compute_report(each) for each in headers)
        data = helper.commit(key.batch_id, CommitRequest(members=members, count=len(reports)))
        answer = SumAnswer.decode(data, plan.helper.identity)
        opened = ring.add(
            ring.decode(answer.body, n_words=n_words),
            *(read_masked(each.payload, ring=ring, n_words=n_words) for each in messages),
        )
        found.append(ring.centre(opened) - np.sum([each.sums for each in reports], axis=0))
    return np.array(found)


def draw_at_the_leader(pair: Pair, n_draws: int) -> NDArray[np.int64]:
    opener = pair.server.services.opener
    opener.source = SeededSource(2)
    return np.array([opener._draw_noise(pair.plan) for _ in range(n_draws)])


async def test_one_honest_servers_noise_has_the_exact_law_at_one_feature(tmp_path: Path) -> None:
    async with open_pair(tmp_path, n_frequencies=1, least_reports=2) as pair:
        pair.devices = await pair.enrol(2)
        scale = find_scale(pair.plan)
        for draw in (draw_at_the_helper, draw_at_the_leader):
            noises = draw(pair, N_DRAWS)
            assert compare(noises, scale) < 4.9, draw
            assert compare(noises, scale * 2 / 3) > 4.9, draw
            assert compare(noises, scale * 3 / 2) > 4.9, draw


def find_scale(plan: SketchPlan) -> float:
    assert isinstance(plan.mechanism, DiscreteKNorm)
    return float(2**52 / plan.mechanism.rate)
