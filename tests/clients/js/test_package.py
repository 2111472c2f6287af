"""The npm package: built, packed and installed as an application does it, and then used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared import __version__
from tests.clients.js.devices import EPSILON, LIMITS, Study
from tests.clients.js.node import MISSING, NO_TOOLS, NODE, NPM, PACKAGE, TOOLS

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "aggregator/ui/assets/device/sfumato-device.js"
MOST_COMPRESSED = 15_360
"""Bytes that a page loads at every visit, by Brotli; the rest loads when needed."""
MEASURE = """
import { brotliCompressSync } from "node:zlib";
import { build } from "esbuild";

const options = { bundle: true, splitting: true, minify: true, format: "esm", target: "es2022" };
const { outputFiles, metafile } = await build({
  ...options, entryPoints: ["src/index.ts"], outdir: "out", write: false, metafile: true,
});
const names = new Set(["out/index.js"]);
for (const name of names) {
  for (const { path, kind } of metafile.outputs[name].imports) {
    if (kind === "import-statement") names.add(path);
  }
}
const loaded = outputFiles.filter(({ path }) => [...names].some((name) => path.endsWith(name)));
const inputs = [...names].flatMap((name) => Object.keys(metafile.outputs[name].inputs));
const size = brotliCompressSync(Buffer.concat(loaded.map(({ contents }) => contents))).length;
console.log(JSON.stringify({ size, inputs }));
"""

pytestmark = pytest.mark.skipif(
    NODE is None or not TOOLS.is_dir(),
    reason=MISSING if NODE is None else NO_TOOLS,
)

# A program of a user: it enrols, adds records, and prints what came of it.
PROGRAM = """
import { Device, SketchError, type DeviceStatus, type FlushReport } from "sfumato-device";
import { openFolder } from "sfumato-device/node";
import { type AsyncKeyValue, openKeyValue } from "sfumato-device/react-native";
import { useSecureSum } from "sfumato-device/sum";

const [folder, code, records, limits] = process.argv.slice(2) as [string, string, string, string];
const items = new Map<string, string>();
const memory: AsyncKeyValue = {
  getItem: async (key) => items.get(key) ?? null,
  setItem: async (key, value) => items.set(key, value),
  removeItem: async (key) => items.delete(key),
  getAllKeys: async () => [...items.keys()],
};
const device: Device = new Device({
  store: folder === "memory" ? openKeyValue(memory) : openFolder(folder),
  limits: JSON.parse(limits),
  secureSum: useSecureSum([]),
});
try {
  await device.enrol(code);
  const given = JSON.parse(records) as [number[], number][];
  for (const [record, time] of given) device.add(record, time);
  const flushed: FlushReport = await device.flush();
  const status: DeviceStatus = await device.status();
  console.log(JSON.stringify({ flushed, status }));
} catch (error) {
  if (!(error instanceof SketchError)) throw error;
  console.log(JSON.stringify({ kind: error.kind, message: error.message }));
}
"""
# What the compiler knows of a plan: each line with a mark is refused, and no other.
TYPED = """
import { Device, type LabelsOf } from "sfumato-device";

const plan = {
  dimensions: [
    { name: "temperature", unit: "K", lower: 0, upper: 9, scale: 1 },
    { name: "mode", unit: "", levels: ["eco", "heat"] },
    { name: "open", unit: "", levels: ["true", "false"] },
  ],
  labels: [{ name: "region", values: ["north", "south"] }],
} as const;
const device = new Device<typeof plan>();
const labels: LabelsOf<typeof plan> = { region: "south" };
void device.enrol("code", { region: "north" });
void device.enrol("code", labels);
void device.enrol("code"); // refused
void device.enrol("code", { region: "west" }); // refused
void device.enrol("code", { region: "north", size: "small" }); // refused
device.add({ temperature: 1, mode: "eco", open: true });
device.add({ temperature: null, mode: null, open: "false" }, new Date());
device.add([1, "heat", false]);
device.add(new Float64Array(3));
device.add({ temperature: 1, mode: "eco" }); // refused
device.add({ temperature: 1, mode: "cool", open: null }); // refused
device.add({ temperature: "1", mode: "eco", open: true }); // refused
device.add([1, "heat"]); // refused

