from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.analyst.planning.spec import format_value
from sfumato.learning.planning.candidates import predict_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.phases import predict_phase_reports
from sfumato.learning.planning.plans import list_law
from tests.analyst.planning.commands import (
    SPEC,
    STUDY,
    advise_json,
    refuse_to_show,
    show,
    show_json,
)

PRESENCE = """
n_frequencies = 60
seed = "a study of presence"
epsilon = "1"
neighbouring = "add-remove-one"
most_records = 100000
window = { kind = "time", origin = 1769817600, length_s = 3600 }

[[dimensions]]
name = "x"
unit = "1"
lower = 0.0
upper = 1.0
scale = 0.1
"""


def test_a_plan_that_hides_presence_is_explained_with_what_that_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(PRESENCE, encoding="utf-8")
    text = show(path)
    for part in (
        "differ by the presence of one record",
        "that and when a device takes part",
        "a sketch for every 3600 s since 2026-01-31 00:00:00 UTC, empty or not",
        "sends the releases of the run before",
        "any number in one sketch; released with noise of",
    ):
        assert part in text
    assert "closes early" not in text
    assert "how many records it has" not in text
    document = show_json(path, {"--records": "5", "--devices": "40", "--clusters": "3"})
    assert document["neighbouring"] == "add-remove-one"
    # Fewer records than sketches: some are empty.
    assert document["prediction"]["snr"] > 0


def test_show_says_what_is_not_protected_and_what_a_year_costs() -> None:
    words = show(SPEC)
    assert "how many records it has" in words
    assert "a stolen device" in words
    assert "epsilon 1 for a record" in words
    assert "at most epsilon 4 a year, over 4 windows" in words
    assert "stream names" in words
    assert "waiting sketches" in words
    assert "20 in each of 10 windows at 200" in words
    assert "--records, --devices and --clusters" in words


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"unknown"', "24", "A person has at most 24 record(s) in a window"),
        # Gaussian noise: four windows cost less than their sum, twenty records more than theirs.
        (
            'epsilon = "1"',
            'epsilon = "1/3"\ndelta = "1e-6"',
            "at most epsilon 0.701 and delta 1e-06 a year",
        ),
        (
            'kind = "time"\norigin = 1356998400\nlength_s = 7884000',
            'kind = "count"\nlength = 1000',
            "once more with every 1000 records",
        ),
    ],
)
def test_show_follows_the_plans_people_delta_and_window(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    text = SPEC.read_text(encoding="utf-8")
    assert old in text
    changed = tmp_path / "plan.toml"
    changed.write_text(text.replace(old, new), encoding="utf-8")
    assert words in show(changed)


def test_show_predicts_what_advise_predicts() -> None:
    size = {name: STUDY[name] for name in ("--records", "--devices", "--windows", "--clusters")}
    shown, candidates = show_json(SPEC, size), advise_json(STUDY)["candidates"]
    same: Any = next(
        c for c in candidates if (c["mechanism"], c["n_frequencies"]) == ("discrete-knorm", 100)
    )
    assert shown["prediction"]["snr"] == same["snr"]
    assert shown["prediction"]["relative_sse"] == same["relative_sse"]
    assert shown["sketch_bytes"] == same["sketch_bytes"]
    assert shown["cost"]["per_record"] == {"epsilon": "1", "delta": "0"}
    liar = shown["influence_of_a_liar"]
    assert shown["most_records"] < liar["most"] < shown["most_records"] + liar["least"]
    words = show(SPEC, size)
    assert f"can move the sum as far as {liar['least']:,.0f} equal records" in words
    assert "SNR 216, relative SSE between 1.00 and 1.08 is expected" in words


SIZES = ("least_records", "most_records", "max_records_per_person")
UNITS = {
    "device": 'unit = "device"\nmost_records = 4000\n',
    "phase": 'release = "phase.v1"\n',
    "phases": 'release = "phase.v1"\nfrequencies_per_sketch = 2\nmost_sketches_per_device = 40\n',
}


def write_spec(kind: str, folder: Path) -> Path:
    lines = SPEC.read_text(encoding="utf-8").splitlines(keepends=True)
    path = folder / f"{kind}.toml"
    text = "".join(line for line in lines if not line.startswith(SIZES))
    path.write_text(UNITS[kind] + text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (
            "device",
            (
                "epsilon 1 for all records of a device in a window; at most epsilon 4 a year, over "
                "4 windows, for someone with a record in every one",
                "a sketch of the mean of every 7884000 s (91.25 days) in which there were records",
                "any number in one sketch, which counts as one record; those after the first 4000 "
                "of a window are left out",
                "K-norm (discrete-knorm), scale 2730 units of the sum",
                "With 5 clusters and 400 sketches, each of which counts as one record: SNR",
                "Each sketch counts as one record, whatever",
            ),
        ),
        (
            "phase",
            (
                "100; a report is about 1 of them",
                "a device sends one sketch in the whole study, so that it costs no more",
                "a report of the first record of every 7884000 s (91.25 days)",
                "phase-report: phases on the arc of 0.4 turns around the record's are 2.718 times "
                "as likely as the others; the mean of a report is 0.308 times the record's feature",
                "2 bytes, 2 a phase",
                "the first of each window; the others are left out",
                "With 5 clusters and 400 sketches, each of which counts as one record: SNR",
            ),
        ),
        ("phases", ("4 bytes, 2 a phase", "at most epsilon 4 a year, over 4 windows")),
    ],
)
def test_a_plan_that_protects_devices_is_explained(
    kind: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    # A mean above the most records is no error: what exceeds it is left out.
    size = {"--records": "9000000", "--devices": "400", "--clusters": "5"}
    path = write_spec(kind, tmp_path)
    words = show(path, size)
    for part in parts:
        assert part in words
    for part in ("closes early", "wait for the next", "different kinds", "--devices-alike"):
        assert part not in words


@pytest.mark.parametrize(("kind", "r"), [("device", 100), ("phase", 1), ("phases", 2)])
def test_show_predicts_what_the_planner_does_where_the_unit_is_a_device(
    kind: str, r: int, tmp_path: Path
) -> None:
    size = {"--records": "9000000", "--devices": "400", "--clusters": "5"}
    outline = StudyOutline(
        n_records=9_000_000, n_sketches=400, n_dimensions=4, n_clusters=5, unit="device"
    )
    predicted = (
        predict_candidate(
            outline, mechanism="discrete-knorm", n_frequencies=100, epsilon=Fraction(1)
        )
        if kind == "device"
        else predict_phase_reports(outline, n_frequencies=100, n_reports=r, epsilon=Fraction(1))
    )
    path = write_spec(kind, tmp_path)
    law = format_value(list_law(predicted.law_choice.law))
    path.write_text(f"radius_law = {law}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    shown = show_json(path, size)
    assert shown["prediction"]["snr"] == predicted.snr
    assert shown["sketch_bytes"] == predicted.sketch_bytes
    assert (shown["release"], shown["unit"]) == (predicted.release, "device")
    assert shown["mechanism"] == predicted.mechanism
    assert shown["cost"]["per_device"] == {"epsilon": "1", "delta": "0"}
    assert shown["cost"]["windows_a_year"] == (1 if kind == "phase" else 4)
    # One device, one report: no plan allows the second window of this selection.
    if kind == "device":
        show(path, size, "--windows", "41")
    else:
        refuse_to_show(path, size, "--windows", "41")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"--records": "299", "--devices": "3"}, "--records: gives 99.6667 a sketch, below"),
        ({"--records": "26115", "--devices": "3"}, "--records: gives 8705 a sketch, above"),
        (
            {"--records": "260000", "--devices": "1", "--windows": "126"},
            "--windows: must be at most the plan's most_sketches_per_device = 125",
        ),
        ({"--records": "26115"}, "--devices: is needed to predict the quality"),
    ],
)
def test_sizes_that_the_plan_does_not_allow_are_refused(
    options: dict[str, str], message: str
) -> None:
    known = {"--clusters": "5"} if "--devices" in options else {}
    err = refuse_to_show(SPEC, known | options)
    assert err.startswith(f"sfumato: error: {message}")
    assert err.count("\n") == 1


