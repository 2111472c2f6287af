"""A device in C, on this machine and on ARM in an emulator, under a real server."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clients.c.make_plan import main as make_plan
from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.wire.enrolment import encode_proof_input
from sfumato.shared.wire.http_signature import sign_request
from tests.clients.c.board import Board
from tests.clients.c.building import (
    EMULATOR,
    EXAMPLES,
    ON_ARM,
    SANITISED,
    compile_c,
)
from tests.clients.c.conftest import HERE, Compile
from tests.clients.js.devices import LENGTH, make_exact_plan
from tests.clients.js.test_real_server import sum_up, write_csv
from tests.device_agent.relay.sensors import relay_in
from tests.system.agents import make_agent

OK, NOT_READY, CLONED, SPENT, WAITING, STORAGE = "0", "8", "9", "10", "11", "7"
CONTENT_TYPE = "application/vnd.sfumato.sketch+cbor"


@dataclass(kw_only=True)
class Device(Board):
    """A microcontroller in a study."""

    url: str
    study: str

    def enrol(self, token: str, labels: dict[str, str]) -> None:
        """Enrol the public key, as a computer does that provisions devices."""
        proof = encode_proof_input(
            token=token, study=bytes.fromhex(self.study), public_key=self.public_key, labels=labels
        )
        body = {
            "token": token,
            "study_id": self.study,
            "public_key": self.public_key.hex(),
            "labels": labels,
            "proof": self.sign(proof).hex(),
        }
        answer = httpx.post(f"{self.url}/v1/enrolments", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.json()["device_id"] == self.device_id.hex()

    def find_last(self) -> int:
        """Request what the server has of the stream."""
        answer = httpx.get(f"{self.url}/v1/devices/me", headers=self._sign_get("/v1/devices/me"))
        assert answer.status_code == 200, answer.text
        streams: list[dict[str, Any]] = answer.json()["streams"]
        return max((each["last_sequence"] for each in streams), default=-1)

    def _sign_get(self, path: str) -> dict[str, str]:
        return sign_request(
            method="GET",
            path=path,
            body=b"",
            device=self.device_id,
            created=int(time.time()),
            sign=self.sign,
        )

    def send(self) -> httpx.Response:
        """Send what waits, unchanged, as a gateway does."""
        status, path, message = self.call("waiting")
        assert status == OK
        headers = {"Content-Type": CONTENT_TYPE}
        return httpx.put(self.url + path, content=bytes.fromhex(message), headers=headers)

    def settle(self) -> None:
        answer = self.send()
        assert answer.status_code in (200, 201), answer.text
        assert answer.json()["sketch_id"] == answer.request.url.path.split("/")[-1]
        assert self.call("settle") == [OK]


def build_device(
    folder: Path,
    library: Compile,
    compiler: tuple[str, ...],
    server: Aggregator,
    study: str,
    sources: Sequence[Path] = (HERE / "device.c", EXAMPLES / "file_board.c"),
) -> Device:
    """Compile the plan that the server shows, and link the device with it."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch, (folder / "plan.h").open("w") as header:
        patch.setattr("sys.stdout", header)
        assert make_plan([server.url, study]) == 0
    program = compile_c(folder, compiler, [*sources, *library(compiler)], "device")
    runner = [EMULATOR] if compiler == ON_ARM else []
    return make_device(folder, [*runner, str(program)], server.url, study)


def make_device(folder: Path, command: Sequence[str], url: str, study: str) -> Device:
    """Return a device with a key of its own."""
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw()
    return Device(
        folder=folder, command=command, public_key=public, sign=key.sign, url=url, study=study
    )


