"""Agents with state folders of their own, and one owner's ledger beside them."""

import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.shared import command
from sfumato.shared.errors import DiskError
from sfumato.shared.plan import WindowRule, plan_to_json
from sfumato.shared.spending import OwnersLedger
from tests.device_agent.conftest import BASE, Agent, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.killing import victim_in
from tests.device_agent.serving import TOKEN, Server, running
from tests.soak import small_and_soak


def name_ledger(agent: Agent, ledger: Path, *, file: str = "records.csv", **choices: Any) -> None:
    agent.write_config(path=file, **choices)
    text = agent.config.read_text().replace("[budget]", f'[budget]\nledger = "{ledger}"')
    agent.config.write_text(text)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "owner.ledger"


@pytest.fixture
def sharing(enrolled: Agent, ledger: Path) -> Agent:
    name_ledger(enrolled, ledger)
    return enrolled


@pytest.fixture
def partner(
    sharing: Agent, tmp_path: Path, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Agent]:
    """Another agent with a state of its own, in another study, over the same file."""
    (tmp_path / "partner").mkdir()
    with running(make_plan(n_frequencies=9)) as server:
        agent = Agent(tmp_path / "partner", server, capsys)
        agent.records = sharing.records
        name_ledger(agent, ledger, file="../records.csv")
        agent.init()
        yield agent


def entries(ledger: Path) -> list[tuple[object, ...]]:
    statement = "SELECT stream, sequence, is_confirmed FROM entries ORDER BY holder, sequence"
    return query(ledger.parent, statement, name=ledger.name)


def test_two_agents_over_one_file_spend_one_budget(sharing: Agent, partner: Agent) -> None:
    sharing.append(0, lines=5)
    assert sharing.once()["sent"] == 1
    report = partner.once(status=3)
    assert "budget.per_record" in report["errors"][0]
    assert not partner.server.stored


def test_each_release_is_reserved_and_confirmed(sharing: Agent, ledger: Path) -> None:
    sharing.append(0, 1, lines=5)
    sharing.once()
    assert entries(ledger) == [("meter", 0, 1), ("meter", 1, 1)]


def test_what_was_released_before_the_ledger_was_named_is_counted_in_it(
    enrolled: Agent, ledger: Path
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    name_ledger(enrolled, ledger)
    enrolled.once()
    assert entries(ledger) == [("meter", 0, 1)]


def test_a_state_put_back_from_a_backup_is_found_out_without_any_server(
    sharing: Agent, tmp_path: Path, ledger: Path
) -> None:
    backup = tmp_path / "backup"
    shutil.copytree(sharing.state, backup)
    sharing.append(0, lines=5)
    sharing.once("--no-send")
    shutil.rmtree(sharing.state)
    shutil.copytree(backup, sharing.state)
    sharing.server.stop()
    assert sharing.run("once", "--json") == 3
    assert "restored from a backup" in sharing.err
    assert entries(ledger) == [("meter", 0, 1)]
    assert query(sharing.state, "SELECT * FROM outbox") == []


def test_a_device_that_was_forgotten_and_enrols_again_goes_on(sharing: Agent, ledger: Path) -> None:
    sharing.append(0, lines=5)
    sharing.once()
    sharing.run("forget", "--yes")
    sharing.server.tokens["sfe_test"] = 1
    sharing.init()
    sharing.append(1, lines=5)
    assert sharing.once()["sent"] == 1
    assert entries(ledger) == [("meter", 0, 1), ("meter", 1, 1)]


@small_and_soak("every", False, True)
def test_killed_anywhere_every_sketch_is_paid_for_once_in_both_ledgers(
    every: bool, sharing: Agent, ledger: Path, tmp_path: Path
) -> None:
    name_ledger(sharing, ledger, lifetime="2")
    sharing.append(0, 1, lines=5)
    OwnersLedger(ledger)
    template = tmp_path / "template"
    shutil.copytree(sharing.state, template)
    empty = ledger.read_bytes()
    n_reserved_only = 0
    with victim_in(tmp_path) as victim:
        for kill_at in victim.list_kills(sharing, every=every):
            shutil.rmtree(sharing.state)
            shutil.copytree(template, sharing.state)
            ledger.write_bytes(empty)
            Path(f"{ledger}-journal").unlink(missing_ok=True)
            sharing.server.stored.clear()
            is_killed = victim.run(sharing, kill_at)
            left = entries(ledger)
            n_reserved_only += any(not confirmed for *_, confirmed in left)
            report = sharing.once()
            assert (report["waiting"], report["shelved"]) == (0, 0)
            assert entries(ledger) == [("meter", 0, 1), ("meter", 1, 1)]
            assert len(sharing.server.stored) == 2
    assert not is_killed
    assert n_reserved_only > 2


def test_a_ledger_that_cannot_be_written_stops_releases_and_says_which_file(
    sharing: Agent, ledger: Path
) -> None:
    sharing.append(0, lines=5)
    ledger.write_bytes(b"damaged, and long enough to be looked at" * 100)
    ledger.chmod(0o600)
    assert sharing.run("once") == 2
    assert str(ledger) in sharing.err
    assert not sharing.server.stored


def test_what_is_sketched_by_hand_is_counted_beside_what_the_agent_releases(
    sharing: Agent, ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_to_json(sharing.server.plan)))
    sharing.append(0, lines=5)

    def sketch(name: str, *arguments: str) -> int:
        output = ["-o", str(tmp_path / name), "--ledger", str(ledger)]
        return command.main(
            ["sketch", str(sharing.records), "--plan", str(plan), *output, *arguments]
        )

    assert sketch("first.sketch") == 0
    assert "counted in" in capsys.readouterr().out
    # The agent's record costs as much again.
    assert sharing.once(status=3)["released"] == 0
    assert sketch("second.sketch") == 2
    assert not (tmp_path / "second.sketch").exists()
    assert sketch("second.sketch", "--budget", "2") == 0
    capsys.readouterr()
    name_ledger(sharing, ledger, per_record="3")
    assert sharing.once()["sent"] == 1


