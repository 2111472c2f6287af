"""A device in two studies: one state folder, two keys, and one ledger of its owner."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sfumato.device_agent.cli import main
from sfumato.device_agent.store.database import open_database
from sfumato.device_agent.store.outbox import KEEP_SENT_S, purge_sent
from sfumato.shared.plan import WindowRule
from tests.device_agent.conftest import HOUR, Agent, make_plan
from tests.device_agent.daemons import daemon, query, stop, wait_until
from tests.device_agent.serving import TOKEN, Server, running
from tests.device_agent.store.test_repair import overwrite, remove


@pytest.fixture
def other() -> Iterator[Server]:
    with running(make_plan(n_frequencies=9)) as server:
        yield server


@pytest.fixture
def second(
    enrolled: Agent, other: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Agent:
    """The same device in another study, over the same file and with the same budget."""
    folder = tmp_path / "second"
    folder.mkdir()
    agent = Agent(folder, other, capsys)
    agent.records, agent.state = enrolled.records, enrolled.state
    write(agent)
    enrolled.write_config(per_record="2")
    agent.init()
    return agent


def write(agent: Agent, *, per_record: str = "2") -> None:
    agent.write_config(path="../records.csv", state_dir="../state", per_record=per_record)


def budget(agent: Agent) -> dict[tuple[str, str], dict[str, Any]]:
    assert agent.run("budget", "--json") == 0, agent.err
    streams = json.loads(agent.out)["streams"]
    return {(stream["study"], stream["stream"]): stream for stream in streams}


def test_one_folder_holds_several_studies_under_keys_that_nobody_can_link(
    enrolled: Agent, second: Agent
) -> None:
    assert enrolled.keys != second.keys
    assert len({device for agent in (enrolled, second) for device in agent.server.devices}) == 2
    enrolled.append(0, lines=5)
    assert enrolled.once()["sent"] == 1
    assert second.once()["sent"] == 1
    for agent in (enrolled, second):
        (message,) = agent.server.stored.values()
        assert message.header.sequence == 0


def test_the_releases_of_both_studies_are_counted_for_each_record(
    enrolled: Agent, second: Agent
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    assert second.once()["epsilon_spent_per_record"] == "2"
    rows = budget(second)
    for agent, partner in ((enrolled, second), (second, enrolled)):
        row = rows[agent.study, "meter"]
        assert row["epsilon_spent_per_record"] == "2"
        assert row["shared_with"] == [f"meter of {partner.study}"]


def test_what_one_study_has_spent_is_missing_from_the_budget_of_the_other(
    enrolled: Agent, second: Agent
) -> None:
    write(second, per_record="1")
    enrolled.append(0, lines=5)
    enrolled.once()
    report = second.once(status=3)
    assert "budget.per_record" in report["errors"][0]
    assert not second.server.stored


def test_studies_under_both_relations_cost_what_a_replaced_record_loses(
    enrolled: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hiding").mkdir()
    two_ago = int(time.time()) // HOUR * HOUR - 2 * HOUR
    window = WindowRule(kind="time", origin=two_ago, length_s=HOUR)
    plan = make_plan(neighbouring="add-remove-one", least_records=None, window=window)
    with running(plan) as server:
        hiding = Agent(tmp_path / "hiding", server, capsys)
        hiding.records, hiding.state = enrolled.records, enrolled.state
        write(hiding)
        hiding.init()
        alone = hiding.once("--no-send")
        n_slots = alone["released"]
        assert n_slots >= 2
        assert alone["epsilon_spent_per_record"] == "1"
        assert alone["neighbouring_per_record"] == "add-remove-one"
        enrolled.append(0, lines=5)
        enrolled.write_config(per_record="2")
        (error,) = enrolled.once(status=3)["errors"]
        assert "epsilon 3 under replace-one, above the owner's limit 2" in error
        assert "counts twice" in error
        enrolled.write_config(per_record="3")
        enrolled.run("check")
        assert "stream meter: the same records are released under both relations" in enrolled.out
        report = enrolled.once()
        assert (report["sent"], report["epsilon_spent_per_record"]) == (1, "3")
        assert report["epsilon_spent_lifetime"] == str(2 * n_slots + 1)
        assert report["neighbouring_lifetime"] == "replace-one"
        for row in budget(enrolled).values():
            assert (row["epsilon_spent_per_record"], row["neighbouring_per_record"]) == (
                *("3", "replace-one"),
            )
            assert "counts twice" in row["explanation"]
            people = {each["n_records"]: each for each in row["people"]}
            assert (people[2]["window_epsilon"], people[2]["neighbouring"]) == ("6", "replace-one")
    assert {event["neighbouring"] for event in json.loads(enrolled.out)["events"]} == {
        *("add-remove-one", "replace-one")
    }
    assert enrolled.run("budget") == 0
    assert "epsilon 3 under replace-one (limit 3)" in enrolled.out
    assert "note: stream meter: the same records are released under both relations" in enrolled.out


def test_sources_that_are_declared_disjoint_are_counted_apart(
    enrolled: Agent, second: Agent
) -> None:
    for agent, part in ((enrolled, "even"), (second, "odd")):
        agent.config.write_text(agent.config.read_text() + f'\ndisjoint = "{part}"\n')
    enrolled.append(0, lines=5)
    enrolled.once()
    assert second.once()["epsilon_spent_per_record"] == "1"


def test_a_plan_that_the_budget_cannot_pay_for_beside_another_study_is_not_enrolled_in(
    enrolled: Agent, other: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    (tmp_path / "second").mkdir()
    agent = Agent(tmp_path / "second", other, capsys)
    write(agent, per_record="1")
    assert agent.run("init", "--token", TOKEN) == 3
    assert not other.devices


def test_forgetting_one_study_leaves_the_other_and_what_both_have_spent(
    enrolled: Agent, second: Agent
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    second.once()
    confirmed = ("--yes", "--also-the-ledger", "--records-may-be-released-again")
    assert second.run("forget", *confirmed) == 2
    assert enrolled.study in second.err
    assert second.run("forget", "--yes") == 0
    assert second.run("once") == 2
    enrolled.append(1, lines=5)
    assert enrolled.once()["sent"] == 1
    assert budget(enrolled)[enrolled.study, "meter"]["epsilon_spent_per_record"] == "2"


@pytest.mark.parametrize("harm", [overwrite, remove])
def test_a_lost_database_is_made_again_for_both_studies(
    harm: Callable[[Path], None], enrolled: Agent, second: Agent
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    second.once()
    tables = ("meta", "events", "origins", "streams", "positions")
    kept = {
        name: sorted(map(str, query(enrolled.state, f"SELECT * FROM {name}"))) for name in tables
    }
    harm(enrolled.state / "agent.sqlite")
    assert enrolled.once()["released"] == 0
    assert second.once()["released"] == 0
    for name in tables:
        assert sorted(map(str, query(enrolled.state, f"SELECT * FROM {name}"))) == kept[name]
    enrolled.append(1, lines=5)
    assert enrolled.once()["sent"] == second.once()["sent"] == 1


@pytest.mark.parametrize("harm", [overwrite, remove])
def test_places_that_are_lost_are_written_again_and_without_both_nothing_is_released(
    harm: Callable[[Path], None], enrolled: Agent
) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once()
    harm(enrolled.state / "places")
    assert any("places" in message for message in enrolled.once()["messages"])
    harm(enrolled.state / "agent.sqlite")
    assert enrolled.once()["released"] == 0
    harm(enrolled.state / "places")
    harm(enrolled.state / "agent.sqlite")
    assert enrolled.run("once") == 3
    assert "how far the sources were read is not known" in enrolled.err


def test_older_places_than_the_journals_last_release_are_not_believed(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    before = (enrolled.state / "places").read_bytes()
    enrolled.append(1, lines=5)
    enrolled.once()
    (enrolled.state / "places").write_bytes(before)
    (enrolled.state / "agent.sqlite").unlink()
    assert enrolled.run("once") == 3
    assert len(enrolled.server.stored) == 2


def test_the_state_keeps_no_history_of_how_far_a_source_was_read(enrolled: Agent) -> None:
    offsets = []
    for slot in range(3):
        enrolled.append(slot, lines=5)
        enrolled.once()
        offsets.append(enrolled.records.stat().st_size)
    texts = {p.name: p.read_bytes() for p in enrolled.state.rglob("*") if p.is_file()}
    for name, data in texts.items():
        for offset in offsets[:-1]:
            assert f'"offset": {offset}'.encode() not in data, name
            assert f'\\"offset\\": {offset}'.encode() not in data, name
    assert f'\\"offset\\": {offsets[-1]}'.encode() in texts["places"]


def test_one_daemon_serves_all_studies_of_a_state_folder(enrolled: Agent, second: Agent) -> None:
    enrolled.append(0, lines=5)
    with daemon(enrolled.config, more=[second.config]) as process:
        wait_until(lambda: bool(enrolled.server.stored) and bool(second.server.stored))
        enrolled.append(1, lines=5)
        wait_until(lambda: len(enrolled.server.stored) == len(second.server.stored) == 2)
        assert stop(process) == 0
    rows = query(enrolled.state, "SELECT COUNT(DISTINCT study), COUNT(*) FROM events")
    assert rows == [(2, 4)]


def test_a_daemon_is_not_given_one_study_twice(enrolled: Agent) -> None:
    arguments = ["run", "--config", str(enrolled.config), "--config", str(enrolled.config)]
    assert main(arguments) == 2


def test_another_key_in_one_study_says_nothing_of_the_other_and_loses_nothing_of_its_own(
    enrolled: Agent, second: Agent
) -> None:
    # The same name of a stream in both, and unlike numbers.
    enrolled.append(0, 1, lines=5)
    enrolled.once("--no-send")
    second.config.write_text(second.config.read_text().replace('"meter"', '"secret"'))
    second.rejoin()
    second.once()
    assert enrolled.run("rotate-key") == 0, enrolled.err
    assert "secret" not in str(enrolled.server.requests)
    report = enrolled.once()
    assert (report["sent"], report["shelved"]) == (2, 0)


def test_bytes_are_dropped_by_the_study_that_they_were_sent_to(
    enrolled: Agent, second: Agent
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    second.once()
    with closing(open_database(enrolled.state, enrolled.server.study)) as connection:
        purge_sent(connection, now=time.time() + KEEP_SENT_S + 1)
    kept = query(enrolled.state, "SELECT study, message IS NOT NULL FROM outbox")
    assert set(kept) == {(enrolled.server.study, 0), (second.server.study, 1)}
