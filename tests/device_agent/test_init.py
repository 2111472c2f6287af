import os
import sqlite3
import stat
from dataclasses import replace
from typing import Any

import pytest

from sfumato.device_agent.store import schema
from sfumato.shared.errors import TransportError
from sfumato.shared.plan import Label, LocalRelease, compute_plan_digest, encode_plan
from tests.device_agent.conftest import Agent, AgentFor, make_plan
from tests.device_agent.serving import TOKEN, running


def test_the_state_is_closed_to_others(enrolled: Agent) -> None:
    enrolled.append(0)
    old = os.umask(0)
    try:
        enrolled.once()
    finally:
        os.umask(old)
    assert stat.S_IMODE(enrolled.state.stat().st_mode) == 0o700
    for file in enrolled.state.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600), file


def test_init_again_is_the_same_device_and_costs_no_token(enrolled: Agent) -> None:
    key = (enrolled.keys / "device.key").read_bytes()
    assert enrolled.run("init", "--token", "sfe_used_up") == 0
    assert "was enrolled already" in enrolled.out
    assert (enrolled.keys / "device.key").read_bytes() == key
    assert len(enrolled.server.devices) == 1


@pytest.mark.parametrize("is_taken", [True, False])
def test_an_init_whose_answer_is_lost_is_completed_with_the_same_key(
    is_taken: bool, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrol = agent.server.enrol

    def lose(document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if is_taken:
            enrol(document)
        raise TransportError("lost")

    monkeypatch.setattr(agent.server, "enrol", lose)
    assert agent.run("init", "--token", TOKEN) == 75
    assert f"its key stays in {agent.state}" in agent.err
    key = (agent.keys / "device.key").read_bytes()
    assert agent.run("once") == 2
    assert "run `sfumato-agent init`" in agent.err.replace("Run", "run")
    # Nor does a refusal now take away a key that the server may know.
    monkeypatch.setattr(agent.server, "enrol", enrol)
    if not is_taken:
        assert agent.run("init", "--token", "sfe_wrong") == 2
    agent.init()
    assert (agent.keys / "device.key").read_bytes() == key
    assert len(agent.server.devices) == 1


@pytest.mark.parametrize("made", ["nothing", "folder", "parents"])
@pytest.mark.parametrize("trouble", ["token", "budget", "plan", "labels", "server"])
def test_an_init_that_is_refused_leaves_nothing_behind(
    trouble: str, made: str, agent: Agent
) -> None:
    state = agent.folder / ("deep/er/state" if made == "parents" else "state")
    if made == "folder":
        state.mkdir(mode=0o700)
        (state / "of the owner").touch()
    agent.write_config(state_dir=str(state), per_record="1/2" if trouble == "budget" else "1")
    if trouble == "labels":
        agent.config.write_text('labels = { site = "x" }\n' + agent.config.read_text())
    if trouble == "plan":
        agent.server.plan_digest = "0" * 64
    if trouble == "server":
        agent.server.stop()
    before = sorted(agent.folder.rglob("*"))
    status = {"budget": 3, "server": 75}.get(trouble, 2)
    assert agent.run("init", "--token", "sfe_wrong" if trouble == "token" else TOKEN) == status
    assert sorted(agent.folder.rglob("*")) == before
    assert not agent.server.devices


def test_init_without_a_server_says_so(agent: Agent) -> None:
    agent.server.stop()
    assert agent.run("init", "--token", TOKEN) == 75
    assert "did not answer" in agent.err
    assert not agent.state.exists()


def test_init_says_that_a_server_speaks_http_where_https_was_written(agent: Agent) -> None:
    agent.write_config(server=agent.server.url.replace("http:", "https:"))
    assert agent.run("init", "--token", TOKEN) == 75
    assert "it speaks http, not https" in agent.err
    assert "write http:// for a server on this machine" in agent.err


def test_a_study_that_the_device_is_not_in_is_named_with_those_that_it_is_in(
    enrolled: Agent,
) -> None:
    with running(make_plan(n_frequencies=9)) as other:
        enrolled.write_config(server=other.url, study=other.study.hex())
        assert enrolled.run("once") == 2
        assert f"it holds those of {enrolled.server.study.hex()}" in enrolled.err
        assert "sfumato-agent init" in enrolled.err
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
    assert isinstance(plan.release, LocalRelease)
    weaker = replace(plan, release=replace(plan.release, scale=plan.release.scale / 2))
    agent.server.plan_bytes = encode_plan(weaker)
    agent.server.plan_digest = compute_plan_digest(weaker).hex()
    assert agent.run("init", "--token", TOKEN) == 2
    assert "release.scale" in agent.err
    assert not agent.server.devices


def test_labels_are_those_that_the_plan_declares_and_then_fixed(
    agent_for: AgentFor,
) -> None:
    plan = make_plan(labels=(Label(name="site", values=("north", "south")),))
    agent = agent_for(plan)
    server = agent.server
    text = agent.config.read_text()

    def label(line: str) -> None:
        agent.config.write_text(text.replace("[budget]", f"[labels]\n{line}\n[budget]"))

    assert agent.run("init", "--token", TOKEN) == 2
    assert "labels.site: is missing" in agent.err
    label('site = "east"')
    assert agent.run("init", "--token", TOKEN) == 2
    assert "labels.site: must be a declared value" in agent.err
    label('site = "north"')
    agent.init()
    ((_, labels),) = server.devices.values()
    assert labels == {"site": "north"}
    label('site = "south"')
    assert agent.run("init", "--token", TOKEN) == 2
    assert "labels: must stay those" in agent.err


def test_a_folder_or_key_that_others_can_read_is_refused(enrolled: Agent) -> None:
    (enrolled.keys / "device.key").chmod(0o644)
    assert enrolled.run("once") == 2
    assert "`chmod 600 " in enrolled.err
    (enrolled.keys / "device.key").chmod(0o600)
    enrolled.state.chmod(0o755)
    assert enrolled.run("status") == 2
    assert "`chmod 700 " in enrolled.err


@pytest.mark.parametrize("fate", ["gone", "other"])
def test_a_ledger_without_its_key_is_refused(enrolled: Agent, fate: str) -> None:
    key = enrolled.keys / "device.key"
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
        assert "the key of the device that the ledger belongs to" in enrolled.err
    assert key.exists() == (fate == "other")


@pytest.mark.parametrize(
    ("statement", "status", "message"),
    [
        (f"PRAGMA user_version = {schema.VERSION + 1}", 2, "update this software"),
        ("PRAGMA application_id = 7", 2, "must be the state of an agent"),
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