def test_a_release_that_cannot_be_confirmed_now_is_confirmed_before_the_next_step(
    sharing: Agent, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_ledger(sharing, ledger, lifetime="3")
    failures = [DiskError("is full", field="ledger", fix="free space")]
    confirm = OwnersLedger.confirm

    def fail_once(self: OwnersLedger, reservations: Any, *, now: float) -> None:
        if list(reservations) and failures:
            raise failures.pop()
        confirm(self, reservations, now=now)

    monkeypatch.setattr(OwnersLedger, "confirm", fail_once)
    sharing.append(0, 1, 2, lines=5)
    report = sharing.once()
    assert (report["released"], report["sent"], report["errors"]) == (3, 3, [])
    assert not failures
    assert entries(ledger) == [("meter", i, 1) for i in range(3)]


@pytest.mark.parametrize("harm", ["missing", "another"])
def test_a_ledger_that_vanished_is_not_made_anew(harm: str, sharing: Agent, ledger: Path) -> None:
    sharing.append(0, lines=5)
    sharing.once()
    ledger.unlink()
    if harm == "another":
        OwnersLedger(ledger)
    sharing.append(1, lines=5)
    assert sharing.run("once") == 3
    assert str(ledger) in sharing.err
    assert len(sharing.server.stored) == 1
    assert ledger.exists() == (harm == "another")
    # Under another name it counts what was released before.
    name_ledger(sharing, ledger.with_name("new.ledger"))
    sharing.once()
    assert entries(ledger.with_name("new.ledger")) == [("meter", 0, 1), ("meter", 1, 1)]


def test_what_a_forgotten_device_has_released_is_counted_in_a_ledger_named_later(
    enrolled: Agent, ledger: Path
) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once()
    enrolled.run("forget", "--yes")
    name_ledger(enrolled, ledger)
    enrolled.server.tokens[TOKEN] = 1
    enrolled.init()
    for _ in range(2):
        enrolled.once()
        assert entries(ledger) == [("meter", 0, 1), ("meter", 1, 1)]


def test_a_device_does_not_enrol_where_others_have_spent_what_it_needs(
    sharing: Agent, tmp_path: Path, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sharing.append(0, lines=5)
    sharing.once()
    (tmp_path / "late").mkdir()
    with running(make_plan(n_frequencies=9)) as server:
        agent = Agent(tmp_path / "late", server, capsys)
        name_ledger(agent, ledger, file="../records.csv")
        assert agent.run("check") == 3
        assert "budget.per_record" in agent.err
        assert agent.run("init", "--token", TOKEN) == 3
        assert "budget.per_record" in agent.err
        assert not server.devices
        assert not agent.state.exists()


def test_when_a_release_is_noted_does_not_tell_how_long_reading_took(
    make_agent: Callable[[Server], Agent], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = WindowRule(kind="time", origin=BASE, length_s=10**7)
    plan = make_plan(neighbouring="add-remove-one", least_records=None, window=window)
    moments = itertools.count(int(time.time()))
    with running(plan) as server:
        agent = make_agent(server)
        name_ledger(agent, tmp_path / "ledger")
        agent.init()
        agent.append(0, lines=5)
        server.stop()
        monkeypatch.setattr(time, "time", lambda: float(next(moments)))
        agent.run("once")
    reserved = query(tmp_path, "SELECT DISTINCT reserved_at FROM entries", name="ledger")
    assert reserved == query(agent.state, "SELECT DISTINCT released_at FROM events")
    assert len(reserved) == 1
