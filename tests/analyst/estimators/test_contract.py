"""The one contract: every estimator keeps it, whatever it learns."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone

import sfumato.analyst.estimators as package
from sfumato import lab
from sfumato.analyst.estimators.contract import PrivateEstimator
from sfumato.analyst.sketching.sketch_file import encode_sketch_file
from sfumato.shared.errors import BudgetExceededError, PrivacyError, SketchError, TableError
from sfumato.shared.plan import encode_plan, plan_to_json
from sfumato.shared.privacy import PrivacyGuarantee
from sfumato.shared.reading.unreadable import UnreadableError
from sfumato.shared.spending import OwnersLedger
from tests.analyst.estimators import kinds
from tests.analyst.estimators.kinds import GAUSSIAN, KINDS, each_of, is_of_clusters, list_values
from tests.analyst.estimators.records import D, make_exact, make_private, make_records

each = each_of(KINDS)
ABSENT = {
    "components": ("fit_transform", "score", "singular_values_", "n_samples_"),
    "compressive": ("labels_", "inertia_", "score", "fit_predict", "fit_transform"),
    "mixture": ("score", "aic", "bic", "cluster_centers_"),
    "moments": ("score",),
    "networks": ("labels_", "loss_", "score", "n_iter_"),
}
"""Attributes that would tell of the records; clusters have none that k-means has."""
OF_CLUSTERS = ("labels_", "inertia_", "n_iter_", "score", "fit_predict", "fit_transform")


def assert_spent(name: str, found: Any, stated: Fraction) -> None:
    least = Fraction(2, 3) if name in GAUSSIAN else Fraction(999, 1000)
    assert least * stated <= found.guarantee_.epsilon <= stated
    assert f"epsilon = {float(found.guarantee_.epsilon):.6g}" in found.describe()


def plan(name: str, found: Any, n: int) -> Any:
    # The cost of moments and of networks does not depend on the number of records.
    of_all = name in ("components", "moments", "networks")
    return found.plan_events(D) if of_all else found.plan_events(n, D)


def test_every_private_estimator_is_tested_here() -> None:
    known = [getattr(room, name) for room in (package, lab) for name in room.__all__]
    private = {
        kind for kind in known if isinstance(kind, type) and issubclass(kind, PrivateEstimator)
    }
    assert private == {type(kinds.make(name)) for name in KINDS}


@each
def test_a_fit_spends_what_was_planned_once_unless_asked_for_and_never_by_a_seed(name: str) -> None:
    # Noise hides a part of few records, of which nothing is trained.
    records = kinds.make_records(5000 if name == "networks" else 500)
    found = kinds.make(name, epsilon="1/2")
    if "public_seed" in found.get_params():
        found.set_params(public_seed=1)
    planned = plan(name, found, 500)
    first = found.fit(records).release_
    assert planned
    assert found.events_ == planned
    assert_spent(name, found, Fraction(1, 2))
    with pytest.raises(PrivacyError, match="would spend it again"):
        found.fit(records)
    assert found.release_ is first
    # A second fit may read the same records, and costs on its own.
    assert {event.stream for event in plan(name, found, 500)} == {"main.2"}
    second = found.set_params(refit=True).fit(records).release_
    assert_spent(name, found, Fraction(1))
    assert "fitted 2 times" in found.describe()
    assert first.design == second.design
    # Fresh noise: of few coordinates most are alike with a chance below 1e-10.
    assert np.mean(list_values(first) != list_values(second)) > 0.2


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("auto", {"scale": None}),
        ("compressive", {"scale": "pilot"}),
        ("cover", {"relation": "add-remove-one", "max_records": 2000, "delta": "1e-6"}),
        ("components", {"delta": "1e-6"}),
        ("networks", {"n_parts": 2}),
    ],
)
def test_every_shape_of_a_release_is_planned_whatever_its_seed(
    name: str, changes: dict[str, Any]
) -> None:
    found = kinds.make(name, epsilon="2", **changes)
    planned = plan(name, found, 2000)
    assert found.fit(kinds.make_records(2000)).events_ == planned
    # Another estimator with the same parameters plans the same, also where its seed is fresh.
    assert plan(name, clone(found), 2000) == planned


@each
def test_an_estimator_is_copied_and_stored_and_shows_nothing_of_the_records(name: str) -> None:
    found = kinds.make(name).fit(kinds.make_records(300))
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other.release_.digest == found.release_.digest
    assert clone(found).get_params() == found.get_params()
    for absent in ABSENT.get(name, OF_CLUSTERS if is_of_clusters(name) else ()):
        with pytest.raises(AttributeError, match=f"{absent}': "):
            getattr(found, absent)
    with pytest.raises(AttributeError, match=r"nothing_'(?!: call fit)"):
        found.nothing_  # noqa: B018 - asking is the test
    with pytest.raises(AttributeError, match="call fit first"):
        kinds.make(name).n_features_in_  # noqa: B018 - asking is the test
    with pytest.raises(PrivacyError, match="seed: refused: noise that can be repeated"):
        kinds.make(name, seed=1)
    with pytest.raises(PrivacyError, match="seed: refused"):
        found.set_params(seed=1)


# Networks need a delta that no second fit can have beside it.
@each_of(name for name in KINDS if name != "networks")
def test_the_ledger_counts_a_fit_and_refuses_beyond_the_budget(name: str, tmp_path: Path) -> None:
    source, ledger = tmp_path / "records.csv", tmp_path / "ledger.db"
    source.write_text("x\n")
    options: dict[str, Any] = {"ledger": ledger, "source": source, "epsilon": "0.8"}
    records = kinds.make_records(300)
    kinds.make(name, **options).fit(records)
    second = kinds.make(name, **options)
    with pytest.raises(BudgetExceededError, match="above the owner's limit 1"):
        second.fit(records)
    assert not {"release_", "events_"} & set(vars(second))
    second.set_params(budget="2").fit(records)
    assert sum(event.count for event in OwnersLedger(ledger).load()[0]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.db", "records.csv"]


@each
def test_where_too_many_values_cannot_be_read_nothing_is_spent(name: str, tmp_path: Path) -> None:
    source, ledger = tmp_path / "records.csv", tmp_path / "ledger.db"
    source.write_text("x\n")
    records = kinds.make_records(300).astype(object)
    records[::8, 1] = "52,4"
    model = kinds.make(name, ledger=ledger, source=source, budget="9")
    with pytest.raises(UnreadableError, match=r"12.7% of the values of 'x1'.*have commas in them"):
        model.fit(records)
    assert not {"release_", "events_"} & set(vars(model))
    assert not ledger.exists()
    # A share below the limit is a matter of the records' own.
    if name in ("grid", "compressive"):
        records[::16, 1] = 0.0
        model.fit(records)
        assert sum(event.count for event in OwnersLedger(ledger).load()[0]) == 1


def test_parts_of_which_most_records_add_nothing_are_not_released() -> None:
    found = kinds.make("compressive", max_records=100)
    found.partial_fit(np.where(np.arange(100)[:, None] % 3, np.nan, kinds.make_records(100)))
    with pytest.raises(TableError, match=r"66\.0% of those that were added"):
        found.release()
    assert not found.events_


# ---- estimators of a sketch ----


def test_every_result_follows_from_the_release_and_public_parameters(tmp_path: Path) -> None:
    records = make_records()
    found = make_private().fit(records)
    path, plan = tmp_path / "one.sketch", tmp_path / "plan.json"
    path.write_bytes(encode_sketch_file(found.release()))
    plan.write_text(json.dumps(plan_to_json(found.plan_)))
    again = make_private().fit_sketch(path, plan=plan)
    for name in ("cluster_centers_", "weights_", "spreads_", "snr_", "warnings_"):
        assert np.array_equal(getattr(found, name), getattr(again, name)), name
    fitted = {name for name in vars(found) if name.endswith("_")}
    assert fitted == {name for name in vars(again) if name.endswith("_")}
    assert again.events_ == ()
    assert found.release_.design["plan"] == encode_plan(found.plan_)


def test_fits_under_both_relations_cost_what_a_replaced_record_loses() -> None:
    records = make_records(500)
    found = make_private(relation="add-remove-one", max_records=600).fit(records)
    found.set_params(epsilon=None).fit(records)
    assert "guarantee_" not in vars(found)
    found.set_params(epsilon="5", relation="replace-one")
    with pytest.raises(PrivacyError, match="spent epsilon = 5 under add-remove-one"):
        found.fit(records)
    found.set_params(refit=True).fit(records)
    assert [each.neighbouring for each in found.events_] == ["add-remove-one", "replace-one"]
    assert found.guarantee_ == PrivacyGuarantee(
        epsilon=Fraction(15),
        delta=Fraction(0),
        neighbouring="replace-one",
        rho=found.guarantee_.rho,
    )
    assert "the number of records is public" in found.describe()
    assert "counts twice" in found.describe()


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["text", None, 1j, 10**400, float("inf"), float("nan"), -1e300]))
def test_no_value_of_a_record_is_refused_by_a_private_fit(value: Any) -> None:
    rows = np.array(make_records(300), dtype=object)
    rows[7, 1] = value
    found = make_private(public_seed=3, max_records=300).partial_fit(rows)
    usual = make_private(public_seed=3, max_records=300).partial_fit(make_records(300))
    # One record moved the sum by no more than one record can.
    moved = found._held.unreleased.sums - usual._held.unreleased.sums  # type: ignore[union-attr]
    assert np.abs(moved).max() <= 2 * found.plan_.amplitude


@pytest.mark.parametrize("n", [0, 1, 3])
def test_hardly_any_record_is_released_as_many_are(n: int) -> None:
    # Fresh noise of 121 coordinates: their common radius shows a record in fewer than 1e-20 runs.
    found = make_private(
        relation="add-remove-one", epsilon="0.1", max_records=1000, n_frequencies=60
    )
    found.partial_fit(np.zeros((n, D)))
    assert found.release_.n_records is None
    with pytest.raises(SketchError, match="too few records to tell them from the noise"):
        found.cluster_centers_  # noqa: B018 - asking is the test


def test_a_hopeless_fit_is_known_before_anything_is_spent() -> None:
    found = make_private(epsilon="1/100")
    band = found.expect(300, D)
    assert band is not None
    assert band.is_hopeless
    assert "below 8" in band.describe()
    assert "events_" not in vars(found)
    enough = found.expect(300_000, D)
    assert enough is not None
    assert enough.reaches(1.3)
    # A pilot takes its part of epsilon.
    rest = make_private(epsilon="1/100", scale="pilot").expect(300_000, D)
    assert rest is not None
    assert 0.5 < rest.snr_per_parameter / enough.snr_per_parameter < 0.9
    assert make_exact().expect(300, D) is None


def test_without_epsilon_nothing_is_released_and_the_records_may_be_seen() -> None:
    assert make_exact().plan_events(10, 2) == ()
    found = make_exact().fit(make_records(500))
    for name in ("events_", "guarantee_"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': nothing was released"):
            getattr(found, name)
    assert make_private().fit(make_records(500)).n_iter_ == 1
    for make in (make_exact, make_private):
        with pytest.raises(AttributeError, match="call fit first"):
            make().n_iter_  # noqa: B018 - asking is the test
