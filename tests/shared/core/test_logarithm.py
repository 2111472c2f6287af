import decimal
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core.logarithm import compress, compute_log, expand


def test_the_logarithm_agrees_with_exact_values_below_and_above_one() -> None:
    small = np.random.default_rng(1).random(500) ** 8
    x = np.concatenate([small, 1.0 / small, [1.0, 5e-324, 1.7976931348623157e308]])
    with decimal.localcontext(prec=40):
        exact = np.array([float(decimal.Decimal(float(value)).ln()) for value in x])
    assert np.max(np.abs(compute_log(x) - exact) / np.maximum(1.0, np.abs(exact))) < 3e-16


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(1e-300, 1e300))
def test_the_scale_is_odd_and_close_to_the_exact_logarithm(x: float, resolution: float) -> None:
    quotient = abs(x) / resolution
    y = float(compress(np.array([x]), resolution)[0])
    assert float(compress(np.array([-x]), resolution)[0]) == -y
    if math.isinf(quotient):
        assert abs(y) == 1100.0
    else:
        assert abs(y) == pytest.approx(math.log2(1.0 + quotient), rel=4e-16, abs=4e-16)


def test_infinite_values_lie_beyond_every_finite_one() -> None:
    y = compress(np.array([math.inf, -math.inf, math.nan, 0.0]), 1e-6)
    assert y[:2].tolist() == [1100.0, -1100.0]
    assert math.isnan(y[2])
    assert y[3] == 0.0


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e3))
def test_expanding_undoes_compressing(x: float, resolution: float) -> None:
    back = float(expand(compress(np.array([x]), resolution), resolution)[0])
    assert back == pytest.approx(x, rel=1e-12, abs=1e-13 * resolution)
