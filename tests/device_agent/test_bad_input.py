"""What a field device meets: each is said, and costs neither a record nor anybody's privacy."""

import os
import re
import shutil
import time
from pathlib import Path

import pytest

from sfumato.device_agent.agent.exchange import clocks
from sfumato.device_agent.agent.exchange.comparison import COPIED
from sfumato.shared.errors import AccessError, NotFoundError, StudyClosedError
from tests.device_agent.conftest import BASE, HOUR, Agent
from tests.device_agent.daemons import daemon, query, stop, wait_until
from tests.device_agent.serving import TOKEN, Server
from tests.ledgers import use_new_ledger


def write(agent: Agent, slot: int, *rows: str) -> None:
    with agent.records.open("a", errors="surrogateescape") as file:
        file.writelines(f"{BASE + slot * HOUR},{row}\n" for row in rows)


def counts(agent: Agent) -> list[int | None]:
    headers = [message.header for message in agent.server.stored.values()]
    return [header.n_records for header in sorted(headers, key=lambda h: h.sequence)]


def test_garbage_lines_keep_their_place_and_are_told_by_line_and_field_alone(
    enrolled: Agent,
) -> None:
    write(enrolled, 0, "1,1", "oops12.75,3", "", "1,1,1,1,1", '"', "\x00\x01", "\udcff\udcfe,1")
    enrolled.append(1)
    report = enrolled.once()
    assert counts(enrolled) == [7, 1]
    assert report["unsketchable"] == 6
    said = " ".join(report["messages"])
    assert "line 3 (x)" in said
    assert "12.75" not in said


