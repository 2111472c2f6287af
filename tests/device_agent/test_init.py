import os
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import replace

import pytest

from shared.plan import Label, compute_plan_digest, encode_plan
from tests.device_agent.conftest import Agent, make_plan
from tests.device_agent.server import TOKEN, Server, running


def test_the_state_is_closed_to_others(enrolled: Agent) -> None:
    enrolled.append(0)
    old = os.umask(0)
    try:
        enrolled.once()
    finally:
        os.umask(old)
    assert stat.S_IMODE(enrolled.state.stat().st_mode) == 0o700
    for file in enrolled.state.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_init_again_is_the_same_device_and_costs_no_token(enrolled: Agent) -> None:
    key = (enrolled.state / "device.key").read_bytes()
    assert enrolled.run("init", "--token", "sfe_used_up") == 0
    assert "was enrolled already" in enrolled.out
    assert (enrolled.state / "device.key").read_bytes() == key
    assert len(enrolled.server.devices) == 1


def test_an_init_that_broke_off_is_completed_with_the_same_key(agent: Agent) -> None:
    assert agent.run("init", "--token", "sfe_wrong") == 2
    assert "token: is unknown or used up" in agent.err
    key = (agent.state / "device.key").read_bytes()
    assert agent.run("once") == 2
    assert "run `sfumato-agent init`" in agent.err.replace("Run", "run")
    agent.init()
    assert (agent.state / "device.key").read_bytes() == key


def test_init_without_a_server_says_so(agent: Agent) -> None:
    agent.server.stop()
    assert agent.run("init", "--token", TOKEN) == 75
    assert "did not answer" in agent.err


def test_a_second_study_in_one_state_folder_is_refused(
    enrolled: Agent, make_agent: Callable[[Server], Agent]
) -> None:
    with running(make_plan(n_frequencies=9)) as other:
        enrolled.write_config(server=other.url, study=other.study.hex())
        for arguments in (("init", "--token", TOKEN), ("once",)):
            assert enrolled.run(*arguments) == 2
            assert "belongs to study" in enrolled.err
        assert not other.requests


@pytest.mark.parametrize("what", ["digest", "name", "bytes"])
def test_a_plan_that_is_not_the_studys_is_refused(agent: Agent, what: str) -> None:
    match what:
        case "digest":
            agent.server.plan_digest = "0" * 64
        case "name":
            agent.server.name = "another"
        case _:
            agent.server.plan_bytes = agent.server.plan_bytes.replace(
                b"least_records\x01", b"least_records\x02"
            )
    assert agent.run("init", "--token", TOKEN) == 2
    assert not agent.server.devices


def test_a_plan_with_too_little_noise_is_refused(agent: Agent) -> None:
    plan = agent.server.plan
    weaker = replace(plan, release=replace(plan.release, scale=plan.release.scale / 2))
    agent.server.plan_bytes = encode_plan(weaker)
    agent.server.plan_digest = compute_plan_digest(weaker).hex()
    assert agent.run("init", "--token", TOKEN) == 2
    assert "release.scale" in agent.err
    assert not agent.server.devices


def test_labels_are_those_that_the_plan_declares_and_then_fixed(
    make_agent: Callable[[Server], Agent],
) -> None:
    plan = make_plan(labels=(Label(name="site", values=("north", "south")),))
    with running(plan) as server:
        agent = make_agent(server)
        text = agent.config.read_text()

        def label(line: str) -> None:
            agent.config.write_text(text.replace("[budget]", f"[labels]\n{line}\n[budget]"))

        assert agent.run("init", "--token", TOKEN) == 2
        assert "labels.site: is missing" in agent.err
        label('site = "east"')
        assert agent.run("init", "--token", TOKEN) == 2
        assert "labels.site: is not a declared value" in agent.err
        label('site = "north"')
        agent.init()
        ((_, labels),) = server.devices.values()
        assert labels == {"site": "north"}
        label('site = "south"')
        assert agent.run("init", "--token", TOKEN) == 2
        assert "labels: are not those" in agent.err


def test_a_folder_or_key_that_others_can_read_is_refused(enrolled: Agent) -> None:
    (enrolled.state / "device.key").chmod(0o644)
    assert enrolled.run("once") == 2
    assert "`chmod 600 " in enrolled.err
    (enrolled.state / "device.key").chmod(0o600)
    enrolled.state.chmod(0o755)
    assert enrolled.run("status") == 2
    assert "`chmod 700 " in enrolled.err


@pytest.mark.parametrize("fate", ["gone", "other"])
def test_a_ledger_without_its_key_is_refused(enrolled: Agent, fate: str) -> None:
    key = enrolled.state / "device.key"
    key.unlink()
    if fate == "other":
        files = [enrolled.state / name for name in ("agent.sqlite", "spent.journal")]
        saved = [file.read_bytes() for file in files]
        for file in files:
            file.unlink()
        enrolled.server.tokens[TOKEN] = 1
        enrolled.init()
        for file, data in zip(files, saved, strict=True):
            file.write_bytes(data)
    for arguments in (("once",), ("init", "--token", TOKEN)):
        assert enrolled.run(*arguments) == 3
        assert "whose key is not here" in enrolled.err
    assert key.exists() == (fate == "other")


@pytest.mark.parametrize(
    ("statement", "status", "message"),
    [
        ("PRAGMA user_version = 2", 2, "update this software"),
        ("PRAGMA application_id = 7", 2, "not the state of an agent"),
    ],
)
def test_a_later_or_foreign_database_is_refused(
    enrolled: Agent, statement: str, status: int, message: str
) -> None:
    connection = sqlite3.connect(enrolled.state / "agent.sqlite")
    connection.execute(statement)
    connection.close()
    for command in ("status", "budget", "check"):
        assert enrolled.run(command) == status
        assert message in enrolled.err.lower()


def test_a_damaged_database_is_left_as_it_is_by_who_only_looks(enrolled: Agent) -> None:
    path = enrolled.state / "agent.sqlite"
    path.write_bytes(b"not a database, and long enough to be looked at" * 10)
    before = path.read_bytes()
    for command in ("status", "budget", "check"):
        assert enrolled.run(command) == 2
        assert "agent.sqlite" in enrolled.err
    assert path.read_bytes() == before
