"""Uploads and several workers at once: each report is in one total, each total is drawn once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from sfumato.aggregator.resources.batches.service import lease
from sfumato.aggregator.resources.batches.service.opener import BatchOpener
from sfumato.aggregator.services import Services
from sfumato.shared.errors import StudyWithdrawnError
from tests.aggregator.batches.conftest import Pair, open_pair

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_workers_and_uploads_at_once_lose_and_double_nothing(
    kind: str, tmp_path: Path
) -> None:
    async with open_pair(tmp_path, kind=kind, parts=3, least_reports=2, most_reports=4) as pair:
        devices = await pair.enrol(30)
        reports = [pair.report(device) for device in devices]
        pair.end_slot()
        workers = [
            Services(pair.server.store, pair.clock, pair.server.settings).opener for _ in range(3)
        ]

        async def work() -> None:
            for _ in range(4):
                await asyncio.gather(*(each.run_due() for each in workers))

        await asyncio.gather(work(), *(pair.upload(report) for report in reports))
        pair.end_slot(grace=12)
        await work()

        batches = await pair.batches()
        counted = [each for each in batches if each.state == "acknowledged"]
        waiting = [each for each in batches if each.state != "acknowledged"]
        assert sum(each.n_reports for each in batches) == len(reports)
        assert all(each.state == "open" and each.n_reports < 2 for each in waiting)
        assert len(counted) >= 5
        found = await pair.sum_all()
        assert found.n_sketches == len(counted)
        totals = np.sum([pair.read_total(each) for each in counted], axis=0)
        assert found.sums.tolist() == totals.tolist()
        n_records = sum(each.n_records or 0 for each in counted)
        assert found.moments.first == n_records == 2 * sum(each.n_reports for each in counted)
        assert await pair.find_faults() == []


async def test_a_worker_that_lost_its_lease_opens_no_sum_of_some_reports(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another lets the helper judge the reports again, just while this one adds them up."""
    add_up = BatchOpener._sum_payloads
    reports = [pair.report(device) for device in await pair.enrol(4)]
    await pair.upload(*reports)
    pair.end_slot()

    async def move(old: str, new: str) -> None:
        change = text(
            f"UPDATE sketches SET state = '{new}' WHERE sketch_id IN "
            f"(SELECT sketch_id FROM sketches WHERE state = '{old}' LIMIT 1)"
        )
        async with pair.server.store.begin(write=True) as transaction:
            await transaction.connection.execute(change)

    async def add_some_up(*about: Any) -> Any:
        await move("accepted", "waiting")
        try:
            return await add_up(*about)
        finally:
            await move("waiting", "accepted")

    with monkeypatch.context() as patched:
        patched.setattr(BatchOpener, "_sum_payloads", add_some_up)
        await pair.work()
    batch = await pair.only()
    assert (batch.state, batch.sums) == ("closing", None)
    assert batch.problem is not None
    assert "another worker has it too" in batch.problem["detail"]
    pair.wait()
    await pair.work()

    batch = await pair.only()
    exact = np.sum([each.sums for each in reports], axis=0)
    noise = np.abs(pair.read_total(batch) - exact)
    assert noise.max() <= 2 * pair.plan.mechanism.noise_bound
    assert (batch.state, batch.standing) == ("acknowledged", "counted")


async def test_a_study_that_is_withdrawn_while_its_batch_is_leased_ends_no_worker(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pair.upload(*[pair.report(device) for device in await pair.enrol(3)])
    pair.end_slot()

    async def find_withdrawn(*_: Any) -> Any:
        raise StudyWithdrawnError("was withdrawn", field="study")

    monkeypatch.setattr(lease, "require_study", find_withdrawn)

    assert not await pair.server.services.opener.run_once()