def test_an_agent_in_python_and_a_device_in_c_make_one_exact_sum(
    tmp_path: Path, library: Compile, server: Aggregator, client: Client
) -> None:
    name = "one sum"
    plan = make_exact_plan(name, labels=[{"name": "site", "values": ["north", "south"]}])
    study = client.create_study(name, plan).study_id
    records = np.random.default_rng(7).normal(scale=4.0, size=(60, 2))
    slots = np.repeat([0, 1], 30)
    times = plan.window.origin + slots * LENGTH + np.arange(60)
    write_csv(tmp_path / "north.csv", times[::2].tolist(), records[::2].tolist())
    agent = make_agent(tmp_path / "north", client, study, data=tmp_path / "north.csv")
    assert agent.once()["sent"] == 2
    device = build_device(tmp_path / "south", library, SANITISED, server, study)
    device.enrol(client.create_token(study), {"site": "south"})
    device.switch_on()
    assert device.call("check") == [OK]
    assert device.call("format") == [OK]
    assert device.call("start") == [OK]
    # Nothing is released before the server was asked.
    assert device.call("record", times[1], 0, 0) == [NOT_READY]
    assert device.call("confirm", device.find_last()) == [OK]
    for when, (x, y) in zip(times[1::2].tolist(), records[1::2].tolist(), strict=True):
        assert device.call("record", when, x.hex(), y.hex()) == [OK]
    assert device.send().status_code == 201
    # The answer is lost with the power, and the open window with it: the same bytes go again.
    device.switch_off()
    device.switch_on()
    assert device.call("format") == [STORAGE]
    assert device.call("start") == [OK]
    assert device.call("confirm", device.find_last()) == [OK]
    assert device.send().status_code == 200
    device.settle()
    assert device.call("waiting") == [OK]
    late = [index for index in range(1, 60, 2) if slots[index]]
    for index in late:
        x, y = records[index].tolist()
        assert device.call("record", times[index], x.hex(), y.hex()) == [OK]
    assert device.call("tick", plan.window.origin + 2 * LENGTH) == [OK]
    device.settle()
    device.switch_off()
    snapshot = client.snapshot(study)
    assert (snapshot.n_sketches, snapshot.n_devices, snapshot.n_records) == (4, 2, 60)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == sum_up(plan, records)
    south = client.snapshot(study, labels={"site": "south"}, first_slot=1)
    assert client.snapshot_sums(south.snapshot_id).sums == sum_up(plan, records[late])


def test_messages_with_noise_of_either_kind_and_with_masks_are_accepted(
    tmp_path: Path, library: Compile, server: Aggregator, client: Client
) -> None:
    plain = {"epsilon": "1", "mechanism": None, "window": {"kind": "count", "length": 4}}
    kinds: dict[str, dict[str, Any]] = {
        "knorm": plain,
        "laplace": plain | {"mechanism": "discrete-laplace"},
        "masks": plain | {"mechanism": "discrete-laplace", "measurements_per_record": 3},
    }
    for name, changes in kinds.items():
        plan = make_exact_plan(f"C {name}", **changes, most_sketches_per_device=2)
        study = client.create_study(f"C {name}", plan).study_id
        device = build_device(tmp_path / name, library, SANITISED, server, study)
        device.enrol(client.create_token(study), {})
        device.switch_on()
        assert device.call("format") == device.call("start") == device.call("confirm", -1) == [OK]
        for i in range(8):
            assert device.call("record", 0, 0.5 * i - 2, "nan" if i == 3 else i) == [OK]
        # The first window waits: a second one that is full refuses records, and loses none.
        assert device.call("record", 0, 1, 1) == [WAITING]
        device.settle()
        assert device.call("tick", 0) == [OK]
        device.settle()
        for _ in range(4):
            assert device.call("record", 0, 1, 1) == [OK]
        assert device.call("record", 0, 1, 1) == [SPENT]
        device.switch_off()
        sketches = sorted(client.sketches(study), key=lambda sketch: sketch.sequence)
        assert [sketch.n_records for sketch in sketches] == [4, 4], name
        assert_storage_is_guarded(device)


@dataclass(kw_only=True)
class Line:
    """Serves connections one after the other, in a thread, until it is closed."""

    listening: socket.socket
    serve: Callable[[socket.socket], None]

    def __enter__(self) -> Line:
        self.listening.listen()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.listening.close()

    def _run(self) -> None:
        while True:
            try:
                line, _ = self.listening.accept()
            except OSError:
                return
            with line:
                self.serve(line)


