"""A computer enrols a microcontroller, and writes the headers of its firmware."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clients.c import enrol as command
from clients.c.make_plan import compile_plan
from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.device_agent.store.key import create_key
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import device_id_of
from tests.clients.c.test_real_server import open_gateway
from tests.clients.js.devices import make_code, make_exact_plan
from tests.commands import run_inside

FILES = {"plan.h", "identity.h", "key.h", "device.key", "enrolment.json"}


def publish(client: Client, name: str, **changes: Any) -> tuple[str, SketchPlan]:
    plan = make_exact_plan(name, **changes)
    return client.create_study(name, plan).study_id, plan


def enrol(code: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_inside(command.main, [code, "--folder", str(folder), *words])


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_device_is_enrolled_and_its_headers_hold_its_plan_its_identity_and_its_key(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    labels = [{"name": "site", "values": ["north", "south"]}]
    study, plan = publish(client, "headers", labels=labels)
    folder = tmp_path / "meters" / "7"
    code = make_code(client, server.url, study)
    done = enrol(code, folder, "--stream", "meter", "--label", "site=north", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (device,) = client.devices(study)
    record = json.loads(done.stdout)
    assert record == json.loads((folder / "enrolment.json").read_text()) | {
        "folder": str(folder),
        "was_enrolled": False,
    }
    assert record["device_id"] == device.device_id
    assert record["labels"] == device.labels == {"site": "north"}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    secret = {"key.h": 0o600, "device.key": 0o600}
    assert modes == dict.fromkeys(FILES, 0o644) | secret
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / "plan.h").read_text() == compile_plan(plan, bytes.fromhex(study))
    identity = (folder / "identity.h").read_text()
    assert '#define DEVICE_STREAM "meter"\n' in identity
    assert f'#define DEVICE_SERVER "{server.url}"\n' in identity
    digits = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(device.device_id))
    assert f"#define DEVICE_ID {{{digits}}}\n" in identity
    key = (folder / "key.h").read_text().partition("{")[2].partition("}")[0]
    seed = bytes(int(byte, 16) for byte in key.split(", "))
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    assert public.hex() == record["public_key"]
    assert device_id_of(public).hex() == device.device_id


def test_the_same_command_again_changes_nothing_and_needs_no_second_use_of_its_code(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    study, _ = publish(client, "again")
    code = make_code(client, server.url, study)
    assert enrol(code, tmp_path / "a").returncode == 0
    before = read_files(tmp_path / "a")
    # A crash may have come before any of the last files.
    for lost in ("key.h", "identity.h", "plan.h"):
        (tmp_path / "a" / lost).unlink()
    record = json.loads(before["enrolment.json"])
    offered = json.dumps(record | {"state": "offered"})
    (tmp_path / "a" / "enrolment.json").write_text(offered)
    done = enrol(code, tmp_path / "a")
    assert done.returncode == 0
    assert "is enrolled already" in done.stdout
    assert read_files(tmp_path / "a") == before
    assert len(list(client.devices(study))) == 1
    # The code was for one device, and a refused one leaves nothing behind.
    refused = enrol(code, tmp_path / "b" / "c")
    assert refused.returncode == 2
    assert "token" in refused.stderr
    assert not (tmp_path / "b" / "c").exists()


def test_a_crash_before_the_key_was_offered_loses_nothing(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    study, _ = publish(client, "crash")
    prepared = json.dumps({"study": study, "server": server.url, "stream": "sensor", "labels": {}})
    for name, has_key in (("before the key", False), ("after the key", True)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "enrolment.json").write_text(prepared)
        key = create_key(folder).public_bytes.hex() if has_key else None
        assert enrol(make_code(client, server.url, study), folder).returncode == 0
        record = json.loads((folder / "enrolment.json").read_text())
        assert record["state"] == "enrolled"
        assert key in (None, record["public_key"])
        assert read_files(folder).keys() == FILES


def test_after_a_lost_answer_the_same_key_is_confirmed(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    study, _ = publish(client, "lost answer")
    code = make_code(client, server.url, study)
    folder = tmp_path / "device"
    with open_gateway(server.url, [], lost="POST") as gateway:
        address = f"http://127.0.0.1:{gateway.listening.getsockname()[1]}"
        done = enrol(code, folder, "--server", address)
        assert done.returncode == 1
        assert "Run the same command again; it goes on with the same key" in done.stderr
        kept = (folder / "device.key").read_bytes()
        assert read_files(folder).keys() == {"device.key", "enrolment.json"}
        done = enrol(code, folder, "--server", address)
        assert done.returncode == 0, done.stderr
    assert (folder / "device.key").read_bytes() == kept
    (device,) = client.devices(study)
    assert device.device_id in done.stdout


def test_without_a_server_nothing_is_made(tmp_path: Path, client: Client) -> None:
    study, _ = publish(client, "no server")
    code = make_code(client, "http://127.0.0.1:1", study)
    done = enrol(code, tmp_path / "device")
    assert done.returncode == 1
    assert done.stderr.startswith("error: server: http://127.0.0.1:1 did not answer")
    assert not (tmp_path / "device").exists()


def test_a_refusal_names_the_field_the_rule_and_the_fix(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    labels = [{"name": "site", "values": ["north", "south"]}]
    study, _ = publish(client, "refusals", labels=labels)
    code = make_code(client, server.url, study)
    unfit, _ = publish(
        client, "unfit", mechanism="discrete-gaussian", delta="1/1000000", epsilon="1"
    )
    cases: dict[str, Sequence[str]] = {
        "code: was not copied as it was printed": [code[:-1]],
        "labels.site: is missing. Use one of: north, south": [code],
        "labels.site: must be a declared value": [code, "--label", "site=west"],
        "--label: must be NAME=VALUE": [code, "--label", "site"],
        "--stream: must have 1 to 64 bytes": [code, "--stream", ""],
        "--server: must be an address that begins with https://": [code, "--server", "meters"],
        "--sign: is missing, and --public-key is given": [code, "--public-key", "00" * 32],
        "--public-key: must be 64 hexadecimal digits": [code, "--public-key", "7", "--sign", "x"],
        "release.mechanism: must be discrete-knorm or discrete-laplace": [
            make_code(client, server.url, unfit)
        ],
    }
    for words, arguments in cases.items():
        done = enrol(arguments[0], tmp_path / "device", *arguments[1:])
        assert done.returncode == 2, words
        assert done.stderr.startswith(f"error: {words}"), done.stderr
        assert not (tmp_path / "device").exists(), words
    assert list(client.devices(study)) == []


def test_a_folder_is_that_of_one_device_and_a_key_is_never_overwritten(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    study, _ = publish(client, "one folder")
    other, _ = publish(client, "another study")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    create_key(foreign)
    folder = tmp_path / "device"
    code = make_code(client, server.url, study)
    assert enrol(code, folder).returncode == 0
    before = {path: read_files(path) for path in (foreign, folder)}
    cases: list[tuple[Path, str, list[str], str]] = [
        (foreign, code, [], "is there already, and a key is never overwritten"),
        (folder, make_code(client, server.url, other), [], "another study"),
        (folder, code, ["--stream", "attic"], "another stream: sensor"),
    ]
    for path, given, words, reason in cases:
        done = enrol(given, path, *words)
        assert done.returncode == 2
        assert done.stderr.startswith("error: --folder: ")
        assert reason in done.stderr
        assert done.stderr.endswith("Name another folder for this device\n")
    assert {path: read_files(path) for path in (foreign, folder)} == before
    (folder / "device.key").chmod(0o644)
    assert "must not be readable by others" in enrol(code, folder).stderr
    (folder / "device.key").unlink()
    assert "is missing, and the server may know this device by it" in enrol(code, folder).stderr


ELEMENT = """\
import sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
key = Ed25519PrivateKey.from_private_bytes(bytes({seed}))
print(key.sign(sys.stdin.buffer.read()).hex())
"""


def test_a_key_in_a_secure_element_stays_there(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    study, _ = publish(client, "element")
    code = make_code(client, server.url, study)
    seed = [7] * 32
    public = Ed25519PrivateKey.from_private_bytes(bytes(seed)).public_key().public_bytes_raw()
    program = tmp_path / "element.py"
    words = ["--public-key", public.hex(), "--sign", f"{sys.executable} {program}"]
    folder = tmp_path / "device"
    done = enrol(code, folder, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --sign: failed (")
    program.write_text(ELEMENT.format(seed=[8] * 32))
    assert "--sign: must print this key's signature" in enrol(code, folder, *words).stderr
    assert not folder.exists()
    program.write_text(ELEMENT.format(seed=seed))
    assert enrol(code, folder, *words).returncode == 0
    assert read_files(folder).keys() == {"plan.h", "identity.h", "enrolment.json"}
    (device,) = client.devices(study)
    assert device.device_id == device_id_of(public).hex()
    assert "is enrolled already" in enrol(code, folder, *words).stdout
