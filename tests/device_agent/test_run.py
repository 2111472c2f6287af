import os
import signal
import socket
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.device_agent.agent.monitoring import LOG
from sfumato.shared.errors import AccessError, DuplicateUploadError
from sfumato.shared.plan import WindowRule
from tests.device_agent.conftest import BASE, HOUR, Agent, make_plan
from tests.device_agent.daemons import accept, daemon, query, stop, wait_until
from tests.device_agent.serving import Server, running

STOP_S = 15.0
"""Five seconds on an idle machine: after four an alarm breaks off what still runs."""


def log_of(agent: Agent) -> str:
    return (agent.folder / "daemon.log").read_text()


def n_stored(agent: Agent) -> int:
    return len(agent.server.stored)


def n_records(agent: Agent) -> int:
    return sum(m.header.n_records or 0 for m in list(agent.server.stored.values()))


def n_sent(agent: Agent) -> int:
    rows = query(agent.state, "SELECT COUNT(*) FROM outbox WHERE state = 'sent'")
    return int(str(rows[0][0]))


def open_records(agent: Agent) -> int:
    rows = query(agent.state, "SELECT COALESCE(SUM(n_records), 0) FROM open_windows")
    return int(str(rows[0][0]))


def test_records_that_come_while_it_runs_are_released_and_sent(enrolled: Agent) -> None:
    enrolled.append(0, 1, lines=10)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 2)
        enrolled.append(2, 3, lines=10)
        wait_until(lambda: n_stored(enrolled) == 4)
        assert stop(process) == 0
    assert n_records(enrolled) == 40
    assert "stopped; nothing is lost" in log_of(enrolled)
    assert enrolled.once()["records_read"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_saves_the_open_window_within_five_seconds(number: int, enrolled: Agent) -> None:
    enrolled.append(0, lines=10)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 1)
        with enrolled.records.open("a") as file:
            # One write: what is sent of the first record shows that all were read.
            file.write(f"{BASE + HOUR},1,1\n" + 7 * f"{time.time() + HOUR},1,1\n")
        wait_until(lambda: n_stored(enrolled) == 2)
        before = time.monotonic()
        assert stop(process, number) == 0
        assert time.monotonic() - before < STOP_S
    assert open_records(enrolled) == 7
    assert enrolled.once()["records_read"] == 0


def test_a_server_that_goes_away_and_comes_back_gets_everything_once(enrolled: Agent) -> None:
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 1)
        enrolled.server.stop()
        enrolled.append(1, 2, 3, lines=5)
        # Reading goes on without it.
        wait_until(lambda: query(enrolled.state, "SELECT COUNT(*) FROM events") == [(4,)])
        enrolled.server.start()
        wait_until(lambda: n_stored(enrolled) == 4)
        assert stop(process) == 0
    assert n_records(enrolled) == 20
    assert len({body for _, body in enrolled.server.received}) == 4


def test_it_starts_without_a_server_and_says_what_that_means(enrolled: Agent) -> None:
    enrolled.server.stop()
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: query(enrolled.state, "SELECT COUNT(*) FROM events") == [(1,)])
        assert stop(process) == 0
    assert "cannot be checked whether this device was cloned" in log_of(enrolled)


def test_a_refused_sketch_keeps_none_waiting(enrolled: Agent) -> None:
    enrolled.server.answers[0] = AccessError("is not wanted", field="sketch")
    enrolled.server.answers[1] = 500
    enrolled.append(0, 1, 2, 3, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: set(enrolled.server.payloads()) == {2, 3})
        enrolled.server.answers.clear()
        wait_until(lambda: set(enrolled.server.payloads()) == {1, 2, 3})
        assert stop(process) == 0
    assert query(enrolled.state, "SELECT sequence FROM outbox WHERE state = 'shelved'") == [(0,)]


