from __future__ import annotations

import numpy as np
import pytest

from sfumato.learning.answers.words import name_clusters

NAMES = ("heat", "wind", "kind=a", "kind=b")
WEIGHTS = np.array([0.5, 0.3, 0.2])


def test_a_cluster_is_named_by_the_two_axes_on_which_it_differs_most() -> None:
    centroids = np.array([[5.0, 1.0, 0.9, 0.1], [20.0, 1.1, 0.2, 0.8], [5.1, 9.0, 0.4, 0.6]])
    assert name_clusters(centroids, WEIGHTS, NAMES) == [
        "mostly kind=a",
        "high heat, mostly kind=b",
        "high wind",
    ]


@pytest.mark.parametrize("k", [1, 3])
def test_clusters_that_lie_together_have_no_names(k: int) -> None:
    weights = np.full(k, 1.0 / k)
    assert name_clusters(np.ones((k, 4)), weights, NAMES) == ["near the mean"] * k


def test_a_level_that_few_records_have_is_more_common_and_not_most() -> None:
    centroids = np.array([[1.0, 1.0, 0.1, 0.9], [1.0, 1.0, 0.3, 0.7]])
    assert name_clusters(centroids, np.array([0.6, 0.4]), NAMES)[1] == "more kind=a"
