"""The device in TypeScript: its tests, run by Node, and what they need of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients.js.node import MISSING, NODE

HERE = Path(__file__).parent
FILES = sorted(path.relative_to(HERE).as_posix() for path in HERE.glob("*/*.test.ts"))


@pytest.mark.skipif(NODE is None, reason=MISSING)
@pytest.mark.parametrize("file", FILES)
def test_the_device_in_typescript_passes(file: str) -> None:
    assert NODE is not None
    command = [str(NODE), "--test", "--test-reporter=tap", file]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "# pass 0" not in done.stdout
