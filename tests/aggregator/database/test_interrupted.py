"""Migrations that are cut off, and a disk that is full: what was there stays, and it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import inspect

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.database import migration
from sfumato.aggregator.database.schema import migrate_database, require_ready
from tests.aggregator.databases import open_sqlite
from tests.aggregator.fleet import Device, assert_problem, make_plan
from tests.aggregator.serving import open_server

pytestmark = pytest.mark.anyio


async def list_tables(store: Store) -> list[str]:
    async with store.engine.connect() as connection:
        return await connection.run_sync(lambda sync: inspect(sync).get_table_names())


async def test_a_migration_that_is_interrupted_leaves_no_trace_and_runs_again(
    empty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_connection: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(migration, "_add_server_row", fail)
        with pytest.raises(RuntimeError, match="killed"):
            await migrate_database(empty_store.engine)
    assert await list_tables(empty_store) == []
    assert await migrate_database(empty_store.engine) is not None
    await require_ready(empty_store)


async def test_a_way_down_that_is_interrupted_keeps_every_table(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await list_tables(store)
    downgrade = command.downgrade

    def fail_after(*arguments: Any) -> None:
        downgrade(*arguments)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(command, "downgrade", fail_after)
        with pytest.raises(RuntimeError, match="killed"):
            await migrate_database(store.engine, "base")
    assert sorted(await list_tables(store)) == sorted(before)
    await require_ready(store)


async def set_most_pages(store: Store, most: int | None) -> None:
    """Let the file grow no further than it is, or as far as ``most`` pages."""
    async with store.engine.connect() as connection:
        if most is None:
            pages = await connection.exec_driver_sql("PRAGMA page_count")
            most = int(pages.scalar_one())
        # One connection serves this pool in this test, for nothing runs at the same time.
        await connection.exec_driver_sql(f"PRAGMA max_page_count = {most}")


async def test_a_full_disk_is_a_reason_to_come_again_and_loses_nothing(tmp_path: Path) -> None:
    plan, device = make_plan(n_frequencies=1000), Device(1)
    async with open_sqlite(tmp_path / "full.db") as store, open_server(store) as server:
        desk = server.desk
        study = await desk.open(device, plan=plan)
        values = device.release(plan, noise_seed=1)
        messages = [device.message(study, plan, values, sequence=i) for i in range(30)]
        await set_most_pages(store, None)
        statuses = []
        for message in messages:
            answer = await desk.put(study, *message)
            statuses.append(answer.status_code)
            if answer.status_code != 201:
                assert_problem(answer, "unavailable", 503)
                assert int(answer.headers["retry-after"]) > 0
        assert 503 in statuses
        # What was acknowledged is there, what was not is not, and reading goes on.
        listed = await desk.read(f"/v1/studies/{study.hex()}/sketches")
        assert len(listed["items"]) == statuses.count(201)
        await set_most_pages(store, 1 << 30)
        for message, status in zip(messages, statuses, strict=True):
            again = await desk.put(study, *message)
            assert again.status_code == (200 if status == 201 else 201)
        assert await server.services.merger.merge_all() == len(messages)
        assert await server.services.merger.check(study) == []
