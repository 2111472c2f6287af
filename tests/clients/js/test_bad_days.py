"""What goes wrong on a device in TypeScript: nothing is released twice, and the owner is told."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.core import SketchAccumulator
from tests.clients.js.devices import (
    EPSILON,
    HERE,
    LENGTH,
    LIMITS,
    NodeDevice,
    add,
    make_code,
    make_exact_plan,
    make_report,
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

    def check(self, records: Any) -> None:
        """Compare the sum of all sketches with that of some records."""
        expected = SketchAccumulator(self.plan.statistic_of(b""))
        expected.add(records)
        snapshot = self.client.snapshot(self.study_id)
        assert self.client.snapshot_sums(snapshot.snapshot_id).sums == expected.sums.tolist()

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


def test_a_folder_without_hard_links_is_refused_by_name(scene: Scene, tmp_path: Path) -> None:
    fresh = NodeDevice(folder=tmp_path / "fresh")
    (refused,) = fresh.run(("enrol", scene.code), disk="without links")
    assert "must be on a file system with hard links (EPERM)" in refused["error"]
    assert refused["fix"].startswith("name a folder on another one")


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
    assert flushed == make_report(sent=1)
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
    scene.check(records)
    assert not client.refusals(scene.study_id).items


def test_windows_that_end_before_the_first_contact_are_stored_and_released_after_a_restart(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    scene = Scene(tmp_path, server, client, "early", window={"kind": "count", "length": 10})
    records = np.random.default_rng(5).normal(scale=4.0, size=(35, 2))
    *_, saved = scene.device.run(*(("add", record) for record in records.tolist()), ("save",))
    assert saved is None
    (flushed,) = scene.device.run(("flush",))
    waiting = {"records": 5, "least": 10}
    assert flushed == make_report(released=3, sent=3, open=waiting)
    scene.check(records[:30])
    *_, flushed = scene.device.run(*[("add", [0.0, 0.0])] * 5, ("flush",))
    assert flushed == make_report(released=1, sent=1)


def test_windows_that_end_while_a_study_is_closed_are_released_when_it_is_open_again(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    scene = Scene(tmp_path, server, client, "shut", window={"kind": "count", "length": 10})
    records = np.random.default_rng(6).normal(scale=4.0, size=(30, 2))
    adding = [("add", record) for record in records.tolist()]
    client.set_state(scene.study_id, "closed")
    *_, flushed = scene.device.run(("flush",), *adding[:15], ("save",), *adding[15:], ("flush",))
    assert (flushed["released"], flushed["sent"]) == (0, 0)
    assert "the study is closed" in flushed["problems"][0]
    client.set_state(scene.study_id, "open")
    (flushed,) = scene.device.run(("flush",))
    assert flushed == make_report(released=3, sent=3)
    scene.check(records)


def test_a_flush_reports_what_a_save_before_it_has_released(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    scene = Scene(tmp_path, server, client, "saved", window={"kind": "count", "length": 10})
    adding = [("add", [1.0, 2.0])] * 10
    # A device saves by itself, so a report that left this out would depend on who was faster.
    _, *_, flushed, again = scene.device.run(
        ("flush",), *adding, ("save",), *adding, ("flush",), ("flush",)
    )
    assert flushed == make_report(released=2, sent=2)
    assert again == make_report()


def test_records_that_the_budget_does_not_pay_for_are_counted_and_the_owner_is_told(
    tmp_path: Path, server: Aggregator, client: Client
) -> None:
    scene = Scene(tmp_path, server, client, "spent", window={"kind": "count", "length": 10})
    scene.device.options = {"limits": LIMITS | {"lifetime": str(EPSILON)}}
    adding = [("add", [1.0, 2.0])] * 14
    # The device saves within a second, and nobody waits for that.
    *_, status, flushed, again = scene.device.run(
        ("flush",), *adding, ("rest", 1500), ("status",), ("flush",), ("flush",)
    )
    assert status["dropped"] == flushed["dropped"] == 4
    assert "limits.lifetime: is" in status["problem"]
    assert "a save in the background failed: limits.lifetime: is" in flushed["problems"][0]
    assert "4 record(s) are lost" in flushed["problems"][1]
    assert (flushed["sent"], again["dropped"]) == (1, 4)
    assert again["problems"] == flushed["problems"][1:]
    assert scene.sketches() == [0]


def test_a_clock_far_ahead_without_the_server_closes_no_window(scene: Scene) -> None:
    year = 365 * 86_400_000
    calls = [("add", [1.0, 2.0]), ("flush",)] * 3
    *_, flushed = scene.device.run(*calls, aheadMs=year, offline=True)
    assert flushed["released"] == 0
    assert "365 days ahead of the last time that the server has confirmed" in "".join(
        flushed["problems"]
    )
    # The network is back, and the clock is set right: the records wait for their slot to end.
    end = datetime.fromtimestamp(scene.plan.window.origin + 3 * LENGTH, UTC)
    waiting = {"records": 3, "least": 1, "closesAt": f"{end:%Y-%m-%dT%H:%M:%S.000Z}"}
    assert scene.device.run(("flush",)) == [make_report(open=waiting)]
    ahead = LENGTH * 1000
    *_, flushed = scene.device.run(("add", [1.0, 2.0]), ("flush",), aheadMs=ahead, offline=True)
    assert (flushed["released"], flushed["waiting"]) == (1, 1)


def test_sketches_that_are_held_because_the_clock_was_ahead_are_reported_by_every_flush(
    scene: Scene,
) -> None:
    ahead = LENGTH * 1000
    calls = [("add", [1.0, 2.0]), ("flush",)]
    scene.device.run(*calls, aheadMs=ahead, offline=True)
    scene.device.run(*calls, aheadMs=2 * ahead, offline=True)
    for _ in range(2):
        (flushed,) = scene.device.run(("flush",))
        assert (flushed["sent"], flushed["waiting"]) == (0, 1)
        assert "1 sketch(es) wait: this device's clock" in flushed["problems"][-1]


def test_records_that_cannot_be_read_are_counted_and_lists_of_another_length_are_refused(
    scene: Scene,
) -> None:
    long, *_, flushed, status = scene.device.run(
        ("add", [1.0, 2.0, 3.0]),
        ("save",),
        ("add", [1.0]),
        ("add", {"x": 1.0, "Y": 2.0}),
        ("add", {"x": "1.0", "y": 2.0}),
        ("add", {"x": 1.0, "y": 2.0}),
        ("flush",),
        ("status",),
    )
    # Before the plan is loaded a list is taken, and cannot be read.
    assert long is None
    assert flushed["unsketchable"] == status["unsketchable"] == 3
    (*_, refused) = scene.device.run(("save",), ("add", [1.0]))
    assert (refused["field"], refused["kind"]) == ("record", "record")
    assert "has 1 value(s), and the plan has 2 dimension(s)" in refused["error"]
    assert refused["fix"] == "give one for each of: x, y"


def test_a_clock_that_is_wrong_closes_no_window_and_the_owner_is_told(
    scene: Scene, tmp_path: Path
) -> None:
    ahead = 2 * LENGTH * 1000
    (*_, flushed) = scene.device.run(*scene.records(2), ("flush",), aheadMs=ahead)
    assert flushed["released"] == 0
    assert "ahead of the server, so no window is closed by the clock" in flushed["problems"][0]
    assert "Set this device's clock" in flushed["problems"][0]
    # Before the study's first window nothing is taken, and nothing is lost.
    long_ago = -int((time.time() - scene.plan.window.origin + 86400) * 1000)
    fresh = NodeDevice(folder=tmp_path / "fresh")
    (*_, saved) = fresh.run(("enrol", scene.code), *scene.records(0), ("save",), aheadMs=long_ago)
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


def test_a_dimension_that_records_do_not_name_is_reported_here_and_changes_no_sum(
    scene: Scene,
) -> None:
    origin = scene.plan.window.origin
    given = [{"x": 1.0}, [1.0, 2.0], {"x": 3.0, "y": None}, {"y": 1.0, "x": 2.0}]
    calls = add(given, [origin + i for i in range(4)])
    *_, first, again = scene.device.run(*calls, ("flush",), ("flush",))
    assert first["problems"] == [
        "a record has no y: give one for each of: x, y; null if it is missing"
    ]
    assert (first["released"], first["unsketchable"], again["problems"]) == (1, 2, [])
    scene.check(np.array([[1.0, np.nan], [1.0, 2.0], [3.0, np.nan], [2.0, 1.0]]))
    assert scene.client.snapshot(scene.study_id).n_records == 4
    # A value that is missing is no mistake of the program.
    calls = add([{"x": None, "y": None}], [origin + 2 * LENGTH])
    *_, flushed = scene.device.run(*calls, ("flush",))
    assert flushed["problems"] == []


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
    assert [answer["error"] for answer in wrong[2:5]] == [
        "labels.site: is missing. Use one of: north, south",
        "labels.site: must be a declared value. Use one of: north, south",
        "labels.size: must be a label that the plan declares. Use: site",
    ]
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
