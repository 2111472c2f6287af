import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from sfumato.device_agent.agent.monitoring import LOG
from sfumato.shared.errors import DuplicateUploadError
from sfumato.shared.plan import WindowRule
from tests.device_agent.conftest import BASE, HOUR, Agent, AgentFor, make_plan
from tests.device_agent.daemons import accept, daemon, query, stop, wait_until


def log_of(agent: Agent) -> str:
    return (agent.folder / "daemon.log").read_text()


def n_stored(agent: Agent) -> int:
    return len(agent.server.stored)


def n_records(agent: Agent) -> int:
    return sum(m.header.n_records or 0 for m in list(agent.server.stored.values()))


def count(agent: Agent, what: str) -> int:
    ((number,),) = query(agent.state, f"SELECT {what}")
    return int(number)


SENT = "COUNT(*) FROM outbox WHERE state = 'sent'"
OPEN = "COALESCE(SUM(n_records), 0) FROM open_windows"


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


def test_other_bytes_at_the_server_suspend_the_stream_until_the_owner_acts(
    enrolled: Agent,
) -> None:
    enrolled.server.answers[0] = DuplicateUploadError("other bytes are stored", field="sketch_id")
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: "stream is suspended" in log_of(enrolled))
        enrolled.append(1, 2, lines=5)
        assert stop(process) == 0
    assert enrolled.once(status=3)["released"] == 0
    assert query(enrolled.state, "SELECT sequence, copy FROM events ORDER BY id") == [
        *((0, 0), (0, 1)),
    ]
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


def test_a_hangup_reloads_the_configuration_and_a_bad_one_is_reported(enrolled: Agent) -> None:
    enrolled.write_config(lifetime="2")
    good = enrolled.config.read_text()
    enrolled.append(0, lines=5)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 1)

        def hang_up(text: str) -> None:
            enrolled.config.write_text(text)
            process.send_signal(signal.SIGHUP)

        def refusals() -> list[str]:
            # The server's answer to what was sent may be logged after them.
            return re.findall(r".*was not reloaded.*\n", log_of(enrolled))

        bad = [
            ('per_record = "1"', "per_record = 0.1", "budget.per_record"),
            ('state_dir = "state"', 'state_dir = "o"', "cannot change while the agent runs"),
            *((("[budget]", '[policy]\nmechanisms = ["discrete-gaussian"]\n[budget]', "policy.")),),
            ('timestamp = "time"\n', "", "streams[0].source.timestamp"),
        ]
        for n, (old, new, reason) in enumerate(bad):
            hang_up(good.replace(old, new))
            wait_until(lambda n=n: len(refusals()) > n)  # type: ignore[misc]
            assert reason in refusals()[n]
        enrolled.append(1, 2, lines=5)
        wait_until(lambda: n_stored(enrolled) == 2 and "budget.lifetime" in log_of(enrolled))
        hang_up(good.replace('lifetime = "2"', 'lifetime = "3"'))
        wait_until(lambda: n_stored(enrolled) == 3)
        assert stop(process) == 0
    assert n_records(enrolled) == 15


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


def test_a_full_outbox_closes_no_window_and_drops_nothing(enrolled: Agent) -> None:
    with enrolled.config.open("a") as file:
        file.write("\n[outbox]\nmost_megabytes = 0.0005\n")
    enrolled.server.stop()
    enrolled.append(0, 1, lines=5)
    for n_said in range(2):
        with daemon(enrolled.config) as process:
            wait_until(lambda n=n_said: log_of(enrolled).count("the outbox is full") > n)  # type: ignore[misc]
            assert stop(process) == 0
        assert count(enrolled, "COUNT(*) FROM events") == 2
        enrolled.append(2 + n_said, lines=5)
    enrolled.once("--send-for", "0", status=75)
    assert "the outbox is full" in enrolled.out
    enrolled.server.start()
    for _ in range(3):  # a run reads before it sends
        enrolled.once()
    assert n_records(enrolled) == 20


def test_a_source_that_hangs_and_cannot_be_broken_off_holds_up_no_stop(enrolled: Agent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        text = enrolled.config.read_text().replace('kind = "csv"', 'kind = "mqtt"')
        url = f'url = "mqtt://127.0.0.1:{silent.getsockname()[1]}/"'
        text = text.replace('path = "records.csv"', f'{url}\ntopic = "a"\nclient_id = "c"')
        enrolled.config.write_text(text)
        enrolled.join_as_it_stands()
        with daemon(enrolled.config) as process:
            connection = accept(silent)
            assert stop(process) == 0
            connection.close()
    assert "stopped without saving" in log_of(enrolled)


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
        process.stdin.write(f"{HOUR},1,1\n{time.time()},1,1\n")
        process.stdin.flush()
        wait_until(lambda: n_records(enrolled) == 3)
        # Saved soon, for it cannot be read again.
        wait_until(lambda: count(enrolled, OPEN) == 1)
        process.stdin.close()
        wait_until(lambda: "the source has ended" in log_of(enrolled))
        assert stop(process) == 0


def test_a_source_that_hangs_holds_up_no_other(enrolled: Agent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with enrolled.config.open("a") as file:
            file.write('\n[[streams]]\nname = "slow"\n[streams.source]\nkind = "http"\n')
            file.write(f'url = "{url}"\ntimestamp = "time"\ntimeout_s = 3600\n')
            # Nor does one that is not there.
            file.write('\n[[streams]]\nname = "other"\n[streams.source]\nkind = "csv"\n')
            file.write('path = "missing.csv"\ntimestamp = "time"\ntimestamp_format = "unix"\n')
        enrolled.join_as_it_stands()
        with daemon(enrolled.config) as process:
            connection = accept(silent)
            enrolled.append(0, 1, lines=3)
            wait_until(lambda: n_stored(enrolled) == 2)
            assert "missing.csv: cannot be read" in log_of(enrolled)
            (enrolled.folder / "missing.csv").write_text("time,x,y\n0,1,1\n")
            wait_until(lambda: n_stored(enrolled) == 3)
            assert stop(process) == 0
            connection.close()
    assert "nothing is lost" in log_of(enrolled)


def test_a_plan_that_hides_presence_is_refused_with_what_serves_instead(
    agent_for: AgentFor,
) -> None:
    window = WindowRule(kind="time", origin=3600, length_s=3600)
    plan = make_plan(neighbouring="add-remove-one", least_records=None, window=window)
    agent = agent_for(plan)
    agent.init()
    assert agent.run("run") == 2
    assert "`sfumato-agent once` by a timer" in agent.err
    LOG.handlers.clear()


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
        wait_until(lambda: count(enrolled, SENT) == 2)
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
        wait_until(lambda: count(enrolled, SENT) == 2)
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_saves_the_open_window(number: int, enrolled: Agent) -> None:
    enrolled.append(0, lines=10)
    with daemon(enrolled.config) as process:
        wait_until(lambda: n_stored(enrolled) == 1)
        with enrolled.records.open("a") as file:
            # One write: what is sent of the first record shows that all were read.
            file.write(f"{BASE + HOUR},1,1\n" + 7 * f"{time.time()},1,1\n")
        wait_until(lambda: n_stored(enrolled) == 2)
        assert stop(process, number) == 0
    assert count(enrolled, OPEN) == 7
    assert "stopped; nothing is lost" in log_of(enrolled)
    assert enrolled.once()["records_read"] == 0
