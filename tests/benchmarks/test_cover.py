"""The benchmark of max cover: its records, its accounting, and its methods on fewer records."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks import cover
from benchmarks.cover import (
    METHODS,
    CoverCase,
    Recipe,
    find_delta,
    list_cases,
)


def test_the_recipe_is_that_of_the_authors() -> None:
    recipe = Recipe(seed=1)
    assert recipe.records.shape == (50_000, 100)
    assert recipe.records.min() == 0.0
    assert recipe.records.max() <= 100.0
    # Half of all coordinates lie below 0 and are clipped.
    assert np.mean(recipe.records == 0.0) == pytest.approx(0.5, abs=0.03)
    assert float(find_delta(recipe)) == pytest.approx(50_000**-1.5)
    assert {case.n_clusters for case in list_cases()} >= {2, 4, 8, 16, 32, 48, 64}


def test_every_method_runs_in_the_box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "_RECORDS", 1000)
    recipe, case = Recipe(seed=2), CoverCase(n_clusters=4, epsilon=Fraction(1))
    for name, method in METHODS.items():
        centroids = method(recipe, case)
        assert centroids.shape == (1 if name == "one centre" else 4, 100)
        assert centroids.min() >= -1e-9
        assert centroids.max() <= 100.0 + 1e-9
