"""From reports to a total that is counted as one sketch."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.sketches.store.cells import sum_sketches
from tests.aggregator.batches.conftest import ON_BOTH, Pair

pytestmark = pytest.mark.anyio


@ON_BOTH
async def test_a_batch_opens_to_the_exact_sum_and_two_noises(pair: Pair) -> None:
    """Each noise is bounded with probability 1 - 2^-60."""
    reports = [pair.report(device) for device in await pair.enrol(5)]
    await pair.upload(*reports)
    await pair.close()

    (batch,) = await pair.batches()
    assert (batch.state, batch.standing, batch.n_reports) == ("acknowledged", "counted", 5)
    noise = pair.read_total(batch) - sum(each.sums for each in reports)
    assert np.abs(noise).max() <= 2 * pair.plan.mechanism.noise_bound
    assert np.count_nonzero(noise) > noise.size / 2


@ON_BOTH
async def test_a_total_is_one_sketch_of_all_records(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(4)])
    await pair.close()
    (batch,) = await pair.batches()

    async with pair.server.store.begin() as transaction:
        totals = await sum_sketches(
            transaction, pair.study, Selection(), layout=Layout.of(pair.plan)
        )

    assert (totals.n_sketches, totals.moments.first, totals.n_devices) == (1, 8, 4)
    assert totals.sums.tolist() == pair.read_total(batch).tolist()


async def test_a_total_decodes_like_the_sketch_of_one_device(pair: Pair) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(4)])
    await pair.close()

    url = f"/v1/studies/{pair.study.hex()}"
    answer = await pair.server.desk.post(f"{url}/snapshots", {})
    utility = await pair.server.desk.read(f"{url}/utility")

    assert answer.status_code == 201, answer.text
    snapshot = answer.json()
    assert (snapshot["n_sketches"], snapshot["n_devices"], snapshot["n_records"]) == (1, 4, 8)
    plan = pair.plan
    energy = 2 * 2 * plan.mechanism.variance / (8 * plan.amplitude) ** 2
    assert utility["noise_energy"] == pytest.approx(energy)
