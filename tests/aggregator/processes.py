"""`sfumato serve` as a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.forking import Forked

SERVE = (
    "import sys; from sfumato.shared.command import main; sys.exit(main(['serve', *sys.argv[1:]]))"
)


def start(
    *options: str, stderr: int = subprocess.PIPE, program: str = SERVE
) -> subprocess.Popen[str]:
    """Start a server on a free port; one that logs much must not log into a pipe."""
    return Forked(
        [sys.executable, "-c", program, "--port", "0", "--log-format", "json", *options],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def read_announcement(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait until the server is ready; return its address and all that it printed."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("Stop with"):
        lines.append(process.stdout.readline())
        assert lines[-1], "the server ended before it was ready"
    return lines[0].removeprefix("Sfumato is listening on ").strip(), "".join(lines)


@contextmanager
def running(*options: str) -> Iterator[str]:
    """Run a server without workers for the length of a block; yield its address.

    Its database is a file of its own, unless the options name another.
    """
    with TemporaryDirectory(prefix="sfumato-server-") as folder:
        own = ("--no-worker", "--database", f"{folder}/aggregator.db")
        with start(*own, *options, stderr=subprocess.DEVNULL) as process:
            try:
                yield read_announcement(process)[0]
            finally:
                process.send_signal(signal.SIGTERM)
                process.communicate()
    assert process.returncode == 0
