import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.shared.core import MaskSchedule
from sfumato.shared.errors import PlanError


def make(m: int = 60, r: int = 12, stream: bytes = b"a") -> MaskSchedule:
    return MaskSchedule.from_seed(bytes(32), stream, n_frequencies=m, measurements_per_record=r)


def test_every_block_partitions_the_features() -> None:
    schedule = make()
    for block in range(4):
        groups = schedule.permute_features(block)
        assert groups.shape == (5, 12)
        assert sorted(groups.ravel().tolist()) == list(range(60))


def test_blocks_and_streams_have_different_permutations() -> None:
    assert not np.array_equal(make().permute_features(0), make().permute_features(1))
    assert not np.array_equal(make().permute_features(0), make(stream=b"b").permute_features(0))


@given(st.integers(0, 2**40), st.integers(0, 300), st.integers(0, 300))
def test_the_group_of_a_record_depends_on_its_counter_alone(
    first: int, skip: int, count: int
) -> None:
    schedule = make()
    together = schedule.assign_groups(first, skip + count)
    assert np.array_equal(together[skip:], schedule.assign_groups(first + skip, count))


def test_groups_are_assigned_evenly_and_independently() -> None:
    groups = make().assign_groups(0, 100_000)
    counts = np.bincount(groups, minlength=5)
    # Chi-square with 4 degrees of freedom: 33.4 is exceeded once in 1e6; the seed is fixed.
    assert np.sum((counts - 20_000) ** 2 / 20_000) < 33.4
    pairs = np.bincount(groups[:-1] * 5 + groups[1:], minlength=25)
    # 24 degrees of freedom: 75 is exceeded once in 1e6.
    assert np.sum((pairs - 99_999 / 25) ** 2 / (99_999 / 25)) < 75


@pytest.mark.parametrize("r", [0, 7, 61, -1])
def test_r_must_divide_m(r: int) -> None:
    with pytest.raises(PlanError, match="divisor of n_frequencies"):
        make(r=r)
