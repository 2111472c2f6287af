import dataclasses
from typing import Any

import numpy as np
import pytest

from sfumato.learning.decoding.problem import Box, DecodingProblem
from sfumato.shared.errors import DecodingError


def valid_fields() -> dict[str, Any]:
    return {
        "sketch": np.full(6, 0.5 + 0.1j),
        "frequencies": np.linspace(-1.0, 1.0, 12).reshape(2, 6),
        "lower": np.array([-4.0, -5.0]),
        "upper": np.array([4.0, 5.0]),
        "centre": np.zeros(2),
        "unit": np.ones(2),
        "noise_variance": 0.0,
        "n_clusters": 4,
    }


def box_of(lower: list[float], upper: list[float]) -> Box:
    return Box(lower=np.array(lower), upper=np.array(upper))


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("n_clusters", 0, "n_clusters"),
        ("n_clusters", 5, "at most 4"),
        ("n_clusters", 2.0, "n_clusters"),
        ("n_clusters", True, "n_clusters"),
        ("sketch", np.full(6, np.nan + 0j), "sketch"),
        ("sketch", np.full(6, 3.0 + 0j), r"no records give such a sum. Decode fewer devices"),
        ("sketch", np.full(5, 0.5 + 0j), "sketch"),
        ("sketch", np.full((6, 1), 0.5 + 0j), "sketch"),
        ("sketch", ["a"] * 6, "sketch"),
        ("frequencies", np.full((2, 6), np.inf), "frequencies"),
        ("frequencies", np.zeros((0, 6)), "frequencies"),
        ("frequencies", np.full((2, 6), 1e12), "frequencies"),
        ("lower", np.array([4.0, -5.0]), "lower, upper"),
        ("lower", np.array([6.0, -5.0]), "dimension 0"),
        ("upper", np.array([4.0]), "upper"),
        ("centre", np.zeros(3), "centre"),
        ("unit", np.array([1.0, 0.0]), "unit"),
        ("noise_variance", -1.0, "noise_variance"),
        ("noise_variance", float("nan"), "noise_variance"),
        ("feature_noise", np.zeros(5), "one entry per frequency, 6, not 5"),
        ("feature_noise", np.zeros((1, 6)), "feature_noise"),
        ("feature_noise", np.full(6, np.nan), "feature_noise"),
        ("feature_noise", np.array([0.1, -0.1, 0.0, 0.0, 0.0, 0.0]), "broken at feature 1"),
        ("feature_noise", np.full(6, 0.1), "mean noise_variance, 0, not 0.1"),
        ("search_box", box_of([-1.0], [1.0]), r"search_box\.lower"),
        ("search_box", box_of([-1.0, -1.0], [1.0]), r"search_box\.upper"),
        ("search_box", box_of([-1.0, np.nan], [1.0, 1.0]), r"search_box\.lower"),
        ("search_box", box_of([-1.0, 1.0], [1.0, 1.0]), "dimension 1"),
        ("search_box", box_of([-4.5, -1.0], [1.0, 1.0]), "inside the plan's box"),
        ("search_box", box_of([-1.0, -1.0], [1.0, 5.5]), "dimension 1"),
        ("is_level", np.zeros(3, dtype=bool), "one entry per dimension, 2, not 3"),
    ],
)
def test_a_field_out_of_its_rule_is_refused_by_name_with_a_fix(
    field: str, value: object, named: str
) -> None:
    with pytest.raises(DecodingError, match=named) as caught:
        DecodingProblem(**{**valid_fields(), field: value})
    assert caught.value.fix
    assert field in (caught.value.field or "")


def test_each_feature_is_as_plausible_as_its_own_noise_makes_it() -> None:
    noise = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.06])
    fields = {**valid_fields(), "noise_variance": 0.01, "feature_noise": noise}
    loud, quiet = np.full(6, 0.5 + 0.1j), np.full(6, 0.5 + 0.1j)
    loud[5] = quiet[0] = 6.0
    assert DecodingProblem(**{**fields, "sketch": loud}).noise_variance == 0.01
    with pytest.raises(DecodingError, match=r"= 2, not 6"):
        DecodingProblem(**{**fields, "sketch": quiet})


def test_the_arrays_are_frozen_copies() -> None:
    fields = valid_fields()
    fields["search_box"] = box_of([-1.0, -1.0], [1.0, 1.0])
    problem = DecodingProblem(**fields)
    fields["sketch"][0] = 0.0
    fields["search_box"].lower[0] = 9.0
    assert problem.sketch[0] == 0.5 + 0.1j
    assert problem.search_box is not None
    assert problem.search_box.lower[0] == -1.0
    with pytest.raises(ValueError, match="read-only"):
        problem.sketch[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.n_clusters = 2  # type: ignore[misc]


def test_a_noisy_sketch_may_have_a_modulus_above_one() -> None:
    fields = {**valid_fields(), "sketch": np.full(6, 3.0 + 0j), "noise_variance": 1.0}
    assert DecodingProblem(**fields).noise_variance == 1.0
