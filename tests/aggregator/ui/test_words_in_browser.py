"""What the page makes of figures: sentences with names and units."""

from __future__ import annotations

import json

import pytest

from tests.aggregator.ui.browser import MISSING, PROGRAM
from tests.aggregator.ui.scene import Scene
from tests.walking import Walk

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

RESULT = {
    "dimensions": [{"name": "heat", "unit": "degC"}, {"name": "wind", "unit": "1"}],
    "clusters": [{"words": "high heat", "spread": [6.0, 0.2]}, {"words": "", "spread": None}],
}


def make_change(
    cluster: int, dimension: str | None, estimate: float, error: float, z: float = 4.0
) -> dict[str, object]:
    quantity = "weight" if dimension is None else "centre"
    change = {"cluster": cluster, "quantity": quantity, "dimension": dimension}
    return change | {"estimate": estimate, "error": error, "z": z, "is_named": abs(z) > 3}


def test_a_change_is_said_in_the_unit_of_its_column_and_names_its_cluster(scene: Scene) -> None:
    scene.enter()
    with Walk() as walk:
        for change, words in (
            (make_change(0, "heat", -0.5, 0.1), "cluster 1 (high heat): heat −3.0 ± 0.6 degC"),
            (make_change(0, "wind", 0.5, 0.1), "cluster 1 (high heat): wind +0.10 ± 0.02"),
            (make_change(1, "heat", 0.5, 0.1), "cluster 2: heat +0.50 ± 0.10 sd"),
            (make_change(1, None, 0.1, 0.01), "cluster 2: share +11% ± 1%"),
            # A variance grows by 49 %, and so the width by 22 %.
            (
                make_change(1, None, 0.4, 0.02) | {"quantity": "variance"},
                "cluster 2: width +22% ± 1%",
            ),
        ):
            call = f"describeMoves({json.dumps([change])}, {json.dumps(RESULT)})"
            with walk.cell(words):
                assert scene.call("insight/changes.js", call) == [words]
    changes = [make_change(1, None, 0.1, 0.01, z) for z in (4.0, 5.0, 1.0)]
    call = f"describeMoves({json.dumps(changes)}, {json.dumps(RESULT)}, 1)"
    assert scene.call("insight/changes.js", call) == ["cluster 2: share +11% ± 1%", "1 more change"]


def test_a_centre_at_a_bound_is_named_with_its_column(scene: Scene) -> None:
    scene.enter()
    rows = [
        {"number": 1, "words": "high heat", "centroid": [40.0, 0.0]},
        {"number": 2, "words": "", "centroid": [12.0, 1.0]},
    ]
    axes = [
        {"name": "heat", "unit": "degC", "lower": 0.0, "upper": 40.0},
        {"name": "kind=a", "unit": "1", "lower": 0, "upper": 1, "isLevel": True},
    ]
    call = f"describeEdges({json.dumps(rows)}, {json.dumps(axes)})"
    assert scene.call("decode/result.js", call) == [
        "cluster 1 (high heat) lies at the upper bound of heat, 40 degC"
    ]


def test_devices_that_fell_behind_are_counted_and_those_that_left_are_not(scene: Scene) -> None:
    scene.enter()
    devices = [
        {"state": state, "streams": [{"last_slot": slot} for slot in slots]}
        for state, slots in (
            ("enrolled", [9]),
            ("enrolled", [8]),
            ("enrolled", [9, 7]),
            ("excluded", [1]),
            ("enrolled", []),
        )
    ]
    assert scene.call("study/devices.js", f"countSilent({json.dumps(devices)})") == 1
