"""``sfumato histogram`` and ``sfumato moments`` of sketch files: tables, JSON, pictures, doubts."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.shared import command
from tests.analyst.planning.commands import words_of
from tests.analyst.sketching.samples import seed_sketches

N = 8000
WINDOW = """
most_records = 100000
[window]
kind = "count"
length = 8000
"""
NUMBERS = """
[[dimensions]]
name = "load"
unit = "kW"
lower = 0.0
upper = 400.0
[[dimensions]]
name = "trips"
unit = "1"
lower = 0.0
upper = 100.0
"""
SITE = '[[dimensions]]\nname = "site"\nunit = "1"\nlevels = ["north", "south"]\n'
HISTOGRAM = f'statistic = "histogram"\nepsilon = "1"\n{WINDOW}{NUMBERS}{SITE}'
SCALED = NUMBERS.replace("upper", "scale = 20.0\nupper")
FOURIER = f'seed = "{"ab" * 32}"\nn_frequencies = 60\nepsilon = "50"\n{WINDOW}{SCALED}'
MOMENTS = f'statistic = "moments"\nepsilon = "1"\n{WINDOW}{NUMBERS}'


def write_records(path: Path, *, missing: float = 0.0) -> np.ndarray:
    """Two correlated numbers and a category; some values of the second are missing."""
    rng = np.random.default_rng(7)
    load = rng.normal(200.0, 40.0, N)
    trips = 50.0 + 0.2 * (load - 200.0) + rng.normal(0.0, 6.0, N)
    sites = np.where(rng.random(N) < 0.75, "north", "south")
    gone = rng.random(N) < missing
    lines = [
        f"{a:.2f},{'' if is_gone else f'{b:.2f}'},{site}\n"
        for a, b, site, is_gone in zip(load, trips, sites, gone, strict=True)
    ]
    path.write_text("load,trips,site\n" + "".join(lines), encoding="utf-8")
    return np.column_stack([load, trips])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    seed_sketches(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("histogram.toml").write_text(HISTOGRAM, encoding="utf-8")
    Path("moments.toml").write_text(MOMENTS, encoding="utf-8")
    Path("fourier.toml").write_text(FOURIER, encoding="utf-8")
    return tmp_path


def sketch(kind: str, capsys: pytest.CaptureFixture[str], *options: str) -> None:
    made = ["x.csv", "--plan", f"{kind}.toml", "-o", f"{kind}.sketch", *options]
    assert command.main(["sketch", *made]) == 0
    capsys.readouterr()


def ask(kind: str, *options: str, status: int = 0) -> None:
    assert command.main([kind, f"{kind}.sketch", "--plan", f"{kind}.toml", *options]) == status


def ask_json(kind: str, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    ask(kind, "--json", *options)
    return json.loads(capsys.readouterr().out)


def test_a_histogram_is_shown_in_tables_with_its_errors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(folder / "x.csv")
    sketch("histogram", capsys)
    ask("histogram")
    words = words_of(capsys.readouterr().out)
    assert words.startswith("8,000 records in one sketch load (kW): 5% at ")
    for word in ("+-", "█", "north", "south", "epsilon = 1 differentially private"):
        assert word in words


def test_a_histogram_in_json_holds_the_marginals(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = write_records(folder / "x.csv")
    sketch("histogram", capsys)
    found = ask_json("histogram", capsys, "--bars", "8")
    load, _, site = found["marginals"]
    assert found["doubts"] == []
    assert len(load["bars"]) <= 10
    median = next(each for each in load["quantiles"] if each["share"] == 0.5)
    assert median["low"] <= np.median(records[:, 0]) <= median["high"]
    assert site["levels"][0]["share"] == pytest.approx(0.75, abs=0.05)


def test_a_doubt_is_the_first_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(folder / "x.csv", missing=0.3)
    sketch("histogram", capsys)
    ask("histogram")
    found = capsys.readouterr().out
    assert re.match(r"Doubt: trips: \d\d% of the records have no value\.", found)


def test_moments_are_shown_in_tables_with_their_errors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(folder / "x.csv")
    sketch("moments", capsys)
    ask("moments")
    words = words_of(capsys.readouterr().out)
    assert "8,000 records in one sketch axis mean +- load (kW)" in words
    for word in ("correlation load trips", "turned by noise", "share of variance"):
        assert word in words


def test_moments_in_json_hold_the_correlation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = write_records(folder / "x.csv")
    sketch("moments", capsys)
    found = ask_json("moments", capsys)
    truth = np.corrcoef(records.T)[0, 1]
    # Records that are clipped to the ball bias it a little, which is no part of its band.
    assert found["correlation"][0][1] == pytest.approx(truth, abs=0.05)
    assert found["mean"][0] == pytest.approx(200.0, abs=5.0)


@pytest.mark.parametrize("kind", ["histogram", "moments"])
@pytest.mark.parametrize(("suffix", "first"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_a_picture_is_drawn_by_the_ending_of_its_file(
    kind: str, suffix: str, first: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(folder / "x.csv", missing=0.1)
    sketch(kind, capsys)
    ask(kind, "-o", f"picture{suffix}")
    assert Path(f"picture{suffix}").read_bytes().startswith(first)
    ask(kind, "-o", "picture.pdf", status=2)
    assert "--output: must end with .png or .svg" in capsys.readouterr().err


@pytest.mark.parametrize("exact", ["fourier", "histogram", "both"])
def test_a_synthetic_table_of_exact_sums_promises_nothing(
    exact: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(folder / "x.csv")
    for kind in ("fourier", "histogram"):
        sketch(kind, capsys, *(["--exact"] if exact in (kind, "both") else []))
    arguments = ["fourier.sketch", "--plan", "fourier.toml", "-k", "2", "--out", "table.csv"]
    beside = ["--histogram", "histogram.sketch", "--histogram-plan", "histogram.toml"]
    assert command.main(["synthesise", *arguments, *beside, "--allow-unusable", "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    promised = [each["epsilon"] for each in about["privacy"]]
    assert promised == [
        "50" if exact == "histogram" else "inf",
        "1" if exact == "fourier" else "inf",
    ]
    assert "NOT PRIVATE" in about["statement"]


def test_what_a_statistic_does_not_answer_is_refused_by_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(folder / "x.csv")
    sketch("histogram", capsys)
    wrong = ["moments", "histogram.sketch", "--plan", "histogram.toml"]
    assert command.main(wrong) == 2
    assert "statistic.kind: must be moments" in capsys.readouterr().err


def test_a_sketch_file_needs_its_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(folder / "x.csv")
    sketch("histogram", capsys)
    assert command.main(["histogram", "histogram.sketch"]) == 2
    assert "--plan: is missing, and histogram.sketch is a file" in capsys.readouterr().err


def test_an_exact_sum_is_called_not_private(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(folder / "x.csv")
    sketch("histogram", capsys, "--exact")
    ask("histogram")
    captured = capsys.readouterr()
    assert captured.err.startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in captured.out
    assert "differentially private" not in captured.out
