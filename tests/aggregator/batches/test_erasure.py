"""Masked sums that were dropped are in no file of the leader, its write-ahead log included.

A helper's keys and an old copy of such a file would read a sum exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.resources.batches.record import BatchRecord
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.shared.wire import decode_message
from tests.aggregator.batches.conftest import Pair, Report

pytestmark = pytest.mark.anyio


def count_payloads(pair: Pair, reports: list[Report]) -> int:
    """Count the payloads whose last 32 bytes, which are random, stand in a file."""
    path = Path(pair.server.store.engine.url.database or "")
    held = b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    return sum(decode_message(report.message).payload[-32:] in held for report in reports)


async def send(pair: Pair) -> list[Report]:
    reports = [pair.report(device) for device in await pair.enrol(4)]
    await pair.upload(*reports)
    assert count_payloads(pair, reports) == 4
    return reports


async def open_batches(pair: Pair) -> None:
    await pair.close()


async def let_it_be_too_late(pair: Pair) -> None:
    # More than there are reports.
    async with pair.server.store.begin(write=True) as transaction:
        (batch,) = await pair.batches()
        await transaction.change(BatchRecord, batch.batch_id, least_reports=9)
    pair.clock.seconds = batch.expires + 1.0
    await pair.work()


async def give_up(pair: Pair) -> None:
    (batch,) = await pair.batches()
    await pair.server.services.batches.give_up(pair.study, batch.batch_id, reason="gone")


async def exclude_all(pair: Pair) -> None:
    async with pair.server.store.begin() as transaction:
        rows = await transaction.connection.execute(text("SELECT device_id FROM devices"))
        devices = list(rows.scalars())
    for device in devices:
        await pair.server.services.roster.exclude(device, reason="test")


async def withdraw(pair: Pair) -> None:
    await pair.server.desk.withdraw(pair.study)
    await pair.server.services.studies.purge()


@pytest.mark.parametrize("end", [open_batches, let_it_be_too_late, give_up, exclude_all, withdraw])
async def test_payloads_are_in_no_file_after_their_end(
    end: Callable[[Pair], Awaitable[None]], pair: Pair
) -> None:
    reports = await send(pair)

    await end(pair)

    assert count_payloads(pair, reports) == 0


async def test_somebody_who_reads_delays_it_for_as_long_as_they_read(pair: Pair) -> None:
    store = pair.server.store
    reports = await send(pair)
    async with store.begin() as transaction:
        await transaction.get(StudyRecord, pair.study)
        await give_up(pair)
        assert count_payloads(pair, reports) == 4

    stop = asyncio.Event()
    worker = asyncio.create_task(pair.server.services.opener.run(stop))
    for _ in range(200):
        await asyncio.sleep(0.05)
        if not count_payloads(pair, reports):
            break
    stop.set()
    await worker

    assert count_payloads(pair, reports) == 0


async def test_what_a_process_left_in_the_log_goes_with_the_next_ones_first_commit(
    pair: Pair,
) -> None:
    store = pair.server.store
    reports = await send(pair)
    async with store.begin() as transaction:
        await transaction.get(StudyRecord, pair.study)
        await give_up(pair)
    assert count_payloads(pair, reports) == 4

    after = open_store(str(store.engine.url))
    async with after.begin(write=True):
        pass

    assert count_payloads(pair, reports) == 0
    await after.close()
