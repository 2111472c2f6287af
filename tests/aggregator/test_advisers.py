"""One study, planned in six ways: all advisers choose the same plan, because one planner does."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato import AutoKMeans, CompressiveKMeans
from sfumato.analyst.planning.files import read_plan
from sfumato.learning.planning.plans import AXES, vary_plan
from sfumato.shared.command import main
from sfumato.shared.plan import SketchPlan, plan_from_json
from tests.aggregator.fleet import Desk
from tests.commands import run_inside

pytestmark = pytest.mark.anyio

N, K = 20_000, 3
SIZES = ["--records", str(N), "--clusters", str(K), "--epsilon", "1"]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NDArray[np.float64]:
    """Three clusters, in a file of a folder of their own."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    found: NDArray[np.float64] = rng.normal(size=(N, 2)) + rng.choice([-6.0, 0.0, 6.0], size=(N, 1))
    np.save("x.npy", found)
    return found


def run(*arguments: str) -> str:
    done = run_inside(main, arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def choice(plan: SketchPlan) -> tuple[Any, ...]:
    release, law = plan.release, plan.radius_law
    return release.mechanism, plan.n_frequencies, release.epsilon, law.sigma_low, law.tail_share


def advise() -> tuple[Any, ...]:
    found = json.loads(
        run("plan", "advise", *SIZES, "--devices", "1", "--dimensions", "2", "--json")
    )
    best, law = found["recommended"], found["recommended"]["radius_law"]
    level = Fraction(best["epsilon"])
    return best["mechanism"], best["n_frequencies"], level, law["sigma_low"], law["tail_share"]


def answer(patch: pytest.MonkeyPatch) -> SketchPlan:
    columns = [text for name in "ab" for text in (name, "1", "-12", "12", "1")]
    answers = [*columns, "", str(K), "values", "7d", "record", "1", str(N), "1", "0"]
    patch.setattr("sys.stdin", io.StringIO("\n".join(answers) + "\n"))
    run("plan", "new", "-o", "new.json")
    return read_plan("new.json")


def refine() -> SketchPlan:
    columns = ["--dimensions", "a:1:-12..12,b:1:-12..12", "--window", f"{N} records"]
    run("plan", "pilot", *columns, "--records", str(N), "--epsilon", "1", "-o", "pilot.toml")
    pilot = ["--plan", "pilot.toml", "-o"]
    run("sketch", "x.npy", *pilot, "pilot.sketch", "--ledger", "owner.ledger")
    run("plan", "refine", "pilot.sketch", *SIZES, *pilot, "main.toml")
    return read_plan("main.toml")


async def test_six_advisers_choose_the_same_plan_for_the_same_study(
    desk: Desk, records: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch
) -> None:
    column = {"unit": "1", "lower": -12.0, "upper": 12.0, "spread": 1.0}
    sizes = {"n_clusters": K, "n_devices": 1, "n_windows": 1, "records_per_window": N}
    asked = {"dimensions": [column | {"name": name} for name in "ab"], "epsilon": "1", **sizes}
    advised = (await desk.post("/v1/advice", asked)).json()
    auto = AutoKMeans(K, epsilon="1", bounds=(-12, 12), scale=1.0).fit(records)
    assert isinstance(auto.estimator_, CompressiveKMeans)
    # Without the second look, to which it leaves a share of epsilon and the others do not.
    alone = auto.estimator_.set_params(look_share=0, refit=True).fit(records)
    plans = [plan_from_json(advised["plan"]), answer(monkeypatch), refine(), alone.plan_]
    assert {choice(plan) for plan in plans} == {advise()}
    # A sweep begins at the plan itself.
    assert all(vary_plan(plan, axis, Fraction(1)) == plan for plan in plans for axis in AXES)
