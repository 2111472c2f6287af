"""Pictures of analyses: every answer has its marks, and what is unknown has none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sfumato.analyst.plots import save_figure
from sfumato.analyst.results.analyses import (
    AnalysisResult,
    Comparison,
    DeviceHealth,
    Groups,
    Timeline,
)
from sfumato.shared.structure import structure
from sfumato.shared.wire.objects.analyses import (
    ComparisonBody,
    DevicesBody,
    GroupsBody,
    TimelineBody,
)

COMMON: dict[str, Any] = {
    "words": ["the answer"],
    "assumptions": ["independent records"],
    "dimensions": [{"name": "flow", "unit": "l/s"}, {"name": "محطة", "unit": "1"}],
    "clusters": [{"weight": 0.6, "centre": [1.0, 2.0]}, {"weight": 0.4, "centre": [3.0, 4.0]}],
    "snapshots": [],
}


def make_change(cluster: int, *, is_named: bool) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "quantity": "centre",
        "dimension": "flow",
        "estimate": 0.5,
        "error": 0.1,
        "z": 5.0,
        "p": 0.001,
        "is_named": is_named,
        "words": "moved",
    }


def make_window(month: int, size: float | None, *, is_alarm: bool = False) -> dict[str, Any]:
    known = {"weight": 0.5, "weight_error": 0.1, "centre": [1.0, 2.0], "centre_error": [0.1, 0.2]}
    if month == 3:
        # A window whose verdict forbids errors.
        known |= {"weight_error": None, "centre_error": None}
    return {
        "first_slot": month,
        "last_slot": month,
        "start": f"2026-{month:02}-01T00:00:00.000000Z",
        "end": f"2026-{month + 1:02}-01T00:00:00.000000Z",
        "n_records": 100,
        "n_sketches": 1,
        "snr": 1.0,
        "p": None if size is None else 0.01,
        "size": size,
        "size_error": size and 0.1,
        "is_alarm": is_alarm,
        "level": 0.02,
        "clusters": None if month == 2 else [known, known],
        "doubt": "contains no sketch" if month == 2 else None,
    }


def make_timeline() -> Timeline:
    body = COMMON | {
        "kind": "timeline",
        "windows": [
            make_window(1, None),
            make_window(2, None),
            make_window(3, 0.05),
            make_window(4, 0.9, is_alarm=True),
        ],
        "change_points": [
            {
                "window": 3,
                "start": "2026-04-01T00:00:00.000000Z",
                "p": 0.001,
                "size": 0.9,
                "size_error": 0.1,
                "words": "changed",
                "changes": [make_change(0, is_named=True)],
            }
        ],
        "level": 0.02,
    }
    return Timeline(body=structure(TimelineBody, body), analysis_id="00")


def make_comparison() -> Comparison:
    body = COMMON | {
        "kind": "comparison",
        "is_alarm": True,
        **dict.fromkeys(("size", "size_error", "p", "p_all", "p_moved", "p_single"), 0.1),
        "n_records": [1, 2],
        "n_sketches": [1, 2],
        "snrs": [1.0, 2.0],
        "changes": [make_change(0, is_named=False), make_change(1, is_named=True)],
    }
    return Comparison(body=structure(ComparisonBody, body), analysis_id="00")


def make_groups() -> Groups:
    body = COMMON | {
        "kind": "groups",
        "values": ["north", "a name that is far too long for the margin of a picture"],
        "n_records": [1, 2],
        "sizes": [[0.0, 0.27], [0.27, 0.0]],
        "errors": [[0.0, 0.05], [0.05, 0.0]],
        "p": [[1.0, 0.4], [0.4, 1.0]],
        "pairs": [],
        "map": [{"value": "north", "x": 0.0, "y": 0.0}, {"value": "south", "x": 0.2, "y": 0.1}],
        "tree": [{"left": 0, "right": 1, "height": 0.27, "p": 0.4}],
    }
    return Groups(body=structure(GroupsBody, body), analysis_id="00")


def make_devices() -> DeviceHealth:
    common = {
        "labels": {"site": "north"},
        **{"n_sketches": 1, "n_records": 10, "share": 0.5, "p_content": 0.1, "p_silence": 0.5},
        **{"z": 0.1, "size_error": 0.1, "least_lie": 0.4, "snr": 1.0, "last_seen": None},
    }
    lamps = dict.fromkeys(("content", "silence", "unusual"), False)
    body = COMMON | {
        "kind": "devices",
        "devices": [
            {**common, "device_id": "ab" * 32, "size": 0.9, "lamps": lamps | {"content": True}},
            {**common, "device_id": "cd" * 32, "size": 0.1, "lamps": lamps},
            {**common, "device_id": "ef" * 32, "size": None, "lamps": lamps},
        ],
        "n_dropped": 0,
        "level": 0.01,
    }
    return DeviceHealth(body=structure(DevicesBody, body), analysis_id="00")


@pytest.mark.parametrize("make", [make_comparison, make_timeline, make_groups, make_devices])
def test_every_answer_is_written_as_a_picture_under_its_words(make: Any, tmp_path: Path) -> None:
    result: AnalysisResult[Any] = make()
    figure = result.plot()
    save_figure(figure, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert figure.get_suptitle() == "the answer"
    assert result.plot(title="another").get_suptitle() == "another"
