"""``sfumato plan look`` and ``sfumato look``, from a file of records to what was measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

from sfumato import CompressiveKMeans
from sfumato.analyst.planning.files import read_spec
from sfumato.shared import command
from sfumato.shared.plan import ClustersPart
from tests.analyst.planning.commands import words_of
from tests.analyst.sketching.samples import seed_sketches
from tests.commands import run_inside
from tests.ledgers import use_new_ledger

SPREADS = np.array([3.0, 1.5])
CENTRES = np.array([[10.0, 5.0], [50.0, 30.0], [85.0, 8.0]])
MAIN = """seed = "x"
n_frequencies = 60
epsilon = "2"
most_records = 100000
[window]
kind = "count"
length = 100000
[[dimensions]]
name = "load"
unit = "kW"
lower = 0.0
upper = 100.0
scale = 4.0
[[dimensions]]
name = "trips"
unit = "1"
lower = 0.0
upper = 40.0
scale = 2.0
"""
"""Two columns of a file that has a third."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of records, their sketch and its result."""
    folder = tmp_path_factory.mktemp("look")
    with pytest.MonkeyPatch.context() as patch:
        seed_sketches(patch)
        patch.chdir(folder)
        use_new_ledger()
        rng = np.random.default_rng(0)
        label = rng.choice(3, 20_000, p=[0.5, 0.3, 0.2])
        x = CENTRES[label] + rng.normal(size=(20_000, 2)) * SPREADS
        delay = np.where(label == 2, 9.0, 4.0) + rng.normal(size=20_000)
        rows = (f"{a:.3f},{b:.3f},{c:.3f}\n" for a, b, c in np.column_stack([x, delay]))
        Path("x.csv").write_text("load,trips,delay\n" + "".join(rows), encoding="utf-8")
        Path("main.toml").write_text(MAIN, encoding="utf-8")
        run("sketch", "x.csv", "--plan", "main.toml", "-o", "main.sketch")
        run("decode", "file", "main.sketch", "--plan", "main.toml", "-k", "3", "-o", "result.json")
    return folder


@pytest.fixture(autouse=True)
def _folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed_sketches(monkeypatch)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, status: int = 0) -> CompletedProcess[str]:
    done = run_inside(command.main, arguments)
    assert done.returncode == status, done.stderr
    return done


def look(*options: str) -> tuple[str, dict[str, object]]:
    """Plan a look, sketch the records again, and return both answers and what was announced."""
    given = ("--epsilon", "1", "--same-records", "--records", "20000", "-o", "look.toml")
    announced = run("plan", "look", "result.json", *given, *options).stderr
    run("sketch", "x.csv", "--plan", "look.toml", "-o", "look.sketch")
    shown = ("look", "look.sketch", "--plan", "look.toml", "--result", "result.json")
    found = json.loads(run(*shown, "--json").stdout)
    found["words"] = words_of(run(*shown).stdout)
    return announced, found


def test_a_look_measures_shares_means_and_the_gain_of_a_step() -> None:
    announced, found = look()
    assert "What one more k-means step would gain to +- " in announced
    assert "one record costs epsilon 3" in announced
    assert found["verdict"] == "sound"
    clusters = found["clusters"]
    assert isinstance(clusters, list)
    for each, share, centre in zip(clusters, (0.5, 0.3, 0.2), CENTRES, strict=True):
        assert each["share"]["value"] == pytest.approx(share, abs=0.012)
        assert each["mean"] == pytest.approx(centre, abs=0.3)
        assert each["refined"] == pytest.approx(centre, abs=0.3)
    words = str(found["words"])
    for word in ("sound: measured with", "other optima are not excluded", "predicted", "mean of"):
        assert word in words


def test_a_decode_of_files_takes_over_what_looks_measured() -> None:
    look()
    decode = ("decode", "file", "main.sketch", "--plan", "main.toml", "-k", "3")
    taken = ("--look", "look.sketch", "--look-plan", "look.toml")
    found = json.loads(run(*decode, *taken, "-o", "refined.json", "--json").stdout)
    first = json.loads(run(*decode, "--json").stdout)
    assert found["looks"]["centroids"] == first["centroids"] != found["centroids"]
    assert found["looks"]["epsilon"] == "3"
    for share, weight in zip((0.5, 0.3, 0.2), found["weights"], strict=True):
        assert weight == pytest.approx(share, abs=0.012)
    # The next look is at the refined centroids.
    again = ("plan", "look", "refined.json", "--epsilon", "1", "--records", "20000")
    assert "one that both read, epsilon 4" in run(*again, "-o", "again.toml").stderr
    assert "Look 1 measured" in run(*decode, *taken).stdout
    refused = run(*decode, "--look", "look.sketch", status=2)
    assert "--look-plan: must be given as often as --look" in refused.stderr
    refused = run(*decode, "--look", "main.sketch", "--look-plan", "main.toml", status=2)
    assert "looks.0: must be clusters" in refused.stderr
    run("sketch", "x.csv", "--plan", "look.toml", "--exact", "-o", "exact.look")
    refused = run(*decode, "--look", "exact.look", "--look-plan", "look.toml", status=2)
    assert "--look: has exact sums" in refused.stderr