def open_element(path: Path, sign: Callable[[bytes], bytes]) -> Line:
    """A secure element, which holds the key of the example."""

    def serve(line: socket.socket) -> None:
        with line.makefile("rwb") as stream:
            size = int.from_bytes(stream.read(2), "big")
            stream.write(sign(stream.read(size)))

    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    return Line(listening=listening, serve=serve)


def open_gateway(url: str, statuses: list[int], *, lost: str = "PUT") -> Line:
    """A line that passes requests on unchanged; the first answer to a method gets lost."""

    def serve(line: socket.socket) -> None:
        with line.makefile("rwb") as stream:
            first = stream.readline().decode()
            lines = (line.decode().strip() for line in iter(stream.readline, b"\r\n"))
            pairs = (line.partition(": ") for line in lines)
            headers = httpx.Headers([(name, value) for name, _, value in pairs])
            method, path, _ = first.split()
            body = stream.read(int(headers.get("Content-Length", 0)))
            answer = httpx.request(method, url + path, content=body, headers=headers)
            if method == lost:
                statuses.append(answer.status_code)
            if method == lost and len(statuses) == 1:
                return
            kind = answer.headers["content-type"]
            head = f"HTTP/1.1 {answer.status_code} -\r\nContent-Type: {kind}\r\n\r\n"
            stream.write(head.encode() + answer.content)

    return Line(listening=socket.create_server(("127.0.0.1", 0)), serve=serve)


def test_the_example_sends_through_a_relay_and_sends_again_what_no_answer_came_for(
    tmp_path: Path, library: Compile, server: Aggregator, client: Client
) -> None:
    plan = make_exact_plan("C example")
    study = client.create_study("C example", plan).study_id
    sources = [EXAMPLES / name for name in ("gateway_sensor.c", "network.c", "file_board.c")]
    device = build_device(tmp_path / "example", library, SANITISED, server, study, sources)
    device.enrol(client.create_token(study), {})
    records = np.random.default_rng(8).normal(scale=4.0, size=(20, 2))
    times = plan.window.origin + np.repeat([0, 1], 10) * LENGTH + np.arange(20)
    lines = [f"{t} {x} {y}\n" for t, (x, y) in zip(times, records.tolist(), strict=True)]
    statuses: list[int] = []
    # The address of a socket has some hundred characters at most.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "element"
        with (
            relay_in(tmp_path / "relay", server.url) as relay,
            open_element(path, device.sign),
            open_gateway(relay.url, statuses) as gateway,
        ):
            relay.start()
            port = gateway.listening.getsockname()[1]
            words = ["127.0.0.1", str(port), device.device_id.hex(), str(path), str(device.flash)]
            for part in (lines[:10], lines[10:]):
                run_example([*device.command, *words], "".join(part))
    # The relay has the server's receipt of the first, and gives it again.
    assert statuses == [201, 201, 201]
    snapshot = client.snapshot(study)
    assert (snapshot.n_sketches, snapshot.n_records) == (2, 20)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == sum_up(plan, records)


def run_example(words: list[str], records: str) -> None:
    done = subprocess.run(words, input=records, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def assert_storage_is_guarded(device: Device) -> None:
    """Check copies, rotten sectors and records of another device."""
    device.switch_on()
    assert device.call("start") == [OK]
    assert device.call("confirm", device.find_last()) == [OK]
    # The server knows more than a copy that was made before.
    assert device.call("confirm", 2) == [CLONED]
    assert device.call("record", 0, 1, 1) == [NOT_READY]
    device.switch_off()
    whole = device.flash.read_bytes()
    # One rotten sector costs nothing: the other holds the same ledger.
    device.flash.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    device.switch_on()
    assert device.call("start") == [OK]
    assert device.call("confirm", 1) == [OK]
    assert device.call("confirm", 2) == [CLONED]
    device.switch_off()
    assert device.flash.read_bytes()[100] == whole[100]
    # The sectors of another device are not this one's.
    other = make_device(device.folder, device.command, device.url, device.study)
    other.switch_on()
    assert other.call("start") == [STORAGE]
    other.switch_off()
