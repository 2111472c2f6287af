"""Devices in TypeScript as processes, and studies whose sums are exact because noise is none."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.wire import EnrolmentCode, encode_enrolment_code
from tests.clients.js.node import ENVIRONMENT, NODE

HERE = Path(__file__).parent
# So long that no slot ends while a test runs.
LENGTH = 10**6
REACT_NATIVE = "bare.ts"
"""The driver with what an application in React Native brings, in Node."""
EPSILON = 100 * 46324 * 12
"""At most exp(-100): noise so small that a coordinate never gets any."""
LIMITS = {"perRecord": str(10**9)}

Call = tuple[Any, ...]
Run = Callable[[Sequence[Call]], list[Any]]


def make_exact_plan(name: str, **changes: Any) -> SketchPlan:
    """Return a plan of 12 features whose Laplace noise is zero for certain, or nearly."""
    spec: dict[str, Any] = {
        "dimensions": [
            {"name": "x", "unit": "m", "lower": -10.0, "upper": 10.0, "scale": 1.0},
            {"name": "y", "unit": "m", "lower": -10.0, "upper": 10.0, "scale": 1.0},
        ],
        "n_frequencies": 12,
        "seed": name,
        "epsilon": str(EPSILON),
        "mechanism": "discrete-laplace",
        "window": {
            "kind": "time",
            "origin": int(time.time()) - 5 * LENGTH // 2,
            "length_s": LENGTH,
        },
        "least_records": 1,
        "most_records": 5000,
        "most_sketches_per_device": 1000,
        "most_sketches": 100_000,
    }
    given = {key: value for key, value in (spec | changes).items() if value is not None}
    return plan_from_spec(given)


def make_code(client: Client, url: str, study_id: str, *, n_devices: int = 1) -> str:
    """Return a code that enrols devices."""
    token = client.create_token(study_id, max_uses=n_devices)
    return encode_enrolment_code(
        EnrolmentCode(server=url, study=bytes.fromhex(study_id), token=token)
    )


@dataclass(kw_only=True)
class NodeDevice:
    """A device of a folder; every order is a process.

    Parameters
    ----------
    driver
        The program: in Node as it is, or without what React Native lacks.
    """

    folder: Path
    driver: str = "in_node.ts"
    options: dict[str, Any] = field(default_factory=lambda: {"limits": LIMITS})

    def run(self, *calls: Call, **order: Any) -> list[Any]:
        """Make calls, and return their answers; an error is an answer too."""
        done = self.start(*calls, **order)
        assert done.returncode == 0, done.stderr
        answers: list[Any] = json.loads(done.stdout)["answers"]
        return answers

    def start(self, *calls: Call, **order: Any) -> subprocess.CompletedProcess[str]:
        """Make calls in a process that may end before its time."""
        assert NODE is not None
        told = {"folder": str(self.folder), "options": self.options, "calls": calls} | order
        return subprocess.run(
            [NODE, str(HERE / self.driver)],
            input=json.dumps(told),
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )


class Study:
    """A study whose sums tell which records are in them."""

    def __init__(self, server: Aggregator, client: Client, name: str, **changes: Any) -> None:
        self.client = client
        self.plan = make_exact_plan(name, **changes)
        self.study_id = client.create_study(name, self.plan).study_id
        self.code = make_code(client, server.url, self.study_id, n_devices=1000)
        self.expected = SketchAccumulator(self.plan.statistic_of(b""))
        self._rng = np.random.default_rng(1)

    def times(self, *slots: int) -> list[float]:
        """Return a time in each slot."""
        return [self.plan.window.origin + LENGTH * slot + i for i, slot in enumerate(slots)]

    def check(self) -> None:
        """Compare the sum of all devices with that of the records which they have released."""
        snapshot = self.client.snapshot(self.study_id)
        sums = self.client.snapshot_sums(snapshot.snapshot_id).sums
        assert sums == self.expected.sums.tolist()
        assert snapshot.n_records == self.expected.n_records
        assert not self.client.refusals(self.study_id).items

    def try_out(self, end: Run, go_on: Run, where: object = "") -> None:
        """Let a device end somewhere and go on, and note what the server holds of it.

        Parameters
        ----------
        end, go_on
            Make calls of the device, the first of them until it is killed.
        """
        records = self._rng.normal(scale=4.0, size=(8, 2))
        before, after = slice(0, 5), slice(5, 8)
        times, enrol = self.times(0, 0, 0, 1, 1, 1, 1, 1), ("enrol", self.code)
        end([enrol, *add(records[before].tolist(), times[before]), ("flush",)])
        calls = [enrol, *add(records[after].tolist(), times[after])]
        *_, last, status = go_on([*calls, ("flush",), ("flush",), ("status",)])
        # Records that are late wait in the window that is open.
        assert last | {"open": None} == make_report(open=None), (where, last)
        own = status["device"]
        sketches = [s for s in self.client.sketches(self.study_id) if s.device_id == own]
        # Every release is at the server, under its own number, and none was refused.
        assert sorted(s.sequence for s in sketches) == list(range(status["released"])), where
        assert (status["sent"], status["shelved"]) == (status["released"], 0), where
        n_records = sum(s.n_records or 0 for s in sketches)
        # What was stored when it was killed: nothing, the first slot, or both. Once both were
        # released the last records are late, and wait for the slot that is open.
        stored = {3: [after], 6: [slice(0, 3), after], 8: [before, after], 5: [before]}
        assert n_records in stored, where
        for part in stored[n_records]:
            self.expected.add(records[part])


def spread(n: int, most: int) -> list[int]:
    """Return at most so many places of n, evenly, the last one included."""
    return sorted({n - i * n // min(most, n) for i in range(min(most, n))})


def make_report(*, released: int = 0, sent: int = 0, **more: Any) -> dict[str, Any]:
    """Return the report of a flush without problems, after which no sketch waits."""
    counts = {"released": released, "sent": sent, "waiting": 0, "unsketchable": 0, "dropped": 0}
    return {**counts, "problems": [], **more}


def add(records: Sequence[Any], times: Sequence[float]) -> list[Call]:
    """Return the calls that add records; times in seconds."""
    return [("add", record, 1000 * when) for record, when in zip(records, times, strict=True)]
