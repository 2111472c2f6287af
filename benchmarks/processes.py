"""Processes that benchmarks start and measure, as an operator runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


class Process:
    """A running program.

    Parameters
    ----------
    command, environment, stdin
        Its command, variables beside those of this process, and the file that it reads.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        stdin: Path | None = None,
    ) -> None:
        quiet, given = subprocess.DEVNULL, {**os.environ, **(environment or {})}
        with Path(stdin or os.devnull).open("rb") as fed:
            self._process = subprocess.Popen(
                command, env=given, stdin=fed, stdout=quiet, stderr=quiet
            )

    def wait_until(self, is_ready: Callable[[], bool], pause_s: float = 0.02) -> None:
        """Wait for something that the program brings about.

        Raises
        ------
        RuntimeError
            The program has ended.
        """
        while not is_ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"{self._process.args!r} ended: {self._process.returncode}")
            time.sleep(pause_s)

    def list_pids(self) -> list[int]:
        """Return its process id and those of its workers."""
        return [self._process.pid, *list_children(self._process.pid)]

    def rss_mb(self) -> float:
        """Return the resident memory of the program and its workers, in 10^6 bytes."""
        return sum(map(_read_rss, self.list_pids())) / 1e6

    def cpu_seconds(self) -> float:
        """Return the processor time of all its threads, without its workers."""
        return read_cpu_seconds(self._process.pid)

    def end(self, how: int = signal.SIGTERM) -> None:
        """Stop it as an operator would, or kill it as a power cut would."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait()


def list_children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def find_parent(pid: int) -> int:
    """Return the process that started a process."""
    return int(_read_stat(pid)[1])


def read_cpu_seconds(pid: int, *, ended: bool = False) -> float:
    """Return the processor time of a process; ``ended`` with that of its children that ended."""
    ticks = _read_stat(pid)[11 : 15 if ended else 13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _read_stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _read_rss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
