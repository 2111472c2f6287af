"""The device in TypeScript reproduces the vectors in Hermes, the engine of React Native.

The last Hermes that npm has as a program is 0.12.0, which is older than classes and asynchronous
functions: they are compiled away, by esbuild and Babel, as React Native did then. Of Hermes 1.0 npm
has the compiler alone, which takes the modules as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.clients.js.node import ENVIRONMENT, MISSING, NO_TOOLS, NODE, NPM, PACKAGE, TOOLS
from tests.interop.matrix import FAMILIES_OF_JAVASCRIPT

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"
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

const [entry, vectors, globals, outfile] = process.argv.slice(2);
await build({
  entryPoints: [entry],
  outfile,
  bundle: true,
  format: "iife",
  target: "es2016",
  supported: { bigint: true },
  inject: [globals],
  platform: "neutral",
  conditions: ["import"],
  plugins: [{
    name: "vectors",
    setup: ({ onResolve }) => onResolve({ filter: /vectors[.]json$/ }, () => ({ path: vectors })),
  }],
});
"""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(NODE is None, reason=MISSING),
    pytest.mark.skipif(not TOOLS.is_dir(), reason=NO_TOOLS),
]


COMPILER = "hermes-compiler@260318099.0.8"
BUNDLE_AS_IT_IS = """
import { build } from "esbuild";

const [entry, outfile] = process.argv.slice(2);
const options = { bundle: true, format: "iife", target: "es2022", platform: "neutral" };
await build({ ...options, entryPoints: [entry], outfile });
"""


def run(*command: object, folder: Path) -> str:
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


def install(folder: Path, *packages: str) -> None:
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    options = ("--no-audit", "--no-fund", "--ignore-scripts")
    run(NODE, NPM, "install", *options, *packages, folder=folder)
    (folder / "node_modules/esbuild").symlink_to(TOOLS / "esbuild")


def test_the_compiler_of_hermes_1_takes_the_device_as_it_is(tmp_path: Path) -> None:
    install(tmp_path, COMPILER)
    (tmp_path / "bundle.js").write_text(BUNDLE_AS_IT_IS)
    run(NODE, "bundle.js", PACKAGE / "src/react-native.ts", "bundled.js", folder=tmp_path)
    compiler = tmp_path / "node_modules/hermes-compiler/hermesc/linux64-bin/hermesc"
    assert "Hermes release version: 1.0" in run(compiler, "--version", folder=tmp_path)
    run(compiler, "-O", "-emit-binary", "-out", "device.hbc", "bundled.js", folder=tmp_path)
    assert (tmp_path / "device.hbc").stat().st_size > 0


def test_hermes_reproduces_the_vectors(tmp_path: Path) -> None:
    install(tmp_path, *PACKAGES)
    (tmp_path / "bundle.js").write_text(BUNDLE)
    families = {path.stem: json.loads(path.read_text("utf-8")) for path in VECTORS.glob("*.json")}
    (tmp_path / "vectors.json").write_text(json.dumps(families))
    (tmp_path / "babel.config.json").write_text(
        json.dumps({"plugins": PLUGINS, "sourceType": "script", "compact": False})
    )
    entry, shims = HERE / "in_hermes.ts", HERE / "hermes_globals.js"
    program, modules = tmp_path / "bundled.js", tmp_path / "node_modules"
    run(NODE, "bundle.js", entry, tmp_path / "vectors.json", shims, program, folder=tmp_path)
    run(NODE, modules / ".bin/babel", program, "-o", "lowered.js", folder=tmp_path)
    engine = modules / "hermes-engine-cli/linux64-bin/hermes"
    as_it_is, changed = json.loads(run(engine, "-w", "-O", "lowered.js", folder=tmp_path))
    assert as_it_is == dict.fromkeys(FAMILIES_OF_JAVASCRIPT, "")
    # One changed digit of each is noticed.
    assert all(changed.values())
