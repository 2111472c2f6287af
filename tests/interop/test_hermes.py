"""The device in TypeScript in Hermes, the engine of React Native: vectors, and the docs' recipe.

Of Hermes 1.0 npm has the compiler alone, which takes the modules as they are.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from pathlib import Path

import httpx
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.clients.js.devices import make_code, make_exact_plan
from tests.clients.js.node import MISSING, NO_TOOLS, NODE, NPM, PACKAGE, TOOLS
from tests.interop.hermes import PACKAGES, Session, find_engine, install, lower, open_session, run
from tests.interop.matrix import FAMILIES_OF_JAVASCRIPT

HERE = Path(__file__).parent
VECTORS = HERE.parent / "vectors"
ROOT = HERE.parents[1]
RECIPE = ROOT / "docs/how-to/browsers.md"
REACT = ("react@18", "react-test-renderer@18")
STAND_INS = {
    name: str(HERE / "react_native_stand_ins.js")
    for name in (
        "react-native",
        "react-native-get-random-values",
        "@react-native-async-storage/async-storage",
    )
}

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
    families = {path.stem: json.loads(path.read_text("utf-8")) for path in VECTORS.glob("*.json")}
    (tmp_path / "vectors.json").write_text(json.dumps(families))
    program = lower(
        tmp_path, HERE / "in_hermes.ts", {"vectors.json": str(tmp_path / "vectors.json")}
    )
    printed = run(find_engine(tmp_path), "-w", "-O", program, folder=tmp_path)
    as_it_is, changed = json.loads(printed)
    assert as_it_is == dict.fromkeys(FAMILIES_OF_JAVASCRIPT, "")
    # One changed digit of each is noticed.
    assert all(changed.values())


def pack(folder: Path) -> Path:
    """Pack the package in a copy of its sources."""
    copy = folder / "sources/clients/js"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("node_modules", "dist", "*.tgz"))
    shutil.copy(ROOT / "LICENSE", copy.parents[1])
    (copy / "node_modules").symlink_to(TOOLS)
    run(NODE, "build.js", folder=copy)
    (told,) = json.loads(run(NODE, NPM, "pack", "--ignore-scripts", "--json", copy, folder=folder))
    return folder / str(told["filename"])


def wait(session: Session, event: str) -> str:
    """Make the requests of the program until it tells of an event; return its text."""
    while (message := session.receive())["event"] != event:
        assert message["event"] == "request", message
        answer = httpx.request(
            message["method"],
            message["url"],
            headers=message["headers"],
            content=bytes.fromhex(message["body"]),
        )
        session.call(
            "answer",
            message["number"],
            answer.status_code,
            dict(answer.headers),
            answer.content.hex(),
        )
    return str(message["text"])


def test_the_component_of_the_docs_takes_part_in_hermes_from_the_packed_package(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    (component,) = re.findall(r"```tsx\n(.*?)```", RECIPE.read_text("utf-8"), re.DOTALL)
    install(tmp_path, *PACKAGES, *REACT, pack(tmp_path))
    (tmp_path / "component.tsx").write_text(component)
    shutil.copy(HERE / "react_native_app.jsx", tmp_path)
    program = lower(tmp_path, tmp_path / "react_native_app.jsx", STAND_INS)
    dimension = {"name": "temperature", "unit": "K", "lower": 0.0, "upper": 50.0, "scale": 5.0}
    window = {"kind": "count", "length": 3}
    plan = make_exact_plan("phone", dimensions=[dimension], epsilon="1", window=window)
    study = client.create_study("phone", plan).study_id
    with open_session(tmp_path) as session:
        session.evaluate(f"globalThis.entropy = '{secrets.token_hex(1 << 16)}'")
        session.evaluate(program.read_text("utf-8"))
        session.call("start", make_code(client, server.url, study))
        assert wait(session, "shown") == ""
        session.call("press", "Take part")
        assert wait(session, "shown") == "this phone takes part"
        for temperature in (20.5, 21.0, 21.5, 22.0):
            session.call("record", temperature)
        session.call("move", "background")
        session.call("move", "active")
        assert wait(session, "shown") == "1 sent, 0 waiting, 1 records in the open window"
        session.call("leave")
        session.call("count")
        assert wait(session, "counted") == "0"
    snapshot = client.snapshot(study)
    assert (snapshot.n_sketches, snapshot.n_records) == (1, 3)
