"""Agents with state folders of their own, and one owner's ledger beside them, named or not."""

import itertools
import json
import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.shared import command
from sfumato.shared.errors import DiskError
from sfumato.shared.plan import WindowRule, plan_to_json
from sfumato.shared.spending import OwnersLedger
from sfumato.shared.spending.places import LEDGER_VARIABLE
from sfumato.shared.wire import SketchMessage
from tests.device_agent.conftest import BASE, Agent, AgentFor, make_plan
from tests.device_agent.daemons import query
from tests.device_agent.killing import victim_in
from tests.device_agent.serving import TOKEN, running
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
    assert sharing.run("check") == 0, sharing.out
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
    agent_for: AgentFor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = WindowRule(kind="time", origin=BASE, length_s=10**7)
    plan = make_plan(neighbouring="add-remove-one", least_records=None, window=window)
    moments = itertools.count(int(time.time()))
    agent = agent_for(plan)
    server = agent.server
    name_ledger(agent, tmp_path / "ledger")
    agent.init()
    agent.append(0, lines=5)
    server.stop()
    monkeypatch.setattr(time, "time", lambda: float(next(moments)))
    agent.run("once")
    reserved = query(tmp_path, "SELECT DISTINCT reserved_at FROM entries", name="ledger")
    assert reserved == query(agent.state, "SELECT DISTINCT released_at FROM events")
    assert len(reserved) == 1


def _lose_all(agent: Agent, backup: Path) -> None:
    shutil.rmtree(agent.state)


def _lose_the_database(agent: Agent, backup: Path) -> None:
    for path in agent.state.glob("agent.*"):
        path.unlink()


def _lose_keys(agent: Agent, backup: Path) -> None:
    for path in agent.state.rglob("*key*"):
        if path.is_file():
            path.unlink()


def _put_back(agent: Agent, backup: Path) -> None:
    shutil.rmtree(agent.state)
    shutil.copytree(backup, agent.state)


def _move(agent: Agent, backup: Path) -> None:
    agent.state.rename(agent.state.with_name(f"old-{time.monotonic_ns()}"))


def _forget(agent: Agent, backup: Path) -> None:
    agent.run("forget", "--yes", "--also-the-ledger", "--records-may-be-released-again")


def _rename_the_records(agent: Agent, backup: Path) -> None:
    shutil.rmtree(agent.state)
    moved = agent.folder / f"moved-{time.monotonic_ns()}.csv"
    agent.records.rename(moved)
    agent.records = moved


LOSSES = (_lose_all, _lose_the_database, _lose_keys, _put_back, _move, _forget, _rename_the_records)


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("budget", [1, 2])
def test_whatever_is_lost_of_a_state_its_records_are_never_released_above_the_budget(
    lose: Callable[[Agent, Path], None], budget: int, enrolled: Agent, tmp_path: Path
) -> None:
    agent, server = enrolled, enrolled.server
    agent.write_config(per_record=str(budget))
    backup = shutil.copytree(agent.state, tmp_path / "backup")
    agent.append(0, 1, lines=5)
    agent.once()
    released = []
    for _ in range(2):
        if agent.state.exists():  # not where a device was refused
            lose(agent, backup)
        agent.write_config(per_record=str(budget), path=agent.records.name)
        server.tokens[TOKEN] = 1
        agent.run("init", "--token", TOKEN)
        agent.run("once", "--json")
        released.append(
            Counter(slot for message in server.stored.values() for slot in _slots_of(message))
        )
    assert all(n <= budget for counts in released for n in counts.values())
    # A budget that suffices is no promise to refuse, where the loss is found out at all.
    if budget == 2 and lose in (_lose_all, _move, _rename_the_records):
        assert set(released[-1].values()) == {2}


def _slots_of(message: SketchMessage) -> range:
    assert message.header.slots is not None
    first, last = message.header.slots
    return range(first, last + 1)


def test_agents_over_other_files_spend_budgets_of_their_own_in_the_ledger_of_their_user(
    enrolled: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    enrolled.append(0, lines=5)
    assert enrolled.once()["sent"] == 1
    (tmp_path / "other").mkdir()
    other = Agent(tmp_path / "other", enrolled.server, capsys)
    enrolled.server.tokens[TOKEN] = 1
    other.init()
    other.append(0, lines=5)
    assert other.once()["sent"] == 1
    ledger = Path(os.environ[LEDGER_VARIABLE])
    assert entries(ledger) == [("meter", 0, 1)] * 2
    assert stat.S_IMODE(ledger.stat().st_mode) == 0o600


def test_a_rebuilt_device_is_told_what_its_records_have_lost_before(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once()
    ledger = os.environ[LEDGER_VARIABLE]
    shutil.rmtree(enrolled.state)
    enrolled.server.tokens[TOKEN] = 1
    assert enrolled.run("init", "--token", TOKEN) == 3
    assert "budget.per_record" in enrolled.err
    told = "2 of the releases are of an earlier state folder or another program: together epsilon 1"
    assert told in enrolled.err
    assert ledger in enrolled.err
    assert not enrolled.state.exists()
    enrolled.write_config(per_record="2")
    told = "2 release(s) of the records of stream meter: together epsilon 1"
    assert enrolled.run("check") == 0
    assert f"ledger: {ledger} counts" in enrolled.out
    assert told in enrolled.out
    enrolled.init()
    for name in ("check", "budget"):
        assert enrolled.run(name) == 0
        assert told in enrolled.out
    enrolled.once()
    assert enrolled.run("budget", "--json") == 0
    shown = json.loads(enrolled.out)["ledger"]
    assert shown == {"path": ledger, "streams": {"meter": {"n_releases": 4, "epsilon": "2"}}}


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("place", ["state/owner.ledger", "link/owner.ledger", "/proc/owner.ledger"])
def test_a_ledger_that_would_be_lost_or_cannot_be_written_is_refused_by_name(
    place: str, is_named: bool, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = agent.folder / place
    (agent.folder / "link").symlink_to(agent.state)
    if is_named:
        name_ledger(agent, path)
    else:
        monkeypatch.setenv(LEDGER_VARIABLE, str(path))
    for arguments in (["init", "--token", TOKEN], ["check"]):
        assert agent.run(*arguments) == (2 if "owner" in place else 0)
        if place.startswith("/proc"):
            assert "/proc/owner.ledger: cannot be opened" in agent.err
            assert "[budget] ledger" in agent.err
            assert LEDGER_VARIABLE in agent.err
            break
        assert f"{'budget.ledger' if is_named else LEDGER_VARIABLE}: must lie outside" in agent.err
    assert not agent.server.devices
    assert not agent.state.exists()
