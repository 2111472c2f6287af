"""Evaluation of centroids: one more release, counted by the estimator and the owner's ledger."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sfumato.analyst.estimators import CompressiveKMeans, CompressiveMixture
from sfumato.shared.errors import BudgetExceededError, ConfigError, SketchError, TableError
from sfumato.shared.spending import OwnersLedger
from tests.analyst.estimators import kinds
from tests.analyst.estimators.kinds import Floats, make_records

ESTIMATORS = ("auto", "compressive", "grid")
"""Each way to hold what was released; the other central methods have it from one class."""
each = pytest.mark.parametrize("name", ESTIMATORS)


def make(name: str, **changes: Any) -> Any:
    return kinds.make(name, **{"scale": 0.7, **changes})


def measure(found: Any, records: Floats) -> float:
    squares = ((records[:, None] - found.cluster_centers_) ** 2 / found.metric_**2).sum(axis=2)
    return float(squares.min(axis=1).mean())


@pytest.mark.parametrize("name", [*ESTIMATORS, "kernel", "tree"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_the_cost_of_centroids_is_released_and_counted(name: str, relation: str) -> None:
    records = make_records()
    found = make(name, relation=relation, max_records=3000).fit(records)
    spent, events = found.guarantee_.epsilon, found.events_
    result = found.evaluate(records, epsilon="2")
    # Six deviations: a false alarm once in 1e8. Less than a tenth of the cost without clusters.
    assert abs(result.cost.mean - measure(found, records)) < 6 * result.cost.mean_std < 6
    assert abs(result.cost.n_records - 3000) < 10 * result.cost.n_records_std
    assert (result.guarantee.epsilon, result.guarantee.delta) == (2, 0)
    assert result.guarantee.neighbouring == relation
    assert found.events_[:-1] == events
    assert (found.events_[-1].epsilon, found.events_[-1].neighbouring) == (2, relation)
    if name != "kernel":
        assert found.guarantee_.epsilon == spent + 2
    assert spent < found.guarantee_.epsilon <= spent + 2
    assert f"epsilon = {float(found.guarantee_.epsilon):.6g}" in found.describe()
    # A second one of the same records costs again.
    before = found.guarantee_.epsilon
    again = found.evaluate(records, epsilon="2")
    assert again.cost != result.cost
    assert before < found.guarantee_.epsilon <= before + 2


@each
def test_shorter_distances_have_less_noise(name: str) -> None:
    records = make_records()
    found = make(name).fit(records)
    wide = found.evaluate(records, epsilon="1")
    near = found.evaluate(records, epsilon="1", largest_distance=2.5 / found.metric_[0])
    assert near.cost.largest_distance == pytest.approx(2.5 / found.metric_[0])
    assert near.cost.total_std < 0.05 * wide.cost.total_std
    clipped = np.minimum(
        ((records[:, None] - found.cluster_centers_) ** 2).sum(axis=2).min(axis=1), 2.5**2
    )
    stated = float(clipped.mean()) / found.metric_[0] ** 2
    assert abs(near.cost.mean - stated) < 6 * near.cost.mean_std
    # No distance inside the bounds is longer, whatever is stated.
    longest = found.evaluate(records, epsilon="1", largest_distance=1e6)
    assert longest.cost.largest_distance == wide.cost.largest_distance
    text = str(near)
    assert text.startswith("SSE / n = ")
    assert text.endswith("(90 %), distances up to 2.5; epsilon = 1 under replace-one")


def test_records_with_a_missing_value_count_for_nothing_and_far_ones_as_at_the_bounds() -> None:
    found = make("grid", max_unreadable=1).fit(make_records())
    others = np.vstack([make_records(500), np.full((1500, 2), np.nan), [[1e300, 3.0]] * 500])
    cost = found.evaluate(others, epsilon="20").cost
    inside = np.clip(others[np.isfinite(others).all(axis=1)], -10, 10)
    assert abs(cost.n_records - 1000) < 10 * cost.n_records_std
    assert abs(cost.mean - measure(found, inside)) < 6 * cost.mean_std


@each
def test_what_cannot_hold_is_refused_and_nothing_is_spent(name: str) -> None:
    found = make(name).fit(make_records(300))
    before = found.events_, found.guarantee_
    wrong: list[tuple[str, Any]] = [("epsilon", each) for each in ("0", "much", 10**9, "1e-12")]
    wrong += [("largest_distance", each) for each in (0, float("nan"), "far")]
    for field, value in wrong:
        with pytest.raises(SketchError) as caught:
            found.evaluate(make_records(300), **{"epsilon": "1", field: value})
        assert caught.value.field == field, value
    with pytest.raises(TableError, match="must have 2 columns"):
        found.evaluate(np.zeros((5, 3)), epsilon="1")
    assert (found.events_, found.guarantee_) == before


def test_an_evaluation_of_sketches_of_others_adds_to_what_they_cost() -> None:
    made = make("compressive", max_records=3000).partial_fit(make_records())
    found = make("compressive").fit_sketch(made.release_)
    assert found.guarantee_.epsilon == 8
    found.evaluate(make_records(500), epsilon="1")
    assert found.guarantee_.epsilon == 9
    assert "epsilon = 9" in found.decode().describe()
    assert found.result_.body.privacy.epsilon == "9"
    # Sketches that come later do not take back what the evaluation has cost.
    found.fit_sketch(make("compressive", max_records=3000).partial_fit(make_records()).release_)
    assert found.guarantee_.epsilon == 9
    assert "epsilon = 9" in found.describe()
    assert found.result_.body.privacy.epsilon == "9"


def test_an_evaluation_still_counts_when_other_sketches_are_merged() -> None:
    public = {"public_seed": 1, "max_records": 3000}
    made = [make("compressive", **public).partial_fit(make_records(seed=i)) for i in range(3)]
    first, second, _ = (each.release_ for each in made)
    found, other = (make("compressive").fit_sketch(each) for each in (first, second))
    found.evaluate(make_records(500), epsilon="1")
    found.merge(other)
    assert found.guarantee_.epsilon == 9
    # One of its own, of other records, costs no record more.
    found.merge(made[2])
    assert found.guarantee_.epsilon == 9
    assert found.result_.body.privacy.epsilon == "9"


@each
def test_the_ledger_counts_an_evaluation_and_refuses_it_beyond_the_budget(
    name: str, tmp_path: Path
) -> None:
    source, ledger = tmp_path / "records.csv", tmp_path / "ledger.db"
    source.write_text("x\n")
    records = make_records(300)
    found = make(name, ledger=ledger, source=source, epsilon="0.6").fit(records)
    found.evaluate(records, epsilon="0.3")
    before = found.events_, found.guarantee_
    with pytest.raises(BudgetExceededError, match="above the owner's limit 1"):
        found.evaluate(records, epsilon="0.3")
    assert (found.events_, found.guarantee_) == before
    events, _ = OwnersLedger(ledger).load()
    assert sum(event.count for event in events) == 2
    assert min(event.epsilon for event in events) == Fraction(3, 10)
    # What was refused has left nothing that a later fit would finish.
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ledger.db", "records.csv"]


@pytest.mark.parametrize("name", ["auto", "compressive", "grid"])
def test_columns_of_other_widths_are_measured_by_the_metric(name: str) -> None:
    records = make_records() * [1.0, 1000.0]
    bounds = ([-10.0, -10_000.0], [10.0, 10_000.0])
    found = make(name, bounds=bounds, scale=(0.7, 700.0)).fit(records)
    result = found.evaluate(records, epsilon="4")
    assert abs(result.cost.mean - measure(found, records)) < 6 * result.cost.mean_std


def test_an_estimator_that_is_not_fitted_or_exact_evaluates_nothing() -> None:
    for name in ESTIMATORS:
        with pytest.raises(NotFittedError):
            make(name).evaluate(make_records(10), epsilon="1")
    exact = CompressiveKMeans(3, random_state=0).fit(make_records(500))
    with pytest.raises(ConfigError, match="Call score"):
        exact.evaluate(make_records(10), epsilon="1")
    assert not hasattr(CompressiveMixture, "evaluate")
