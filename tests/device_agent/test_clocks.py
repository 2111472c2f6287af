import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sfumato.device_agent.agent.exchange import clocks
from sfumato.device_agent.agent.exchange.clocks import ServerClock
from sfumato.device_agent.agent.exchange.polling import draw_pause
from sfumato.device_agent.store.database import create_database
from sfumato.device_agent.windows import Clocks, describe_difference

START = 1_700_000_000.0


class Boot:
    """Seconds since the machine was started."""

    def __init__(self) -> None:
        self.seconds, self.name = 100.0, "first"

    def __call__(self) -> float:
        return self.seconds

    def restart(self, seconds: float) -> None:
        self.seconds, self.name = seconds, f"{self.name} again"


@pytest.fixture
def state(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(create_database(tmp_path)) as connection:
        yield connection


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Boot:
    boot = Boot()
    monkeypatch.setattr(clocks, "_boot_time", boot)
    monkeypatch.setattr(clocks, "_boot_id", lambda: boot.name)
    return boot


def test_before_any_answer_only_the_device_is_known(state: sqlite3.Connection) -> None:
    assert ServerClock(state).read(START).closing == [START]


def test_the_servers_time_goes_on_between_its_answers(
    boot: Boot, state: sqlite3.Connection
) -> None:
    server = ServerClock(state)
    server.note(START, START)
    boot.seconds += 50
    read = server.read(START + 51)
    assert read.closing == [START + 51, START + 50]
    assert read.agree


@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0, 10 * 365 * 86400.0])
def test_a_jump_of_the_device_clock_is_noticed_without_asking_again(
    jump_s: float, boot: Boot, state: sqlite3.Connection
) -> None:
    server = ServerClock(state)
    server.note(START, START)
    boot.seconds += 10
    read = server.read(START + 10 + jump_s)
    assert not read.agree
    assert read.latest_believable <= START + 10


def test_an_old_answer_says_nothing_any_more(boot: Boot, state: sqlite3.Connection) -> None:
    server = ServerClock(state)
    server.note(START, START)
    boot.seconds += 86401
    assert server.read(START).closing == [START]


def test_what_was_agreed_on_is_carried_on_by_a_new_start_of_the_agent(
    boot: Boot, state: sqlite3.Connection
) -> None:
    ServerClock(state).note(START, START + 1)
    boot.seconds += 500
    read = ServerClock(state).read(START + 500)
    assert (read.server, read.certain, read.is_exact) == (START + 500, START + 500, True)
    # For a day; then it still is certain.
    boot.seconds += 10 * 86400
    read = ServerClock(state).read(START)
    assert (read.server, read.certain) == (None, START + 500 + 10 * 86400)
    assert read.latest_believable == read.certain


def test_after_a_restart_of_the_machine_only_what_it_has_run_since_is_certain(
    boot: Boot, state: sqlite3.Connection
) -> None:
    ServerClock(state).note(START, START)
    boot.restart(50.0)
    read = ServerClock(state).read(START + 86400)
    assert (read.server, read.certain, read.is_exact) == (None, START + 50, False)
    ServerClock(state).keep()
    boot.restart(7.0)
    assert ServerClock(state).read(START).certain == START + 57


@pytest.mark.parametrize(("days", "may_close"), [(29, True), (31, False), (365, False)])
def test_without_the_server_a_clock_far_beyond_what_is_certain_closes_nothing(
    days: int, may_close: bool, boot: Boot, state: sqlite3.Connection
) -> None:
    ServerClock(state).note(START, START)
    boot.restart(50.0)
    ahead = START + days * 86400
    read = ServerClock(state).read(ahead)
    assert read.may_close == may_close
    assert read.latest_believable == (ahead if may_close else START + 50)
    # The server decides once it answers, and nothing limits a device that never had an answer.
    assert ServerClock(state).note(ahead, ahead).may_close
    assert Clocks(device=ahead).may_close


@pytest.mark.parametrize(("seconds", "passed"), [(160.0, 60.0), (30.0, 30.0)])
def test_where_no_start_has_a_name_what_is_certain_is_never_too_late(
    seconds: float, passed: float, boot: Boot, state: sqlite3.Connection
) -> None:
    boot.name = ""
    ServerClock(state).note(START, START)
    boot.seconds = seconds
    read = ServerClock(state).read(START)
    assert (read.certain, read.is_exact) == (START + passed, False)


def test_clocks_that_differ_agree_on_nothing(boot: Boot, state: sqlite3.Connection) -> None:
    ServerClock(state).note(START, START + 3600)
    assert ServerClock(state).read(START).certain < START - 200 * 86400


def test_what_both_agreed_on_wrongly_is_taken_back_when_both_are_right(
    boot: Boot, state: sqlite3.Connection
) -> None:
    ServerClock(state).note(START + 1e9, START + 1e9)
    ServerClock(state).note(START, START)
    assert ServerClock(state).read(START).certain == START


@pytest.mark.parametrize(
    ("device", "server", "is_exact", "said"),
    [
        (0.0, START, False, "set this machine's clock"),
        (START - 400, START, False, "set this machine's clock"),
        (START + 400, START, True, "set this machine's clock"),
        (START, 0.0, False, "The server's clock is wrong"),
        (START, START + 1e9, True, "The server's clock is wrong"),
        (START + 1e9, START + 400, False, "Either may be wrong"),
        (0.0, 1.0, False, "Either may be wrong"),
    ],
)
def test_the_clock_is_blamed_that_contradicts_the_time_that_has_passed(
    device: float, server: float, is_exact: bool, said: str
) -> None:
    clocks = Clocks(device=device, server=server, certain=START, is_exact=is_exact)
    text = describe_difference(clocks)
    assert said in text
    assert f"{abs(device - server):.0f} s" in text


def test_nobody_is_blamed_without_a_witness() -> None:
    text = describe_difference(Clocks(device=START, server=START - 3600))
    assert "3600 s ahead of the server (2023-11-14T21:13:20Z)" in text
    assert "Either may be wrong" in text


def test_a_clock_that_nobody_confirms_is_described_in_days() -> None:
    text = describe_difference(Clocks(device=START + 365 * 86400, certain=START))
    assert "365 days after the last time that is certain (2023-11-14T22:13:20Z)" in text


def test_the_real_clock_only_grows() -> None:
    first = clocks._boot_time()
    assert clocks._boot_time() >= first


@pytest.mark.parametrize("n_failures", [0, 3, 100, 10_000])
def test_a_pause_is_never_longer_than_its_cap(n_failures: int) -> None:
    pauses = [draw_pause(n_failures) for _ in range(100)]
    assert 0 <= min(pauses) <= max(pauses) <= min(120.0, 0.5 * 2.0 ** min(n_failures, 30))
