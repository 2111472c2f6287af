"""The compiled module by itself: no argument can make it read or write past a buffer."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.engines import list_engines

if len(list_engines()) == 1:
    pytest.skip("the kernel was not compiled", allow_module_level=True)

from shared.core.engines import _native  # type: ignore[attr-defined]

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


def test_right_arguments_are_accepted() -> None:
    assert add() == 0


@pytest.mark.parametrize(
    "changes",
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
)
def test_a_wrong_argument_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        add(**changes)


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
