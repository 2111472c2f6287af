"""Servers and a worker whose connections go through a pooler in transaction mode."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest

from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.services import Services
from sfumato.aggregator.settings import Settings
from tests.aggregator.databases import find_address, open_postgres
from tests.aggregator.fleet import Desk, Device, make_plan
from tests.aggregator.processes import running
from tests.aggregator.worker.test_processes import ask, run_process, wait_for
from tests.poolers import pooling

pytestmark = pytest.mark.anyio

N_DEVICES, N_SKETCHES = 6, 10


async def test_two_servers_store_decode_and_keep_schedules_through_a_pooler() -> None:
    async with open_postgres() as store, AsyncExitStack() as stack:
        port = stack.enter_context(pooling(store.engine.url))
        pooled = Settings(
            database_url=find_address(store, host="127.0.0.1", port=port), poll_s=0.05
        )
        key, _ = await Services(store, SystemClock(), pooled).keys.create(
            name="op", scope="operator"
        )
        desks = []
        for _ in range(2):
            url = stack.enter_context(running("--database", pooled.database_url))
            http = await stack.enter_async_context(httpx.AsyncClient(base_url=url))
            desks.append(Desk(http, key, key))
        plan, devices = make_plan(), [Device(i) for i in range(N_DEVICES)]
        study = await desks[0].open(*devices, plan=plan)

        async def send(ordinal: int) -> int:
            device, sequence = devices[ordinal % N_DEVICES], ordinal // N_DEVICES
            message = device.message(study, plan, sequence=sequence)
            return (await desks[ordinal % 2].put(study, *message)).status_code

        answers = await asyncio.gather(*map(send, range(N_DEVICES * N_SKETCHES)))
        assert answers == [201] * len(answers)
        body = {"n_clusters": 2, "every_s": 86_400.0}
        made = await desks[0].post(f"/v1/studies/{study.hex()}/schedules", body)
        assert made.status_code == 201, made.text
        with run_process(pooled) as worker:
            await wait_for(desks[1], await ask(desks[1], study), "succeeded", worker=worker)
            while (shown := await desks[0].read(made.headers["location"]))["n_runs"] == 0:
                await asyncio.sleep(0.05)
        assert shown["problem"] is None
