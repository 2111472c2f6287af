"""The compiled module by itself: no argument can make it read or write past a buffer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.shared.core.engines import list_engines

if len(list_engines()) == 1:
    pytest.skip("the kernel was not compiled", allow_module_level=True)

from sfumato.shared.core.engines import _native  # type: ignore[attr-defined]

LEVEL = _native.levels()[0]
D, R, GROUPS = 3, 5, 2
M = R * GROUPS


def make_arguments() -> dict[str, Any]:
    size = _native.packed_size(LEVEL, D, R, GROUPS)
    return {
        "level": LEVEL,
        "records": np.zeros((7, D)),
        "d": D,
        "centre": np.zeros(D),
        "scale": np.ones(D),
        "packed": np.zeros(size // 2, dtype=np.int16),
        "r": R,
        "groups": GROUPS,
        "bits": 20,
        "assignment_key": 1,
        "first_record": 0,
        "sums": np.zeros(2 * M, dtype=np.int64),
    }


def add(**changes: Any) -> Any:
    return _native.add_records(*{**make_arguments(), **changes}.values())


def make_histogram_arguments() -> dict[str, Any]:
    # A linear dimension of 2 bins, a logarithmic one of 4 and a category of 3 levels.
    return {
        "records": np.zeros((7, D)),
        "d": D,
        "count": 3,
        "integers": np.array([[0, 0, 1], [1, 1, 2], [2, 2, 3]], dtype=np.int64),
        "doubles": np.ones((3, 3)),
        "sums": np.zeros(5 + 7 + 4, dtype=np.int64),
    }


def change_rule(*rule: int) -> dict[str, Any]:
    integers = make_histogram_arguments()["integers"]
    integers[1] = rule
    return {"integers": integers}


def make_grid_arguments() -> dict[str, Any]:
    return {
        "records": np.zeros((7, 2)),
        "d": 2,
        "centre": np.zeros(2),
        "scale": np.ones(2),
        "cells": np.array([3, 4]),
        "sums": np.zeros(13, dtype=np.int64),
    }


def make_moment_arguments() -> dict[str, Any]:
    return {
        "records": np.zeros((7, 2)),
        "d": 2,
        "centre": np.zeros(2),
        "scale": np.ones(2),
        "radius": 100,
        "constant": 3,
        "mean_weight": 4,
        "diagonal_weight": 5,
        "weight": 7,
        "sums": np.zeros(6, dtype=np.int64),
    }


CLUSTERS = 2, 1, 1, 1, 1, 100, 9, 1, 1, 1, 1, 1, 0, 11
"""k, d, e, columns that can be missing, candidates; Q; units; the norm; integers of the sums."""
PLACES = [0, 1, 1, *(5, -5), 1, *(0, 0), *(3, 4), *(6, -6), *(0, 4)]


def make_cluster_arguments() -> dict[str, Any]:
    return {
        "records": np.zeros((7, 2)),
        "d": 2,
        "centre": np.zeros(2),
        "scale": np.ones(2),
        "rule": np.array([*CLUSTERS, *PLACES]),
        "sums": np.zeros(11, dtype=np.int64),
    }


def change_clusters(place: int, number: int) -> dict[str, Any]:
    rule = make_cluster_arguments()["rule"]
    rule[place] = number
    return {"rule": rule}


def test_right_arguments_are_accepted() -> None:
    assert add() == 0
    arguments = make_histogram_arguments()
    _native.add_histogram(*arguments.values())
    assert arguments["sums"].sum() == 3 * 7
    _native.add_grid(*make_grid_arguments().values())
    assert _native.add_moments(*make_moment_arguments().values()) == 0
    assert _native.add_clusters(*make_cluster_arguments().values()) == 0


WRONG: list[tuple[Any, Callable[[], dict[str, Any]], list[dict[str, Any]]]] = [
    (
        _native.add_records,
        make_arguments,
        [
            {"level": "none"},
            {"records": np.zeros(7)},
            {"records": np.zeros((7, D + 1))},
            {"records": np.zeros((7, D), dtype=np.int64)},
            {"records": (np.zeros(7),) * (D + 1)},
            {"records": (np.zeros(7), np.zeros(7), np.zeros(8))},
            {"records": (np.zeros(7), np.zeros(7), np.zeros((7, 1)))},
            {"records": ()},
            {"centre": np.zeros(D - 1)},
            {"scale": np.ones(D, dtype=np.float32)},
            {"packed": np.zeros(3, dtype=np.int16)},
            {"d": 0},
            {"d": D + 1},
            {"d": 2**62},
            {"r": -1},
            {"r": R + 1},
            {"groups": 0},
            {"groups": 2**31},
            {"bits": 15},
            {"bits": 33},
            {"sums": np.zeros(2 * M - 1, dtype=np.int64)},
            {"sums": np.zeros(2 * M, dtype=np.float64)},
        ],
    ),
    (
        _native.add_histogram,
        make_histogram_arguments,
        [
            {"records": np.zeros((7, D - 1))},
            {"d": 0},
            {"d": 2},
            {"count": 0},
            {"count": 2},
            {"count": 2**62},
            {"integers": np.zeros((3, 3))},
            {"doubles": np.zeros((2, 3))},
            {"sums": np.zeros(15, dtype=np.int64)},
            {"sums": np.zeros(17, dtype=np.int64)},
            change_rule(-1, 1, 2),
            change_rule(3, 1, 2),
            change_rule(1, -1, 2),
            change_rule(1, 3, 2),
            change_rule(1, 1, 0),
            change_rule(1, 1, 13),
            change_rule(1, 2, 0),
            change_rule(1, 2, 2**31),
            change_rule(1, 1, 3),
        ],
    ),
    (
        _native.add_grid,
        make_grid_arguments,
        [
            {"records": np.zeros((7, 3))},
            {"d": -1},
            {"d": 3},
            {"centre": np.zeros(3)},
            {"scale": np.zeros(1)},
            {"cells": np.array([3])},
            {"cells": np.array([3, 0])},
            {"cells": np.array([-3, -4])},
            {"cells": np.array([2**16, 2**15])},
            {"cells": np.array([2**62, 4])},
            {"sums": np.zeros(12, dtype=np.int64)},
        ],
    ),
    (
        _native.add_moments,
        make_moment_arguments,
        [
            {"records": np.zeros((7, 3))},
            {"d": 0},
            {"d": 2**40},
            {"scale": np.zeros(1)},
            {"radius": 0},
            {"radius": 2**20 + 1},
            {"sums": np.zeros(5, dtype=np.int64)},
            {"sums": np.zeros(7, dtype=np.int64)},
        ],
    ),
    (
        _native.add_clusters,
        make_cluster_arguments,
        [
            {"records": np.zeros((7, 3))},
            {"d": 0},
            {"scale": np.zeros(1)},
            {"rule": np.array(CLUSTERS)},
            {"rule": np.array([*CLUSTERS, *PLACES], dtype=np.int32)},
            {"rule": np.array([*CLUSTERS, *PLACES, 0])},
            {"sums": np.zeros(10, dtype=np.int64)},
            {"sums": np.zeros(12, dtype=np.int64)},
            *(change_clusters(place, number) for place in range(5) for number in (-1, 9, 2**62)),
            *(change_clusters(place, 0) for place in (0, 1, 5)),
            *(change_clusters(13, number) for number in (-1, 2, 10, 12, 2**62)),
            *(change_clusters(14 + place, number) for place in range(3) for number in (-1, 2)),
            *(change_clusters(22 + place, 0) for place in range(2)),
            *(change_clusters(26 + place, number) for place in range(2) for number in (-2, 5)),
        ],
    ),
]


def test_a_wrong_argument_is_refused() -> None:
    taken = []
    for function, make, wrong in WRONG:
        for changes in wrong:
            try:
                function(*{**make(), **changes}.values())
            except ValueError:
                continue
            taken.append((function.__name__, changes))
    assert taken == []


@pytest.mark.parametrize("changes", [{"records": None}, {"bits": "x"}, {"sums": b"1" * 160}])
def test_an_argument_of_another_kind_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError, BufferError)):
        add(**changes)


def test_sums_that_may_not_be_written_are_refused() -> None:
    sums = np.zeros(2 * M, dtype=np.int64)
    sums.setflags(write=False)
    with pytest.raises((ValueError, BufferError)):
        add(sums=sums)


@pytest.mark.parametrize("place", [-1, M])
def test_a_place_outside_the_matrix_is_refused(place: int) -> None:
    places = np.arange(M)
    places[4] = place
    packed = np.zeros(_native.packed_size(LEVEL, D, R, GROUPS) // 2, dtype=np.int16)
    turns = np.zeros((D, M), dtype=np.int16)
    with pytest.raises(ValueError, match=r"places\[4\]"):
        _native.pack(LEVEL, turns, D, R, GROUPS, places, packed)


@settings(deadline=None)
@given(
    d=st.integers(-1, 9),
    r=st.integers(-1, 9),
    groups=st.integers(-1, 9),
    packed=st.integers(0, 3000),
    sums=st.integers(0, 200),
    rows=st.integers(0, 9),
    columns=st.integers(0, 9),
)
def test_sizes_that_do_not_fit_each_other_are_refused_and_others_are_not(
    d: int, r: int, groups: int, packed: int, sums: int, rows: int, columns: int
) -> None:
    arguments = {
        "records": np.zeros((rows, columns)),
        "d": d,
        "centre": np.zeros(max(d, 0)),
        "scale": np.zeros(max(d, 0)),
        "packed": np.zeros(packed, dtype=np.int16),
        "r": r,
        "groups": groups,
        "sums": np.zeros(sums, dtype=np.int64),
    }
    fits = (
        min(d, r, groups) > 0
        and columns == d
        and sums == 2 * r * groups
        and 2 * packed == _native.packed_size(LEVEL, d, r, groups)
    )
    if fits:
        assert add(**arguments) == 0
    else:
        with pytest.raises(ValueError, match=r"\w"):
            add(**arguments)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324])
def test_boxes_of_any_doubles_reach_no_bin_that_is_not_there(value: float) -> None:
    records = np.array([[0.0], [1.0], [value], [-value]])
    box = np.array([value])
    for scale in (box, -box, np.ones(1)):
        sums = np.zeros(5, dtype=np.int64)
        rule = np.array([[0, 1, 1]], dtype=np.int64)
        doubles = np.array([[value, scale[0], value]])
        _native.add_histogram(records, 1, 1, rule, doubles, sums)
        assert sums.sum() == 4
        cells = np.zeros(4, dtype=np.int64)
        _native.add_grid(records, 1, box, scale, np.array([3]), cells)
        assert cells.sum() == 4
