from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.analyst.sketching.sketch_file import encode_sketch_file
from sfumato.shared.errors import (
    ConfigError,
    PrivacyError,
    RecordError,
    SketchError,
)
from sfumato.shared.plan import encode_plan, plan_to_json
from sfumato.shared.privacy import PrivacyGuarantee
from tests.analyst.estimators.records import D, make_exact, make_private, make_records


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


def test_what_is_spent_is_known_before_and_after() -> None:
    records = make_records()
    found = make_private(epsilon=0.1, public_seed=7)
    planned = found.plan_events(*records.shape)
    found.fit(records)
    assert found.events_ == planned
    assert Fraction(999, 10_000) < found.guarantee_.epsilon <= Fraction(1, 10)
    assert make_exact().plan_events(10, 2) == ()


def test_a_hopeless_fit_is_known_before_anything_is_spent() -> None:
    found = make_private(epsilon="1/100")
    band = found.expect(300, D)
    assert band is not None
    assert band.is_hopeless
    assert "below 8" in band.describe()
    assert "events_" not in vars(found)
    enough = found.expect(1_000_000, D)
    assert enough is not None
    assert enough.reaches(1.3)
    # A pilot takes its part of epsilon.
    rest = make_private(epsilon="1/100", scale="pilot").expect(1_000_000, D)
    assert rest is not None
    assert 0.5 < rest.snr_per_parameter / enough.snr_per_parameter < 0.9
    assert make_exact().expect(300, D) is None


def test_noise_never_follows_a_random_state_or_a_public_seed() -> None:
    records = make_records(500)
    first, second = (make_private(public_seed=1).fit(records).release_ for _ in range(2))
    assert first.design == second.design
    assert np.mean(first.sums != second.sums) > 0.9
    assert make_private().fit(records).release_.design != first.design


def test_a_second_private_fit_is_refused_unless_asked_for_and_costs_again() -> None:
    records = make_records(500)
    found = make_private().fit(records)
    before = found.release_
    with pytest.raises(PrivacyError, match="would spend it again"):
        found.fit(records)
    assert found.release_ is before
    found.set_params(refit=True).fit(records)
    assert found.release_ is not before
    # Two streams, because both fits may have read the same record.
    assert [event.stream for event in found.events_] == ["main", "main.2"]
    assert "fitted 2 times" in found.describe()


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


PRIVATE_ONLY: list[tuple[dict[str, Any], type[SketchError], str]] = [
    ({"bounds": None}, ConfigError, "bounds"),
    ({"bounds": (12, -12)}, ConfigError, "bounds"),
    ({"bounds": ([0, 0, 0], [1, 1, 1])}, ConfigError, "bounds"),
    ({"scale": 0}, ConfigError, "scale"),
    ({"epsilon": float("inf")}, PrivacyError, "epsilon"),
    ({"epsilon": float("nan")}, PrivacyError, "epsilon"),
    ({"epsilon": 0}, PrivacyError, "epsilon"),
    ({"epsilon": "much"}, PrivacyError, "epsilon"),
    ({"delta": 1}, PrivacyError, "delta"),
    ({"relation": "neighbours"}, PrivacyError, "relation"),
    ({"relation": "add-remove-one"}, ConfigError, "max_records"),
    ({"mechanism": "discrete-gaussian"}, ConfigError, "mechanism"),
    ({"mechanism": "none"}, ConfigError, "mechanism"),
    ({"ledger": "ledger.db"}, ConfigError, "source"),
]
ALWAYS: list[tuple[dict[str, Any], type[SketchError], str]] = [
    ({"n_clusters": 0}, ConfigError, "n_clusters"),
    ({"n_clusters": 11}, ConfigError, "n_clusters"),
    ({"n_clusters": 2.5}, ConfigError, "n_clusters"),
    ({"n_frequencies": 4}, ConfigError, "n_frequencies"),
    ({"n_frequencies": "many"}, ConfigError, "n_frequencies"),
    ({"max_records": 0}, ConfigError, "max_records"),
    ({"max_records": 9}, RecordError, "X"),
    ({"public_seed": 0.5}, ConfigError, "public_seed"),
    ({"n_jobs": 0}, ConfigError, "n_jobs"),
    ({"scale": "wide"}, ConfigError, "scale"),
    ({"scale": {"x0": 1.0}}, ConfigError, "scale"),
    ({"scale": {"x0": 1.0, "weight": 2.0}}, ConfigError, "scale"),
    ({"bounds": {"x0": (1, 0), "x1": (0, 1)}}, ConfigError, "bounds"),
    ({"bounds": {7: (0, 1)}}, ConfigError, "bounds"),
    ({"log": "x0"}, ConfigError, "log"),
    ({"log": {"x0": 0.0}}, ConfigError, "log"),
    ({"levels": ["red"]}, ConfigError, "levels"),
    ({"levels": {"x0": ["red"]}}, ConfigError, "levels"),
    ({"levels": {"x0": ["red", "red"]}}, ConfigError, "levels"),
    ({"levels": {"x0": ["a", "b"]}, "bounds": {"x0": (0, 1), "x1": (0, 1)}}, ConfigError, "bounds"),
    ({"scale": "pooled", "log": ["x0"]}, ConfigError, "scale"),
]


@pytest.mark.parametrize(("changes", "error", "field"), PRIVATE_ONLY + ALWAYS)
def test_private_parameters_that_cannot_hold_are_refused_and_nothing_is_spent(
    changes: dict[str, Any], error: type[SketchError], field: str, tmp_path: Path
) -> None:
    if "ledger" in changes:
        changes = {"ledger": tmp_path / "ledger.db"}
    found = make_private(**changes)
    with pytest.raises(error) as caught:
        # Fewer records than clusters, or enough for the sketch.
        found.fit(make_records(10 if field == "n_clusters" else 400))
    assert caught.value.field == field
    assert caught.value.fix
    assert not {"release_", "events_"} & set(vars(found))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("changes", "error", "field"), ALWAYS)
def test_parameters_that_cannot_hold_are_refused_without_epsilon(
    changes: dict[str, Any], error: type[SketchError], field: str
) -> None:
    with pytest.raises(error) as caught:
        make_exact(**changes).fit(make_records(10))
    assert caught.value.field == field


def test_a_random_state_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="random_state"):
        make_exact(random_state="x").fit(make_records(50))


def test_a_seed_is_refused_by_name() -> None:
    with pytest.raises(PrivacyError, match="seed: refused: noise that can be repeated"):
        make_private(seed=1)
    with pytest.raises(TypeError, match="sample_weight"):
        make_private().fit(make_records(10), sample_weight=np.ones(10))  # type: ignore[call-arg]


def test_what_would_tell_of_the_records_is_not_there_and_says_why() -> None:
    found = make_private().fit(make_records(500))
    for name in ("labels_", "inertia_", "score", "fit_predict", "fit_transform"):
        with pytest.raises(AttributeError, match=f"with epsilon has no attribute '{name}': "):
            getattr(found, name)
    assert found.n_iter_ == 1
    exact = make_exact().fit(make_records(500))
    for name in ("events_", "guarantee_"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': nothing was released"):
            getattr(exact, name)
    with pytest.raises(AttributeError, match="call fit first"):
        make_private().predict(np.zeros((1, D)))
    with pytest.raises(AttributeError, match="call fit first"):
        make_private().n_iter_  # noqa: B018 - asking is the test
    with pytest.raises(AttributeError, match="call fit first"):
        make_exact().cluster_centers_  # noqa: B018 - asking is the test


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
