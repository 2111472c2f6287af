"""Decodes of secure sums: several parts show the influence of one, a single part shows none."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest

from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.jobs.service.sources import load_sources
from sfumato.aggregator.resources.plans import require_study
from sfumato.aggregator.worker import Worker
from tests.aggregator.batches.conftest import Pair, open_pair

pytestmark = pytest.mark.anyio


async def fill(pair: Pair, n_devices: int) -> None:
    """Open the batches of two windows."""
    devices = await pair.enrol(n_devices)
    for slot in range(2):
        await pair.upload(
            *[pair.report(device, sequence=slot, slot=slot, count=40) for device in devices]
        )
        await pair.close(slot)


async def decode(pair: Pair) -> dict[str, Any]:
    url = f"/v1/studies/{pair.study.hex()}/decodes"
    asked = (await pair.server.desk.post(url, {"n_clusters": 2})).json()
    worker = Worker(pair.server.services.jobs, lease_s=60.0, poll_s=0.01)
    assert await worker.run_once(asyncio.Event())
    shown = await pair.server.desk.read(f"/v1/decodes/{asked['decode_id']}")
    assert shown["state"] == "succeeded", shown
    return dict(shown["result"])


async def test_a_sum_of_one_part_says_that_one_device_may_have_decided_it(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"epsilon": Fraction(200), "parts": 1, "most_records": 40}
    async with open_pair(tmp_path, **changes) as pair:
        await fill(pair, 8)
        result = await decode(pair)
        assert result["influence"] is None
        assert "one device may have decided any cluster" in result["verdict"]["sentence"]


async def test_parts_are_looked_at_by_how_far_each_differs_in_its_window(tmp_path: Path) -> None:
    # All 30 devices in two of three parts, in one of two windows: with a chance of 3e-5.
    changes: dict[str, Any] = {
        "epsilon": Fraction(200),
        "parts": 3,
        "least_reports": 2,
        "most_records": 40,
    }
    async with open_pair(tmp_path, **changes) as pair:
        await fill(pair, 30)
        snapshot, _ = await pair.server.services.snapshots.create(pair.study, Selection())
        async with pair.server.store.begin() as transaction:
            study = await require_study(transaction, pair.study)
            sources = await load_sources(transaction, study, pair.plan, snapshot)
        assert sources is not None
        assert (sources.kind, len(sources.totals)) == ("part", 3)
        whole = reduce(add, sources.totals)
        assert whole.sums.tolist() == snapshot.totals.sums.tolist()
        assert whole.n_sketches == 6
        found = (await decode(pair))["influence"]
        assert (found["source"], found["n_sources"]) == ("part", 3)
