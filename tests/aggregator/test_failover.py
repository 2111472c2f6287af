"""A Postgres that fails over to its standby under a running server: both are real."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sfumato.aggregator.base.store import open_store
from sfumato.aggregator.database.schema import migrate_database
from sfumato.aggregator.settings import normalise_database_url
from tests.aggregator.fleet import Desk, Device, make_plan
from tests.aggregator.test_database_away import serving, wait_until
from tests.ports import hold_port, port_of

pytestmark = pytest.mark.anyio
_FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
# Postgres refuses to run as root.
_AS_OWNER = ["runuser", "--user", "postgres", "--"] if os.geteuid() == 0 else []


@dataclass
class Node:
    """One of the two databases."""

    folder: Path
    port: int

    def run(self, program: str, *words: str) -> None:
        """Run a program of Postgres."""
        command = [*_AS_OWNER, str(_FOUND[-1].with_name(program)), *words]
        # A server that it starts would hold pipes open.
        done = subprocess.run(command, stdout=subprocess.DEVNULL, cwd="/", check=False)
        assert done.returncode == 0, (program, (self.folder / "log").read_text())

    def control(self, *words: str) -> None:
        """Start, stop or promote it."""
        self.run("pg_ctl", "--wait", f"--pgdata={self.folder}", *words)

    def start(self, settings: str = "") -> None:
        """Start it, without the waits that only a power cut needs."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        log = f"--log={self.folder / 'log'}"
        self.control(log, f"--options={options} -c fsync=off {settings}", "start")


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    """Start a primary whose commits wait for its standby."""
    if not _FOUND:
        pytest.skip("the programs of Postgres are not installed")
    folder = Path(tempfile.mkdtemp(prefix="sfumato-failover-"))
    if _AS_OWNER:
        shutil.chown(folder, "postgres")
    with hold_port() as first, hold_port() as second:
        primary = Node(folder / "primary", port_of(first))
        standby = Node(folder / "standby", port_of(second))
    try:
        given = ("--auth=trust", "--username=sfumato", "--no-sync")
        primary.run("initdb", f"--pgdata={primary.folder}", *given)
        primary.start("-c synchronous_standby_names=*")
        source = f"--dbname=postgresql://sfumato@127.0.0.1:{primary.port}/postgres"
        target = f"--pgdata={standby.folder}"
        primary.run("pg_basebackup", source, target, "-R", "--checkpoint=fast", "--no-sync")
        standby.start()
        yield primary, standby
    finally:
        for node in (primary, standby):
            if (node.folder / "postmaster.pid").exists():
                node.control("--mode=immediate", "stop")
        shutil.rmtree(folder)


async def test_a_standby_that_takes_over_has_every_sketch_that_was_acknowledged(
    nodes: tuple[Node, Node],
) -> None:
    primary, standby = nodes
    hosts = "&".join(f"host=127.0.0.1:{node.port}" for node in nodes)
    url = f"postgresql://sfumato@/postgres?{hosts}&target_session_attrs=read-write"
    store = open_store(normalise_database_url(url))
    await migrate_database(store.engine)
    await store.close()
    async with serving(url) as (app, http):
        await wait_until(http, 200)
        key, _ = await app.state.services.keys.create(name="op", scope="operator")
        desk, plan = Desk(http, key, key), make_plan()
        study = await desk.open(Device(1), plan=plan)
        messages = [Device(1).message(study, plan, sequence=i) for i in range(6)]
        for message in messages[:3]:
            assert (await desk.put(study, *message)).status_code == 201

        await asyncio.to_thread(primary.control, "--mode=immediate", "stop")
        assert (await desk.put(study, *messages[3])).status_code == 503
        await asyncio.to_thread(standby.control, "promote")
        await wait_until(http, 200)
        answers = [(await desk.put(study, *message)).status_code for message in messages]
        assert answers == [200] * 3 + [201] * 3
        shown = await http.get(f"/v1/studies/{study.hex()}", headers=desk.operator)
        assert shown.json()["n_sketches"] == len(messages)
