import numpy as np

from sfumato.shared.core import AMPLITUDE, compute_features, feature_table

EXACT = np.exp(2j * np.pi * (np.arange(65536) + 0.5) / 65536)


def table_as_complex() -> np.ndarray:
    table = feature_table().astype(np.float64)
    return table[:, 0] + 1j * table[:, 1]


def test_no_feature_exceeds_the_amplitude() -> None:
    table = feature_table().astype(np.int64)
    assert int(np.max(table[:, 0] ** 2 + table[:, 1] ** 2)) <= AMPLITUDE**2


def test_each_part_is_within_two_ten_thousandths_of_the_exact_value() -> None:
    error = table_as_complex() / AMPLITUDE - EXACT
    assert np.max(np.abs(error.real)) <= 2e-4
    assert np.max(np.abs(error.imag)) <= 2e-4


def test_half_a_turn_further_is_the_exact_negative() -> None:
    assert np.array_equal(np.roll(feature_table(), 32768, axis=0), -feature_table())


def test_a_quarter_turn_further_swaps_the_parts_exactly() -> None:
    cosine, sine = feature_table().T
    further_cosine, further_sine = np.roll(feature_table(), -16384, axis=0).T
    assert np.array_equal(further_cosine, -sine)
    assert np.array_equal(further_sine, cosine)


def test_features_of_any_shape_keep_it() -> None:
    cosine, sine = compute_features([[0, 1], [2, 65535]])
    assert cosine.shape == sine.shape == (2, 2)
    assert cosine.dtype == sine.dtype == np.int16
