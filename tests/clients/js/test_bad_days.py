"""What goes wrong on a device in TypeScript: nothing is released twice, and the owner is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyst import Client
from deploy.demo.cluster import Aggregator
from shared.core import SketchAccumulator
from tests.clients.js.devices import (
    HERE,
    LENGTH,
    LIMITS,
    NodeDevice,
    add,
    make_code,
    make_exact_plan,
)
from tests.clients.js.node import ENVIRONMENT, MISSING, NODE

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)


class Scene:
    """A study of its own, and one enrolled device with records of its first slot."""

    def __init__(
        self, folder: Path, server: Aggregator, client: Client, name: str, **changes: Any
    ) -> None:
        self.client = client
        self.plan = make_exact_plan(name, **changes)
        self.study_id = client.create_study(name, self.plan).study_id
        self.code = make_code(client, server.url, self.study_id, n_devices=9)
        self.device = NodeDevice(folder=folder / "state")
        assert self.device.run(("enrol", self.code)) == [{"problems": []}]

    def records(self, slot: int, n: int = 3) -> list[Any]:
        """Return calls that add records of a slot."""
        origin = self.plan.window.origin
        return add([[1.0, 2.0]] * n, [origin + slot * LENGTH + i for i in range(n)])

    def sketches(self) -> list[int]:
        """Return the numbers of the sketches at the server."""
        return sorted(sketch.sequence for sketch in self.client.sketches(self.study_id))


@pytest.fixture
def scene(tmp_path: Path, server: Aggregator, client: Client, request: Any) -> Scene:
    return Scene(tmp_path, server, client, request.node.name)


@pytest.mark.parametrize(
    ("generator", "words"),
    [("missing", "is missing"), ("failing", "failed"), ("constant", "same byte")],
)
def test_without_a_sound_generator_nothing_is_enrolled_or_released(
    scene: Scene, generator: str, words: str, tmp_path: Path
) -> None:
    fresh = NodeDevice(folder=tmp_path / "fresh")
    (refused,) = fresh.run(("enrol", scene.code), generator=generator)
    assert words in refused["error"]
    assert "update the browser" in refused["fix"]
    assert len(list(scene.client.devices(scene.study_id))) == 1
    # A device that has enrolled keeps its records, and releases them once the generator is back.
    (*_, saved, flushed) = scene.device.run(
        *scene.records(0), ("save",), ("flush",), generator=generator
    )
    assert (saved is None) == (generator != "missing")
    assert words in flushed["error"]
    assert scene.sketches() == []
    (*_, flushed) = scene.device.run(*scene.records(0), ("flush",))
    assert (flushed["released"], flushed["sent"]) == (1, 1)


def test_a_full_disk_loses_nothing_that_was_stored_and_says_what_to_do(scene: Scene) -> None:
    scene.device.run(*scene.records(0), ("save",))
    (*_, flushed) = scene.device.run(("flush",), disk="full")
    assert "store: is full. Free space" in flushed["error"]
    assert scene.sketches() == []
    (flushed,) = scene.device.run(("flush",))
    assert (flushed["released"], flushed["sent"]) == (1, 1)


def test_a_device_that_is_offline_releases_and_sends_the_same_bytes_later(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    plan = make_exact_plan("offline")
    study_id = client.create_study("offline", plan).study_id
    device = NodeDevice(folder=tmp_path / "state")
    code = make_code(client, server.url, study_id)
    device.run(("enrol", code))
    origin = plan.window.origin
    calls = add([[1.0, 2.0]] * 3, [origin + i for i in range(3)])
    (*_, flushed, status) = device.run(*calls, ("flush",), ("status",), offline=True)
    assert (flushed["released"], flushed["sent"], flushed["waiting"]) == (1, 0, 1)
    assert "did not answer" in flushed["problems"][0]
    before = read_messages(tmp_path / "state")
    assert len(before) == 1
    assert status["waiting"] == 1
    (flushed,) = device.run(("flush",))
    assert flushed == {"released": 0, "sent": 1, "waiting": 0, "problems": []}
    assert read_messages(tmp_path / "state") == before


def read_messages(folder: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in folder.glob("bytes-*"))


def test_processes_of_one_device_count_every_record_once(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    assert NODE is not None
    scene = Scene(tmp_path, server, client, "processes", window={"kind": "count", "length": 2})
    records = np.random.default_rng(4).normal(scale=4.0, size=(20, 2))
    running = []
    for part in np.split(records, 4):
        calls = [call for record in part.tolist() for call in (("add", record), ("save",))]
        order = {"folder": str(scene.device.folder), "options": {"limits": LIMITS}}
        process = subprocess.Popen(
            [NODE, str(HERE / "in_node.ts")],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(order | {"calls": [("flush",), *calls, ("flush",)]}))
        process.stdin.close()
        running.append(process)
    for process in running:
        with process:
            assert process.stdout is not None
            assert "error" not in process.stdout.read()
        assert process.returncode == 0
    (flushed, status) = scene.device.run(("flush",), ("status",))
    assert (flushed["waiting"], status["released"], scene.sketches()) == (0, 10, list(range(10)))
    expected = SketchAccumulator(scene.plan.statistic_of(b""))
    expected.add(records)
    snapshot = client.snapshot(scene.study_id)
    assert client.snapshot_sums(snapshot.snapshot_id).sums == expected.sums.tolist()
    assert not client.refusals(scene.study_id).items


def test_a_clock_that_is_wrong_closes_no_window_and_the_owner_is_told(scene: Scene) -> None:
    ahead = 2 * LENGTH * 1000
    (*_, flushed) = scene.device.run(*scene.records(2), ("flush",), aheadMs=ahead)
    assert flushed["released"] == 0
    assert "ahead of the server, so no window is closed by the clock" in flushed["problems"][0]
    assert "Set this device's clock" in flushed["problems"][0]
    # Before the study's first window nothing is taken, and nothing is lost.
    long_ago = -int((time.time() - scene.plan.window.origin + 86400) * 1000)
    (*_, saved) = scene.device.run(*scene.records(0), ("save",), aheadMs=long_ago)
    assert "clock: says" in saved["error"]


def test_a_state_that_was_put_back_is_suspended_before_a_second_noise_leaves(scene: Scene) -> None:
    folder, backup = scene.device.folder, scene.device.folder.with_name("backup")
    scene.device.run(*scene.records(0), ("save",))
    shutil.copytree(folder, backup)
    (flushed,) = scene.device.run(("flush",))
    assert flushed["sent"] == 1
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    folder.chmod(0o700)
    for _ in range(2):
        flushed, status = scene.device.run(("flush",), ("status",))
        assert "restored from a backup, or this device was cloned" in flushed["error"]
        assert "call forget(), and enrol a new device" in flushed["error"]
        assert (status["released"], status["suspended"] != "") == (0, True)
    assert scene.sketches() == [0]
    # What the copy has released is counted: the budget is that of two releases of one record.
    limited = NodeDevice(folder=folder, options={"limits": {"perRecord": str(10**8)}})
    forgotten, refused = limited.run(("forget",), ("enrol", scene.code))
    assert forgotten is None
    assert "limits.perRecord" in refused["error"]
    assert scene.device.run(("enrol", scene.code)) == [{"problems": []}]


def test_the_budget_is_the_owners_and_all_studies_of_a_source_share_it(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    half: dict[str, Any] = {"epsilon": "1/2", "mechanism": None}
    plans = {name: make_exact_plan(name, **half) for name in ("first", "second", "third")}
    codes = {
        name: make_code(client, server.url, client.create_study(name, plan).study_id)
        for name, plan in plans.items()
    }
    times = [plans["first"].window.origin + i for i in range(3)]

    def device(name: str, **options: Any) -> NodeDevice:
        return NodeDevice(folder=tmp_path / "state", options={"name": name} | options)

    for name in ("first", "second"):
        *_, flushed = device(name).run(
            ("enrol", codes[name]), *add([[1.0, 2.0]] * 3, times), ("flush",)
        )
        assert (flushed["released"], flushed["sent"]) == (1, 1)
    # Two halves are 1, the default limit; windows of one stream cost no more than one.
    *_, flushed = device("first").run(
        *add([[1.0, 2.0]] * 3, [t + LENGTH for t in times]), ("flush",)
    )
    assert flushed["released"] == 1
    (refused,) = device("third").run(("enrol", codes["third"]))
    assert refused["field"] == "limits.perRecord"
    assert 'Pass limits: { perRecord: "3/2" } if the owner agrees' in refused["error"]
    # Another source has other records; a larger limit is the owner's to give.
    assert device("third", source="elsewhere").run(("enrol", codes["third"])) == [{"problems": []}]
    allowed = device("third", limits={"perRecord": "3/2", "lifetime": "2"})
    *_, flushed = allowed.run(*add([[1.0, 2.0]] * 3, times), ("flush",))
    assert flushed["released"] == 1
    *_, flushed = allowed.run(*add([[1.0, 2.0]] * 3, [t + LENGTH for t in times]), ("flush",))
    assert "limits.lifetime: is 2, and one more release would bring" in flushed["error"]


def test_a_code_of_another_kind_and_labels_that_are_not_declared_are_refused(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    plan = make_exact_plan("labels", labels=[{"name": "site", "values": ["north", "south"]}])
    study_id = client.create_study("labels", plan).study_id
    code = make_code(client, server.url, study_id)
    device = NodeDevice(folder=tmp_path / "state")
    wrong = device.run(
        ("enrol", "sfe_token"),
        ("enrol", code[:-1]),
        ("enrol", code),
        ("enrol", code, {"site": "west"}),
        ("enrol", code, {"site": "north", "size": "small"}),
        ("flush",),
        ("save",),
    )
    assert [answer["field"] for answer in wrong] == [
        *("code", "code", "labels.site", "labels.site", "labels.size", "device", "device")
    ]
    assert all(answer["fix"] for answer in wrong)
    assert list(client.devices(study_id)) == []
    assert device.run(("enrol", code, {"site": "north"})) == [{"problems": []}]


def test_a_folder_that_others_can_enter_or_that_is_damaged_is_refused(scene: Scene) -> None:
    folder = scene.device.folder
    folder.chmod(0o755)
    (refused,) = scene.device.run(("save",))
    assert "chmod 700" in refused["error"]
    folder.chmod(0o700)
    latest = max(folder.glob("state-*"), key=lambda path: int(path.name.split("-")[1]))
    data = bytearray(latest.read_bytes())
    data[-1] ^= 1
    latest.write_bytes(bytes(data))
    (refused,) = scene.device.run(("save",))
    assert "is damaged. Check the disk" in refused["error"]
    assert not scene.sketches()


def test_no_exact_sum_stays_in_the_folder_after_its_release(scene: Scene) -> None:
    folder = scene.device.folder
    scene.device.run(*scene.records(0), ("save",))
    kept = [path.read_bytes() for path in folder.glob("state-*") if path.stat().st_size]
    assert len(kept) == 1
    (flushed,) = scene.device.run(("flush",))
    assert flushed["released"] == 1
    (state,) = [path.read_bytes() for path in folder.glob("state-*") if path.stat().st_size]
    assert b"sums" in kept[0]
    assert b"sums" not in state
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