def test_what_a_report_says_depends_on_no_value_unless_asked_for(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.tokens[TOKEN] = 10

    def run(name: str, line: str, *arguments: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        agent = Agent(folder, server, capsys)
        agent.init()
        agent.append(0, lines=5)
        with agent.records.open("a") as file:
            file.write(f"{BASE},{line}\n")
        said = []
        for command in (["check"], ["once", *arguments], ["once", "--json", *arguments]):
            assert agent.run(*command) == 0, agent.err
            said.append(agent.out + agent.err)
        return re.sub(r"differ by \d+ s", "", "".join(said).replace(str(folder), ""))

    usual = run("a", "1,1")
    assert run("b", "not a number,1") == usual
    assert run("c", "11.5,1") == usual
    asked = [run(f"asked {line}", line, "--value-counts") for line in ("1,1", "none,1", "11.5,1")]
    assert len(set(asked)) == 3


def test_a_line_that_says_it_is_a_header_is_a_record_and_stops_nothing(enrolled: Agent) -> None:
    for slot, line in enumerate(["time,y,x", "time,x,y", "", '"']):
        enrolled.append(slot, lines=4)
        with enrolled.records.open("a") as file:
            file.write(f"{line}\n")
    report = enrolled.once("--value-counts")
    assert (report["records_read"], report["unsketchable"]) == (20, 4)
    assert counts(enrolled) == [5] * 4


def test_a_unit_mistake_warns_here_and_withholds_no_window(enrolled: Agent) -> None:
    # Kelvin where degrees were meant: all outside the bounds.
    write(enrolled, 0, *["293.5,1"] * 10)
    write(enrolled, 1, *["1,1"] * 10)
    report = enrolled.once()
    assert report["released"] == 2
    assert counts(enrolled) == [10, 10]
    (warning,) = (text for text in report["messages"] if "outside the plan's bounds" in text)
    assert "x: 50%" in warning
    assert "293" not in warning


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named_and_read_once_it_may(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.records.chmod(0)
    assert enrolled.once(status=2)["released"] == 0
    assert "records.csv: cannot be read (Permission denied)" in enrolled.err
    enrolled.records.chmod(0o600)
    assert enrolled.once()["released"] == 1


@pytest.mark.parametrize(("setting", "status"), [("error", 2), ("wait", 0)])
def test_a_file_that_is_missing_at_the_start_is_an_error_or_awaited(
    setting: str, status: int, enrolled: Agent
) -> None:
    text = enrolled.config.read_text()
    enrolled.config.write_text(f'{text}\nmissing = "{setting}"\n')
    enrolled.records.unlink()
    report = enrolled.once(status=status)
    assert any("does not exist yet" in text for text in report["messages"]) == (setting == "wait")
    enrolled.records.write_text("time,x,y\n")
    enrolled.append(0, lines=5)
    assert enrolled.once()["released"] == 1


def test_a_clone_of_the_card_stops_as_soon_as_the_server_knows_more(
    enrolled: Agent, tmp_path: Path
) -> None:
    enrolled.append(0, lines=5)
    enrolled.once()
    clone = tmp_path / "clone"
    shutil.copytree(enrolled.state, clone)
    enrolled.append(1, 2, lines=5)
    assert enrolled.once()["released"] == 2
    enrolled.write_config(state_dir=str(clone))
    # On another machine: on one, the owner's ledger tells it.
    use_new_ledger()
    assert enrolled.run("once") == 3
    assert "or this device was cloned" in enrolled.err
    assert query(clone, "SELECT sequence, count, copy FROM events ORDER BY id") == [
        (0, 1, 0),
        (2, 2, 1),
    ]


def test_a_clone_under_the_daemon_sends_none_of_its_own_noise(
    enrolled: Agent, tmp_path: Path
) -> None:
    # Both release before either has sent, under the same number.
    clone = tmp_path / "clone"
    shutil.copytree(enrolled.state, clone)
    enrolled.append(0, lines=5)
    enrolled.server.stop()
    enrolled.once("--send-for", "0", status=75)
    original = enrolled.config.read_text()
    enrolled.write_config(state_dir=str(clone))
    use_new_ledger()
    enrolled.once("--send-for", "0", status=75)
    enrolled.server.start()
    enrolled.config.write_text(original)
    use_new_ledger()
    assert enrolled.once()["sent"] == 1
    enrolled.write_config(state_dir=str(clone))
    use_new_ledger()
    with daemon(enrolled.config) as process:
        assert process.wait() == 3
    enrolled.append(1, lines=5)
    assert enrolled.run("once", "--json") == 3
    assert query(clone, "SELECT sequence, copy FROM events ORDER BY id") == [(0, 0), (0, 1)]
    assert query(clone, "SELECT state, problem FROM outbox") == [("shelved", COPIED)]
    assert len(enrolled.server.received) == 1


def test_two_agents_on_one_state_are_told_of_each_other(enrolled: Agent) -> None:
    with daemon(enrolled.config) as process:
        log = enrolled.folder / "daemon.log"
        wait_until(lambda: "started with" in log.read_text())
        assert enrolled.run("once") == 3
        assert "cannot be used by two sfumato-agents" in enrolled.err
        assert stop(process) == 0


def test_two_devices_on_one_source_are_told_of_each_other(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: len(enrolled.server.stored) == 1)
        # Another device, with a state of its own, for whose releases the owner's budget suffices.
        enrolled.write_config(state_dir="other", per_record="2")
        enrolled.server.tokens[TOKEN] = 1
        enrolled.init()
        assert enrolled.once(status=3)["records_read"] == 0
        assert "records.csv: cannot be read by two sfumato-agents" in enrolled.err
        assert query(enrolled.folder / "other", "SELECT COUNT(*) FROM events") == [(0,)]
        # Whoever only looks may look, and does not get in the way of who reads.
        assert enrolled.run("check") == 0
        enrolled.append(1, lines=5)
        wait_until(lambda: len(enrolled.server.stored) == 2)
        assert stop(process) == 0


def test_a_revoked_key_spends_nothing_more_and_loses_nothing(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    enrolled.once("--no-send")
    known = dict(enrolled.server.devices)
    enrolled.server.devices.clear()
    enrolled.append(1, lines=5)
    assert enrolled.run("once") == 2
    assert query(enrolled.state, "SELECT COUNT(*) FROM events") == [(1,)]
    enrolled.server.devices.update(known)
    enrolled.once()
    assert counts(enrolled) == [5, 5]


@pytest.mark.parametrize(
    "error",
    [
        StudyClosedError("is closed", field="study"),
        NotFoundError("there is no such study", field="study"),
        AccessError("was revoked", field="device"),
    ],
)
def test_a_closed_or_withdrawn_study_sets_sketches_aside_visibly_and_still_counts_them(
    error: Exception, enrolled: Agent
) -> None:
    enrolled.server.answers = {0: error, 1: error}  # type: ignore[dict-item]
    enrolled.append(0, 1, lines=5)
    report = enrolled.once()
    assert (report["shelved"], report["waiting"]) == (2, 0)
    assert report["epsilon_spent_lifetime"] == "2"
    assert enrolled.run("status") == 0
    assert "shelved" in enrolled.out


def test_a_server_that_is_gone_is_waited_for_however_long(enrolled: Agent) -> None:
    enrolled.server.stop()
    for slot in range(5):
        enrolled.append(slot, lines=5)
        report = enrolled.once("--send-for", "0", status=75)
    assert (report["waiting"], report["shelved"]) == (5, 0)
    enrolled.server.start()
    enrolled.once()
    assert counts(enrolled) == [5] * 5


def test_another_plan_in_place_of_the_studys_is_not_obeyed(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    other = Server(enrolled.server.plan, name="another")
    enrolled.server.name, enrolled.server.plan_digest = other.name, "0" * 64
    before = query(enrolled.state, "SELECT value FROM meta WHERE key = 'plan'")
    enrolled.once()
    assert query(enrolled.state, "SELECT value FROM meta WHERE key = 'plan'") == before
    # The plan that was verified goes on; what the server refuses for it is set aside.
    assert query(enrolled.state, "SELECT state, problem FROM outbox") == [
        ("shelved", "plan-mismatch")
    ]


def test_a_clock_that_is_wrong_closes_no_window_and_says_so(enrolled: Agent) -> None:
    enrolled.server.clock_offset = -40 * 86400.0
    with enrolled.records.open("a") as file:
        file.writelines(f"{time.time() - 2 * HOUR},1,1\n" for _ in range(5))
    report = enrolled.once()
    assert report["released"] == 0
    assert any("The server's clock is wrong" in message for message in report["messages"])


def test_a_clock_a_year_ahead_after_a_start_without_the_server_costs_no_window(
    enrolled: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = int(time.time() // HOUR)
    now = (slot + 0.5) * HOUR
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(enrolled.server, "now", lambda: now)
    enrolled.once()
    enrolled.server.stop()
    monkeypatch.setattr(clocks, "_boot_id", lambda: "again")
    monkeypatch.setattr(clocks, "_boot_time", lambda: 60.0)
    now += 365 * 86400
    for _ in range(3):
        now += HOUR
        with enrolled.records.open("a") as file:
            file.write(f"{now},1,1\n")
        report = enrolled.once("--send-for", "0")
        assert report["released"] == 0
        assert "so no window is closed by the clock" in " ".join(report["messages"])
    enrolled.server.start()
    now = (slot + 1.5) * HOUR
    enrolled.once()
    slots = [message.header.slots for message in enrolled.server.stored.values()]
    assert slots == [(slot, slot)]
