"""A disk on which nothing more can be written: a limit on the size of the server's files."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.resources.batches.store.check import check_sums
from sfumato.aggregator.resources.studies.record import StudyRecord
from sfumato.aggregator.settings import normalise_database_url
from sfumato.shared.command import main
from tests.aggregator.fleet import Desk, Device, assert_problem, make_plan
from tests.aggregator.processes import read_announcement, start

pytestmark = pytest.mark.anyio
_NOTHING_MORE = 4096


@pytest.fixture
def database(tmp_path: Path) -> str:
    return str(tmp_path / "full.db")


@pytest.fixture
def operator(database: str, capsys: pytest.CaptureFixture[str]) -> str:
    main(["operator-key", "--name", "me", "--json", "--database", database])
    return str(json.loads(capsys.readouterr().out)["key"])


async def test_uploads_are_refused_while_the_disk_is_full_and_stored_when_it_is_not(
    database: str, operator: str
) -> None:
    plan = make_plan()
    devices = [Device(number) for number in range(4)]
    options = ("--no-worker", "--database", database)
    with start(*options, stderr=subprocess.DEVNULL) as process:
        try:
            url, _ = read_announcement(process)
            async with httpx.AsyncClient(base_url=url) as http:
                desk = Desk(http, operator, operator)
                study = await desk.open(*devices, plan=plan)
                messages = [device.message(study, plan) for device in devices]
                assert (await desk.put(study, *messages[0])).status_code == 201
                _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (_NOTHING_MORE, hard))
                for message in messages[1:]:
                    answer = await desk.put(study, *message)
                    assert_problem(answer, "unavailable", 503)
                    assert int(answer.headers["retry-after"]) >= 1
                assert (await desk.read(f"/v1/studies/{study.hex()}"))["n_sketches"] == 1
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
                answers = [await desk.put(study, *message) for message in messages]
                assert [answer.status_code for answer in answers] == [200, 201, 201, 201]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    assert process.returncode == 0
    store = open_store(normalise_database_url(database))
    async with store.begin() as transaction:
        layout = Layout.of(plan)
        assert await check_sums(transaction, study, layout=layout) == []
        found = await transaction.get(StudyRecord, study)
    await store.close()
    assert found is not None
    assert found.n_sketches == 4
