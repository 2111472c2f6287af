"""A disk without space: a small file system in memory, filled to its last block."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.shared.errors import DuplicateUploadError
from tests.device_agent.conftest import HOUR, Agent
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


@pytest.mark.parametrize("leave", [0, 4096, 20_000, 70_000])
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


COMMANDS = [
    ("once",),
    ("run",),
    ("check",),
    ("rotate-key",),
    ("resume", "meter", "--i-understand"),
    ("export", "meter", "0", "--to", "{disk}/sketch"),
    ("init", "--token", TOKEN),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_on_a_full_disk_every_command_says_so_and_may_be_run_again(
    command: tuple[str, ...], cramped: Agent, small_disk: Path
) -> None:
    cramped.append(0, lines=5)
    cramped.once("--no-send")
    cramped.server.answers[0] = DuplicateUploadError("other bytes are stored", field="sketch_id")
    if command[0] == "resume":
        cramped.once(status=0)
    arguments = [part.format(disk=small_disk) for part in command[1:]]
    if command[0] == "init":  # another device, from the beginning
        cramped.write_config(state_dir=str(small_disk / "other"))
        cramped.server.tokens[TOKEN] = 1
    ballast = fill(small_disk)
    before = sorted(path.name for path in small_disk.iterdir())
    assert cramped.run(command[0], *arguments) == 75, cramped.out + cramped.err
    assert "the disk is full" in cramped.err or "No space left on device" in cramped.err
    assert sorted(path.name for path in small_disk.iterdir()) == before
    ballast.unlink()
    assert cramped.run(*(["check"] if command[0] == "run" else [command[0], *arguments])) == 0


def test_a_disk_that_fills_and_empties_under_the_daemon_is_no_reason_to_end(
    cramped: Agent, small_disk: Path
) -> None:
    draw = random.Random(3)
    with daemon(cramped.config) as process:
        wait_until(lambda: "started with" in (cramped.folder / "daemon.log").read_text())
        for cycle in range(4):
            ballast = fill(small_disk, leave=draw.choice([0, 4096, 30_000]))
            cramped.append(*range(10 * cycle, 10 * cycle + 10), lines=5)
            time.sleep(draw.uniform(0.5, 2.0))
            ballast.unlink()
            time.sleep(draw.uniform(0.2, 1.0))
            assert process.poll() is None
        wait_until(lambda: process.poll() is not None or len(cramped.server.stored) == 40)
        assert stop(process) == 0
    require_nothing_lost(cramped, 200)
    log = (cramped.folder / "daemon.log").read_text()
    assert "Traceback" not in log


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
            process.stdin.write(f"{time.time() + HOUR},1,1\n")
            process.stdin.flush()
            n_written += 1
            time.sleep(0.1)
        ballast.unlink()
        process.stdin.write(f"{time.time() + HOUR},1,1\n" * 2)
        process.stdin.flush()
        wait_until(
            lambda: (
                query(cramped.state, "SELECT COALESCE(SUM(n_records), 0) FROM open_windows")
                == [(n_written + 2,)]
            )
        )
        assert stop(process) == 0
