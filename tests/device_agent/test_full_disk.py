"""A disk without space: a small file system in memory, filled to its last block."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sfumato.shared.errors import DuplicateUploadError
from tests.device_agent.conftest import Agent
from tests.device_agent.daemons import daemon, query, stop, wait_until
from tests.device_agent.serving import TOKEN

_SIZE = 2 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE},mode=700", "tmpfs", str(folder)]
    done = None
    if sys.platform == "linux" and os.geteuid() == 0:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done is None or done.returncode:
        pytest.skip("a small file system can only be mounted by root on Linux")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def cramped(small_disk: Path, agent: Agent) -> Agent:
    """A device whose state, and nothing else, is on the small disk."""
    agent.state = small_disk / "state"
    agent.write_config(state_dir=str(agent.state))
    assert agent.run("init", "--token", TOKEN) == 0, agent.err
    return agent


def fill(folder: Path, *, leave: int = 0) -> Path:
    """Leave no more than so many bytes free."""
    ballast = folder / "ballast"
    with ballast.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            pass
        file.truncate(max(0, file.tell() - leave))
    return ballast


def require_nothing_lost(agent: Agent, n_records: int) -> None:
    events = query(agent.state, "SELECT stream, sequence FROM events ORDER BY id")
    assert events == query(agent.state, "SELECT stream, sequence FROM outbox ORDER BY sequence")
    stored = [message.header for message in agent.server.stored.values()]
    assert sorted(header.sequence for header in stored) == list(range(len(events)))
    assert sum(header.n_records or 0 for header in stored) == n_records
    seen: dict[bytes, bytes] = {}
    for sketch_id, body in agent.server.received:
        assert seen.setdefault(sketch_id, body) == body


@pytest.mark.parametrize("leave", [0, 20_000])
def test_a_full_disk_loses_nothing_and_is_made_good_when_there_is_space(
    leave: int, cramped: Agent, small_disk: Path
) -> None:
    cramped.append(0, 1, lines=5)
    ballast = fill(small_disk, leave=leave)
    cramped.append(*range(2, 40), lines=5)
    for _ in range(3):
        status = cramped.run("once", "--json")
        assert status in (0, 75), cramped.err
        assert (status == 75) == ("the disk is full" in cramped.err), cramped.err
        assert "Traceback" not in cramped.err
        assert "defect" not in cramped.err
    ballast.unlink()
    for _ in range(10):
        assert cramped.once()["errors"] == []
    assert query(cramped.state, "SELECT COUNT(*) FROM outbox WHERE state = 'sent'") == [(40,)]
    require_nothing_lost(cramped, 200)


def test_on_a_full_disk_every_command_says_so_and_may_be_run_again(
    cramped: Agent, small_disk: Path
) -> None:
    cramped.append(0, lines=5)
    cramped.once("--no-send")
    own, other = cramped.config.read_text(), str(small_disk / "other")
    cramped.server.tokens[TOKEN] = 1

    def run(*command: str) -> int:
        if command[0] == "init":  # another device, from the beginning
            cramped.write_config(state_dir=other, per_record="2")
        status = cramped.run(*command)
        cramped.config.write_text(own)
        return status

    export = ["export", "meter", "0", "--to", str(small_disk / "sketch")]
    require_refused_once(run, cramped, small_disk, ["run"], ["check"], ["rotate-key"], export)
    require_refused_once(run, cramped, small_disk, ["once"], ["init", "--token", TOKEN])
    cramped.append(1, lines=5)
    cramped.server.answers[1] = DuplicateUploadError("other bytes are stored", field="sketch_id")
    assert cramped.once()["shelved"] == 1
    require_refused_once(run, cramped, small_disk, ["resume", "meter", "--i-understand"])


def require_refused_once(
    run: Callable[..., int], agent: Agent, disk: Path, *commands: list[str]
) -> None:
    """Check that commands fail while there is no space, change nothing, and then do not fail."""
    ballast = fill(disk)
    before = sorted(path.name for path in disk.iterdir())
    for command in commands:
        assert run(*command) == 75, (command, agent.out + agent.err)
        assert "the disk is full" in agent.err or "No space left on device" in agent.err, command
        assert sorted(path.name for path in disk.iterdir()) == before, command
    ballast.unlink()
    for command in commands:
        # The daemon would not end.
        assert command == ["run"] or run(*command) == 0, (command, agent.out + agent.err)


def test_a_disk_that_fills_and_empties_under_the_daemon_is_no_reason_to_end(
    cramped: Agent, small_disk: Path
) -> None:
    log = cramped.folder / "daemon.log"
    with daemon(cramped.config) as process:
        wait_until(lambda: "started with" in log.read_text())
        for cycle in range(2):
            n_said = log.read_text().count("is full")
            ballast = fill(small_disk)
            cramped.append(*range(10 * cycle, 10 * cycle + 10), lines=5)
            wait_until(lambda n=n_said: log.read_text().count("is full") > n)  # type: ignore[misc]
            ballast.unlink()
            n_stored = 10 * (cycle + 1)
            wait_until(lambda n=n_stored: len(cramped.server.stored) == n)  # type: ignore[misc]
        assert stop(process) == 0
    require_nothing_lost(cramped, 100)
    assert "Traceback" not in log.read_text()


def test_a_daemon_that_finds_a_full_disk_ends_so_that_it_is_started_again(
    cramped: Agent, small_disk: Path
) -> None:
    ballast = fill(small_disk)
    with daemon(cramped.config) as process:
        assert process.wait() == 75  # the unit forbids a new start after 2 and 3 alone
    ballast.unlink()
    cramped.append(0, lines=5)
    with daemon(cramped.config) as process:
        wait_until(lambda: len(cramped.server.stored) == 1)
        assert stop(process) == 0


def test_a_full_disk_ends_no_standard_input(cramped: Agent, small_disk: Path) -> None:
    # What was read of it is in memory alone, and cannot be read again.
    text = cramped.config.read_text()
    text = text.replace('kind = "csv"', 'kind = "stdin"').replace('path = "records.csv"\n', "")
    cramped.config.write_text(text)
    cramped.rejoin()
    with daemon(cramped.config) as process:
        assert process.stdin is not None
        process.stdin.write("time,x,y\n1,1,1\n")
        process.stdin.flush()
        wait_until(lambda: query(cramped.state, "SELECT COUNT(*) FROM events") == [(1,)])
        n_written = 0
        while "full" not in (cramped.folder / "daemon.log").read_text():
            # Again and again, for the daemon may just have given pages of its log back.
            ballast = fill(small_disk)
            process.stdin.write(f"{time.time()},1,1\n")
            process.stdin.flush()
            n_written += 1
            time.sleep(0.1)
        ballast.unlink()
        process.stdin.write(f"{time.time()},1,1\n" * 2)
        process.stdin.flush()
        wait_until(
            lambda: (
                query(cramped.state, "SELECT COALESCE(SUM(n_records), 0) FROM open_windows")
                == [(n_written + 2,)]
            )
        )
        assert stop(process) == 0
