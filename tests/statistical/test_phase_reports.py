"""Reports shrink by their gain, and no event tells two phases apart beyond epsilon.

The auditor sees reports alone. Its bound exceeds the true epsilon with probability at most 2e-6 an
audit (two Clopper-Pearson bounds of 1e-6), over the choice of a seed; seeds are fixed. An audit of
an honest device also has to reach 0.75 of the claim, so that silence means something.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.shared.privacy import RandomSource
from sfumato.shared.privacy.circle import CircularLaw, choose_law
from tests.statistical.auditor import Finding, judge_scores

Integers = NDArray[np.int64]
Report = Callable[[int | None, RandomSource], int]
"""What a device sends for a phase, or for a record that cannot be sketched."""

TURN = 1 << 16
N_DRAWS = 1_000_000
N_RUNS, FEW_RUNS = 40_000, 8_000
"""Runs on each record; half of them choose the event, the others bound it. Few for gross errors."""
POWER = 0.75


class BufferedSource:
    """A seeded source that hashes in large blocks, for millions of small draws."""

    def __init__(self, seed: int) -> None:
        self._seed = seed.to_bytes(8, "little")
        self._block, self._next, self._blocks = b"", 0, 0

    def draw_bytes(self, count: int) -> bytes:
        if self._next + count > len(self._block):
            label = self._seed + self._blocks.to_bytes(8, "little")
            self._block, self._next = hashlib.shake_256(label).digest(1 << 16), 0
            self._blocks += 1
        self._next += count
        return self._block[self._next - count : self._next]


def test_the_mean_of_a_million_reports_shrinks_by_the_gain_and_no_other() -> None:
    law, source = choose_law(Fraction(1)), BufferedSource(1)
    offsets = np.array([law.draw_offset(source) for _ in range(N_DRAWS)])
    cosines = np.cos(2 * math.pi * offsets / TURN)
    # Five standard errors: false alarm 6e-7 each.
    tolerance = 5 * float(cosines.std()) / math.sqrt(N_DRAWS)
    mean = float(cosines.mean())
    assert abs(mean - law.gain) < tolerance
    assert abs(float(np.sin(2 * math.pi * offsets / TURN).mean())) < tolerance * 1.2
    wrong = {
        "forgets the weight elsewhere": law.gain / (1 - 1 / float(law.odds)),
        "forgets the mass elsewhere": math.sin(math.pi * 0.4) / (math.pi * 0.4),
        "of twice epsilon": choose_law(Fraction(2)).gain,
        "of half the arc": CircularLaw(arc=law.arc // 2, weight=law.weight, bits=law.bits).gain,
        "of an epsilon a tenth too large": choose_law(Fraction(11, 10)).gain,
    }
    assert all(abs(mean - gain) > tolerance for gain in wrong.values())


def audit_reports(
    report: Report,
    near: list[int | None],
    far: list[int | None],
    *,
    seed: int,
    n_runs: int = N_RUNS,
) -> Finding:
    """Bound from below the epsilon of all reports of one record, given two values of it.

    Parameters
    ----------
    report
        The device.
    near, far
        The phase of each reported feature under either value; None if it cannot be sketched.
    """
    source = BufferedSource(seed)
    runs = [
        np.array([[report(phase, source) for phase in record] for _ in range(n_runs)])
        for record in (near, far)
    ]

    closer = [measure_distances(z, far) - measure_distances(z, near) for z in runs]
    scores = {
        "closeness of all": [z.sum(axis=1).astype(np.float64) for z in closer],
        "closeness of each": [z.min(axis=1).astype(np.float64) for z in closer],
    }
    return judge_scores(scores, n_runs=n_runs)


def measure_distances(outputs: Integers, record: list[int | None]) -> Integers:
    """Return how far each report is from its phase; a quarter turn from one that is none."""
    columns = [
        np.full(len(outputs), TURN // 4)
        if phase is None
        else np.minimum((column - phase) % TURN, (phase - column) % TURN)
        for column, phase in zip(outputs.T, record, strict=True)
    ]
    return np.stack(columns, axis=1)


def follow(law: CircularLaw) -> Report:
    """Return the device that follows a law."""

    def report(phase: int | None, source: RandomSource) -> int:
        return law.uniform_report(source) if phase is None else law.report(phase, source)

    return report


HERE, OPPOSITE = 12345, 12345 + TURN // 2


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(2)])
def test_no_event_tells_two_phases_apart_beyond_epsilon(epsilon: Fraction) -> None:
    finding = audit_reports(follow(choose_law(epsilon)), [HERE], [OPPOSITE], seed=2)
    assert POWER * epsilon <= finding.epsilon <= epsilon


def test_nor_does_one_in_two_reports_of_a_record() -> None:
    finding = audit_reports(
        follow(choose_law(Fraction(2), 2)), [HERE, 0], [OPPOSITE, TURN // 2], seed=3
    )
    assert POWER * 2 <= finding.epsilon <= 2


@pytest.mark.parametrize("pair", [([HERE], [None]), ([None], [HERE])])
def test_nor_a_record_from_one_that_cannot_be_sketched(
    pair: tuple[list[int | None], list[int | None]],
) -> None:
    finding = audit_reports(follow(choose_law(Fraction(1))), *pair, seed=4)
    # The uniform report lies strictly within: its odds are 1.61 and 1.69 of 2.72.
    assert 0.4 <= finding.epsilon <= math.log(1.7)


def test_a_law_with_twice_the_odds_is_caught() -> None:
    law = choose_law(Fraction(1))
    doubled = CircularLaw(arc=law.arc, weight=2 * law.weight, bits=law.bits)
    assert audit_reports(follow(doubled), [HERE], [OPPOSITE], seed=5, n_runs=FEW_RUNS).epsilon > 1


def test_two_reports_with_the_whole_epsilon_each_are_caught() -> None:
    finding = audit_reports(
        follow(choose_law(Fraction(1))), [HERE, 0], [OPPOSITE, TURN // 2], seed=6, n_runs=FEW_RUNS
    )
    assert finding.epsilon > 1


def test_a_fixed_report_where_a_record_cannot_be_sketched_is_caught() -> None:
    law = choose_law(Fraction(1))

    def send_zero(phase: int | None, source: RandomSource) -> int:
        return 0 if phase is None else law.report(phase, source)

    assert audit_reports(send_zero, [None], [HERE], seed=7, n_runs=FEW_RUNS).epsilon > 1


def test_an_offset_that_is_drawn_from_a_single_word_is_caught() -> None:
    law = choose_law(Fraction(1))

    def send_biased(phase: int | None, source: RandomSource) -> int:
        # The mass is above 2^68, so 64 bits reach only the first of the offsets.
        number = int.from_bytes(source.draw_bytes(8), "little") % law.mass
        return ((phase or 0) + number // law.weight - law.arc) % TURN

    assert audit_reports(send_biased, [HERE], [OPPOSITE], seed=8, n_runs=FEW_RUNS).epsilon > 1
