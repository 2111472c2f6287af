"""Parameters that cannot hold: refused by name, by every estimator, before anything is spent."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.shared.errors import (
    ConfigError,
    PrivacyError,
    RecordError,
    SketchError,
    TableError,
)
from tests.analyst.estimators import kinds
from tests.analyst.estimators.kinds import KINDS, each_of, is_of_clusters
from tests.analyst.estimators.records import make_exact

Case = tuple[dict[str, Any], type[SketchError], str]

EVERY: list[Case] = [
    ({"epsilon": "much"}, PrivacyError, "epsilon"),
    ({"epsilon": float("nan")}, PrivacyError, "epsilon"),
    ({"epsilon": float("inf")}, PrivacyError, "epsilon"),
    ({"epsilon": True}, PrivacyError, "epsilon"),
    ({"epsilon": 0}, PrivacyError, "epsilon"),
    ({"epsilon": -1}, PrivacyError, "epsilon"),
    ({"epsilon": 10**9}, PrivacyError, "epsilon"),
    ({"delta": 1}, PrivacyError, "delta"),
    ({"relation": "neighbours"}, PrivacyError, "relation"),
    ({"bounds": None}, ConfigError, "bounds"),
    ({"bounds": (1, 1)}, ConfigError, "bounds"),
    ({"bounds": ([0, 0, 0], [1, 1, 1])}, ConfigError, "bounds"),
    ({"bounds": {"x0": (0, 1)}}, ConfigError, "bounds"),
    ({"ledger": "ledger.db"}, ConfigError, "source"),
    ({"ledger": "ledger.db", "source": "none.csv"}, ConfigError, "source"),
]
CLUSTERS: list[Case] = [
    ({"relation": "add-remove-one"}, ConfigError, "max_records"),
    ({"scale": 0}, ConfigError, "scale"),
    ({"n_clusters": 0}, ConfigError, "n_clusters"),
    ({"n_clusters": 31}, ConfigError, "n_clusters"),
    ({"public_seed": 1.5}, ConfigError, "public_seed"),
    ({"random_state": -1}, ConfigError, "random_state"),
]
HIDDEN: list[Case] = [({"epsilon": "1/1000"}, ConfigError, ".*Ask for fewer clusters")]
OWN: dict[str, list[Case]] = {
    "auto": [({"scale": "auto"}, ConfigError, "scale")],
    "kernel": [
        ({"delta": "0"}, PrivacyError, "delta"),
        ({"n_features": 0}, ConfigError, "n_features"),
        ({"n_features": 1 << 20}, ConfigError, "n_features"),
        ({"n_rounds": 21}, ConfigError, "n_rounds"),
        ({"bandwidth": 0.0}, ConfigError, "bandwidth"),
        ({"bandwidth": "wide"}, ConfigError, "bandwidth"),
        ({"scale": -1.0}, ConfigError, "scale"),
    ],
    "lloyd": [({"noise": "gaussian"}, PrivacyError, "delta")],
    "compressive": [
        ({"mechanism": "discrete-gaussian"}, ConfigError, "mechanism"),
        ({"mechanism": "none"}, ConfigError, "mechanism"),
    ],
    "components": [
        ({"norm": 0}, ConfigError, "norm"),
        ({"norm": float("inf")}, ConfigError, "norm"),
        ({"metric": [1, 2, 3]}, ConfigError, "metric"),
        ({"metric": [1, 0]}, ConfigError, "metric"),
        ({"n_components": 0}, ConfigError, "n_components"),
        ({"n_components": 3}, ConfigError, "n_components"),
    ],
    "moments": [
        ({"epsilon": "1e-6"}, PrivacyError, "epsilon: is so small"),
        ({"delta": "0"}, ConfigError, "delta: must be above 0"),
        ({"parts": []}, ConfigError, "parts: must be 1 to"),
        ({"parts": [1, "1"]}, ConfigError, "parts: must be 1 to"),
        ({"parts": [1, True]}, ConfigError, "parts: must be 1 to"),
        ({"parts": [[1], [2]]}, ConfigError, "parts: must be 1 to"),
        ({"parts": 2}, ConfigError, "parts: must be 1 to"),
        ({"parts": ["a", "b"]}, TableError, "y: is missing"),
        ({"binary": True}, ConfigError, "bounds: must be"),
        ({"n_directions": 0}, ConfigError, "n_directions"),
        ({"norm": -1.0}, ConfigError, "norm"),
        ({"norm": "a"}, ConfigError, "norm"),
    ],
    "networks": [
        ({"delta": "0"}, ConfigError, "delta: must be above 0"),
        ({"delta": "1e-12"}, PrivacyError, "delta: is too small"),
        ({"parts": []}, ConfigError, "parts: must be 1 to"),
        ({"parts": ["a", "b"]}, TableError, "y: is missing"),
        ({"n_parts": 0}, ConfigError, "n_parts"),
        ({"parts": ["a"], "n_parts": 3}, ConfigError, "n_parts: cannot be combined with parts"),
        ({"n_parts": 2, "start": [[0.0]]}, ConfigError, "start: must have"),
        ({"n_parts": 2, "bandwidth": -1.0}, ConfigError, "bandwidth"),
        ({"n_parts": 2, "share_for_parts": "1"}, ConfigError, "share_for"),
        ({"binary": True}, ConfigError, "bounds: must be"),
        ({"network": "gan"}, ConfigError, "network: must be one of"),
        ({"network": "rbm"}, ConfigError, "network: draws zeros"),
        ({"clipping": "none"}, ConfigError, "clipping: must be one of"),
        ({"clipping": "fixed", "clipping_norm": 0}, ConfigError, "clipping_norm"),
        ({"batch_rate": 0.0}, ConfigError, "batch_rate"),
        ({"batch_rate": float("nan")}, ConfigError, "batch_rate"),
        ({"batch_rate": "1/2"}, ConfigError, "batch_rate"),
        ({"n_steps": 0}, ConfigError, "n_steps"),
        ({"n_hidden": 0}, ConfigError, "n_hidden"),
        ({"learning_rate": 2.0}, ConfigError, "learning_rate"),
        ({"random_state": -1}, ConfigError, "random_state"),
    ],
}
SKETCHED: list[Case] = [
    ({"n_clusters": 0}, ConfigError, "n_clusters"),
    ({"n_clusters": 31}, ConfigError, "n_clusters"),
    ({"n_clusters": 2.5}, ConfigError, "n_clusters"),
    ({"n_frequencies": 4}, ConfigError, "n_frequencies"),
    ({"n_frequencies": "many"}, ConfigError, "n_frequencies"),
    ({"max_records": 0}, ConfigError, "max_records"),
    ({"max_records": 9}, RecordError, "X"),
    ({"public_seed": 0.5}, ConfigError, "public_seed"),
    ({"random_state": "x"}, ConfigError, "random_state"),
    ({"n_jobs": 0}, ConfigError, "n_jobs"),
    ({"scale": "wide"}, ConfigError, "scale"),
    ({"scale": {"x0": 1.0}}, ConfigError, "scale"),
    ({"scale": {"x0": 1.0, "weight": 2.0}}, ConfigError, "scale"),
    ({"bounds": {"x0": (1, 0), "x1": (0, 1)}}, ConfigError, "bounds"),
    ({"bounds": {7: (0, 1)}}, ConfigError, "bounds"),
    ({"bounds": ([0, 0], [1])}, ConfigError, "bounds: .*two rows of 2 numbers"),
    ({"bounds": ([0], [1, 1])}, ConfigError, "bounds: .*two rows of 2 numbers"),
    ({"bounds": ([0], [1])}, ConfigError, "bounds: .*two rows of 2 numbers"),
    ({"bounds": ([0, 0, 0], 1)}, ConfigError, "bounds: .*two rows of 2 numbers"),
    ({"log": "x0"}, ConfigError, "log"),
    ({"log": {"x0": 0.0}}, ConfigError, "log"),
    ({"levels": ["red"]}, ConfigError, "levels"),
    ({"levels": {"x0": ["red"]}}, ConfigError, "levels"),
    ({"levels": {"x0": ["red", "red"]}}, ConfigError, "levels"),
    ({"levels": {"x0": ["a", "b"]}, "bounds": {"x0": (0, 1), "x1": (0, 1)}}, ConfigError, "bounds"),
    ({"scale": "pooled", "log": ["x0"]}, ConfigError, "scale"),
]
"""Refusals of estimators of a sketch, with epsilon and without."""


def list_cases(name: str) -> list[Case]:
    cases = EVERY + OWN.get(name, [])
    cases += CLUSTERS if is_of_clusters(name) else []
    cases += HIDDEN if name in kinds.CENTRAL else []
    return cases + (SKETCHED if name == "compressive" else [])


def list_faults(make: Callable[..., Any], cases: list[Case]) -> list[str]:
    """Return the parameters that are not refused by their name, or after something was spent."""
    faults = []
    for changes, error, words in cases:
        model = make().set_params(**changes)
        # Fewer records than 31 clusters, and enough for a sketch.
        records = kinds.make_records(30 if "n_clusters" in changes else 400)
        try:
            model.fit(records)
        except error as refused:
            is_named = re.match(words, str(refused)) and refused.fix
            if is_named and not {"release_", "events_", "estimator_"} & set(vars(model)):
                continue
            faults.append(f"{changes}: {refused}, {sorted(vars(model))}")
        except SketchError as other:
            faults.append(f"{changes}: {type(other).__name__}: {other}")
        else:
            faults.append(f"{changes}: accepted")
    return faults


@each_of(KINDS)
def test_parameters_that_cannot_hold_are_refused_by_name_before_anything_is_spent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list_faults(lambda: kinds.make(name), list_cases(name)) == []
    assert list(tmp_path.iterdir()) == []


def test_parameters_that_cannot_hold_are_refused_without_epsilon() -> None:
    assert list_faults(make_exact, SKETCHED) == []


TEXTS: list[Any] = [
    np.array([["a", "b"]] * 40),
    pd.DataFrame({"x0": ["a"] * 40, "x1": [1.0] * 40}),
    pd.DataFrame({"x0": pd.date_range("2020-01-01", periods=40), "x1": [1.0] * 40}),
]


@each_of(KINDS)
def test_text_is_a_type_error_and_an_empty_table_a_value_error(name: str) -> None:
    for table in TEXTS:
        with pytest.raises(TypeError, match=r"X: .* numbers"):
            kinds.make(name).fit(table)
    empty, model = np.empty((0, 2)), kinds.make(name)
    if model.get_params().get("relation") == "add-remove-one":
        # That there are no records is secret.
        model.fit(empty)
        return
    with pytest.raises(ValueError, match="X: has no record"):
        model.fit(empty)


def test_an_infinite_value_is_refused_without_epsilon_and_counts_as_missing_with_it() -> None:
    records = kinds.make_records(500)
    records[7, 1] = math.inf
    with pytest.raises(ValueError, match="infinite value in column 'x1', row 7"):
        make_exact().fit(records)
    found = kinds.make("compressive").fit(records)
    assert found.predict(records)[7] == -1


def test_times_are_to_be_written_as_numbers() -> None:
    with pytest.raises(TableError, match="Write it as numbers before, such as the hour"):
        make_exact().fit(TEXTS[2])
