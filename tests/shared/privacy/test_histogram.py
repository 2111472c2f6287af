"""Noisy histograms: what their noise guarantees, and mistakes that are found."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.histogram import NoisyHistogram
from sfumato.shared.privacy.samplers import UNIT, RandomSource
from sfumato.shared.privacy.testing import SeededSource

Integers = NDArray[np.int64]

RELATIONS = {"replace-one": 2, "add-remove-one": 1}


def calibrate(n_cells: int, relation: str, epsilon: Fraction = Fraction(1)) -> NoisyHistogram:
    return NoisyHistogram.calibrate(n_cells=n_cells, epsilon=epsilon, neighbouring=relation)


def list_neighbours(relation: str) -> list[tuple[Integers, Integers]]:
    """Return all pairs of neighbours of at most three records in three cells."""
    rows = np.eye(3, dtype=np.int64)
    found = []
    for n in range(3):
        for rest in itertools.combinations_with_replacement(rows, n):
            counts = np.sum([np.zeros(3, dtype=np.int64), *rest], axis=0)
            with_one = [counts + row for row in rows]
            if relation == "replace-one":
                found += list(itertools.permutations(with_one, 2))
            else:
                found += [(counts, more) for more in with_one]
    return found


def find_fault(histogram: NoisyHistogram, relation: str, epsilon: Fraction) -> str:
    """Return the first rule of a private histogram that is broken; empty if all hold."""
    moved = RELATIONS[relation]
    for near, far in list_neighbours(relation):
        first, second = (histogram.add_noise(counts, SeededSource(3)) for counts in (near, far))
        if not np.array_equal(first - near, second - far):
            return "noise depends on the counts"
        # Log-ratio of the laws of a release, at worst, from the rate that is drawn at.
        loss = Fraction(int(np.abs(near - far).sum()) * histogram.mechanism.rate, UNIT)
        if loss > min(epsilon, histogram.guarantee.epsilon):
            return "neighbours are further apart than epsilon allows"
    if histogram.guarantee.neighbouring != relation:
        return "guarantee is of another relation"
    wide = replace(histogram, n_cells=400)
    noise = wide.add_noise(np.zeros(400, dtype=np.int64), SeededSource(2))
    # At epsilon of 1/20 a count and a difference of two are 0 with probability 1/40 and 1/80 at
    # most: 10 of 400 are expected with a deviation of 3.1, false alarm 1e-5 beyond 25.
    if np.count_nonzero(noise == 0) > 25:
        return "cells have no noise"
    if np.count_nonzero(np.diff(noise) == 0) > 25:
        return "cells share their noise"
    stated = moved / float(epsilon) * math.log(400)
    if not math.isclose(wide.threshold, stated, rel_tol=1e-9):
        return "threshold is not that of the relation"
    return ""


class _SkipsEmptyCells(NoisyHistogram):
    """It draws noise for cells with records only, as a sparse count does."""

    def add_noise(self, counts: Integers, source: RandomSource) -> Integers:
        full = counts > 0
        released = counts.copy()
        released[full] = self.mechanism.add_noise(counts[full], source)
        return released


class _DrawsOnce(NoisyHistogram):
    """It adds one draw to all cells."""

    def add_noise(self, counts: Integers, source: RandomSource) -> Integers:
        return counts + self.mechanism.add_noise(np.zeros(1, dtype=np.int64), source)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_histogram_breaks_no_rule(relation: str) -> None:
    for epsilon in (Fraction(1, 20), Fraction(1, 21)):
        assert find_fault(calibrate(3, relation, epsilon), relation, epsilon) == ""
    # Nearly all of epsilon is used, so that less noise would be found.
    noise = calibrate(3, relation, epsilon).mechanism
    assert Fraction(RELATIONS[relation] * (noise.rate + 1), UNIT) > epsilon


@pytest.mark.parametrize(
    ("mutant", "fault"),
    [
        (_SkipsEmptyCells, "noise depends on the counts"),
        (_DrawsOnce, "cells share their noise"),
    ],
)
def test_a_planted_fault_is_found(mutant: type[NoisyHistogram], fault: str) -> None:
    epsilon = Fraction(1, 20)
    planted = mutant.calibrate(n_cells=3, epsilon=epsilon, neighbouring="add-remove-one")
    assert find_fault(planted, "add-remove-one", epsilon) == fault


def test_noise_for_fewer_cells_than_a_record_moves_is_found() -> None:
    epsilon = Fraction(1, 20)
    fault = find_fault(calibrate(3, "add-remove-one", epsilon), "replace-one", epsilon)
    assert fault == "neighbours are further apart than epsilon allows"


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
