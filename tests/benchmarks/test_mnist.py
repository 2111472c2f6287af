"""Images come from arrays, and a pickle that holds anything else is not read."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from benchmarks.mnist import read_arrays


class _Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("true",)


def test_arrays_in_tuples_are_read() -> None:
    given = ((np.arange(6, dtype="<f4").reshape(2, 3), np.arange(2)),)
    data = pickle.dumps(given, protocol=3).replace(b"numpy._core.", b"numpy.core.")
    ((pixels, labels),) = read_arrays(data)
    assert np.array_equal(pixels, given[0][0])
    assert labels.tolist() == [0, 1]


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(pickle.UnpicklingError, match="which is no array"):
        read_arrays(pickle.dumps((np.zeros(1), _Harmful()), protocol=3))
