from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from benchmarks.service import sizing, uploads
from benchmarks.service.bulk import compare_sums, load_windows, prepare_study
from benchmarks.service.databases import open_database
from benchmarks.service.fleet import Fleet, make_plan
from benchmarks.service.servers import running_servers
from benchmarks.service.sizing import measure_sizing
from benchmarks.service.snapshots import measure_snapshots
from benchmarks.service.uploads import measure_outage, measure_uploads, send
from sfumato.aggregator.base.clock import SystemClock
from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.sketches.store.tables import CELLS, SKETCHES
from sfumato.aggregator.resources.studies.store import CELL_ROOTS, STUDIES
from sfumato.aggregator.services import Services

pytestmark = pytest.mark.usefixtures("forked")

PLAN = make_plan(n_frequencies=20)
FLEET = Fleet(10, PLAN)
N_WINDOWS = 3


async def read_rows(store: Store) -> dict[str, list[Any]]:
    """Read what uploads leave, but for when."""
    sketches = [column for column in SKETCHES.c if column.name != "received"]
    statements = {
        "sketches": select(*sketches).order_by(SKETCHES.c.sketch_id),
        "roots": select(CELL_ROOTS),
        "cells": select(CELLS).order_by(
            CELLS.c.level, CELLS.c.first, CELLS.c.length, CELLS.c.labels
        ),
        "studies": select(STUDIES.c.n_sketches, STUDIES.c.n_records, STUDIES.c.n_ordinals),
    }
    async with store.engine.connect() as connection:
        return {
            name: list(await connection.execute(statement))
            for name, statement in statements.items()
        }


async def upload_all(store: Store) -> dict[str, list[Any]]:
    await prepare_study(store, FLEET)
    services = Services(store, SystemClock())
    for message in FLEET.sign_windows(range(N_WINDOWS)):
        body = message.head + FLEET.payloads[message.release]
        assert await services.sketches.receive(FLEET.study_id, message.header.sketch_id, body)
    assert await services.merger.merge_all() == N_WINDOWS * FLEET.n_devices
    return await read_rows(store)


async def load_all(store: Store) -> dict[str, list[Any]]:
    await prepare_study(store, FLEET)
    await load_windows(store, FLEET, N_WINDOWS)
    assert await compare_sums(store, FLEET) == []
    rows = await read_rows(store)
    async with store.engine.begin() as connection:
        await connection.execute(update(CELLS).values(magnitude=CELLS.c.magnitude + 1))
    assert await compare_sums(store, FLEET)
    return rows


def test_what_is_loaded_in_bulk_is_what_uploads_leave(tmp_path: Path) -> None:
    with open_database("sqlite", tmp_path) as database:
        uploaded = database.run(upload_all)
    with open_database("sqlite", tmp_path) as database:
        loaded = database.run(load_all)
    assert len(uploaded["sketches"]) == 30
    assert loaded == uploaded


def test_the_load_client_sends_each_request_once(tmp_path: Path) -> None:
    fleet = Fleet(20, PLAN)
    messages = list(fleet.sign_windows([0]))
    with open_database("sqlite", tmp_path) as database:
        database.run(partial(prepare_study, fleet=fleet))
        with running_servers(database.url) as servers:
            first, _ = send(fleet, servers, messages, tmp_path, connections=4, rate=50.0)
            again, _ = send(fleet, servers, messages, tmp_path, connections=4)
    assert sorted(number for _, _, _, number in first.answered) == list(range(20))
    assert {status for _, status, _, _ in first.answered} == {201}
    assert {status for _, status, _, _ in again.answered} == {200}
    # The last is due after 19 of 50 parts of a second, however fast the server is.
    assert max(at for at, _, _, _ in first.answered) >= 0.38


def test_an_outage_is_counted_to_the_last_sketch(tmp_path: Path) -> None:
    rows = {
        row.figure: row.value
        for row in measure_outage("sqlite", tmp_path, devices=30, connections=10)
    }
    assert rows["acknowledged"] == 30


def test_uploads_are_measured_beside_the_bare_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_MOST_A_SECOND", 300)
    rows = {
        row.figure: row.value for row in measure_uploads("sqlite", tmp_path, seconds=0.5, runs=1)
    }
    assert rows["uploads_per_second"] > 0
    # Two rates of half a second each, on a machine that others load: which is larger is left open.
    assert rows["ratio_to_bare"] > 0
    assert rows["p50_ms"] <= rows["p99_ms"]


def test_snapshots_are_measured_at_each_size(tmp_path: Path) -> None:
    sizes = {"1e2": (10, 10)}
    rows = {row.figure: row.value for row in measure_snapshots("sqlite", tmp_path, sizes, runs=5)}
    assert rows["ratio_to_smallest"] == 1
    assert rows["latency_ms"] > 0


def test_every_unit_has_its_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_N_DEVICES", 20), ("_BATCH", 40), ("_N_CLUSTERS", 1)):
        monkeypatch.setattr(sizing, name, value)
    rows = list(measure_sizing("sqlite", tmp_path, n=20))
    units = {row.case.removeprefix("sizing sqlite ") for row in rows}
    assert units >= {"enrolment", "upload", "report", "disk", "decode", "merge devices=1000000"}
    assert all(row.value > 0 for row in rows if row.figure.endswith("bytes"))
