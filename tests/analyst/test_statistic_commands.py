"""``sfumato histogram`` and ``sfumato moments`` of sketch files: tables, JSON, pictures, doubts."""

import json
import re
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from sfumato.shared import command
from tests.analyst.planning.commands import words_of
from tests.analyst.sketching.samples import seed_sketches
from tests.commands import run_inside

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


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed_sketches(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("histogram.toml").write_text(HISTOGRAM, encoding="utf-8")
    Path("moments.toml").write_text(MOMENTS, encoding="utf-8")
    Path("fourier.toml").write_text(FOURIER, encoding="utf-8")


def run(*arguments: str, status: int = 0) -> CompletedProcess[str]:
    done = run_inside(command.main, arguments)
    assert done.returncode == status, done.stderr
    return done


def sketch(kind: str, *options: str, missing: float = 0.0) -> np.ndarray:
    """Sketch records that are written first, and return them."""
    records = write_records(Path("x.csv"), missing=missing)
    run("sketch", "x.csv", "--plan", f"{kind}.toml", "-o", f"{kind}.sketch", *options)
    return records


def ask(kind: str, *options: str) -> str:
    return run(kind, f"{kind}.sketch", "--plan", f"{kind}.toml", *options).stdout


def test_a_histogram_is_shown_in_tables_and_in_json() -> None:
    records = sketch("histogram")
    words = words_of(ask("histogram"))
    assert words.startswith("8,000 records in one sketch load (kW): 5% at ")
    for word in ("+-", "█", "north", "south", "epsilon = 1 differentially private"):
        assert word in words
    found = json.loads(ask("histogram", "--json", "--bars", "8"))
    load, _, site = found["marginals"]
    assert found["doubts"] == []
    assert len(load["bars"]) <= 10
    median = next(each for each in load["quantiles"] if each["share"] == 0.5)
    assert median["low"] <= np.median(records[:, 0]) <= median["high"]
    assert site["levels"][0]["share"] == pytest.approx(0.75, abs=0.05)


def test_moments_are_shown_in_tables_and_in_json() -> None:
    records = sketch("moments")
    words = words_of(ask("moments"))
    assert "8,000 records in one sketch axis mean +- load (kW)" in words
    for word in ("correlation load trips", "turned by noise", "share of variance"):
        assert word in words
    found = json.loads(ask("moments", "--json"))
    truth = np.corrcoef(records.T)[0, 1]
    # Records that are clipped to the ball bias it a little, which is no part of its band.
    assert found["correlation"][0][1] == pytest.approx(truth, abs=0.05)
    assert found["mean"][0] == pytest.approx(200.0, abs=5.0)


@pytest.mark.parametrize("kind", ["histogram", "moments"])
def test_a_picture_is_drawn_by_the_ending_of_its_file(kind: str) -> None:
    sketch(kind, missing=0.1)
    ask(kind, "-o", "picture.svg")
    assert Path("picture.svg").read_bytes().startswith(b"<?xml")
    given = (kind, f"{kind}.sketch", "--plan", f"{kind}.toml", "-o", "picture.pdf")
    assert "--output: must end with .png or .svg" in run(*given, status=2).stderr


@pytest.mark.parametrize("exact", ["fourier", "histogram"])
def test_a_synthetic_table_of_exact_sums_promises_nothing(exact: str) -> None:
    for kind in ("fourier", "histogram"):
        sketch(kind, *(["--exact"] if exact in (kind, "both") else []))
    arguments = ["fourier.sketch", "--plan", "fourier.toml", "-k", "2", "--out", "table.csv"]
    beside = ["--histogram", "histogram.sketch", "--histogram-plan", "histogram.toml"]
    done = run("synthesise", *arguments, *beside, "--allow-unusable", "--json")
    about = json.loads(done.stdout)
    promised = [each["epsilon"] for each in about["privacy"]]
    assert promised == [
        "50" if exact == "histogram" else "inf",
        "1" if exact == "fourier" else "inf",
    ]
    assert "NOT PRIVATE" in about["statement"]


def test_what_a_statistic_does_not_answer_and_a_file_without_its_plan_are_refused() -> None:
    sketch("histogram")
    wrong = run("moments", "histogram.sketch", "--plan", "histogram.toml", status=2)
    assert "statistic.kind: must be moments" in wrong.stderr
    alone = run("histogram", "histogram.sketch", status=2)
    assert "--plan: is missing, and histogram.sketch is a file" in alone.stderr


def test_a_doubt_is_the_first_line() -> None:
    sketch("histogram", "--max-unreadable", "0.5", missing=0.3)
    found = ask("histogram")
    assert re.match(r"Doubt: trips: \d\d% of the records have no value\.", found)


def test_an_exact_sum_is_called_not_private() -> None:
    sketch("histogram", "--exact")
    done = run("histogram", "histogram.sketch", "--plan", "histogram.toml")
    assert done.stderr.startswith("NOT PRIVATE")
    assert "NOT PRIVATE" in done.stdout
    assert "differentially private" not in done.stdout
