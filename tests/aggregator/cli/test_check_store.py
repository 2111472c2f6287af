"""`sfumato check-store` over a database that is sound, and over one that somebody tampered with."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import text

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.resources.devices.record import RetiredKeyRecord
from sfumato.aggregator.resources.devices.store import rotate_key
from sfumato.aggregator.resources.sketches.store.retention import purge_withdrawn
from sfumato.shared.command import main
from tests.aggregator.api.test_heartbeats import send
from tests.aggregator.databases import find_address, open_kind, open_sqlite
from tests.aggregator.fleet import SLOT, Desk, Device, make_plan
from tests.aggregator.serving import open_server

pytestmark = pytest.mark.anyio

KEPT, LIAR = Device(1), Device(2, {"site": "south"})
GONE = Device(3)


@dataclass
class Filled:
    """A database that holds merged, waiting, leaving and excluded sketches."""

    url: str
    store: Store

    async def change(self, *statements: str) -> None:
        """Change it behind the server's back."""
        async with self.store.engine.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))

    async def check(self, *options: str) -> int:
        """Run the command in a thread, for it has a loop of its own."""
        arguments = ["check-store", "--database", self.url, *options]
        return await anyio.to_thread.run_sync(main, arguments)


async def exclude(desk: Desk, device: Device) -> None:
    url = f"/v1/devices/{device.device_id.hex()}/exclude"
    answer = await desk.operate("POST", url, {"reason": "lies"})
    assert answer.status_code == 200


async def fill(store: Store) -> None:
    plan = make_plan()
    async with open_server(store) as server:
        desk = server.desk
        study = await desk.open(KEPT, LIAR, GONE, plan=plan)
        await desk.send(study, GONE, plan)
        await exclude(desk, GONE)
        sums = {device.seed: device.release(plan, noise_seed=1) for device in (KEPT, LIAR)}
        for i in range(3):
            for device in (KEPT, LIAR):
                slots = (SLOT + 2 * i, SLOT + 2 * i + 1)
                await desk.send(study, device, plan, sums[device.seed], sequence=i, slots=slots)
            if i == 1:
                await server.services.merger.merge_all()
        await exclude(desk, LIAR)
        made = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 2})
        assert made.status_code == 202


@pytest.fixture(params=["sqlite", "postgres"])
async def filled(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Filled]:
    async with open_kind(request.param, tmp_path) as store:
        await fill(store)
        yield Filled(find_address(store), store)


def find(document: dict[str, Any], check: str) -> list[str]:
    """Return the faults of one check."""
    (report,) = (one for one in document["checks"] if one["check"] == check)
    faults: list[str] = report["faults"]
    assert report["n_faults"] == len(faults)
    return faults


