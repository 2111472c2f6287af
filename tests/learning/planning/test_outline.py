import math

import pytest
from hypothesis import given, strategies as st

from sfumato.learning.planning.outline import guess_clusters, guess_scale

SPREADS = st.floats(1e-6, 1e6)


@given(SPREADS, st.integers(1, 1000), st.integers(1, 100))
def test_a_cluster_is_narrower_than_all_records_and_the_scale_has_their_unit(
    spread: float, k: int, d: int
) -> None:
    scale = guess_scale(spread, n_clusters=k, n_dimensions=d)
    assert 0 < scale <= 0.7 * spread * (1 + 1e-12)
    assert guess_scale(1000 * spread, n_clusters=k, n_dimensions=d) == pytest.approx(1000 * scale)
    assert guess_scale(spread, n_clusters=k + 1, n_dimensions=d) <= scale


def test_a_factor_of_two_in_the_clusters_is_forgiven() -> None:
    one = guess_scale(1.0, n_clusters=5, n_dimensions=4)
    other = guess_scale(1.0, n_clusters=10, n_dimensions=4)
    assert one / other == pytest.approx(1.19, abs=0.005)


def test_an_unknown_number_of_clusters_is_the_geometric_mean_of_5_and_50() -> None:
    assert guess_clusters() == pytest.approx(math.sqrt(250))
