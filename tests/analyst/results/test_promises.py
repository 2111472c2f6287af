"""Every figure of privacy that a result shows is what was spent, and what was spent for it."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.analyst.estimators import CompressiveKMeans, CompressiveMixture
from sfumato.analyst.estimators.held import decode_release
from sfumato.analyst.results import DecodeResult
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import PrivacyGuarantee
from sfumato.shared.privacy.group import format_upper
from tests.analyst.estimators.records import make_records

GAUSSIAN = {"delta": "1e-6", "mechanism": "discrete-gaussian"}


def require_spent(promise: dict[str, Any], spent: PrivacyGuarantee) -> None:
    """Compare all figures of one promise with what was spent."""
    assert Fraction(promise["epsilon"]) == spent.epsilon
    assert Fraction(promise["delta"]) == spent.delta
    assert promise["neighbouring"] == spent.neighbouring
    assert f"epsilon = {float(spent.epsilon):.6g}" in promise["statement"]
    single, *others = promise["people"]
    assert (single["n_records"], single["n_windows"]) == (1, 1)
    assert single["epsilon"] == single["multiple_epsilon"] == format_upper(spent.epsilon)
    assert single["delta"] == single["multiple_delta"] == format_upper(spent.delta)
    for each in others:
        q = each["n_records"] * each["n_windows"]
        assert each["multiple_epsilon"] == format_upper(q * spent.epsilon)
        assert each["delta"] == format_upper(spent.delta)
        assert spent.epsilon < Fraction(each["epsilon"])
        if not spent.delta:
            # Gaussian noise protects groups less than in proportion.
            assert each["epsilon"] == each["multiple_epsilon"]


@pytest.mark.parametrize(("scale", "noise"), [(1.0, GAUSSIAN), ("pilot", {})])
def test_saved_shown_and_synthesised_results_state_all_that_was_spent(
    scale: Any, noise: dict[str, Any], tmp_path: Path
) -> None:
    found = CompressiveMixture(
        3, epsilon="4", bounds=(-12, 12), scale=scale, random_state=0, **noise
    ).fit(make_records())
    spent = found.guarantee_
    # Of all parts together, so that one of them cannot have been left out here too.
    assert Fraction(399, 100) < spent.epsilon <= 4
    assert len(found.events_) == (2 if scale == "pilot" else 1)
    found.result_.save(tmp_path / "saved.json")
    saved = json.loads((tmp_path / "saved.json").read_text())
    require_spent(saved["result"]["privacy"], spent)
    loaded = DecodeResult.load(tmp_path / "saved.json")
    assert loaded.body.privacy == found.result_.body.privacy
    assert loaded.privacy == found.describe()
    (promise,) = found.result_.synthesise(10, allow_unusable=True).about["privacy"]
    with pytest.raises(ConfigError, match="histogram: must be a sketch of a histogram"):
        found.result_.synthesise(10, histogram="pilot.sketch")  # type: ignore[arg-type]
    require_spent(promise, spent)
    shown = CompressiveKMeans(3, epsilon=1).fit_sketch(decode_release(found.release_.encode()))
    assert shown.guarantee_ == spent
    assert shown.release_.digest == found.release_.digest
    require_spent(vars(shown.result_.body.privacy) | {"people": promise["people"]}, spent)
    assert shown.result_.body.privacy.people == found.result_.body.privacy.people
    assert shown.warnings_ == found.warnings_
    assert shown.search_box_ == found.search_box_


def test_a_result_of_a_second_fit_states_what_both_cost() -> None:
    found = CompressiveKMeans(3, epsilon="2", bounds=(-12, 12), scale=1.0, refit=True)
    found.fit(make_records(2000)).fit(make_records(2000))
    promise = found.result_.body.privacy
    assert Fraction(promise.epsilon) == found.guarantee_.epsilon == 4
    assert [promise.people[0].epsilon, promise.people[-1].epsilon] == ["4", "800"]


def test_a_result_without_noise_promises_nothing() -> None:
    promise = CompressiveKMeans(3, random_state=0).fit(make_records(500)).result_.body.privacy
    assert (promise.epsilon, promise.mechanism, promise.people) == ("inf", "none", [])
    assert promise.statement.startswith("NOT PRIVATE")