const bare = { dimensions: [{ name: "steps" }] } as const;
const counter = new Device<typeof bare>();
void counter.enrol("code");
void counter.enrol("code", { region: "north" }); // refused
counter.add({ steps: 3 });

const any = new Device();
void any.enrol("code");
void any.enrol("code", { region: "north" });
any.add({ whatever: "text" });
any.add([1, 2, 3]);
const same: Device = device;
void same.flush().then(({ open }) => open?.closesAt?.getTime());
"""
SETTINGS = {
    "strict": True,
    "target": "es2022",
    "module": "nodenext",
    "lib": ["es2022"],
    "types": ["node"],
    "typeRoots": [str(TOOLS / "@types")],
    "exactOptionalPropertyTypes": True,
}


def run(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built in a copy of its sources."""
    assert NODE is not None
    copy = tmp_path_factory.mktemp("package") / "clients/js"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "*.tgz"))
    shutil.copy(ROOT / "LICENSE", copy.parents[1])
    (copy / "node_modules").symlink_to(TOOLS)
    run([NODE, "build.js"], copy)
    return copy


@pytest.fixture(scope="module")
def packed(built: Path) -> Path:
    """The package as npm would publish it."""
    assert NODE is not None
    (told,) = json.loads(run([NODE, NPM, "pack", "--ignore-scripts", "--json"], built))
    return built / str(told["filename"])


