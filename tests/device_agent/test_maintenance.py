import shutil
import sqlite3
from pathlib import Path

import pytest

from sfumato.shared.errors import ImplausibleSketchError
from sfumato.shared.wire import decode_message
from tests.device_agent.conftest import Agent
from tests.device_agent.serving import TOKEN
from tests.ledgers import use_new_ledger


def files(agent: Agent) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(agent.state.rglob("*")) if file.is_file())


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


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("waiting", "still waits in the outbox"),
        ("sent", "was sent at 20"),
        ("shelved", "was set aside (implausible-sketch), and is not sent from here"),
    ],
)
def test_an_export_says_how_the_sketch_stands(
    state: str, said: str, enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, lines=5)
    if state == "shelved":
        enrolled.server.answers = {0: ImplausibleSketchError("is not plausible", field="slots")}
    enrolled.once(*(["--no-send"] if state == "waiting" else []))
    assert enrolled.run("export", "meter", "0", "--to", str(tmp_path / "sketch")) == 0
    assert said in enrolled.out


def test_what_is_carried_to_the_server_by_hand_makes_no_copy_of_the_device(
    enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, 1, 2, lines=5)
    enrolled.once("--no-send")
    path = tmp_path / "sketch"
    assert enrolled.run("export", "meter", "2", "--to", str(path)) == 0
    body = path.read_bytes()
    enrolled.server.put(decode_message(body).header.sketch_id, body)
    assert enrolled.once()["sent"] == 3


def test_a_noise_that_must_not_leave_is_not_exported_either(
    enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, lines=5)
    clone = tmp_path / "clone"
    shutil.copytree(enrolled.state, clone)
    enrolled.once()
    enrolled.write_config(state_dir=str(clone))
    use_new_ledger()
    enrolled.server.stop()
    enrolled.once("--send-for", "0", status=75)
    enrolled.server.start()
    assert enrolled.run("once") == 3
    path = tmp_path / "sketch"
    for _ in range(2):
        assert enrolled.run("export", "meter", "0", "--to", str(path)) == 3
        assert "cannot be exported" in enrolled.err
        assert not path.exists()
        enrolled.run("resume", "meter", "--i-understand")


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
    assert "2 of these were never sent" in enrolled.out
    assert "`sfumato device revoke " in enrolled.out
    assert not (enrolled.keys / "device.key").exists()
    assert not any(message in files(enrolled) for message in messages)
    assert enrolled.run("once") == 2
    assert enrolled.run("budget", "--json") == 0
    assert '"n_releases": 2' in enrolled.out
    assert enrolled.run("forget", "--yes") == 2
    assert "was forgotten already; its ledger is kept" in enrolled.err


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
    # The owner's ledger has forgotten nothing.
    assert enrolled.run("init", "--token", TOKEN) == 3
    assert "1 of the releases are of an earlier state folder" in enrolled.err
    enrolled.write_config(per_record="2")
    enrolled.init()
    # What it was warned of.
    assert enrolled.once()["records_read"] == 5
