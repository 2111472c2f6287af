"""The estimator that chooses: its choice depends on no record, and the contract holds for all."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sfumato.analyst.estimators import AutoKMeans, CompressiveKMeans, auto
from sfumato.analyst.estimators.auto import KINDS
from sfumato.learning.planning.methods import MethodChoice
from sfumato.shared.errors import (
    DecodingError,
    PrivacyError,
    TableError,
)
from sfumato.shared.spending import OwnersLedger
from tests.analyst.estimators.kinds import MEANS, make_records
from tests.analyst.estimators.tables import Table

Floats = NDArray[np.float64]
each = pytest.mark.parametrize("name", KINDS)


def make(**changes: Any) -> AutoKMeans:
    known: dict[str, Any] = {
        "epsilon": "8",
        "bounds": (-10.0, 10.0),
        "scale": 0.7,
        "public_seed": 1,
        "random_state": 0,
    }
    return AutoKMeans(3, **known | changes)


@contextmanager
def choosing(name: str) -> Iterator[None]:
    """Let the table be one in which a method is the best."""
    chosen = MethodChoice(name=name, expected={name: 1.0}, reason="a test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "choose_method", lambda holding: chosen)
        yield


# ---- the choice ----


@settings(max_examples=25, deadline=None)
@given(
    rows=arrays(
        np.float64, (40, 2), elements=st.floats(allow_nan=True, allow_infinity=True, width=64)
    )
)
def test_what_a_choice_is_given_of_a_table_depends_on_no_record(rows: Floats) -> None:
    # All that choose is given of a table.
    assert make()._look(rows) == (40, ["x0", "x1"])


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_records_that_differ_are_fitted_by_one_method(relation: str) -> None:
    fitted = [
        make(relation=relation, max_records=500, epsilon="1/2", max_unreadable=1).fit(rows)
        for rows in (make_records(400), np.full((400, 2), np.nan), np.zeros((400, 2)))
    ]
    if relation == "add-remove-one":
        # Their number is secret, so that it decides nothing either.
        fitted += [make(relation=relation, max_records=500, epsilon="1/2").fit(make_records(50))]
    first = fitted[0]
    assert first.choice_ == first.choose(400, 2)
    assert pickle.loads(pickle.dumps(first)).choice_ == first.choice_
    for other in fitted[1:]:
        assert other.choice_ == first.choice_
        assert other.events_ == first.events_


def test_a_method_that_refuses_by_public_numbers_gives_way_to_the_next() -> None:
    # A pilot of so little epsilon finds no scale.
    chosen = MethodChoice(
        name="compressive", expected={"compressive": 1.0, "grid": 1.5}, reason="a test"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto, "choose_method", lambda holding: chosen)
        found = make(scale=None, epsilon="1/100").fit(make_records(300))
    assert found.choice_.name == "grid"
    assert "compressive refuses these parameters" in found.describe()
    assert found.guarantee_.epsilon == Fraction(1, 100)


# ---- the contract, whatever is chosen ----


@each
def test_the_chosen_estimator_spends_all_and_its_results_are_shown(name: str) -> None:
    with choosing(name):
        found = make(delta="1e-6" if name in ("cover", "split") else "0")
        planned = found.plan_events(3000, 2)
        assert found.fit(make_records()) is found
    assert isinstance(found.estimator_, KINDS[name])
    assert found.events_ == planned == found.estimator_.events_
    assert Fraction(799, 100) < found.guarantee_.epsilon <= 8
    assert found.release_ is found.estimator_.release_
    distances = np.linalg.norm(found.cluster_centers_[:, None] - MEANS, axis=2)
    if name != "lloyd":
        assert distances.min(axis=0).max() < 0.5
        assert found.weights_ == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    assert found.metric_.tolist() == [1, 1]
    labels = found.predict(np.array([[-5, -4], [np.nan, 0]]))
    assert labels[0] == np.argmin(found.transform(np.array([[-5, -4]])))
    assert labels[1] == -1
    assert f"Method {name}: a test." in found.describe()
    assert f"AutoKMeans: {name}" in str(found)
    assert found.decode(2).cluster_centers_.shape == (2, 2)
    assert found.events_ == planned
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other.release_.digest == found.release_.digest


def test_a_second_fit_by_another_method_costs_both() -> None:
    records = make_records(400)
    with choosing("grid"):
        found = make(epsilon="1").fit(records)
        with pytest.raises(PrivacyError, match="would spend it again"):
            found.fit(records)
    before = found.events_
    with choosing("compressive"):
        found.set_params(refit=True, epsilon="4").fit(records)
    assert found.events_[:2] == before
    assert Fraction(499, 100) < found.guarantee_.epsilon <= 5
    assert "fitted 2 times" in found.describe()
    with choosing("tree"):
        found.fit(records)
    assert Fraction(899, 100) < found.guarantee_.epsilon <= 9
    # A record that is replaced is removed and added: what hides presence counts twice.
    with choosing("tree"):
        found.set_params(relation="add-remove-one", max_records=400).fit(records)
    assert found.guarantee_.neighbouring == "replace-one"
    assert Fraction(1699, 100) < found.guarantee_.epsilon <= 17


def test_what_was_released_before_a_failure_is_kept_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(found: CompressiveKMeans) -> None:
        raise DecodingError("shows no clusters", field="sums", fix="use more records")

    monkeypatch.setattr(CompressiveKMeans, "_decode", fail)
    with choosing("compressive"):
        found = make(epsilon="1")
        with pytest.raises(DecodingError, match="no clusters"):
            found.fit(make_records(400))
    assert len(found.events_) == 1
    assert found.release_.digest
    with pytest.raises(PrivacyError, match="would spend it again"):
        found.fit(make_records(400))


def test_distances_are_in_one_metric_whatever_is_chosen() -> None:
    # The widths of bounds weigh the columns, and not how widely their clusters lie.
    records = make_records() * [1.0, 50.0]
    bounds = ([-20.0, -500.0], [20.0, 500.0])
    for name in KINDS:
        with choosing(name):
            delta = "1e-6" if name in ("cover", "split") else "0"
            found = make(bounds=bounds, scale=None, delta=delta).fit(records)
        assert found.metric_.tolist() == [20.0, 500.0], name
        offsets = (records[:4, None] - found.cluster_centers_) / found.metric_
        assert found.transform(records[:4]) == pytest.approx(np.linalg.norm(offsets, axis=2)), name


def test_clusters_on_a_line_are_found_where_no_scale_is_stated() -> None:
    means = np.array([[0.0, 50.0], [20.0, 50.0], [40.0, 50.0]])
    rng = np.random.default_rng(0)
    records = means[rng.integers(3, size=20_000)] + rng.normal(scale=2.0, size=(20_000, 2))
    public: dict[str, Any] = {"epsilon": "1", "bounds": (-20.0, 150.0), "random_state": 0}
    with choosing("compressive"):
        found = AutoKMeans(3, **public).fit(records)
    offsets = np.linalg.norm(found.cluster_centers_[:, None] - means, axis=2)
    assert offsets.min(axis=0).max() < 1.0
    # A scale for each column would have them in another metric, and says so.
    other = CompressiveKMeans(3, **public).fit(records)
    assert other.metric_[0] > 4 * other.metric_[1]
    assert any("x1 counts" in doubt and "as x0" in doubt for doubt in other.warnings_)


def test_a_table_without_records_is_refused_where_their_number_is_public() -> None:
    with pytest.raises(TableError, match="has no record"):
        make().fit(np.empty((0, 2)))


def test_names_of_columns_choose_alike() -> None:
    bounds = {"a": (-10, 10), "b": (-10, 10)}
    table = Table(make_records(100), ["a", "b"])
    found = make(bounds=bounds, scale={"a": 0.7, "b": 0.7}).fit(table)
    assert found.feature_names_in_.tolist() == ["a", "b"]
    assert found.choose(100, 2, names=["a", "b"]) == found.choice_
    with pytest.raises(AttributeError, match="call fit first"):
        make().predict(np.zeros((1, 2)))


def test_a_sketch_that_was_chosen_is_counted_in_the_ledger(tmp_path: Path) -> None:
    source, ledger = tmp_path / "records.csv", tmp_path / "ledger.db"
    source.write_text("x\n")
    with choosing("compressive"):
        found = make(ledger=ledger, source=source, epsilon="0.6").fit(make_records(300))
    events, _ = OwnersLedger(ledger).load()
    assert [event.epsilon for event in events] == [event.epsilon for event in found.events_]
