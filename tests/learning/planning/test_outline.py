import pytest
from hypothesis import given, strategies as st

from sfumato.learning.planning.outline import guess_scale

SPREADS = st.floats(1e-6, 1e6)


@given(SPREADS, st.integers(1, 1000), st.integers(1, 100))
def test_a_cluster_is_narrower_than_all_records_and_the_scale_has_their_unit(
    spread: float, k: int, d: int
) -> None:
    scale = guess_scale(spread, n_clusters=k, n_dimensions=d)
    assert 0 < scale <= 0.7 * spread * (1 + 1e-12)
    assert guess_scale(1000 * spread, n_clusters=k, n_dimensions=d) == pytest.approx(1000 * scale)
    assert guess_scale(spread, n_clusters=k + 1, n_dimensions=d) <= scale
