import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.shared.command import main
from sfumato.shared.plan import Dimension, SketchPlan, plan_to_json
from tests.device_agent.conftest import make_plan
from tests.shared.sharing.samples import make_draft
from tests.simulator.test_fleet import BINS, PHASES, PLANS

HISTOGRAMS = {
    # So much budget that all noise is 0.
    "counts": make_plan(epsilon=Fraction(1000), **BINS),
    "levels": make_plan(
        **PHASES,
        epsilon=Fraction(6),
        **{**BINS, "dimensions": (Dimension(name="a", unit="1", levels=("x", "y", "z")),)},
    ),
}


@pytest.fixture
def write_plan(tmp_path: Path) -> Any:
    def write(plan: str | SketchPlan) -> str:
        path = tmp_path / "plan.json"
        chosen = (PLANS | HISTOGRAMS)[plan] if isinstance(plan, str) else plan
        path.write_text(json.dumps(plan_to_json(chosen)))
        return str(path)

    return write


def simulate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["simulate", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize("name", ["device", "phases"])
def test_a_fleet_is_simulated_from_plan_to_centroids(
    name: str, write_plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--devices", "40", "-k", "2", "--records-per-device", "30", "--processes", "1"]
    status, out, err = simulate(capsys, write_plan(name), *arguments, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert (document["devices"], document["records"]) == (40, 1200)
    assert document["sketches"] == 40
    assert document["refused"] == {}
    assert len(document["centroids"]) == 2
    if name == "device":
        # Without noise to speak of.
        assert document["relative_sse"] < 1.5
    assert document["relative_sse"] > 0.99


def test_people_are_told_doubts_first_and_bytes_and_see_a_picture(
    write_plan: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "fleet.png"
    options = ["--devices", "50", "-k", "2", "--processes", "1", "--plot", str(picture)]
    status, out, _ = simulate(capsys, write_plan("phases"), *options)
    assert status == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert out.index("verdict") < out.index("quality") < out.index("devices")
    assert "accepted, of 4 bytes" in " ".join(out.split())


@pytest.mark.parametrize(("name", "largest"), [("counts", 1e-3), ("levels", 0.5)])
def test_a_histogram_is_compared_with_the_marginals_of_the_records(
    name: str, largest: float, write_plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_plan(name)
    options = ["--devices", "200", "--processes", "1", "--seed", "3"]
    status, out, err = simulate(capsys, path, *options, "--json")
    assert status == 0, err
    document = json.loads(out)
    assert (document["sketches"], document["records_compared"]) == (200, 200)
    for column in document["columns"]:
        # Noise of the operating system. The ratio is 0.9 in the mean, with a deviation of 0.2.
        assert column["error"] < min(largest, 3.0 * column["expected_error"] + 1e-9)
        assert len(column["quartiles"]) == (0 if name == "levels" else 3)
    status, out, _ = simulate(capsys, path, "--devices", "9", "--processes", "1")
    assert status == 0
    assert "expected" in out
    assert "guarantee" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--devices", "10"), "--clusters: is missing"),
        (("--devices", "10", "-k", "2", "--windows", "2"), "--windows: must be at most"),
        (("--devices", "0", "-k", "2"), "--devices"),
        (
            ("--devices", "10", "-k", "2", "--clusters-per-device", "3"),
            "--clusters-per-device: must be at most",
        ),
        (("--devices", "10", "-k", "2", "--file", "missing.csv"), "cannot be read"),
        (
            ("--devices", "9", "-k", "2", "--file", "a.csv", "--records-per-device", "2"),
            "--records-per-device: cannot be combined with --file",
        ),
        (("--devices", "20", "-k", "20"), "--clusters: must be at most 5"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_a_fix(
    arguments: tuple[str, ...], words: str, write_plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = simulate(capsys, write_plan("phases"), *arguments)
    assert status == 2
    assert not out
    assert words in err


def test_a_secure_sum_stands_beside_the_same_plan_with_noise_by_each_device(
    write_plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_plan(make_draft(n_frequencies=8, epsilon=Fraction(8), least_reports=10))
    arguments = ["--devices", "60", "-k", "2", "--processes", "1"]
    status, out, err = simulate(capsys, path, *arguments, "--json")
    assert status == 0, err
    document = json.loads(out)
    local = document["with_noise_by_each_device"]
    assert (document["batches"], document["noises"]) == (1, 2)
    assert (local["batches"], local["noises"]) == (0, 60)
    assert document["sketches"] == local["sketches"] == 60
    # 30 times less noise; sampling is a part of the rest.
    assert document["snr"] > 2 * local["snr"]


def test_a_fleet_too_small_for_its_batches_is_refused(
    write_plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_plan(make_draft(least_reports=30))
    status, out, err = simulate(capsys, path, "--devices", "20", "-k", "2")
    assert (status, out) == (2, "")
    assert "has fewer than least_reports = 30 reports" in err
