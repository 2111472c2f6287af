"""A state folder that is put back or lost, or a server's database put back, against real ones."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sfumato.analyst import Client
from sfumato.shared.plan import plan_from_spec
from tests.ledgers import use_new_ledger
from tests.system.agents import Agent, make_agent
from tests.system.servers import start_server
from tests.system.test_restore import append_records, read_sums, run, sum_sent
from tests.system.test_whole_path import SPEC, write_records


class Site:
    """A server, a study, and a device with two windows of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "server").mkdir()
        self.database = folder / "server" / "aggregator.sqlite"
        self.data = folder / "north.csv"
        write_records(self.data, n=2000, seed=1)
        self.server = start_server(folder / "server")
        with Client(self.server.url, key=self.server.key) as client:
            self.study = client.create_study("copied", plan_from_spec(SPEC)).study_id
            self.agent: Agent = make_agent(folder / "north", client, self.study, data=self.data)
        self.state = folder / "north" / "state"

    def stop(self) -> int:
        """Stop the server and return its port."""
        port = int(self.server.url.rsplit(":", 1)[1])
        self.server.stop()
        return port

    def stored(self) -> dict[int, str]:
        """Return the payload digests that the server holds, by number."""
        with closing(sqlite3.connect(self.database)) as database:
            rows = database.execute("SELECT sequence, payload_digest FROM sketches")
            return dict(rows)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    try:
        yield site
    finally:
        site.server.stop()


def test_a_state_that_was_put_back_while_the_server_was_away_sends_no_second_noise(
    site: Site,
) -> None:
    backup = site.folder / "backup"
    shutil.copytree(site.state, backup)
    assert site.agent.once()["sent"] == 2
    held = site.stored()
    port = site.stop()
    shutil.rmtree(site.state)
    backup.rename(site.state)
    # On another machine, where no owner's ledger knows, the same records are released again.
    use_new_ledger()
    done = site.agent.run("once", "--json", "--send-for", "0")
    assert (done.returncode, json.loads(done.stdout)["released"]) == (75, 2)
    site.server = start_server(site.folder / "server", port=port)
    refused = site.agent.run("once", "--json")
    assert refused.returncode == 3
    assert "this ledger never sent (points 0-1)" in refused.stderr
    assert site.stored() == held
    with closing(sqlite3.connect(site.state / "agent.sqlite")) as outbox:
        rows = outbox.execute("SELECT state, problem, offered_at FROM outbox").fetchall()
    assert rows == [("shelved", "released-by-a-copy", None)] * 2
    (spent,) = json.loads(site.agent.run("budget", "--json").stdout)["streams"]
    assert (spent["n_releases"], spent["epsilon_spent_per_record"]) == (4, "40")
    # It stays so, and the server was never shown another noise.
    assert site.agent.run("once").returncode == 3
    with Client(site.server.url, key=site.server.key) as client:
        assert client.snapshot(site.study).n_sketches == 2
        assert client.refusals(site.study).items == []


def test_a_server_with_an_older_database_is_told_of_and_gets_what_it_lacks(site: Site) -> None:
    site.agent.once()
    port = site.stop()
    saved = site.folder / "saved.sqlite"
    shutil.copy(site.database, saved)
    site.server = start_server(site.folder / "server", port=port)
    append_records(site.data, n=3000, seed=10, first_time=2000)
    assert site.agent.once()["sent"] == 3
    site.stop()
    # By hand, without `sfumato restore`: the server does not know that it has lost anything.
    for left in site.database.parent.glob("aggregator.sqlite*"):
        left.unlink()
    shutil.copy(saved, site.database)
    site.server = start_server(site.folder / "server", port=port)
    report = site.agent.once()
    assert report["sent"] == 3
    (said,) = report["messages"]
    assert "older database was put back without `sfumato restore`" in said
    assert "stream points 2-4" in said
    again = site.agent.once()
    assert (again["sent"], again["messages"]) == (0, [])
    with Client(site.server.url, key=site.server.key) as client:
        snapshot = client.snapshot(site.study)
        sums = read_sums(site.server, snapshot)
    assert (snapshot.n_sketches, snapshot.n_records) == (5, 5000)
    width = plan_from_spec(SPEC).payload_width
    assert np.array_equal(sums, sum_sent([site.agent], width))


@pytest.mark.parametrize("says_so", [True, False])
def test_a_rebuilt_device_takes_the_place_of_the_old_one_or_the_operator_is_warned(
    says_so: bool, site: Site
) -> None:
    assert site.agent.once()["sent"] == 2
    shutil.rmtree(site.state)
    use_new_ledger()  # the disk was lost
    append_records(site.data, n=3000, seed=10, first_time=2000)
    with Client(site.server.url, key=site.server.key) as client:
        (old,) = client.devices(site.study)
        replaces = ("--replaces", old.device_id) if says_so else ()
        done = site.agent.run("init", "--token", client.create_token(site.study), *replaces)
        assert done.returncode == 0, done.stderr
        report = site.agent.once()
        first, second = client.devices(site.study)
        n_records = client.snapshot(site.study).n_records
    assert (report["waiting"], report["shelved"]) == (0, 0)
    # Each record once, or those of the old device twice.
    assert n_records == (5000 if says_so else 7000)
    assert first.state == ("revoked" if says_so else "enrolled")
    assert second.replaces == (old.device_id if says_so else None)
    assert (first.may_repeat, second.may_repeat) == ([], [] if says_so else [old.device_id])
    shown = json.loads(site.agent.run("check", "--json").stdout)
    assert shown["ok"], shown


def test_a_device_that_changed_its_key_twice_since_the_backup_goes_on_with_its_present_one(
    site: Site,
) -> None:
    agent, saved = site.agent, site.folder / "saved.db"
    assert agent.once()["released"] == 2
    run("backup", str(saved), "--database", str(site.database))
    keys = []
    for number in (1, 2):
        done = agent.run("rotate-key", "--json")
        assert done.returncode == 0, done.stderr
        keys.append(json.loads(done.stdout)["key_id"])
        append_records(site.data, n=2000, seed=10 + number, first_time=2000 * number)
        assert agent.once()["released"] > 0
    port = site.stop()
    for left in site.database.parent.glob("aggregator.sqlite*"):
        left.unlink()
    run("restore", str(saved), "--database", str(site.database))
    site.server = start_server(site.folder / "server", port=port)
    report = agent.once()
    assert "was restored from a backup" in " ".join(report["messages"])
    assert (report["shelved"], report["waiting"]) == (0, 0)
    assert agent.once()["messages"] == []
    with Client(site.server.url, key=site.server.key) as client:
        shown = client.device(next(client.sketches(site.study)).device_id)
        assert [key.key_id for key in shown.keys][:2] == [keys[1], keys[0]]
        assert [key.state for key in shown.keys] == ["present", "retired", "retired"]
        snapshot = client.snapshot(site.study)
        sums = read_sums(site.server, snapshot)
    assert snapshot.n_records == 6000
    assert np.array_equal(sums, sum_sent([agent], plan_from_spec(SPEC).payload_width))
    assert agent.run("rotate-key").returncode == 0