@pytest.fixture(scope="module")
def application(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has installed the package, and nothing else, without the network."""
    assert NODE is not None
    folder = tmp_path_factory.mktemp("application")
    (folder / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
    run([NODE, NPM, "install", "--offline", "--no-audit", "--no-fund", packed], folder)
    (folder / "program.ts").write_text(PROGRAM)
    settings = {"compilerOptions": SETTINGS | {"outDir": "built"}, "files": ["program.ts"]}
    (folder / "tsconfig.json").write_text(json.dumps(settings))
    run([NODE, TOOLS / "typescript/bin/tsc", "-p", "."], folder)
    return folder


def test_sources_and_tests_have_the_types_that_they_state() -> None:
    assert NODE is not None
    run([NODE, TOOLS / "typescript/bin/tsc", "-p", "."], PACKAGE)


def test_the_package_holds_modules_types_examples_and_licence_and_nothing_else(
    packed: Path,
) -> None:
    with tarfile.open(packed) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
    assert {"package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"} <= names
    rest = {name for name in names if not name.startswith("dist/")}
    example = {f"examples/service-worker/{name}" for name in ("index.html", "page.js", "worker.js")}
    assert rest == {"package.json", "README.md", "LICENSE"} | example
    modules = {path.relative_to(PACKAGE / "src") for path in (PACKAGE / "src").rglob("*.ts")}
    for module in modules:
        assert {f"dist/{module.with_suffix(end)}" for end in (".js", ".d.ts")} <= names
    assert {name for name in names if name.startswith("dist/browser/")} == {
        "dist/browser/sfumato-device.js"
    }


def test_the_readme_of_the_package_links_to_nothing_outside_of_it() -> None:
    links = re.findall(r"\]\((?!#)([^)]+)\)", (PACKAGE / "README.md").read_text())
    assert [link for link in links if not (PACKAGE / link).exists() or ".." in link] == []


def test_the_package_has_the_version_of_the_product_and_needs_no_other() -> None:
    told = json.loads((PACKAGE / "package.json").read_text())
    assert told["version"] == __version__
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & told.keys()


def test_what_a_page_loads_at_every_visit_is_small(built: Path) -> None:
    assert NODE is not None
    (built / "measure.js").write_text(MEASURE)
    told = json.loads(run([NODE, "measure.js"], built))
    assert told["size"] <= MOST_COMPRESSED
    assert "src/device/device.ts" in told["inputs"]
    later = {"device/enrolling", "device/results", "plan/parts"}
    assert not {f"src/{name}.ts" for name in later} & set(told["inputs"])


def test_the_servers_page_has_the_bundle_of_these_sources(built: Path) -> None:
    fresh = (built / "dist/browser/sfumato-device.js").read_text()
    assert BUNDLE.read_text() == fresh, "run `npm run build:page` in clients/js"


def test_a_users_program_is_checked_against_the_types_also_with_those_of_pages(
    application: Path,
) -> None:
    assert NODE is not None
    options = SETTINGS | {"module": "esnext", "moduleResolution": "bundler", "noEmit": True}
    options |= {"lib": ["es2022", "dom"]}
    # A mistake is found, and no other: the types say something.
    (application / "wrong.ts").write_text(PROGRAM.replace("device.flush()", "device.flusch()"))
    settings = {"compilerOptions": options, "files": ["program.ts", "wrong.ts"]}
    (application / "tsconfig.json").write_text(json.dumps(settings))
    command = [str(NODE), str(TOOLS / "typescript/bin/tsc"), "-p", "."]
    done = subprocess.run(command, cwd=application, capture_output=True, text=True, check=False)
    (said,) = done.stdout.splitlines()
    assert said.startswith("wrong.ts")
    assert "flusch" in said


def test_labels_and_records_are_checked_against_the_type_of_a_plan(application: Path) -> None:
    assert NODE is not None
    (application / "typed.ts").write_text(TYPED)
    settings = {"compilerOptions": SETTINGS | {"noEmit": True}, "files": ["typed.ts"]}
    (application / "typed.json").write_text(json.dumps(settings))
    command = [str(NODE), str(TOOLS / "typescript/bin/tsc"), "-p", "typed.json"]
    done = subprocess.run(command, cwd=application, capture_output=True, text=True, check=False)
    refused = {int(line) for line in re.findall(r"typed\.ts\((\d+),", done.stdout)}
    lines = enumerate(TYPED.splitlines(), 1)
    assert refused == {n for n, line in lines if line.endswith("// refused")}, done.stdout


def test_npm_packs_from_any_folder_and_names_the_tools_that_it_lacks(
    built: Path, packed: Path, tmp_path: Path
) -> None:
    assert NODE is not None
    pack: list[str | Path] = [NODE, NPM, "pack", "--json", built]
    path = os.pathsep.join([str(NODE.parent), os.environ["PATH"]])
    (told,) = json.loads(run(pack, tmp_path, PATH=path))
    assert (tmp_path / told["filename"]).read_bytes() == packed.read_bytes()
    # Without the tools it installs them; without the network too it says what to do.
    bare = tmp_path / "clients/js"
    shutil.copytree(built, bare, ignore=shutil.ignore_patterns("node_modules", "dist", "*.tgz"))
    offline = {"npm_config_offline": "true", "npm_config_cache": str(tmp_path / "cache")}
    done = subprocess.run(
        [NODE, NPM, "pack", bare],
        cwd=tmp_path,
        env=os.environ | offline | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"Run `npm ci` in {bare}" in done.stderr


def run_program(application: Path, *arguments: str) -> Any:
    """Run the user's program as JavaScript."""
    assert NODE is not None
    return json.loads(run([NODE, "built/program.js", *arguments], application))


@pytest.mark.parametrize("store", ["device", "memory"])
def test_the_installed_package_enrols_and_sends_records_that_count_exactly(
    application: Path, server: Aggregator, client: Client, tmp_path: Path, store: str
) -> None:
    study = Study(server, client, f"npm package {store}")
    records = np.random.default_rng(3).normal(scale=4.0, size=(6, 2))
    when = 1000.0 * study.times(0)[0]
    given = json.dumps([[record, when] for record in records.tolist()])
    folder = str(tmp_path / store) if store == "device" else store
    told = run_program(application, folder, study.code, given, json.dumps(LIMITS))
    assert (told["flushed"]["sent"], told["flushed"]["problems"]) == (1, []), told
    assert told["status"]["epsilon"] == str(EPSILON)
    study.expected.add(records)
    study.check()


def test_the_installed_package_refuses_a_code_that_is_none_in_one_sentence(
    application: Path, tmp_path: Path
) -> None:
    told = run_program(application, str(tmp_path / "device"), "sfumato", "[]", "{}")
    assert told["kind"] == "malformed"
    assert "code" in told["message"]