def test_other_bytes_at_the_server_suspend_the_stream_until_the_owner_acts(
    enrolled: Agent,
) -> None:
    enrolled.server.answers[0] = DuplicateUploadError("other bytes are stored", field="sketch_id")
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: "stream is suspended" in log_of(enrolled))
        enrolled.append(1, 2, lines=5)
        time.sleep(1.5)
        assert stop(process) == 0
    events = "SELECT sequence, copy FROM events ORDER BY id"
    assert query(enrolled.state, events) == [(0, 0), (0, 1)]
    assert enrolled.run("resume", "meter") == 2
    assert "two devices share a key" in enrolled.err
    assert enrolled.run("resume", "meter", "--i-understand") == 0
    enrolled.server.answers.clear()
    # Both releases may be of the same records, so the owner must allow what they cost together.
    assert enrolled.once(status=3)["released"] == 0
    assert "budget.per_record" in enrolled.err
    enrolled.write_config(per_record="2")
    assert enrolled.once()["released"] == 2
    assert enrolled.run("resume", "meter", "--i-understand") == 2
    assert "is not suspended" in enrolled.err


def test_a_server_that_knows_more_stops_it_before_any_release(enrolled: Agent) -> None:
    enrolled.server.extra_sequences["meter"] = 4
    enrolled.append(0, 1, lines=5)
    with daemon(enrolled.config) as process:
        assert process.wait() == 3
    assert query(enrolled.state, "SELECT COUNT(*) FROM events WHERE copy = 0") == [(0,)]
    assert "restored from a backup, or this device was cloned" in log_of(enrolled)


def test_a_server_that_refuses_the_device_is_asked_again_and_nothing_is_spent(
    enrolled: Agent,
) -> None:
    known = dict(enrolled.server.devices)
    enrolled.server.devices.clear()
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: "the server refuses this device" in log_of(enrolled))
        assert query(enrolled.state, "SELECT COUNT(*) FROM events") == [(0,)]
        assert stop(process) == 0
    enrolled.server.devices.update(known)
    assert enrolled.once()["released"] == 1


def test_a_hangup_reloads_the_configuration(enrolled: Agent) -> None:
    enrolled.write_config(lifetime="1")
    enrolled.append(0, 1, 2, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 1 and "budget.lifetime" in log_of(enrolled))
        enrolled.write_config(lifetime="3")
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: n_stored(enrolled) == 3)
        assert stop(process) == 0
    assert n_records(enrolled) == 15


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('per_record = "1"', "per_record = 0.1", "budget.per_record"),
        ('state_dir = "state"', 'state_dir = "other"', "cannot change while the agent runs"),
        ("[budget]", '[policy]\nmechanisms = ["discrete-gaussian"]\n[budget]', "policy.mechanisms"),
        ('timestamp = "time"\n', "", "streams[0].source.timestamp"),
    ],
)
def test_a_bad_configuration_is_reported_and_the_old_one_stays(
    old: str, new: str, reason: str, enrolled: Agent
) -> None:
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 1)
        enrolled.config.write_text(enrolled.config.read_text().replace(old, new))
        process.send_signal(signal.SIGHUP)
        wait_until(lambda: "was not reloaded" in log_of(enrolled))
        enrolled.append(1, lines=5)
        wait_until(lambda: n_stored(enrolled) == 2)
        assert stop(process) == 0
    assert reason in log_of(enrolled)


def test_a_full_outbox_closes_no_window_and_drops_nothing(enrolled: Agent) -> None:
    with enrolled.config.open("a") as file:
        file.write("\n[outbox]\nmost_megabytes = 0.0005\n")
    enrolled.server.stop()
    enrolled.append(0, 1, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: "the outbox is full" in log_of(enrolled))
        enrolled.append(2, 3, 4, lines=5)
        time.sleep(1.5)
        assert stop(process) == 0
    assert query(enrolled.state, "SELECT COUNT(*) FROM events") == [(2,)]
    enrolled.once("--send-for", "0", status=75)
    assert "the outbox is full" in enrolled.out
    enrolled.server.start()
    for _ in range(4):  # a run reads before it sends
        enrolled.once()
    assert n_records(enrolled) == 25


