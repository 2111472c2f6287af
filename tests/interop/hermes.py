"""Hermes 0.12, the engine of React Native, as a program: ``python -m tests.interop.hermes``.

The last Hermes that npm has as a program is 0.12.0, which is older than classes and asynchronous
functions: they are compiled away, by esbuild and Babel, as React Native did then.

The command measures time and memory of a device's work in it, with Node beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sfumato.shared.plan import encode_plan, plan_from_spec
from tests.clients.js.node import ENVIRONMENT, NODE, NPM, TOOLS

HERE = Path(__file__).parent
PACKAGES = (
    "hermes-engine-cli@0.12.0",
    "@babel/core@7",
    "@babel/cli@7",
    "@babel/plugin-transform-block-scoping@7",
    "@babel/plugin-transform-classes@7",
)
PLUGINS = [f"@babel/plugin-transform-{name}" for name in ("classes", "block-scoping")]
BUNDLE = """
import { build } from "esbuild";

const [entry, globals, outfile, alias, inject] = process.argv.slice(2);
await build({
  entryPoints: [entry],
  outfile,
  bundle: true,
  format: "iife",
  target: "es2016",
  supported: { bigint: true },
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"' },
  inject: [globals],
  platform: "neutral",
  mainFields: ["module", "main"],
  conditions: ["import"],
  alias: JSON.parse(alias),
  // Found from this folder, wherever the importing module is.
  nodePaths: ["node_modules"],
});
"""
SPEC = {
    "dimensions": [
        {"name": name, "unit": "1", "lower": 0.0, "upper": 1.0, "scale": 0.1} for name in "abcd"
    ],
    "n_frequencies": 500,
    "seed": "speed",
    "epsilon": "1",
    "window": {"kind": "count", "length": 1000},
    "most_records": 1000,
    "most_sketches_per_device": 10,
    "most_sketches": 10,
}


def run(*command: object, folder: Path) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def install(folder: Path, *packages: object) -> None:
    """Install packages of npm in a folder, beside the bundler and noble of the device's sources."""
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    options = ("--no-audit", "--no-fund", "--ignore-scripts")
    run(NODE, NPM, "install", *options, *packages, folder=folder)
    for name in ("esbuild", "@noble"):
        (folder / "node_modules" / name).symlink_to(TOOLS / name)


def lower(folder: Path, entry: Path, alias: dict[str, str] | None = None) -> Path:
    """Bundle a program, and compile away what Hermes is older than."""
    (folder / "bundle.js").write_text(BUNDLE)
    settings = {"plugins": PLUGINS, "sourceType": "script", "compact": False}
    (folder / "babel.config.json").write_text(json.dumps(settings))
    shims, bundled, lowered = HERE / "hermes_globals.js", "bundled.js", folder / "lowered.js"
    run(NODE, "bundle.js", entry, shims, bundled, json.dumps(alias or {}), folder=folder)
    run(NODE, folder / "node_modules/.bin/babel", bundled, "-o", lowered, folder=folder)
    return lowered


def find_engine(folder: Path) -> Path:
    """Return the program."""
    return folder / "node_modules/hermes-engine-cli/linux64-bin/hermes"


class Session:
    """A running Hermes, which evaluates a line at a time and prints answers as JSON."""

    def __init__(self, reads: IO[str], writes: IO[str]) -> None:
        self._reads, self._writes = reads, writes

    def evaluate(self, program: str) -> None:
        """Evaluate a program, and do all that does not wait."""
        # Its value is printed, and a long one would wait for us to read it.
        self._writes.write(f"void (0,eval)({json.dumps(program)})\n")
        self._writes.flush()

    def call(self, function: str, *arguments: object) -> None:
        """Call a global function."""
        self.evaluate(f"{function}({', '.join(map(json.dumps, arguments))})")

    def receive(self) -> Any:
        """Return the next message of the program."""
        for line in self._reads:
            _, mark, text = line.partition("@@")
            if mark:
                return json.loads(text)
        raise AssertionError("Hermes has ended")


@contextmanager
def open_session(folder: Path) -> Iterator[Session]:
    """Start Hermes."""
    pipe = subprocess.PIPE
    with subprocess.Popen([find_engine(folder)], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Session(process.stdout, process.stdin)
        process.stdin.close()


def main() -> None:
    """Print what one record, one release and one enrolment take, as JSON lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder, *PACKAGES)
        plan = encode_plan(plan_from_spec(SPEC)).hex()
        (folder / "plan.json").write_text(json.dumps(plan))
        lowered = lower(folder, HERE / "speed.ts", {"plan.json": str(folder / "plan.json")})
        engine = find_engine(folder)
        commands = {"Hermes 0.12.0": (engine, "-w", "-O", lowered), "Node": (NODE, lowered)}
        for runtime, command in commands.items():
            for figure, (value, unit) in json.loads(run(*command, folder=folder)).items():
                line = {"benchmark": "hermes", "case": f"{runtime}, 4 dimensions, 500 frequencies"}
                line |= {"figure": figure, "value": value, "unit": unit}
                sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
