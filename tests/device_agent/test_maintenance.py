import sqlite3
from pathlib import Path

import pytest

from shared.wire import decode_message
from tests.device_agent.conftest import Agent
from tests.device_agent.server import TOKEN


def files(agent: Agent) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(agent.state.iterdir()))


def test_an_exported_sketch_is_the_one_that_is_sent_and_still_waits(
    enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, 1, lines=5)
    enrolled.once("--no-send")
    path = tmp_path / "meter-1.sketch"
    assert enrolled.run("export", "meter", "1", "--to", str(path)) == 0
    message = decode_message(path.read_bytes())
    ((public_key, _),) = enrolled.server.devices.values()
    message.verify(public_key)
    assert enrolled.once()["sent"] == 2
    assert path.read_bytes() in [body for _, body in enrolled.server.received]
    assert enrolled.run("export", "meter", "1", "--to", str(path)) == 2
    assert "File exists" in enrolled.err


@pytest.mark.parametrize(("stream", "sequence"), [("meter", "7"), ("other", "0")])
def test_only_a_released_sketch_can_be_exported(
    stream: str, sequence: str, enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    path = tmp_path / "file.sketch"
    assert enrolled.run("export", stream, sequence, "--to", str(path)) == 2
    assert "was not released" in enrolled.err
    assert not path.exists()


def test_a_forgotten_device_leaves_what_it_spent_and_nothing_else(enrolled: Agent) -> None:
    enrolled.write_config(lifetime="3")
    enrolled.append(0, 1, lines=5)
    enrolled.once("--no-send")
    connection = sqlite3.connect(enrolled.state / "agent.sqlite")
    messages = [row[0] for row in connection.execute("SELECT message FROM outbox")]
    connection.close()
    assert enrolled.run("forget") == 2
    assert "what they cost stays spent" in enrolled.err
    assert messages[0] in files(enrolled)
    assert enrolled.run("forget", "--yes") == 0
    assert "2 sketch(es) were never sent" in enrolled.out
    assert not (enrolled.state / "device.key").exists()
    assert not any(message in files(enrolled) for message in messages)
    assert enrolled.run("once") == 2
    assert enrolled.run("budget", "--json") == 0
    assert '"n_releases": 2' in enrolled.out
    assert enrolled.run("forget", "--yes") == 2


def test_a_device_that_enrols_again_goes_on_with_ledger_and_sources(enrolled: Agent) -> None:
    enrolled.write_config(lifetime="3")
    enrolled.append(0, 1, lines=5)
    enrolled.once()
    enrolled.run("forget", "--yes")
    enrolled.server.tokens[TOKEN] = 1
    enrolled.init()
    assert len(enrolled.server.devices) == 2
    assert enrolled.once()["records_read"] == 0
    enrolled.append(2, lines=5)
    report = enrolled.once()
    assert (report["released"], report["epsilon_spent_lifetime"]) == (1, "3")
    enrolled.append(3, lines=5)
    assert enrolled.once(status=3)["released"] == 0
    headers = [message.header for message in enrolled.server.stored.values()]
    assert sorted(header.sequence for header in headers) == [0, 1, 2]
    enrolled.run("forget", "--yes")
    enrolled.server.tokens[TOKEN] = 1
    assert enrolled.run("init", "--token", TOKEN) == 3
    assert "budget.lifetime" in enrolled.err


def test_another_study_cannot_take_over_what_was_spent(enrolled: Agent) -> None:
    enrolled.run("forget", "--yes")
    enrolled.write_config(study="ab" * 32)
    assert enrolled.run("init", "--token", TOKEN) == 2
    assert "holds what a device of study" in enrolled.err


def test_the_ledger_is_only_forgotten_by_who_says_so_twice(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    assert enrolled.run("forget", "--yes", "--also-the-ledger") == 2
    assert "--records-may-be-released-again" in enrolled.err
    arguments = ("--yes", "--also-the-ledger", "--records-may-be-released-again")
    assert enrolled.run("forget", *arguments) == 0
    assert [file.name for file in enrolled.state.iterdir()] == ["lock"]
    assert enrolled.run("forget", *arguments) == 2
    enrolled.server.tokens[TOKEN] = 1
    enrolled.init()
    # What it was warned of.
    assert enrolled.once()["records_read"] == 5
