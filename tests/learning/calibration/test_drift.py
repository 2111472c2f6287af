from dataclasses import replace

import numpy as np
import pytest

from sfumato.learning.calibration.drift import ColumnDrift, compare, compare_levels
from sfumato.learning.calibration.strength import (
    choose_bins_log2,
    choose_share,
    judge_strength,
    predict_strength,
)
from sfumato.learning.calibration.words import describe_drift
from sfumato.learning.estimate.histogram import BinNoise
from sfumato.learning.estimate.studies import LevelShares
from sfumato.shared.errors import DecodingError
from tests.learning.calibration.drawing import draw_marginals


def draw(seed: int, shift: float = 0.0, strength: float = 1000.0):  # type: ignore[no-untyped-def]
    records = np.random.default_rng(seed).normal(size=(5000, 4)) + 5.0
    records[:, 0] += shift
    return draw_marginals(records, strength=strength, seed=seed, bins_log2=9)


def test_two_pilots_of_one_law_show_no_drift() -> None:
    found = [drift for seed in range(50) for drift in compare(draw(2 * seed), draw(2 * seed + 1))]
    assert sum(drift.has_moved for drift in found) == 0
    assert np.mean([drift.far_share for drift in found]) < 0.002


def test_a_column_that_moves_by_a_spread_is_found_and_the_others_are_not() -> None:
    drifts = compare(draw(0), draw(1, shift=1.5))
    assert [drift.has_moved for drift in drifts] == [True, False, False, False]
    assert abs(drifts[0].largest.deviations) > 4.0
    assert drifts[0].largest.change == pytest.approx(
        drifts[0].largest.second - drifts[0].largest.first
    )
    assert "has moved" in describe_drift(drifts[0])
    assert "no drift" in describe_drift(drifts[1])


def test_values_that_go_missing_and_values_beyond_the_bounds_are_drift() -> None:
    first, second = draw(0), draw(1)
    gone = replace(second[0], missing=1500.0)
    (found, *_) = compare(first, [gone, *second[1:]])
    assert found.has_moved
    assert "without a value" in describe_drift(found)
    out = replace(second[0], above=1500.0)
    (found, *_) = compare(first, [out, *second[1:]])
    assert "beyond the bounds" in describe_drift(found)


def share_levels(seed: int, shares: list[float], *, is_gaussian: bool = False) -> LevelShares:
    rng, n = np.random.default_rng(seed), 5000
    noise = BinNoise(variance=200.0, is_gaussian=is_gaussian)
    counts = rng.multinomial(n, shares) + noise.draw(rng, (len(shares),))
    return LevelShares(
        name="site",
        unit="1",
        levels=tuple("abcd"[: len(shares) - 1]),
        shares=counts[:-1] / n,
        missing=float(counts[-1] / n),
        error=noise.deviation / n,
        n_records=float(n),
        noise=noise,
    )


@pytest.mark.parametrize("is_gaussian", [False, True])
def test_levels_are_compared_each_by_itself(is_gaussian: bool) -> None:
    usual = [0.5, 0.3, 0.1, 0.1]

    def find(seed: int, shares: list[float]) -> ColumnDrift:
        pilots = [
            [share_levels(2 * seed + i, law, is_gaussian=is_gaussian)]
            for i, law in enumerate((usual, shares))
        ]
        (found,) = compare_levels(*pilots)
        return found

    # 200 comparisons at a false-alarm rate of at most 0.001: more than 3 have probability 6e-5.
    assert sum(find(seed, usual).has_moved for seed in range(200)) <= 3
    moved = find(0, [0.4, 0.4, 0.1, 0.1])
    assert {block.level for block in moved.blocks if block.has_moved} == {"a", "b"}
    assert "with the level" in describe_drift(moved)


def test_the_limit_is_near_the_point_that_noise_and_sampling_reach_so_rarely() -> None:
    first, second = draw(0), draw(1)
    (found, *_) = compare(first, second)
    # About 130 blocks and two sides: 5.0 deviations of a normal law, 8.8 of one Laplace variate.
    ratios = [abs(block.limit * block.deviations / block.change) for block in found.blocks]
    assert 5.0 < min(ratios) < max(ratios) < 9.0


def test_pilots_over_other_dimensions_or_bins_are_refused() -> None:
    first = draw(0)
    with pytest.raises(DecodingError, match="same dimensions"):
        compare(first, first[:3])
    records = np.ones((100, 4))
    with pytest.raises(DecodingError, match="same bins"):
        compare(first, draw_marginals(records, strength=1000.0, seed=0, bins_log2=8))


def test_levels_that_differ_or_are_reported_are_refused() -> None:
    pilot = share_levels(0, [0.5, 0.3, 0.1, 0.1])
    with pytest.raises(DecodingError, match="same categories"):
        compare_levels([pilot], [replace(pilot, levels=("a", "b", "d"))])
    with pytest.raises(DecodingError, match="sums of counts"):
        compare_levels([pilot], [replace(pilot, noise=None)])


def test_strength_bins_and_share_follow_the_rules_of_pilots() -> None:
    weak = predict_strength(n_records=10_000, epsilon=0.1, n_dimensions=10, n_sums=4)
    assert weak == pytest.approx(50.0)
    refusal = judge_strength(weak)
    assert refusal is not None
    assert refusal.factor == pytest.approx(2.0)
    assert judge_strength(100.0) is None
    assert [choose_bins_log2(x) for x in (100.0, 299.0, 300.0, 1000.0)] == [8, 8, 9, 10]
    assert [choose_share(x) for x in (1000.0, 2500.0, 9999.0)] == [0.25, 0.2, 0.1]
    assert [choose_share(x) for x in (10_000.0, 12_500.0, 1e6)] == [0.2, 0.16, 0.1]
