import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core import Quantiser
from sfumato.shared.errors import PlanError, RecordError

BOX = Quantiser.from_bounds([-2.0, 0.0], [2.0, 100.0])


def test_centre_and_edges_map_to_zero_and_the_largest_steps() -> None:
    steps, _ = BOX.quantise(np.array([[0.0, 50.0], [-2.0, 0.0], [2.0, 100.0]]))
    assert steps.tolist() == [[0, 0], [-32767, -32767], [32767, 32767]]


def test_values_outside_the_box_saturate() -> None:
    steps, sketchable = BOX.quantise(np.array([[1e308, -1e308]]))
    assert steps.tolist() == [[32767, -32767]]
    assert sketchable.all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_record_with_a_value_that_is_not_finite_is_not_sketchable(value: float) -> None:
    steps, sketchable = BOX.quantise(np.array([[value, 1.0], [0.0, 1.0]]))
    assert sketchable.tolist() == [False, True]
    assert steps[0].tolist() == [0, 0]


@given(st.floats(-2, 2))
def test_rounding_moves_a_value_by_at_most_half_a_step(value: float) -> None:
    steps, _ = BOX.quantise(np.array([[value, 0.0]]))
    assert abs(int(steps[0, 0]) * 2.0 / 32767 - value) <= 1.0 / 32767 + 1e-12


@pytest.mark.parametrize(
    ("lower", "upper"),
    [(1.0, -1.0), (1.0, 1.0), (np.nan, 1.0), (-np.inf, 1.0), (-1.7e308, 1.7e308)],
)
def test_impossible_bounds_are_refused_by_number(lower: float, upper: float) -> None:
    with pytest.raises(PlanError, match=r"dimensions\[1\]") as caught:
        Quantiser.from_bounds([0.0, lower], [1.0, upper])
    assert caught.value.fix is not None


def test_records_of_another_shape_or_type_are_refused() -> None:
    with pytest.raises(RecordError, match=r"shape \(n, 2\)"):
        BOX.quantise(np.zeros((3, 5)))
    with pytest.raises(RecordError, match="float32 or float64"):
        BOX.quantise(np.zeros((3, 2), dtype=np.int64))


def test_single_precision_records_are_quantised_as_their_exact_values() -> None:
    single = np.array([[0.1, 33.3]], dtype=np.float32)
    assert np.array_equal(BOX.quantise(single)[0], BOX.quantise(single.astype(np.float64))[0])
