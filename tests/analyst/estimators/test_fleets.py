"""A mixture of the moments that devices have released, part by part."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.analyst.estimators import MomentMixture
from sfumato.analyst.estimators.held import make_sketch_file
from sfumato.analyst.sketching.answers import LocalSketches
from sfumato.analyst.sketching.release import draw_sums
from sfumato.shared.core.parallel import sketch_batches
from sfumato.shared.errors import ConfigError, DecodingError, WrongStatisticError
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from tests.analyst.estimators import test_moment_mixture as curator

L = 3


def make_plan(**changes: Any) -> SketchPlan:
    columns = (Dimension(name=name, unit="1", lower=-8.0, upper=8.0) for name in "abc")
    usual: dict[str, Any] = {
        "dimensions": tuple(columns),
        "statistic": "moments",
        "norm_steps": 3500,
        "epsilon": Fraction(4),
        "window": WindowRule(kind="count", length=20_000),
        "most_records": 20_000,
    }
    return create_plan(PlanSpec(**(usual | changes)))


def send(records: np.ndarray, plan: SketchPlan) -> LocalSketches:
    """Let L devices release the moments of their records."""
    files = []
    for i, part in enumerate(np.array_split(records, L)):
        summed = sketch_batches(plan.statistic_of(f"device/{i}".encode()), [part], n_threads=1)
        files.append(
            make_sketch_file(plan, draw_sums(plan, summed), summed.n_records, is_exact=False)
        )
    return LocalSketches(sketches=files, plan=plan)


def send_parts(plan: SketchPlan, n: int = 20_000) -> dict[str, LocalSketches]:
    records, of = curator.draw(n)
    return {part: send(records[of == part].to_numpy(), plan) for part in curator.PARTS}


def test_a_fleets_parts_are_those_of_a_curator() -> None:
    strong = make_plan(epsilon=Fraction(20))
    fleet = MomentMixture.from_snapshots(send_parts(strong), random_state=0)
    central = curator.make(epsilon="20").fit(*curator.draw())
    assert fleet.parts_ == central.parts_ == curator.PARTS
    # In one of twenty runs noise moves a variance of the fleet by 0.05, and a mean by less.
    assert np.allclose(fleet.means_, central.means_, atol=0.1)
    assert np.allclose(fleet.covariances_, central.covariances_, atol=0.15)
    assert np.allclose(fleet.part_sizes_, central.part_sizes_, rtol=0.05)
    drawn, parts = fleet.sample(4000)
    assert set(parts) == set(curator.PARTS)
    assert np.allclose(drawn[parts == "wild"].mean(axis=0), 4.0, atol=0.15)
    assert np.allclose(drawn[parts == "wild"].std(axis=0), 0.5, atol=0.15)
    assert fleet.feature_names_in_.tolist() == ["a", "b", "c"]


def test_its_promise_is_that_of_one_part_and_says_what_moving_costs() -> None:
    fleet = MomentMixture.from_snapshots(send_parts(make_plan(), 6000))
    assert (fleet.guarantee_.epsilon, fleet.events_) == (Fraction(4), ())
    assert "a record's part is not hidden" in fleet.describe()
    with pytest.raises(ConfigError, match="was made of snapshots"):
        fleet.fit(np.zeros((5, 3)))
    with pytest.raises(AttributeError, match="release_"):
        _ = fleet.release_


def test_parts_that_noise_hides_are_refused_or_not_drawn() -> None:
    weak = make_plan(epsilon=Fraction(1, 100))
    with pytest.raises(DecodingError, match="snapshots: hold no part"):
        MomentMixture.from_snapshots(send_parts(weak, 300))
    strong = send_parts(make_plan())
    mixed = MomentMixture.from_snapshots(
        {"seen": strong["wild"], "few": send_parts(weak, 300)["calm"]}
    )
    assert mixed.part_sizes_[1] == 0.0
    assert set(mixed.sample(100)[1]) == {"seen"}
    with pytest.raises(DecodingError, match="noise hides"):
        mixed.sample(1, parts=["few"])


def test_parts_that_do_not_belong_together_are_refused() -> None:
    parts = send_parts(make_plan(), 3000)
    refused: list[tuple[Any, type[Exception], str]] = [
        ({}, ConfigError, "parts"),
        ({"a": parts["calm"], "b": parts["calm"]}, ConfigError, "share no sketch"),
    ]
    other = make_plan(
        norm_steps=None, dimensions=(Dimension(name="a", unit="1", lower=0.0, upper=1.0),)
    )
    refused.append(
        ({"a": parts["calm"], "b": send(np.zeros((9, 1)), other)}, ConfigError, "same columns")
    )
    levels = make_plan(
        norm_steps=None, dimensions=(Dimension(name="a", unit="1", levels=("x", "y")),)
    )
    refused.append(({"a": send(np.zeros((9, 1)), levels)}, ConfigError, "plain numbers"))
    counts = make_plan(statistic="histogram", norm_steps=None)
    refused.append(({"a": send(np.zeros((9, 3)), counts)}, WrongStatisticError, "moments"))
    for given, error, words in refused:
        with pytest.raises(error, match=words):
            MomentMixture.from_snapshots(given)


def test_records_that_were_shortened_are_warned_of() -> None:
    wild = send_parts(make_plan(norm_steps=None), 6000)["wild"]
    with pytest.warns(UserWarning, match="part 'wild': .* many records were shortened"):
        fleet = MomentMixture.from_snapshots({"wild": wild})
    assert "many records were shortened" in " ".join(fleet.warnings_)
