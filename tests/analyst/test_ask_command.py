"""``sfumato ask`` on sketch files: shares, quantiles and means with bars, JSON, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared import command
from tests.analyst.planning.commands import words_of
from tests.analyst.sketching.samples import seed_sketches

PLAN = """
n_frequencies = 60
seed = "questions about a file"
epsilon = "4"
most_records = 100000
[window]
kind = "count"
length = 8000
"""
AXIS = (
    '[[dimensions]]\nname = "{}"\nunit = "kW"\nlower = -12.0\nupper = 12.0\nscale = 1.0\nstep = 0\n'
)
CENTRES = np.array([[-6.0, -6.0], [0.0, 6.0], [6.0, -2.0]])


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float64]:
    """Sketch 8,000 records of three clusters, and return them."""
    seed_sketches(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("plan.toml").write_text(PLAN + AXIS.format("load") + AXIS.format("flow"), encoding="utf-8")
    rng = np.random.default_rng(1)
    drawn = CENTRES[rng.choice(3, size=8000)] + rng.normal(size=(8000, 2))
    np.save("records.npy", drawn)
    status = command.main(["sketch", "records.npy", "--plan", "plan.toml", "-o", "my.sketch"])
    assert status == 0
    return drawn


def ask(*options: str) -> int:
    return command.main(["ask", "my.sketch", "--plan", "plan.toml", "-k", "3", *options])


def test_answers_are_those_of_the_records_with_their_bars(
    records: NDArray[np.float64], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    options = ["--range", "load=3:", "--range", "load=-3:3,flow=:8", "--quantile", "flow=0.9"]
    assert ask(*options, "--mean-of", "flow", "--where", "load=3:", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    load, flow = records.T
    truths = [np.mean(load >= 3.0), np.mean((np.abs(load) <= 3.0) & (flow <= 8.0))]
    for truth, share in zip(truths, found["ranges"], strict=True):
        assert abs(share["share"] - truth) < 0.05
        assert share["low"] <= share["share"] <= share["high"]
        # Bars of 90 %, doubled: hold for almost every seed.
        assert abs(share["share"] - truth) < share["high"] - share["low"]
    assert found["quantiles"][0]["value"] == pytest.approx(np.quantile(flow, 0.9), abs=0.5)
    assert found["means"][0]["mean"] == pytest.approx(flow[load >= 3.0].mean(), abs=0.5)
    assert found["bars"] == "stated"


@pytest.mark.usefixtures("records")
def test_people_get_a_table_a_curve_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert ask("--range", "load=3:", "--quantile", "load=0.5", "--marginal", "flow") == 0
    words = words_of(capsys.readouterr().out)
    assert "share with load from 3" in words
    assert "load that 50% lie below" in words
    assert "90% bar" in words
    assert "density of flow" in words
    assert "about 8,000 records" in words


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ([], "questions"),
        (["--range", "load=a:b"], "--range"),
        (["--range", "wind=0:"], "ranges[0].wind"),
        (["--quantile", "load=50"], "quantiles[0].share"),
        (["--range", "load=0:", "--where", "load=0:"], "--where"),
    ],
)
def test_a_question_that_cannot_be_answered_names_what_is_wrong(
    options: list[str], field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert ask(*options) != 0
    assert f"{field}: " in words_of(capsys.readouterr().err)


@pytest.mark.usefixtures("records")
def test_a_decoded_file_shows_errors_beside_its_centroids(
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    given = ["decode", "file", "my.sketch", "--plan", "plan.toml", "-k", "3"]
    assert command.main(given) == 0
    shown = capsys.readouterr().out
    assert "±" in shown
    assert command.main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bars"]["word"] == "stated"
    assert np.shape(found["centroid_errors"]) == (3, 2)
    assert np.shape(found["weight_errors"]) == (3,)
