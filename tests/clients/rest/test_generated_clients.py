"""Clients that others generate from the description list, decode and wait at a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.aggregator.fleet import Device, make_plan
from tests.clients.js.node import ENVIRONMENT, MISSING, NO_TOOLS, NODE

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
GENERATORS = Path(__file__).parents[3] / ".venv/generators"
PAGE = Path(__file__).parents[3] / "docs/reference/index.md"

# A program of a user of the generated package.
PROGRAM = """
import io, json, sys, time
from pathlib import Path

from sfumato_rest import AuthenticatedClient
from sfumato_rest.api.decodes import create_decode, get_decode
from sfumato_rest.api.sketches import list_sketches, put_sketch
from sfumato_rest.api.studies import list_studies
from sfumato_rest.models import DecodeRequest
from sfumato_rest.types import File

url, secret, study, sketch, file, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=secret)
message = File(payload=io.BytesIO(Path(file).read_bytes()))
assert put_sketch.sync_detailed(study, sketch, client=client, body=message).status_code == 201


def list_all(call, *path):
    page = None
    while True:
        found = call.sync(*path, client=client, limit=1, page=page)
        yield from found.items
        page = found.next_page
        if page is None:
            return


asked = {"client": client, "idempotency_key": key}
body = DecodeRequest(n_clusters=2)
made = create_decode.sync(study, body=body, **asked)
again = create_decode.sync(study, body=body, **asked)
decode = made
while decode.state in ("queued", "running"):
    time.sleep(0.1)
    decode = get_decode.sync(made.decode_id, client=client)
refused = create_decode.sync(study, body=DecodeRequest(n_clusters=3), **asked)
print(json.dumps({
    "sketches": [each.sketch_id for each in list_all(list_sketches, study)],
    "has_study": study in [each.study_id for each in list_all(list_studies)],
    "ids": [made.decode_id, again.decode_id],
    "centroids": decode.result.centroids,
    "refused": refused.field,
}))
"""


def run(
    *command: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def document(server: Aggregator) -> Any:
    return httpx.get(f"{server.url}/openapi.json").json()


def read_command(program: str, server: Aggregator) -> list[str]:
    """Return the words of a command that the documents give."""
    command: str
    (command,) = re.findall(rf"^    ({program} .*)$", PAGE.read_text(), re.MULTILINE)
    return command.replace("http://127.0.0.1:8750", server.url).split()


def list_operations(document: Any) -> list[str]:
    return [call["operationId"] for calls in document["paths"].values() for call in calls.values()]


def check(server: Aggregator, client: Client, folder: Path, *command: str | Path) -> None:
    """Run a program of a generated client with a new study, and compare what it found."""
    plan = make_plan()
    study = client.create_study(folder.name, plan, allow_same_plan=True).study_id
    # Other tests of this server have devices too.
    seed = crc32(folder.name.encode())
    devices = Device(seed), Device(seed + 1)
    token = client.create_token(study, max_uses=2)
    sketches = []
    for device in devices:
        body = device.enrolment(token, bytes.fromhex(study))
        assert httpx.post(f"{server.url}/v1/enrolments", json=body).status_code == 201
        sketches.append(device.message(bytes.fromhex(study), plan))
    (first, message), (second, file) = sketches
    client.upload(study, first, message)
    (folder / "sketch.cbor").write_bytes(file)
    arguments: Sequence[str] = (server.url, server.key, study, second, "sketch.cbor", folder.name)
    done = run(*command, *arguments, cwd=folder, env=ENVIRONMENT)
    found = json.loads(done.stdout)
    (decode,) = client.decodes(study)
    result = client.decode_state(decode.decode_id).result
    assert result is not None
    assert found == {
        "sketches": [first, second],
        "has_study": True,
        "ids": [decode.decode_id] * 2,
        "centroids": [list(each) for each in result.centroids],
        "refused": "Idempotency-Key",
    }


@pytest.mark.skipif(
    NODE is None or not MODULES.is_dir(), reason=MISSING if NODE is None else NO_TOOLS
)
def test_a_client_of_openapi_typescript_lists_decodes_and_waits(
    server: Aggregator, client: Client, document: Any, tmp_path: Path
) -> None:
    assert NODE is not None
    (tmp_path / "node_modules").symlink_to(MODULES)
    shutil.copy(HERE / "client.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    words = read_command("npx openapi-typescript", server)[2:]
    made = run(NODE, MODULES / "openapi-typescript/bin/cli.js", *words, cwd=tmp_path)
    # It warns of what it leaves out.
    said = "".join(each.strip() for each in (made.stdout + made.stderr).split("\n"))
    assert re.fullmatch(r"✨ openapi-typescript [\d.]+🚀 \S+ → schema.ts \[[^\]]*\]", said), said
    types = (tmp_path / "schema.ts").read_text()
    _, operations = types.split("\nexport interface operations {")
    names = re.findall(r"^    (\w+): {$", operations, re.MULTILINE)
    assert sorted(names) == sorted(list_operations(document))
    # The library of types of the browser is not checked: it takes most of the time.
    options = "--strict --noEmit --skipLibCheck --allowImportingTsExtensions --target es2022"
    more = "--module nodenext --types node client.ts"
    compiler = MODULES / "typescript/bin/tsc"
    run(NODE, compiler, *options.split(), *more.split(), cwd=tmp_path)
    check(server, client, tmp_path, NODE, "client.ts")


@pytest.mark.skipif(
    not GENERATORS.is_dir(), reason="no openapi-python-client here (`make setup` installs it)"
)
def test_a_client_of_openapi_python_client_lists_decodes_and_waits(
    server: Aggregator, client: Client, document: Any, tmp_path: Path
) -> None:
    (config,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "config.yaml").write_text(config)
    _, *words = read_command("openapi-python-client", server)
    # It formats what it has made by `ruff`.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "PYTHONPATH": str(GENERATORS)}
    program = (sys.executable, "-m", "openapi_python_client")
    made = run(*program, *words, "--fail-on-warning", cwd=tmp_path, env=env)
    assert "arning" not in made.stdout + made.stderr
    package = tmp_path / "sfumato_rest"
    operations = {each.stem for each in (package / "api").glob("*/*.py")} - {"__init__"}
    assert operations == set(list_operations(document))
    (tmp_path / "program.py").write_text(PROGRAM)
    check(server, client, tmp_path, sys.executable, "program.py")
