"""Devices in TypeScript as processes, and studies whose sums are exact because noise is none."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sfumato.analyst import Client
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


def make_report(*, released: int = 0, sent: int = 0) -> dict[str, Any]:
    """Return the report of a flush without problems, after which nothing waits."""
    counts = {"released": released, "sent": sent, "waiting": 0, "unsketchable": 0, "dropped": 0}
    return {**counts, "problems": []}


def add(records: Sequence[Any], times: Sequence[float]) -> list[Call]:
    """Return the calls that add records; times in seconds."""
    return [("add", record, 1000 * when) for record, when in zip(records, times, strict=True)]