async def test_a_sound_database_passes_every_check(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await filled.check("--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"]
    assert not any(report["n_faults"] for report in document["checks"])
    counts = {report["check"]: report["n_checked"] for report in document["checks"]}
    assert counts["sketches"] == 7
    assert min(counts.values()) > 0
    assert await filled.check() == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["check", "rows", "faults"]
    assert len(table) == 1 + len(document["checks"])


async def test_gaps_in_a_stream_are_warned_of_until_they_are_filled(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, device = make_plan(), Device(4)
    async with open_server(filled.store) as server:
        desk = server.desk
        study = bytes.fromhex((await desk.read("/v1/studies"))["items"][0]["study_id"])
        await desk.enrol(study, device)

        async def put(sequence: int) -> None:
            await desk.send(study, device, plan, sequence=sequence)

        for sequence in (6, 2, 3):
            server.clock.seconds += 60
            await put(sequence)
        capsys.readouterr()  # the server's log
        assert await filled.check("--json") == 3
        document = json.loads(capsys.readouterr().out)
        assert document["ok"]
        prefix = f"device {device.device_id.hex()}: stream 'main' lacks 2 sketches, sequence"
        assert find(document, "gaps") == [
            f"{prefix} 0 to 1, since 2026-03-01T12:01:00+00:00",
            f"{prefix} 4 to 5, since 2026-03-01T12:01:00+00:00",
        ]
        await filled.change("UPDATE devices SET n_sketches = n_sketches + 1")
        assert await filled.check() == 1, "a fault must outweigh a warning"
        await filled.change("UPDATE devices SET n_sketches = n_sketches - 1")
        for sequence in (0, 5, 1, 4):
            await put(sequence)
        capsys.readouterr()
        assert await filled.check("--json") == 0
        assert find(json.loads(capsys.readouterr().out), "gaps") == []


async def test_an_end_that_went_with_the_log_is_named_once_its_device_has_said_so(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a loss of SQLite's log: the rest is whole, and no number is missing in between."""
    body = {"agent": "1", "engine": "numpy", "waiting_sketches": 0, "acknowledged": {"main": 4}}
    async with open_server(filled.store) as server:
        assert (await send(server, KEPT, body)).status_code == 200
    capsys.readouterr()
    assert await filled.check("--json") == 3
    assert find(json.loads(capsys.readouterr().out), "gaps") == [
        f"device {KEPT.device_id.hex()}: stream 'main' lacks acknowledged sketches, "
        "sequence 3 to 4, by its device's heartbeat"
    ]


async def test_a_withdrawn_study_is_no_fault_while_it_is_removed_nor_after(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_server(filled.store) as server:
        (study,) = (await server.desk.read("/v1/studies"))["items"]
        withdrawn = await server.desk.withdraw(bytes.fromhex(study["study_id"]), study["name"])
        assert withdrawn.status_code == 200
        async with filled.store.begin(write=True) as transaction:
            assert await purge_withdrawn(transaction, most=4)
        assert await filled.check() == 0, capsys.readouterr().out
        while await server.services.studies.purge():
            pass
    assert await filled.check() == 0, capsys.readouterr().out


FIRST = "(SELECT sketch_id FROM sketches WHERE state = 'stored' ORDER BY sketch_id LIMIT 1)"
MERGED = (
    "(SELECT sketch_id FROM sketches WHERE state = 'stored' "
    "AND sketch_id NOT IN (SELECT sketch_id FROM pending_sketches) LIMIT 1)"
)


TAMPERED: list[tuple[str, str, str]] = [
    (
        "sketches",
        "does not have its digest",
        "UPDATE sketches SET payload = (SELECT payload FROM sketches WHERE state = 'excluded' "
        f"LIMIT 1) WHERE sketch_id = {FIRST}",
    ),
    (
        "sketches",
        "n_records is not what its device signed",
        f"UPDATE sketches SET n_records = n_records + 1 WHERE sketch_id = {FIRST}",
    ),
    (
        "sketches",
        "first_slot is not what its device signed",
        f"UPDATE sketches SET first_slot = first_slot - 1 WHERE sketch_id = {FIRST}",
    ),
    (
        "sketches",
        "the header cannot be read",
        f"UPDATE sketches SET header = plan_digest FROM studies WHERE sketch_id = {FIRST}",
    ),
    (
        "signatures",
        "no key of its device signed it",
        "UPDATE sketches SET signature = (SELECT signature FROM sketches "
        f"WHERE state = 'excluded' LIMIT 1) WHERE sketch_id = {FIRST}",
    ),
    (
        "signatures",
        "no key of its device signed it",
        # As if the next key had been given to the device by whoever changed the database.
        "UPDATE devices SET public_key = device_id WHERE n_sketches > 0",
    ),
    ("plans", "the plan does not have its digest", "UPDATE studies SET plan_digest = study_id"),
    ("counts", "says 4 sketches, and has 3", "UPDATE studies SET n_sketches = n_sketches + 1"),
    ("counts", "says 1499 records", "UPDATE studies SET n_records = n_records - 1"),
    ("counts", "says 7 sketches", "UPDATE devices SET n_sketches = 7"),
    (
        "sums",
        "is not the sum of its sketches",
        "UPDATE cells SET n_sketches = 17, magnitude = 17 WHERE labels = '{}'",
    ),
    (
        "sums",
        "is not the sum of its sketches",
        f"INSERT INTO pending_sketches SELECT sketch_id, study_id FROM sketches "
        f"WHERE sketch_id = {MERGED}",
    ),
    ("sums", "is not the sum of its sketches", "DELETE FROM cells"),
    ("sums", "is not the sum of its sketches", "DELETE FROM pending_sketches"),
    (
        "references",
        "is pending, and has nothing to add",
        "UPDATE sketches SET payload = NULL WHERE sketch_id IN "
        "(SELECT sketch_id FROM pending_sketches)",
    ),
    ("references", "has no root", "DELETE FROM cell_roots"),
    ("references", "its sketches stay in the sums", "DELETE FROM leaving_devices"),
    ("references", "is not excluded", "UPDATE devices SET excluded = NULL"),
    ("references", "contradict each other", "UPDATE decodes SET state = 'succeeded'"),
]


async def test_what_was_tampered_with_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, tampered = tmp_path / "sound.db", tmp_path / "tampered.db"
    async with open_sqlite(sound) as store:
        await fill(store)
    capsys.readouterr()  # the server's log
    unnamed = []
    for check, fault, statement in TAMPERED:
        shutil.copy(sound, tampered)
        with contextlib.closing(sqlite3.connect(tampered)) as connection, connection:
            connection.execute(statement)
        status = await anyio.to_thread.run_sync(
            main, ["check-store", "--database", str(tampered), "--json"]
        )
        document = json.loads(capsys.readouterr().out)
        named = find(document, check)
        if status != 1 or document["ok"] or not any(fault in line for line in named):
            unnamed.append((statement, status, named))
    assert unnamed == []


async def test_what_was_tampered_with_is_named_in_postgres_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_kind("postgres", tmp_path) as store:
        await fill(store)
        filled = Filled(find_address(store), store)
        capsys.readouterr()
        for check, fault, statement in (TAMPERED[0], TAMPERED[7], TAMPERED[10]):
            await filled.change(statement)
            assert await filled.check("--json") == 1
            document = json.loads(capsys.readouterr().out)
            assert any(fault in line for line in find(document, check)), document


async def test_a_retired_key_vouches_for_what_it_signed_and_nothing_after(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last of three sketches is one that the retired key may not have signed."""
    for last, n_faults in ((2, 0), (1, 1)):
        record = RetiredKeyRecord(
            key_id=hashlib.sha256(KEPT.public_key).digest(),
            device_id=KEPT.device_id,
            public_key=KEPT.public_key,
            retired=1.0,
            successor=b"s" * 32,
            last_sequences={"main": last},
        )
        async with filled.store.begin(write=True) as transaction:
            if n_faults == 0:
                next_key = KEPT.with_key(101).public_key
                assert await rotate_key(transaction, record, public_key=next_key)
            else:
                await transaction.change(
                    RetiredKeyRecord, record.key_id, last_sequences=record.last_sequences
                )
        assert await filled.check("--json") == (1 if n_faults else 0)
        found = find(json.loads(capsys.readouterr().out), "signatures")
        assert len(found) == n_faults


async def test_rows_that_name_what_is_not_there_are_found(
    filled: Filled, capsys: pytest.CaptureFixture[str]
) -> None:
    if filled.store.engine.dialect.name != "sqlite":
        # Postgres keeps references by itself, whatever is asked.
        with pytest.raises(Exception, match="violates foreign key"):
            await filled.change("DELETE FROM sketches")
        return
    connection = sqlite3.connect(str(filled.store.engine.url.database))
    connection.execute("DELETE FROM snapshots")
    connection.execute(f"DELETE FROM devices WHERE device_id = x'{KEPT.device_id.hex()}'")
    connection.commit()
    connection.close()
    assert await filled.check() == 1
    assert "its snapshot_id is missing" in capsys.readouterr().out
    assert await filled.check("--json") == 1
    orphans = find(json.loads(capsys.readouterr().out), "references")
    assert any(line.startswith("decodes ") and "snapshot_id" in line for line in orphans)
    assert sum(line.startswith("sketches ") and "device_id" in line for line in orphans) == 3


async def test_a_torn_file_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "torn.db"
    async with open_sqlite(path) as store:
        await fill(store)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'sketches' LIMIT 1"
    ).fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * page_size + 8 : page * page_size] = bytes(page_size - 8)
    path.write_bytes(data)
    status = await anyio.to_thread.run_sync(main, ["check-store", "--database", str(path)])
    shown = capsys.readouterr()
    assert status == 1, shown


def test_a_database_that_is_not_there_is_no_fault_of_its_contents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-store", "--database", str(tmp_path / "none.db")]) == 2
    assert "is missing" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()
