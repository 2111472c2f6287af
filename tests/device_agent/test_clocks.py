import pytest

from device_agent.agent import clocks
from device_agent.agent.clocks import ServerClock
from device_agent.agent.sender import draw_pause

START = 1_700_000_000.0


class Boot:
    """Seconds since the machine was started."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Boot:
    boot = Boot()
    monkeypatch.setattr(clocks, "_boot_time", boot)
    return boot


def test_before_any_answer_only_the_device_is_known() -> None:
    assert ServerClock().read(START).closing == [START]


def test_the_servers_time_goes_on_between_its_answers(boot: Boot) -> None:
    server = ServerClock()
    server.note(START)
    boot.seconds += 50
    read = server.read(START + 51)
    assert read.closing == [START + 51, START + 50]
    assert read.agree


@pytest.mark.parametrize("jump_s", [-86400.0, 86400.0, 10 * 365 * 86400.0])
def test_a_jump_of_the_device_clock_is_noticed_without_asking_again(
    jump_s: float, boot: Boot
) -> None:
    server = ServerClock()
    server.note(START)
    boot.seconds += 10
    read = server.read(START + 10 + jump_s)
    assert not read.agree
    assert read.latest_believable <= START + 10


def test_an_old_answer_says_nothing_any_more(boot: Boot) -> None:
    server = ServerClock()
    server.note(START)
    boot.seconds += 86401
    assert server.read(START).closing == [START]


def test_the_real_clock_only_grows() -> None:
    first = clocks._boot_time()
    assert clocks._boot_time() >= first


@pytest.mark.parametrize("n_failures", [0, 3, 100, 10_000])
def test_a_pause_is_never_longer_than_its_cap(n_failures: int) -> None:
    pauses = [draw_pause(n_failures) for _ in range(100)]
    assert 0 <= min(pauses) <= max(pauses) <= min(120.0, 0.5 * 2.0 ** min(n_failures, 30))