DIMENSIONS = """\
epsilon = "1"
most_records = 1000
[window]
kind = "count"
length = 100
[[dimensions]]
name = "light"
unit = "lux"
lower = 0.0
upper = 150000.0
transform = {kind = "log", resolution = 1.0}
[[dimensions]]
name = "room"
unit = "1"
levels = ["hall", "attic"]
"""


@pytest.mark.parametrize(
    ("statistic", "words", "part"),
    [
        (
            'statistic = "histogram"\nbins_log2 = [8, 0]',
            "bins of light: 256, room: 2",
            {"bins_log2": [8, 0], "dimensions_per_sketch": 2},
        ),
        (
            'statistic = "grid"\ncells = [32, 2, 2]',
            "counts of joint cells, 32 x 2 x 2",
            {"cells": [32, 2, 2]},
        ),
        (
            'statistic = "moments"\nnorm_steps = 2047',
            "a ball of radius 1 half widths of the bounds",
            {"norm_steps": 2047},
        ),
    ],
)
def test_a_plan_without_frequencies_is_explained_and_has_no_prediction(
    statistic: str,
    words: str,
    part: dict[str, object],
    tmp_path: Path,
) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f"{statistic}\n{DIMENSIONS}", encoding="utf-8")
    shown = show(path)
    assert words in shown
    assert "light (lux, log scale), room (2 levels)" in shown
    for absent in ("frequencies", "clusters allow", "pass --records"):
        assert absent not in shown
    document = show_json(path)
    assert document["statistic"] in statistic
    assert document.items() >= part.items()
    assert document["n_frequencies"] is document["clusters_at_most"] is None
    size = {"--records": "1000", "--devices": "1", "--clusters": "2"}
    assert "must be fourier for this" in refuse_to_show(path, size)