def test_a_source_that_is_not_there_holds_up_no_other(enrolled: Agent) -> None:
    text = enrolled.config.read_text()
    stream = text[text.index("[[streams]]") :]
    other = stream.replace('"meter"', '"other"').replace("records.csv", "missing.csv")
    enrolled.config.write_text(text + "\n" + other)
    missing = enrolled.folder / "missing.csv"
    missing.write_text("time,x,y\n")
    enrolled.rejoin()
    missing.unlink()
    enrolled.append(0, 1, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 2)
        missing.write_text("time,x,y\n0,1,1\n")
        wait_until(lambda: n_stored(enrolled) == 3)
        assert stop(process) == 0
    assert "missing.csv: cannot be read" in log_of(enrolled)


def test_standard_input_is_read_as_it_comes(enrolled: Agent) -> None:
    text = enrolled.config.read_text()
    text = text.replace('kind = "csv"', 'kind = "stdin"').replace('path = "records.csv"\n', "")
    enrolled.config.write_text(text)
    enrolled.rejoin()
    with daemon(enrolled.config) as process:
        assert process.stdin is not None
        process.stdin.write("time,x,y\n1,1,1\n2,1,1\n")
        process.stdin.flush()
        wait_until(lambda: n_records(enrolled) == 2)
        process.stdin.write(f"{HOUR},1,1\n{time.time() + HOUR},1,1\n")
        process.stdin.flush()
        wait_until(lambda: n_records(enrolled) == 3)
        # Saved soon, for it cannot be read again.
        wait_until(lambda: open_records(enrolled) == 1)
        process.stdin.close()
        wait_until(lambda: "the source has ended" in log_of(enrolled))
        assert stop(process) == 0


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("http", "", "nothing is lost"),
        ("mqtt", 'topic = "a"\nclient_id = "c"', "stopped without saving"),
    ],
)
def test_a_source_that_hangs_holds_up_no_stop(
    kind: str, more: str, said: str, enrolled: Agent
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = enrolled.config.read_text()
        url = f"{kind}://127.0.0.1:{silent.getsockname()[1]}/"
        text = text.replace('kind = "csv"', f'kind = "{kind}"')
        text = text.replace('path = "records.csv"', f'url = "{url}"\n{more}')
        enrolled.config.write_text(text)
        enrolled.join_as_it_stands()
        with daemon(enrolled.config) as process:
            connection = accept(silent)
            before = time.monotonic()
            assert stop(process) == 0
            assert time.monotonic() - before < STOP_S
            connection.close()
    assert said in log_of(enrolled)


def test_a_source_that_hangs_holds_up_no_other(enrolled: Agent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with enrolled.config.open("a") as file:
            file.write('\n[[streams]]\nname = "slow"\n[streams.source]\nkind = "http"\n')
            file.write(f'url = "{url}"\ntimestamp = "time"\ntimeout_s = 3600\n')
        enrolled.join_as_it_stands()
        with daemon(enrolled.config) as process:
            connection = accept(silent)
            enrolled.append(0, 1, lines=3)
            wait_until(lambda: n_stored(enrolled) == 2)
            assert stop(process) == 0
            connection.close()


def test_two_daemons_cannot_share_a_state(enrolled: Agent) -> None:
    with daemon(enrolled.config) as process:
        wait_until(lambda: "started with" in log_of(enrolled))
        with daemon(enrolled.config) as other:
            assert other.wait() == 3
        assert enrolled.run("once") == 3
        assert stop(process) == 0


def test_a_plan_that_hides_presence_is_refused_with_what_serves_instead(
    make_agent: Callable[[Server], Agent],
) -> None:
    window = WindowRule(kind="time", origin=3600, length_s=3600)
    plan = make_plan(neighbouring="add-remove-one", least_records=None, window=window)
    with running(plan) as server:
        agent = make_agent(server)
        agent.init()
        assert agent.run("run") == 2
    assert "`sfumato-agent once` by a timer" in agent.err
    LOG.handlers.clear()


def test_windows_by_count_need_no_time(make_agent: Callable[[Server], Agent]) -> None:
    plan = make_plan(window=WindowRule(kind="count", length=10), epsilon=Fraction(1))
    with running(plan) as server:
        agent = make_agent(server)
        agent.init()
        agent.append(0, lines=35)
        with daemon(agent.config) as process:
            wait_until(lambda: n_stored(agent) == 3)
            assert stop(process) == 0
        assert open_records(agent) == 5


def test_a_value_stands_in_no_log_line_and_the_metrics_are_whole(enrolled: Agent) -> None:
    with enrolled.config.open("a") as file:
        file.write(
            '\n[log]\nlevel = "debug"\nvalue_counts = true\n'
            '[metrics]\npath = "sfumato.prom"\nvalue_counts = true\n'
        )
    enrolled.append(0, lines=5)
    with enrolled.records.open("a") as file:
        file.write(f"{HOUR},7.654321,oops8.765\n")
    enrolled.append(1, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 2)
        wait_until(lambda: n_sent(enrolled) == 2)
        assert stop(process) == 0
    text = (enrolled.folder / "sfumato.prom").read_text()
    assert 'sfumato_agent_windows_released_total{stream="meter"} 2' in text
    assert 'sfumato_agent_records_read_total{stream="meter"} 11' in text
    assert 'sfumato_agent_unsketchable_total{stream="meter"} 1' in text
    assert "sfumato_agent_sketches_sent 2" in text
    for secret in ("7.654321", "8.765"):
        assert secret not in log_of(enrolled)
        assert secret not in text
    assert "cannot be read" in log_of(enrolled)


def test_nothing_that_depends_on_values_leaves_by_log_or_metrics_unless_asked_for(
    enrolled: Agent,
) -> None:
    with enrolled.config.open("a") as file:
        file.write('\n[log]\nlevel = "debug"\n[metrics]\npath = "sfumato.prom"\n')
    enrolled.append(0, lines=5)
    with enrolled.records.open("a") as file:
        for line in range(5):
            # Out of bounds, and unusable.
            file.write(f"{BASE + line},11.5,0\n{BASE + line},oops,0\n")
    enrolled.append(1, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 2)
        wait_until(lambda: n_sent(enrolled) == 2)
        assert stop(process) == 0
    text = (enrolled.folder / "sfumato.prom").read_text()
    assert 'sfumato_agent_records_read_total{stream="meter"} 20' in text
    for word in ("unsketchable", "out_of_bounds"):
        assert word not in text
    for words in ("cannot be read", "outside the plan's bounds"):
        assert words not in log_of(enrolled)
    assert "window(s) released" in log_of(enrolled)


def test_the_service_manager_hears_of_start_life_and_stop(enrolled: Agent, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    environment = {**os.environ, "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "400000"}
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        with daemon(enrolled.config, environment) as process:
            while heard.count("WATCHDOG=1") < 3:
                heard.append(manager.recv(1000).decode())
            assert stop(process) == 0
        manager.setblocking(False)
        while "STOPPING=1" not in heard:
            heard.append(manager.recv(1000).decode())
    assert heard[0] == "READY=1"


def test_a_state_that_is_killed_and_restarted_loses_nothing(enrolled: Agent) -> None:
    for slot in range(5):
        enrolled.append(slot, lines=20)
        with daemon(enrolled.config) as process:
            time.sleep(0.3 + 0.1 * slot)
            process.kill()
    # Something that only this one can send: then it has started, and can be asked to stop.
    enrolled.append(5, lines=20)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 6)
        assert stop(process) == 0
    assert n_records(enrolled) == 120
