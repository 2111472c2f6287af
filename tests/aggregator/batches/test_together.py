"""Uploads and several workers at once: each report is in one total, each total is drawn once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from aggregator.services import Services
from tests.aggregator.batches.conftest import open_pair

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
