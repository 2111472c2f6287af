"""A test that hangs ends its worker, and its failure shows where it and its programs waited.

``make test`` loads this as a plugin.
"""

from __future__ import annotations

import faulthandler
import os
import tempfile
import time
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

LIMIT_S: Final = 400.0
"""Many times what the longest test takes on a slow machine."""
_VARIABLE = "TESTS_HANGS"
_MOST_LINES = 40
_RUNNERS = ("/_pytest/", "/pluggy/", "/xdist/", "/execnet/")


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder of stacks, for this process and the workers that it starts."""
    if not hasattr(config, "workerinput"):
        os.environ[_VARIABLE] = tempfile.mkdtemp(prefix="tests-hangs-")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Watch one test."""
    watch(LIMIT_S, ends=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: pytest.TestReport) -> None:
    """Show the stacks that were written last with the failure of the test that ended its worker."""
    since = time.time() - 1.5 * LIMIT_S
    for path in sorted(Path(os.environ[_VARIABLE]).iterdir()):
        if path.stat().st_size and path.stat().st_mtime > since:
            lines = path.read_text(errors="replace").splitlines()
            told = [line for line in lines if not any(name in line for name in _RUNNERS)]
            report.longrepr = "\n".join(
                [str(report.longrepr), f"stacks of {path.name}:", *told[-_MOST_LINES:]]
            )


def watch(limit_s: float, *, ends: bool) -> None:
    """Write the stacks of this process after a time: once, and end it then, or again and again."""
    if _VARIABLE in os.environ:
        faulthandler.dump_traceback_later(limit_s, repeat=not ends, file=_open(), exit=ends)


@cache
def _open() -> int:
    """Open the file of this process, for as long as it runs."""
    path = Path(os.environ[_VARIABLE], str(os.getpid()))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
