"""Sensitivities of cluster sums, over all pairs of neighbours in small boxes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.cluster_sums import ClusterSums

Integers = NDArray[np.int64]


def list_shares(sums: ClusterSums, n_bodies: int) -> list[Integers]:
    """List all that a record can add to B bodies: nothing, or a vector and a count to one."""
    found = [np.zeros((n_bodies, sums.n_dimensions + 1), dtype=np.int64)]
    steps = range(-sums.radius, sums.radius + 1)
    for body in range(n_bodies):
        for vector in itertools.product(steps, repeat=sums.n_dimensions):
            share = np.zeros((n_bodies, sums.n_dimensions + 1), dtype=np.int64)
            share[body] = [*vector, sums.count_unit]
            found.append(share)
    return found


def list_changes(sums: ClusterSums, relation: str) -> Iterator[Integers]:
    shares = list_shares(sums, 2)
    if relation == "add-remove-one":
        yield from shares
    else:
        yield from (a - b for a in shares for b in shares)


CASES = [
    ClusterSums(n_dimensions=1, radius=3, count_unit=3),
    ClusterSums(n_dimensions=1, radius=2, count_unit=5),
    ClusterSums(n_dimensions=2, radius=2, count_unit=1),
    ClusterSums(n_dimensions=2, radius=2, count_unit=2),
    ClusterSums(n_dimensions=2, radius=1, count_unit=3),
]


@pytest.mark.parametrize("sums", CASES)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_sensitivities_are_the_largest_changes_of_any_two_neighbours(
    sums: ClusterSums, relation: str
) -> None:
    cubes = l1 = l2 = 0
    for change in list_changes(sums, relation):
        cubes = max(cubes, int(np.abs(change).max(axis=1).sum()))
        l1 = max(l1, int(np.abs(change).sum()))
        l2 = max(l2, int((change**2).sum()))
    assert sums.measure_cubes(relation) == cubes
    assert sums.measure_l1(relation) == l1
    assert sums.measure_l2_squared(relation) == l2


def test_parallel_composition_would_be_wrong_under_replace_one() -> None:
    # As if a record changed one body only: half of what two bodies change together.
    sums = ClusterSums(n_dimensions=1, radius=2, count_unit=2)
    worst = max(int(np.abs(c).max(axis=1).sum()) for c in list_changes(sums, "replace-one"))
    assert worst == 2 * sums.measure_cubes("add-remove-one")


def test_a_gaussian_count_of_the_weight_of_the_sums_is_free_under_replace_one() -> None:
    light, free, heavy = (
        ClusterSums(n_dimensions=4, radius=100, count_unit=unit) for unit in (1, 200, 201)
    )
    relation = "replace-one"
    assert light.measure_l2_squared(relation) == free.measure_l2_squared(relation)
    assert heavy.measure_l2_squared(relation) > free.measure_l2_squared(relation)


@pytest.mark.parametrize("field", ["n_dimensions", "radius", "count_unit"])
def test_numbers_below_one_are_refused(field: str) -> None:
    given = {"n_dimensions": 1, "radius": 1, "count_unit": 1} | {field: 0}
    with pytest.raises(PrivacyError, match=field):
        ClusterSums(**given)


def test_an_unknown_relation_is_refused() -> None:
    for measure in (CASES[0].measure_cubes, CASES[0].measure_l1, CASES[0].measure_l2_squared):
        with pytest.raises(PrivacyError, match="neighbouring"):
            measure("swap")
