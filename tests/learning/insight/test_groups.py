"""Groups: pairs at the stated rate, a map of their distances, and a tree of those that are one."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.insight.groups import (
    GroupComparison,
    compare_groups,
    compare_pairs,
    place_groups,
)
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import WindowRule
from tests.learning.insight.drawing import MIXTURE, Fleet, make_model, make_plan

GROWN = replace(MIXTURE, weights=np.array([0.3, 0.5, 0.2]))


def compare_mixtures(
    mixtures: list[GaussianMixture], n_sketches: int = 2, **changes: Any
) -> GroupComparison:
    plan = make_plan(60, **({"epsilon": Fraction(5)} | changes))
    fleet = Fleet(plan, 5)
    groups = [
        fleet.draw(2000, n_sketches, mixture=mixture, name=f"group {i}")
        for i, mixture in enumerate(mixtures)
    ]
    return compare_pairs(make_model(plan), groups, label="city", rng=np.random.default_rng(5))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"frequencies_per_sketch": 15, "n_sketches": 4},
        {
            "neighbouring": "add-remove-one",
            "window": WindowRule(kind="time", origin=60, length_s=60),
        },
    ],
)
def test_alike_groups_join_before_others(changes: dict[str, Any]) -> None:
    found = compare_mixtures([MIXTURE, GROWN, MIXTURE, GROWN], **changes)
    joined = {frozenset((join.left, join.right)) for join in found.tree if join.is_one}
    assert joined == {frozenset((0, 2)), frozenset((1, 3))}
    assert found.tree[-1].p < 1e-4
    assert not found.tree[-1].is_one
    certain = {(pair.first, pair.second) for pair in found.pairs if pair.is_certain}
    assert certain == {(0, 1), (0, 3), (1, 2), (2, 3)}
    distances = np.linalg.norm(found.places[:, None] - found.places, axis=2)
    assert distances == pytest.approx(found.sizes, abs=0.15)
    assert found.p_values[1, 2] == found.p_values[2, 1] < 1e-4


def test_a_pair_names_its_largest_changes_and_their_direction() -> None:
    found = compare_mixtures([MIXTURE, GROWN, MIXTURE])
    pair = next(pair for pair in found.pairs if (pair.first, pair.second) == (0, 1))
    assert 1 <= len(pair.changes) <= 3
    named = {(each.cluster, each.quantity): each.estimate for each in pair.changes}
    assert named[(1, "weight")] == pytest.approx(np.log(5 / 3), abs=0.15)
    alike = next(pair for pair in found.pairs if (pair.first, pair.second) == (0, 2))
    assert alike.changes == ()


def test_the_map_keeps_the_distances_of_points_in_a_plane() -> None:
    points = np.random.default_rng(1).normal(size=(6, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    places, share_shown = place_groups(distances)
    assert np.linalg.norm(places[:, None] - places, axis=2) == pytest.approx(distances)
    assert share_shown == pytest.approx(1.0)
    # Sizes that fit in no space are placed all the same, and the map says how much it shows.
    distances[0, 1] = distances[1, 0] = 10.0
    places, share_shown = place_groups(distances)
    assert np.all(np.isfinite(places))
    assert share_shown < 0.9


def test_alike_groups_are_told_apart_in_one_family_of_twenty() -> None:
    plan = make_plan(20)
    model, fleet, rng = make_model(plan), Fleet(plan, 3), np.random.default_rng(3)
    families = []
    for _ in range(40):
        groups = [fleet.draw(500, name=str(i)) for i in range(4)]
        found = compare_pairs(model, groups, label="city", rng=rng, n_draws=999)
        families.append(any(pair.is_certain for pair in found.pairs))
    # Seeded. At most 5 % of 40 families; six or more come by chance once in 70.
    assert sum(families) < 6


def test_groups_that_cannot_be_compared_are_refused_by_name() -> None:
    plan = make_plan(20)
    model, fleet, rng = make_model(plan), Fleet(plan, 1), np.random.default_rng(1)
    one = fleet.draw(500, name="a")
    for groups, text in (
        ([one], "city: must have 2 to 64 values with sketches and has 1"),
        ([one] * 65, "has 65"),
        ([one, fleet.draw(500, name="a")], "city: must not repeat a value"),
        ([one, replace(one, name="b")], "a and b share sketches"),
        ([one, fleet.draw(500, 0, name="b")], "b holds none"),
    ):
        with pytest.raises(DecodingError, match=text):
            compare_pairs(model, groups, label="city", rng=rng)
    masked = make_plan(40, "discrete-laplace", measurements_per_record=10)
    with pytest.raises(DecodingError, match="measurements_per_record"):
        compare_groups(masked, [one, fleet.draw(500, name="b")], label="city", n_clusters=3)


def test_the_description_begins_with_what_is_doubtful() -> None:
    found = compare_mixtures([MIXTURE, MIXTURE, replace(MIXTURE, means=-MIXTURE.means)])
    lines = found.describe()
    assert lines[0].startswith("1 of 3 pairs cannot be told apart")
    assert "order of magnitude" in lines[1]
    assert any("group 0 and group 2 differ as if" in line for line in lines)
    assert lines[-1] == "assumes independent records"
    nothing = compare_mixtures([MIXTURE, MIXTURE]).describe()
    assert "no two values of city are known to differ" in nothing


def test_the_same_sums_and_seed_give_the_same_answer() -> None:
    plan = make_plan(30, epsilon=Fraction(20))
    fleet = Fleet(plan, 1)
    groups = [
        fleet.draw(3000, name=name, mixture=mixture)
        for name, mixture in (("a", MIXTURE), ("b", GROWN), ("c", MIXTURE))
    ]
    runs = [compare_groups(plan, groups, label="city", n_clusters=3, seed=7)[0] for _ in range(2)]
    assert np.array_equal(runs[0].p_values, runs[1].p_values)
    assert np.array_equal(runs[0].places, runs[1].places)
    assert runs[0].values == ("a", "b", "c")
    assert runs[0].n_records == (3000, 3000, 3000)
    assert runs[0].pairs[0].is_certain
