"""One honest server is enough: what the other sees has the whole noise of the mechanism, once.

Chi-square scores of independent Laplace coordinates; an honest score exceeds 4.9 with probability
below 1e-5, and 2/3 of the scale reaches far more. The other server's noise is known here, as it is
to a server that cheats.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.batches.service import checks, opener
from sfumato.aggregator.resources.batches.service.opener import BatchOpener
from sfumato.helper.batches import Batches
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.testing import SeededSource
from tests.aggregator.batches.conftest import Pair, open_pair
from tests.statistical.test_laplace import chi_square_score

pytestmark = pytest.mark.anyio
WIDE: dict[str, Any] = {"mechanism": "discrete-laplace", "n_frequencies": 4000}
SEED = 5


def draw_known(plan: SketchPlan) -> NDArray[np.int64]:
    zeros = np.zeros(plan.n_coordinates, dtype=np.int64)
    return plan.mechanism.add_noise(zeros, SeededSource(SEED))


async def open_slot(pair: Pair, slot: int) -> NDArray[np.int64]:
    """Open the batch of a slot; return its total without the exact sum."""
    pair.end_slot(slot, grace=0)
    pair.devices = pair.devices or await pair.enrol(3)
    reports = [pair.report(device, sequence=slot, slot=slot) for device in pair.devices]
    await pair.upload(*reports)
    await pair.close(slot)
    batch = (await pair.batches())[-1]
    assert batch.state == "acknowledged"
    noise: NDArray[np.int64] = pair.read_total(batch) - np.sum([r.sums for r in reports], axis=0)
    return noise


def score(plan: SketchPlan, noise: NDArray[np.int64], *, share: float = 1.0) -> float:
    scale = plan.release.scale
    return chi_square_score(noise, share * UNIT / (UNIT // scale))


@pytest.mark.parametrize("honest", ["leader", "helper"])
async def test_the_other_server_sees_the_whole_noise_of_an_honest_one(
    honest: str, tmp_path: Path
) -> None:
    async with open_pair(tmp_path, **WIDE) as pair:
        cheat = pair.server.services.opener if honest == "helper" else pair.helper.batches
        cheat.source = SeededSource(SEED)

        seen = await open_slot(pair, 0) - draw_known(pair.plan)

        assert score(pair.plan, seen) < 4.9
        assert score(pair.plan, seen, share=2 / 3) > 4.9
        assert score(pair.plan, seen, share=3 / 2) > 4.9


async def test_two_batches_have_noises_that_are_not_alike(tmp_path: Path) -> None:
    """Honest noises agree in a coordinate about once in their scale, which is thousands."""
    async with open_pair(tmp_path, **WIDE) as pair:
        assert await count_alike(pair) < 50


async def count_alike(pair: Pair) -> int:
    pair.helper.batches.source = SeededSource(SEED)
    first = await open_slot(pair, 0) - draw_known(pair.plan)
    pair.helper.batches.source = SeededSource(SEED)
    second = await open_slot(pair, 1) - draw_known(pair.plan)
    return int(np.count_nonzero(first == second))


async def test_a_leader_without_noise_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_nothing(_: BatchOpener, plan: SketchPlan) -> NDArray[np.int64]:
        return np.zeros(plan.n_coordinates, dtype=np.int64)

    monkeypatch.setattr(BatchOpener, "_draw_noise", draw_nothing)
    async with open_pair(tmp_path, **WIDE) as pair:
        pair.helper.batches.source = SeededSource(SEED)

        seen = await open_slot(pair, 0) - draw_known(pair.plan)

        assert score(pair.plan, seen) > 4.9


async def test_a_leader_that_used_a_noise_twice_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw_the_same(_: BatchOpener, plan: SketchPlan) -> NDArray[np.int64]:
        zeros = np.zeros(plan.n_coordinates, dtype=np.int64)
        return plan.mechanism.add_noise(zeros, SeededSource(1))

    monkeypatch.setattr(BatchOpener, "_draw_noise", draw_the_same)
    async with open_pair(tmp_path, **WIDE) as pair:
        assert await count_alike(pair) == pair.plan.n_coordinates


async def test_nothing_is_said_of_a_total_before_it_is_stored_and_the_helper_has_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    check: Callable[..., bool] = checks.is_plausible

    def watch(plan: SketchPlan, batch: BatchRecord) -> bool:
        seen.append((batch.state, batch.sums is not None, _find_at_helper(pair.helper.batches)))
        return check(plan, batch)

    monkeypatch.setattr(opener, "is_plausible", watch)
    await open_slot(pair, 0)

    assert seen == [("opened", True, "acknowledged")]


def _find_at_helper(batches: Batches) -> str:
    with batches.database.connect() as connection:
        return str(connection.exec_driver_sql("SELECT state FROM batches").scalar_one())


async def test_a_crash_before_the_total_is_stored_shows_nobody_the_first_noise(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper gets one total, of one noise, though two were drawn."""
    drawn: list[NDArray[np.int64]] = []
    draw = BatchOpener._draw_noise

    def draw_and_fail(opener: BatchOpener, plan: SketchPlan) -> NDArray[np.int64]:
        drawn.append(draw(opener, plan))
        if len(drawn) == 1:
            raise ConnectionError("a crash")
        return drawn[-1]

    monkeypatch.setattr(BatchOpener, "_draw_noise", draw_and_fail)
    pair.helper.batches.source = SeededSource(SEED)
    with pytest.raises(AssertionError):
        await open_slot(pair, 0)
    assert (await pair.only()).state == "closing"
    pair.wait()
    await pair.work()

    batch = await pair.only()
    reports = [pair.report(each) for each in pair.devices]
    exact = np.sum([each.sums for each in reports], axis=0)
    noise = pair.read_total(batch) - exact - draw_known(pair.plan)
    assert batch.state == "acknowledged"
    assert noise.tolist() == drawn[1].tolist()
