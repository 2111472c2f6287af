"""``sfumato compare`` between two sketch files: alarms, words, JSON, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest

from sfumato.analyst.sketching.sources import _are_apart
from sfumato.shared import command
from sfumato.shared.wire.objects.results import SelectionBody
from tests.analyst.planning.commands import words_of
from tests.analyst.sketching.samples import seed_sketches

PLAN = """
n_frequencies = 60
seed = "drift of two files"
epsilon = "2"
most_records = 100000
[window]
kind = "count"
length = 8000
"""
AXIS = '[[dimensions]]\nname = "{}"\nunit = "kW"\nlower = -12.0\nupper = 12.0\nscale = 1.0\n'
CENTRES = np.array([[-6.0, -6.0], [0.0, 6.0], [6.0, -2.0]])


def write(
    name: str, seed: int, *, moved: float = 0.0, shares: tuple[float, ...] = (1, 1, 1)
) -> str:
    """Sketch 8,000 records of three clusters; the second has moved along the first axis."""
    rng = np.random.default_rng(seed)
    centres = CENTRES + np.array([[0.0, 0.0], [moved, 0.0], [0.0, 0.0]])
    which = rng.choice(3, size=8000, p=np.array(shares) / sum(shares))
    np.save(f"{name}.npy", centres[which] + rng.normal(size=(8000, 2)))
    assert command.main(["sketch", f"{name}.npy", "--plan", "plan.toml", "-o", name]) == 0
    return name


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    seed_sketches(monkeypatch)
    monkeypatch.chdir(tmp_path)
    text = PLAN + AXIS.format("load") + AXIS.format("flow")
    Path("plan.toml").write_text(text, encoding="utf-8")
    return write("before", 1)


def compare(*sources: str, status: int, options: tuple[str, ...] = ()) -> None:
    given = ["compare", *sources, "--plan", "plan.toml", "-k", "3", *options]
    assert command.main(given) == status


def test_records_of_the_same_kind_are_no_alarm(
    before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(before, write("after", 2), status=0)
    words = words_of(capsys.readouterr().out)
    assert "before -> after: no difference worth an alarm" in words
    assert "assumes independent records" in words


def test_a_cluster_that_moved_is_named_with_where_and_how_far(
    before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    after = write("after", 2, moved=1.0)
    compare(before, after, status=1)
    words = words_of(capsys.readouterr().out)
    assert "they differ" in words
    assert "moved in load by +" in words
    compare(before, after, status=1, options=("--json",))
    found = json.loads(capsys.readouterr().out)
    assert found["is_alarm"]
    assert found["p"] < 0.01
    named = [
        (round(found["clusters"][change["cluster"]]["centre"][1]), change["dimension"])
        for change in found["changes"]
        if change["is_named"]
    ]
    assert named == [(6, "load")]
    # Back is the same change the other way.
    compare(after, before, status=1, options=("--json",))
    back = json.loads(capsys.readouterr().out)
    assert back["size"] == pytest.approx(found["size"], rel=0.1)


def test_sketches_that_share_noise_or_have_none_are_refused(
    before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(before, before, status=2)
    assert "sources: must not overlap" in words_of(capsys.readouterr().err)
    exact = ["--plan", "plan.toml", "-o", "exact", "--exact"]
    assert command.main(["sketch", "before.npy", *exact]) == 0
    compare(before, "exact", status=2)
    assert "sources: must carry noise" in words_of(capsys.readouterr().err)


def test_a_study_that_is_all_noise_is_refused(
    before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("plan.toml").read_text().replace('epsilon = "2"', 'epsilon = "0.001"')
    Path("plan.toml").write_text(text)
    compare(write("one", 1), write("two", 2), status=2)
    assert "no change could be told from noise" in words_of(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((0, 3, {}), (4, 7, {}), True),
        ((4, None, {}), (None, 3, {}), True),
        ((0, 4, {}), (4, 7, {}), False),
        ((None, None, {}), (4, 7, {}), False),
        ((0, 7, {"site": "a"}), (0, 7, {"site": "b"}), True),
        ((0, 7, {"site": "a"}), (0, 7, {"line": "b"}), False),
        ((0, 7, {"site": "a"}), (0, 7, {}), False),
    ],
)
def test_selections_of_a_server_are_apart_by_slots_or_by_a_label(
    one: tuple[int, int, dict[str, str]], other: tuple[int, int, dict[str, str]], apart: bool
) -> None:
    first, second = (
        SelectionBody(first_slot=a, last_slot=b, labels=labels) for a, b, labels in (one, other)
    )
    assert _are_apart(first, second) is _are_apart(second, first) is apart
