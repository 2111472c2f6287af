"""A real server whose SQLite file is damaged, removed or replaced under it, and the check of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from sfumato.shared.command import main
from tests.aggregator.fleet import Desk, Device, make_plan
from tests.aggregator.processes import read_announcement, start

pytestmark = pytest.mark.anyio

PLAN, DEVICE = make_plan(), Device(1)
SUMS = DEVICE.release(PLAN, noise_seed=1)


@contextmanager
def serving(path: Path, log: Path) -> Iterator[str]:
    """Run a server, and check that it stops when it is told."""
    with log.open("w") as file:
        process: subprocess.Popen[str] = start(
            "--no-worker", "--database", str(path), stderr=file.fileno()
        )
        try:
            yield read_announcement(process)[0]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    assert process.returncode == 0


async def make_key(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    options = ["operator-key", "--name", "me", "--database", str(path)]
    assert await anyio.to_thread.run_sync(main, options) == 0
    return capsys.readouterr().out.strip()


async def put(desk: Desk, study: bytes, sequence: int) -> int:
    message = DEVICE.message(study, PLAN, SUMS, sequence=sequence)
    return (await desk.put(study, *message)).status_code


async def fill(path: Path, secret: str, log: Path, n: int = 40) -> bytes:
    with serving(path, log) as url:
        async with httpx.AsyncClient(base_url=url) as http:
            desk = Desk(http, secret, secret)
            study = await desk.open(DEVICE, plan=PLAN)
            for sequence in range(n):
                assert await put(desk, study, sequence) == 201
            answer = await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 2})
            assert answer.status_code == 202
    return study


def read_log(log: Path) -> list[dict[str, Any]]:
    """Return the log; whatever is no line of it, such as a traceback, is an error."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def drop_table(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("DROP TABLE sketches")
    connection.close()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (halve, "database disk image is malformed"),
        (drop_table, "no such table: sketches"),
    ],
)
async def test_a_damaged_database_is_said_to_be_and_takes_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    reason: str,
) -> None:
    path, log = tmp_path / "store.db", tmp_path / "log.jsonl"
    secret = await make_key(path, capsys)
    study = await fill(path, secret, log)
    damage(path)
    with serving(path, log) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            desk = Desk(http, secret, secret)
            assert await put(desk, study, 41) == 503
            answers = [
                await http.get(f"/v1/studies/{study.hex()}/sketches", headers=desk.operator),
                await desk.post(f"/v1/studies/{study.hex()}/decodes", {"n_clusters": 3}),
            ]
    for answer in answers:
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["retry-after"]) > 0
        assert reason not in answer.text, "that is for the log"
    assert any(reason in str(entry.get("reason")) for entry in read_log(log))
    assert await anyio.to_thread.run_sync(main, ["check-store", "--database", str(path)]) == 1
    said = capsys.readouterr()
    assert reason in said.out + said.err
    assert "Traceback" not in said.out + said.err


@pytest.mark.parametrize("is_replaced", [False, True], ids=["removed", "replaced"])
async def test_nothing_is_acknowledged_into_a_file_that_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_replaced: bool
) -> None:
    """An open file can be written to after it was removed, and all of it goes with the process."""
    path, log, copy = tmp_path / "store.db", tmp_path / "log.jsonl", tmp_path / "copy.db"
    secret = await make_key(path, capsys)
    study = await fill(path, secret, log, n=3)
    shutil.copy(path, copy)
    with serving(path, log) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            desk = Desk(http, secret, secret)
            assert await put(desk, study, 3) == 201
            assert await put(desk, study, 4) == 201
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)
            if is_replaced:
                copy.rename(path)
            statuses = [await put(desk, study, 5) for _ in range(20)]
    if is_replaced:
        # Each connection finds out by itself; one that is opened now uses the file that is there.
        assert set(statuses) <= {200, 201, 503}
        assert statuses.count(201) == 1
        assert statuses.index(201) < statuses.index(200)
        with sqlite3.connect(path) as connection:
            (stored,) = connection.execute("SELECT count(*) FROM sketches").fetchone()
        connection.close()
        assert stored == 4, "0 to 2 of the copy, and the one that was acknowledged"
        assert await anyio.to_thread.run_sync(main, ["check-store", "--database", str(path)]) == 3
    else:
        assert set(statuses) == {503}
        assert not path.exists()
    reasons = " ".join(str(entry.get("reason")) for entry in read_log(log))
    assert "was removed, or another file is there" in reasons


async def test_values_of_another_kind_are_faults_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log = tmp_path / "store.db", tmp_path / "log.jsonl"
    await fill(path, await make_key(path, capsys), log, n=3)
    for statement in (
        "UPDATE sketches SET received = 'yesterday', header = 7",
        "UPDATE studies SET n_sketches = 'many'",
        "UPDATE devices SET public_key = 'text'",
        "UPDATE studies SET plan = 17",
    ):
        damaged = tmp_path / "damaged.db"
        shutil.copy(path, damaged)
        with sqlite3.connect(damaged) as connection:
            connection.execute(statement)
        connection.close()
        options = ["check-store", "--database", str(damaged), "--json"]
        status = await anyio.to_thread.run_sync(main, options)
        document = json.loads(capsys.readouterr().out)
        assert (status, document["ok"]) == (1, False), statement
