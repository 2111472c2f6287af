"""The cover against its definition, by brute force after every pick."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.learning.coverage.gains import CoverGains, choose_points
from sfumato.learning.coverage.grid import CoverGrid
from sfumato.learning.coverage.projection import Integers
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.selection import ExponentialChoice
from sfumato.shared.privacy.testing import SeededSource

HALF = 50


def list_gains(grid: CoverGrid, places: Integers, is_left: list[bool]) -> dict[int, int]:
    """The gain of every point of a small grid, from cells and squared distances."""
    cells = [
        [(int(x) + HALF) * grid.n_cells // (2 * HALF + 1) + grid.margin for x in place]
        for place in places
    ]
    gains = {}
    for point in itertools.product(range(grid.base), repeat=grid.n_dimensions):
        key = sum(x * grid.base**j for j, x in enumerate(point))
        gains[key] = sum(
            left and sum((x - y) ** 2 for x, y in zip(cell, point, strict=True)) <= grid.reach2
            for cell, left in zip(cells, is_left, strict=True)
        )
    return gains


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(-HALF, HALF), st.integers(-HALF, HALF)), max_size=12),
    st.integers(1, 5),
    st.integers(0, 5),
    st.lists(st.integers(0, 10**6), min_size=1, max_size=4),
)
def test_gains_are_those_of_the_definition_after_every_pick(
    found: list[tuple[int, int]], n_cells: int, reach2: int, picks: list[int]
) -> None:
    grid = CoverGrid(half=HALF, n_cells=n_cells, n_dimensions=2, reach2=reach2)
    places = np.array(found, dtype=np.int64).reshape(-1, 2)
    gains = CoverGains(grid, places)
    is_left = [True] * len(places)
    for pick in picks:
        expected = list_gains(grid, places, is_left)
        assert {key: gains.find_gain(key) for key in expected} == expected
        levels = np.bincount(list(expected.values()))
        listed = gains._levels[1:]
        assert np.array_equal(np.trim_zeros(listed, "b"), np.trim_zeros(levels[1:], "b"))
        key = pick % grid.n_points
        one = [list_gains(grid, places[i : i + 1], [True])[key] == 1 for i in range(len(places))]
        assert gains.remove(key) == sum(a and b for a, b in zip(one, is_left, strict=True))
        is_left = [left and not gone for left, gone in zip(is_left, one, strict=True)]
        assert gains.remaining.tolist() == is_left


def test_one_record_changes_every_gain_by_at_most_one() -> None:
    grid = CoverGrid(half=HALF, n_cells=7, n_dimensions=2, reach2=2)
    places = np.random.default_rng(1).integers(-HALF, HALF + 1, size=(30, 2))
    with_it, without = CoverGains(grid, places), CoverGains(grid, places[1:])
    changes = {with_it.find_gain(k) - without.find_gain(k) for k in range(grid.n_points)}
    assert changes == {0, 1}


def test_points_are_drawn_by_the_exponential_law() -> None:
    grid = CoverGrid(half=HALF, n_cells=2, n_dimensions=2, reach2=1)
    places = np.array([[-40, -40]] * 6 + [[40, 40]] * 3)
    gains, source = CoverGains(grid, places), SeededSource(4)
    n = 4000
    drawn = [gains.draw(ExponentialChoice(rate=UNIT // 4), source) for _ in range(n)]
    exact = list_gains(grid, places, [True] * 9)

    def find_distance(exponent: float) -> float:
        weights = np.array([math.exp(exponent * exact[key]) for key in range(grid.n_points)])
        expected = n * weights / weights.sum()
        counts = np.bincount(drawn, minlength=grid.n_points)
        return float(np.sum((counts - expected) ** 2 / expected))

    # Chi-square with 15 degrees of freedom: 57.7 once in 1e6. Other exponents are found.
    assert find_distance(0.25) < 57.7
    assert find_distance(0.35) > 57.7
    assert find_distance(0.15) > 57.7


def test_what_is_covered_leaves_for_all_radii() -> None:
    grids = tuple(CoverGrid(half=HALF, n_cells=m, n_dimensions=2, reach2=2) for m in (10, 5))
    places = np.array([[-40, -40]] * 500 + [[30, 30]] * 400)
    # The exponent is so large that the best point is always picked.
    found = choose_points(
        places,
        grids,
        n_picks=2,
        choice=ExponentialChoice(rate=2 * UNIT),
        source=SeededSource(1),
    )
    near = [np.abs(found - place).max(axis=1) < 25 for place in ([-40, -40], [30, 30])]
    assert near[0][0]
    assert near[1][1]
    # Nothing is left for the second grid, and it is picked from all the same.
    assert found.shape == (4, 2)


def test_without_records_points_are_uniform() -> None:
    grid = CoverGrid(half=HALF, n_cells=3, n_dimensions=1, reach2=0)
    gains, source = CoverGains(grid, np.empty((0, 1), dtype=np.int64)), SeededSource(2)
    drawn = []
    for _ in range(900):
        drawn.append(gains.draw(ExponentialChoice(rate=UNIT), source))
        assert gains.remove(drawn[-1]) == 0
    # 30 is more than two standard deviations of 14; 75 is beyond five.
    assert np.max(np.abs(np.bincount(drawn, minlength=3) - 300)) < 75


def test_a_grid_of_a_million_million_points_needs_no_list_of_them() -> None:
    grid = CoverGrid(half=1 << 20, n_cells=300, n_dimensions=5, reach2=2)
    assert grid.n_points == 302**5
    assert len(grid.offsets) == 51
    key = int(grid.find_keys(np.zeros((1, 5), dtype=np.int64))[0])
    assert np.abs(grid.locate(key)).max() <= (1 << 20) / 300 + 1


@pytest.mark.parametrize(
    ("n_cells", "n_dimensions", "reach2", "field"),
    [(2**13, 5, 2, "radii"), (3, 12, 12, "reach")],
)
def test_grids_that_are_too_large_are_refused(
    n_cells: int, n_dimensions: int, reach2: int, field: str
) -> None:
    with pytest.raises(ConfigError, match=field):
        CoverGrid(half=HALF, n_cells=n_cells, n_dimensions=n_dimensions, reach2=reach2)
