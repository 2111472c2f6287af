"""The real command, killed before any of its writes, and of its changes of files if asked for.

The agent is imported once, and each run is a fork of that process: importing takes many times
longer than a run.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

# Kills itself when SQLite is about to execute the n-th write. What the statement before it did is
# then done, so every gap between two writes can be tried.
_PROGRAM = """
import json, os, re, signal, sqlite3, sys
import httpx, numpy
from sfumato.device_agent.agent import once
from sfumato.device_agent.relay import run
from sfumato.device_agent.cli import main
from sfumato.device_agent.sources import file_source

WRITES = {"BEGIN", "INSERT", "UPDATE", "DELETE", "COMMIT", "--"}
NAME = re.compile(r"(?:-- )?\\w+(?: OR \\w+)?(?: INTO| FROM)?(?: \\w+)?")
connect = sqlite3.connect
kill_at, seen = 0, []

def see(name):
    seen.append(name)
    if len(seen) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)

def trace(statement):
    statement = " ".join(statement.split())
    if statement.split(" ", 1)[0].upper() in WRITES or "wal_checkpoint" in statement:
        see(NAME.match(statement)[0])

def audit(event, arguments):
    if event in ("os.remove", "os.rename"):
        see(event)

def traced(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.set_trace_callback(trace)
    return connection

sqlite3.connect = traced
for line in sys.stdin:
    kill_at, arguments, path, has_files = json.loads(line)
    child = os.fork()
    if not child:
        if has_files:
            sys.addaudithook(audit)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 70
        try:
            status = main(arguments)
            with open(path, "w") as file:
                json.dump(seen, file)
        finally:
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Configured(Protocol):
    """Whatever has a configuration file."""

    @property
    def config(self) -> Path:
        """The file."""


class Victim:
    """`sfumato-agent once`, run as often as wanted and killed wherever it is wanted.

    Parameters
    ----------
    command
        Another command to run.
    has_files
        Whether to kill before files are renamed or removed, too.
    """

    def __init__(
        self,
        process: subprocess.Popen[str],
        log: Path,
        names: Path,
        *,
        command: Sequence[str],
        has_files: bool,
    ) -> None:
        self._process, self._log, self._names = process, log, names
        self._command, self._has_files = command, has_files

    def run(self, agent: Configured, kill_at: int) -> bool:
        """Run until a write is reached, counted from 1; return whether it was."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        arguments = [*self._command, "--config", str(agent.config)]
        order = [kill_at, arguments, str(self._names), self._has_files]
        print(json.dumps(order), file=self._process.stdin)
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        assert status in (0, -signal.SIGKILL), self._log.read_text()
        return status != 0

    def list_kills(self, agent: Configured, *, every: bool) -> list[int]:
        """Run to the end; return at which writes to kill, and last one that is not reached.

        All of them, or of each kind the last. Two are of one kind if they, and what was written
        before them, are the same statements on the same tables.
        """
        assert not self.run(agent, 0)
        names: list[str] = json.loads(self._names.read_text())
        return list_kills(names, every=every)


def list_kills(names: Sequence[str], *, every: bool) -> list[int]:
    """Return the positions from 1 on, and one more; see :meth:`Victim.list_kills`."""
    positions = range(1, len(names) + 1)
    gaps = dict(zip(zip(["", *names[:-1]], names, strict=True), positions, strict=True))
    return [*(positions if every else sorted(gaps.values())), len(names) + 1]


@contextmanager
def victim_in(
    folder: Path, *, command: Sequence[str] = ("once", "--json"), has_files: bool = False
) -> Iterator[Victim]:
    """Keep an agent ready to be killed; see :class:`Victim`."""
    log = folder / "killed.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        yield Victim(process, log, folder / "writes.json", command=command, has_files=has_files)
