"""What becomes of a device whose study is closed, opened again or withdrawn, and what it says."""

import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from sfumato.shared.plan import WindowRule
from tests.device_agent.conftest import BASE, HOUR, Agent, make_plan
from tests.device_agent.daemons import daemon, query, stop, wait_until
from tests.device_agent.serving import Server, running
from tests.ledgers import use_new_ledger


def n_spent(agent: Agent) -> int:
    return int(str(query(agent.state, "SELECT COUNT(*) FROM events")[0][0]))


def log_of(agent: Agent) -> str:
    return (agent.folder / "daemon.log").read_text()


def test_a_closed_study_costs_nothing_and_loses_nothing(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.server.state = "closed"
    report = enrolled.once()
    assert (report["records_read"], report["released"], n_spent(enrolled)) == (0, 0, 0)
    assert any("the study is closed" in message for message in report["messages"])
    enrolled.server.state = "open"
    assert enrolled.once()["sent"] == 2


@pytest.mark.parametrize("state", ["closed", "withdrawn"])
def test_status_tells_the_state_of_the_study(state: str, enrolled: Agent) -> None:
    enrolled.server.state = state
    enrolled.once()
    enrolled.run("status")
    assert f"the study {'is' if state == 'closed' else 'was'} {state}" in enrolled.out


def test_it_is_remembered_while_the_server_is_away(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.server.state = "closed"
    enrolled.once()
    enrolled.server.stop()
    assert enrolled.once()["released"] == 0
    assert n_spent(enrolled) == 0


def test_what_waits_is_kept_while_a_study_is_closed(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    enrolled.server.state = "closed"
    report = enrolled.once()
    assert (report["waiting"], report["shelved"]) == (1, 0)
    enrolled.server.state = "open"
    assert enrolled.once()["sent"] == 1


def test_a_closed_study_still_gets_what_was_on_its_way(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    enrolled.append(1, lines=5)
    enrolled.server.state = "closed"
    enrolled.server.accept_until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    report = enrolled.once()
    assert (report["released"], report["sent"]) == (0, 1)


def test_a_state_that_is_known_is_not_sent_again(enrolled: Agent) -> None:
    enrolled.once()
    enrolled.once()
    assert enrolled.server.n_unmodified == 1


def test_the_daemon_pauses_at_the_first_refusal_and_goes_on_when_asked(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: len(enrolled.server.stored) == 1)
        enrolled.server.state = "closed"
        enrolled.append(1, lines=5)
        wait_until(lambda: "the study is closed" in log_of(enrolled))
        enrolled.append(2, lines=5)
        enrolled.server.state = "open"
        assert stop(process) == 0
    # The sketch that met the closed door was spent; the next one was not.
    assert n_spent(enrolled) == 2
    assert enrolled.once()["sent"] == 1


def test_the_heartbeat_tells_version_engine_and_outbox_alone(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    enrolled.once()
    last = enrolled.server.heartbeats[-1]
    told = ["acknowledged", "agent", "engine", "name", "plan_refusals", "waiting_sketches"]
    assert sorted(last) == told
    assert last["name"] is None  # never the host's, unless the owner writes it
    assert (last["waiting_sketches"], last["plan_refusals"]) == (1, [])
    assert last["acknowledged"] == {}
    enrolled.once()
    assert enrolled.server.heartbeats[-1]["acknowledged"] == {"meter": 0}


def test_a_name_is_told_at_the_enrolment_and_changes_without_another(agent: Agent) -> None:
    for name in ("Küche", "Flur"):
        rest = agent.config.read_text().removeprefix('name = "Küche"\n')
        agent.config.write_text(f'name = "{name}"\n{rest}')
        agent.init()
        assert agent.server.heartbeats[-1]["name"] == name
        agent.run("status")
        assert f"name   {name}\n" in agent.out
    assert len(agent.server.devices) == 1
    agent.config.write_text(f'name = "a\\u202eb"\n{rest}')
    assert agent.run("status") == 2
    assert "name: must have no control, bidirectional or invisible character" in agent.err


def test_where_presence_is_secret_the_heartbeat_is_the_same_with_and_without_records(
    make_agent: Callable[[Server], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: float(BASE + 4 * HOUR + 60))
    said = []
    for slots in ((), (0, 1, 3)):
        window = WindowRule(kind="time", origin=BASE, length_s=HOUR)
        plan = make_plan(neighbouring="add-remove-one", least_records=None, window=window)
        use_new_ledger()
        with running(plan) as server:
            agent = make_agent(server)
            agent.init()
            agent.append(*slots, lines=9)
            agent.once()
            agent.once()
            said.append(server.heartbeats)
        shutil.rmtree(agent.state)
    assert said[0] == said[1]
    assert said[0][-1]["waiting_sketches"] == 4


def test_a_plan_that_the_owner_refuses_is_reported_with_the_rule(enrolled: Agent) -> None:
    text = enrolled.config.read_text()
    enrolled.config.write_text(
        text.replace("[budget]", '[policy]\nepsilon_per_window = "1/2"\n[budget]')
    )
    assert enrolled.run("once") == 3
    (refusal,) = enrolled.server.heartbeats[-1]["plan_refusals"]
    assert refusal["study"] == enrolled.study
    assert refusal["rule"] == "policy.epsilon_per_window"
    assert "the plan spends 1" in refusal["detail"]
    enrolled.config.write_text(text)
    enrolled.once()
    assert enrolled.server.heartbeats[-1]["plan_refusals"] == []


def test_a_check_reports_no_refusal(enrolled: Agent) -> None:
    text = enrolled.config.read_text()
    enrolled.config.write_text(
        text.replace("[budget]", '[policy]\nepsilon_per_window = "1/2"\n[budget]')
    )
    before = len(enrolled.server.heartbeats)
    enrolled.run("check")
    assert len(enrolled.server.heartbeats) == before
