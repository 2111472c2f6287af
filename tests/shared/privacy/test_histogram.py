from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shared.errors import PrivacyError
from shared.privacy.histogram import NoisyHistogram
from shared.privacy.testing import SeededSource

RELATIONS = {"replace-one": 2, "add-remove-one": 1}


def calibrate(n_cells: int, relation: str, epsilon: Fraction = Fraction(1)) -> NoisyHistogram:
    return NoisyHistogram.calibrate(n_cells=n_cells, epsilon=epsilon, neighbouring=relation)


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_two_neighbours_are_further_apart_than_the_noise_allows(relation: str) -> None:
    # Three records in three cells: all neighbours.
    shares = [np.eye(3, dtype=int)[i] for i in range(3)]
    changes = [a - b for a in shares for b in shares] if relation == "replace-one" else shares
    worst = max(int(np.abs(change).sum()) for change in changes)
    assert worst == RELATIONS[relation] == calibrate(3, relation).mechanism.sensitivity_l1


@pytest.mark.parametrize(("relation", "moved"), RELATIONS.items())
def test_the_threshold_is_the_rule_of_its_relation(relation: str, moved: int) -> None:
    histogram = calibrate(5000, relation, Fraction(1, 2))
    assert histogram.threshold == pytest.approx(moved / 0.5 * math.log(5000), rel=1e-9)


def test_noise_lifts_half_a_cell_in_the_mean_to_the_threshold_and_not_less_or_more() -> None:
    histogram = calibrate(500, "replace-one")
    empty = np.zeros(500, dtype=np.int64)
    source = SeededSource(1)
    lifted = sum(
        int(np.sum(histogram.add_noise(empty, source) >= histogram.threshold)) for _ in range(100)
    )
    # 50 are expected with a deviation of 7: 4.9 of them either way, false alarm 1e-6. At 2/3 or
    # 3/2 of the scale it would be 2 or 400.
    assert 15 < lifted < 85


def test_every_cell_has_noise_the_empty_ones_too() -> None:
    histogram = calibrate(400, "add-remove-one", Fraction(1, 100))
    released = histogram.add_noise(np.zeros(400, dtype=np.int64), SeededSource(2))
    # A count of this noise is 0 with probability 1/200: 20 of 400 would be 13 deviations.
    assert np.count_nonzero(released == 0) < 20
    assert histogram.guarantee.epsilon <= Fraction(1, 100)


def test_counts_of_other_cells_are_refused_before_noise_is_drawn() -> None:
    with pytest.raises(PrivacyError, match="counts: must have shape"):
        calibrate(3, "replace-one").add_noise(np.zeros(4, dtype=np.int64), SeededSource(1))
    with pytest.raises(PrivacyError, match="n_cells"):
        calibrate(0, "replace-one")
