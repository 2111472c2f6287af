"""A device in TypeScript that is killed between any two steps releases nothing twice."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.core import SketchAccumulator
from tests.clients.js.devices import (
    LENGTH,
    REACT_NATIVE,
    NodeDevice,
    add,
    make_code,
    make_exact_plan,
    make_report,
)
from tests.clients.js.node import MISSING, NO_TOOLS, NODE, TOOLS
from tests.soak import small_and_soak

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)


class Ground:
    """A study whose sums tell which records are in them, and a device for every kill."""

    def __init__(
        self, server: Aggregator, client: Client, name: str, *, driver: str, **order: str
    ) -> None:
        self.client = client
        self._driver = driver
        self._order = order
        self.plan = make_exact_plan(name)
        self.study_id = client.create_study(name, self.plan).study_id
        self.code = make_code(client, server.url, self.study_id, n_devices=1000)
        self._rng = np.random.default_rng(1)
        self._expected = SketchAccumulator(self.plan.statistic_of(b""))

    def try_out(self, folder: Path, kill_at: int) -> list[str]:
        """Kill a device at a place, let it go on, and note what the server holds of it.

        Returns the names of the places that it passed.
        """
        device = NodeDevice(folder=folder / "state", driver=self._driver)
        folder.mkdir()
        records = self._rng.normal(scale=4.0, size=(8, 2))
        origin = self.plan.window.origin
        times = [origin + LENGTH * slot + i for i, slot in enumerate((0, 0, 0, 1, 1, 1, 1, 1))]
        before, after = slice(0, 5), slice(5, 8)
        enrol = ("enrol", self.code)
        killed = device.start(
            enrol,
            *add(records[before].tolist(), times[before]),
            ("flush",),
            killAt=kill_at,
            places=str(folder / "places"),
            **self._order,
        )
        assert killed.returncode in (0, -signal.SIGKILL), killed.stderr
        places = (folder / "places").read_text().splitlines()
        calls = [enrol, *add(records[after].tolist(), times[after]), ("flush",), ("flush",)]
        *_, last, status = device.run(*calls, ("status",), **self._order)
        where = kill_at, places[-1:]
        assert last == make_report(), (where, last)
        sketches = [
            s for s in self.client.sketches(self.study_id) if s.device_id == status["device"]
        ]
        # Every release is at the server, under its own number, and none was refused.
        assert sorted(s.sequence for s in sketches) == list(range(status["released"])), where
        assert (status["sent"], status["shelved"]) == (status["released"], 0), where
        n_records = sum(s.n_records or 0 for s in sketches)
        # What was stored when it was killed: nothing, the first slot, or both. Once both were
        # released the last records are late, and wait for the slot that is open.
        stored = {3: [after], 6: [slice(0, 3), after], 8: [before, after], 5: [before]}
        assert n_records in stored, where
        for part in stored[n_records]:
            self._expected.add(records[part])
        return places

    def check(self) -> None:
        """Compare the sum of all devices with that of the records which they have released."""
        snapshot = self.client.snapshot(self.study_id)
        sums = self.client.snapshot_sums(snapshot.snapshot_id).sums
        assert sums == self._expected.sums.tolist()
        assert snapshot.n_records == self._expected.n_records
        assert not self.client.refusals(self.study_id).items


@small_and_soak("n_kills", 5, 1000)
@pytest.mark.parametrize("driver", ["in_node.ts", REACT_NATIVE], ids=["Node", "React Native"])
def test_a_device_that_is_killed_at_any_place_releases_every_record_once_or_never(
    tmp_path: Path, server: Aggregator, n_kills: int, driver: str
) -> None:
    if driver == REACT_NATIVE and not TOOLS.is_dir():
        pytest.skip(NO_TOOLS)
    with Client(server.url, key=server.key) as client:
        ground = Ground(server, client, f"kills {n_kills} {driver}", driver=driver)
        places = ground.try_out(tmp_path / "whole", 0)
        # In the small form evenly among all places, the last one included.
        n = len(places)
        for kill_at in sorted({n - i * n // min(n_kills, n) for i in range(min(n_kills, n))}):
            ground.try_out(tmp_path / str(kill_at), kill_at)
        ground.check()
