"""Devices in TypeScript under every kind of plan that they compute, taken by a real server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.demo.cluster import Aggregator
from sfumato.analyst import Client
from tests.aggregator.ui.browser import MISSING as NO_BROWSER, PROGRAM
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

pytestmark = pytest.mark.skipif(NODE is None, reason=MISSING)

Run = Callable[[str, Sequence[Any]], list[Any]]
"""Makes the calls of a device of some name, and returns their answers."""

NUMBERS: dict[str, Any] = {
    "dimensions": [
        {"name": "x", "unit": "m", "lower": -10.0, "upper": 10.0},
        {"name": "y", "unit": "m", "lower": -10.0, "upper": 10.0},
    ],
    "statistic": "histogram",
    "n_frequencies": None,
    "seed": None,
    "bins_log2": 3,
}
LOOK: dict[str, Any] = {
    "assigned": ["x"],
    "summed": ["x", "y"],
    "centres": [[-5000], [9000]],
    "weights": [1],
    "cap": 10**9,
    "origins": [[-5000, 0], [9000, 0]],
    "radii": [[20000, 20000], [20000, 30000]],
    "units": {"residual": 64, "count": 16, "square": 16, "beyond": 4, "presence": 8, "total": 8},
    "candidates": [[[-9000], [9000]]],
    "clusters_per_sketch": 2,
}
CLUSTERS = NUMBERS | {"statistic": "clusters", "bins_log2": None, "clusters": LOOK}
PLAIN = {"epsilon": "1", "mechanism": None}
KINDS: dict[str, dict[str, Any]] = {
    "knorm": PLAIN,
    "laplace": PLAIN | {"mechanism": "discrete-laplace"},
    "masks": PLAIN | {"measurements_per_record": 3, "mechanism": "discrete-laplace"},
    "split": PLAIN | {"frequencies_per_sketch": 3},
    "count": PLAIN | {"window": {"kind": "count", "length": 4}},
    "devices": PLAIN | {"unit": "device", "least_records": None},
    "phases": PLAIN
    | {"release": "phase.v1", "least_records": None, "most_records": None}
    | {"frequencies_per_sketch": 2},
    "presence": PLAIN | {"neighbouring": "add-remove-one", "least_records": None},
    "bins": PLAIN | NUMBERS,
    "split bins": PLAIN | NUMBERS | {"dimensions_per_sketch": 1},
    "secret bins": PLAIN | NUMBERS | {"neighbouring": "add-remove-one", "least_records": None},
    "clusters": PLAIN | CLUSTERS,
    "one cluster": PLAIN | CLUSTERS | {"clusters": LOOK | {"clusters_per_sketch": 1}},
    "secret clusters": PLAIN | CLUSTERS | {"neighbouring": "add-remove-one", "least_records": None},
    "reported bins": PLAIN
    | NUMBERS
    | {"release": "phase.v1", "least_records": None, "most_records": None},
}


def run_in(runtime: str, folder: Path, request: pytest.FixtureRequest) -> Run:
    if runtime != "chromium":
        if runtime == REACT_NATIVE and not TOOLS.is_dir():
            pytest.skip(NO_TOOLS)
        return lambda name, calls: NodeDevice(folder=folder / name, driver=runtime, options={}).run(
            *calls
        )
    if PROGRAM is None:
        pytest.skip(NO_BROWSER)
    tab = request.getfixturevalue("browser").open_tab()
    # The store is the browser's, and shared by all tests.
    return lambda name, calls: tab.run(*calls, options={"name": f"{folder}/{name}", "source": name})


FEW = ("laplace", "split", "phases", "secret bins")
"""Where a device is a process, in the small form: the modules are those of the page."""


@pytest.mark.parametrize(
    ("runtime", "kinds"),
    [
        pytest.param("in_node.ts", FEW, id="Node"),
        pytest.param("in_node.ts", KINDS, id="Node-soak", marks=pytest.mark.soak),
        pytest.param("chromium", KINDS, id="Chromium"),
        pytest.param(REACT_NATIVE, KINDS, id="React Native", marks=pytest.mark.soak),
    ],
)
def test_a_device_under_every_kind_of_plan_is_taken_by_the_server(
    tmp_path: Path,
    server: Aggregator,
    client: Client,
    runtime: str,
    kinds: Sequence[str],
    request: pytest.FixtureRequest,
) -> None:
    run = run_in(runtime, tmp_path, request)
    for name in kinds:
        title = f"{name} {runtime} {len(kinds)}"
        plan = make_exact_plan(title, **KINDS[name])
        study_id = client.create_study(title, plan).study_id
        origin = plan.window.origin
        times = [origin + slot * LENGTH + i for slot in range(2) for i in range(4)]
        records = [[0.5 * i - 2, None if i == 3 else i] for i in range(8)]
        code = make_code(client, server.url, study_id)
        enrolled, *_, flushed = run(name, [("enrol", code), *add(records, times), ("flush",)])
        assert all("does not promise to keep" in each for each in enrolled["problems"]), name
        # Plans differ in what they read of a record.
        assert flushed["unsketchable"] in (0, 1), name
        assert flushed | {"unsketchable": 0} == make_report(released=2, sent=2), name
        sketches = sorted(client.sketches(study_id), key=lambda sketch: sketch.sequence)
        expected = None if plan.releases_count else 1 if plan.protects_devices else 4
        assert [sketch.n_records for sketch in sketches] == [expected] * 2, name
        slots = [None, None] if plan.window.kind == "count" else [(0, 0), (1, 1)]
        assert [sketch.slots for sketch in sketches] == slots, name
