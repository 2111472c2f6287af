import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.shared.core import FrequencyBlocks
from sfumato.shared.errors import PlanError

SEED = bytes(range(32))
SIZES = st.integers(1, 12).flatmap(lambda b: st.tuples(st.just(b), st.integers(1, 9)))


def make(m: int = 60, r: int = 4, seed: bytes = SEED) -> FrequencyBlocks:
    return FrequencyBlocks(seed=seed, n_frequencies=m, frequencies_per_sketch=r)


def count(
    blocks: FrequencyBlocks, ordinals: range, turns: range, stream: str = "main"
) -> list[int]:
    """How often each block is chosen."""
    chosen = [blocks.choose(ordinal=o, stream=stream, turn=t) for o in ordinals for t in turns]
    counts: list[int] = np.bincount(chosen, minlength=blocks.n_blocks).tolist()
    return counts


@given(SIZES)
def test_blocks_hold_every_feature_once(size: tuple[int, int]) -> None:
    n_blocks, r = size
    blocks = make(n_blocks * r, r)
    assert blocks.members.shape == (n_blocks, r)
    assert sorted(blocks.members.ravel().tolist()) == list(range(n_blocks * r))
    assert (np.diff(blocks.members, axis=1) > 0).all()
    for block, members in enumerate(blocks.members):
        assert (blocks.block_of[members] == block).all()


@settings(max_examples=30)
@given(SIZES, st.integers(0, 5), st.integers(0, 10**9), st.text(min_size=1))
def test_a_whole_run_of_devices_covers_every_block_once_at_any_turn(
    size: tuple[int, int], run: int, turn: int, stream: str
) -> None:
    n_blocks, r = size
    blocks = make(n_blocks * r, r)
    first = run * n_blocks
    found = count(blocks, range(first, first + n_blocks), range(turn, turn + 1), stream)
    assert found == [1] * n_blocks


@given(SIZES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_one_device_covers_every_block_in_a_round_of_turns(
    size: tuple[int, int], ordinal: int, round_: int
) -> None:
    n_blocks, r = size
    blocks = make(n_blocks * r, r)
    turns = range(round_ * n_blocks, (round_ + 1) * n_blocks)
    assert count(blocks, range(ordinal, ordinal + 1), turns) == [1] * n_blocks


@pytest.mark.parametrize("n_blocks", [300, 101, 64])
@pytest.mark.parametrize("n_devices", [1, 7, 30, 100])
def test_a_few_devices_cover_every_block_in_little_more_than_the_fewest_turns(
    n_blocks: int, n_devices: int
) -> None:
    blocks, fewest = make(n_blocks, 1), -(-n_blocks // n_devices)
    for first in (0, 20_400, 123_456):
        found = count(blocks, range(n_devices), range(first, first + 3 * fewest + 1))
        assert min(found) >= 1


def test_streams_of_a_device_begin_at_different_blocks() -> None:
    blocks = make(300, 1)
    begins = {blocks.choose(ordinal=0, stream=f"meter {i}", turn=0) for i in range(20)}
    assert len(begins) > 15


@pytest.mark.parametrize("r", [0, 7, 61])
def test_a_number_that_does_not_divide_is_refused(r: int) -> None:
    with pytest.raises(PlanError, match="divisor"):
        make(60, r)


def test_a_single_block_has_the_features_in_their_own_order() -> None:
    blocks = make(60, 60)
    assert blocks.members.tolist() == [list(range(60))]
    assert blocks.choose(ordinal=7, stream="main", turn=9) == 0


def test_another_seed_mixes_other_features() -> None:
    assert not np.array_equal(make().members, make(seed=bytes(32)).members)