def test_a_measuring_look_has_no_means_and_the_least_noise() -> None:
    _, found = look("--measure")
    assert found["gain"] is None
    assert found["summed"] == []
    beyond = found["beyond"]
    assert isinstance(beyond, dict)
    assert beyond["error"] < 0.002
    part = read_spec(Path("look.toml")).statistic
    assert isinstance(part, ClustersPart)
    assert len(part.centres) == 3
    assert part.result.hex() == found["result"]


def test_a_profile_has_the_means_of_columns_that_were_never_sketched() -> None:
    _, found = look("--profile", "delay:min:0..14")
    summed, clusters = found["summed"], found["clusters"]
    assert isinstance(summed, list)
    assert isinstance(clusters, list)
    assert [each["name"] for each in summed] == ["load", "trips", "delay"]
    assert [each["mean"][2] for each in clusters] == pytest.approx([4.0, 4.0, 9.0], abs=0.6)


def test_a_result_of_other_clusters_and_two_aims_are_refused() -> None:
    look("--measure")
    run("decode", "file", "main.sketch", "--plan", "main.toml", "-k", "2", "-o", "two.json")
    shown = ("look", "look.sketch", "--plan", "look.toml", "--result", "two.json")
    assert "Name the result that the look was planned from" in run(*shown, status=2).stderr
    both = ("plan", "look", "result.json", "--epsilon", "1", "-o", "b.toml", "--measure")
    refused = run(*both, "--refine", status=2).stderr
    assert "choose one" in refused.lower()
    assert "--records" in run(*both, status=2).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--profile", "x:y:z"), ("--profile", "cannot be read: 'x:y:z'")),
        (("--profile", "load:kW:0..100"), ("--profile", "names 'load', which the result has")),
        (("--per-sketch", "2"), ("--per-sketch", "divisor of the number of clusters (3)", "1, 3")),
    ],
)
def test_a_wrong_option_of_a_look_is_named_with_its_rule(
    options: tuple[str, ...], words: tuple[str, ...]
) -> None:
    given = ("--epsilon", "1", "--records", "20000", "-o", "l.toml")
    refused = words_of(run("plan", "look", "result.json", *given, *options, status=2).stderr)
    for word in words:
        assert word in refused
    assert not Path("l.toml").exists()


def test_candidates_of_as_many_clusters_are_compared_by_what_was_measured() -> None:
    again = ("decode", "file", "main.sketch", "--plan", "main.toml", "-k", "3", "--seed", "1")
    run(*again, "-o", "other.json")
    _, found = look("--measure", "--candidate", "other.json")
    candidates = found["candidates"]
    assert isinstance(candidates, list)
    assert len(candidates) == 2
    assert candidates[1]["value"] == pytest.approx(1.0, abs=0.02)
    assert "Candidate 1 " in str(found["words"])


def test_the_cost_of_both_looks_counts_all_that_the_result_has_cost() -> None:
    records = np.genfromtxt("x.csv", delimiter=",", skip_header=1)[:, :2]
    fitted = CompressiveKMeans(
        3, epsilon="1", delta="1e-6", bounds=(0, 100), scale="pilot", public_seed=1
    ).fit(records)
    fitted.result_.save("fitted.json")
    given = ("--epsilon", "1/2", "--same-records", "--records", "20000")
    announced = run("plan", "look", "fitted.json", *given, "-o", "l.toml").stderr
    # Of the sketch alone it would be less than that of the pilot and the sketch together.
    promise = fitted.result_.body.privacy
    assert promise.epsilon == "1"
    assert "one record costs epsilon 1.5" in announced


def test_a_result_without_noise_is_not_shown_to_devices() -> None:
    run("sketch", "x.csv", "--plan", "main.toml", "-o", "exact.sketch", "--exact")
    run("decode", "file", "exact.sketch", "--plan", "main.toml", "-k", "3", "-o", "exact.json")
    given = ("--epsilon", "1", "--records", "20000", "-o", "l.toml")
    assert "is not private" in run("plan", "look", "exact.json", *given, status=2).stderr
