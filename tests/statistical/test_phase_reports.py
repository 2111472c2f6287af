"""Reports shrink by their gain, and no event tells two phases apart beyond epsilon.

The auditor sees the bytes of reports alone. Its bound exceeds the true epsilon with probability at
most 2e-6 an audit (two Clopper-Pearson bounds of 1e-6), over the choice of a seed; seeds are fixed.
An audit of an honest device also has to reach 0.6 of the claim, so that silence means something.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.shared.core import feature_table
from sfumato.shared.plan import SketchPlan, WindowRule
from sfumato.shared.privacy import RandomSource
from sfumato.shared.privacy.circle import CircularLaw, choose_law
from sfumato.shared.privacy.mechanisms.phase import PhaseReports, find_phases
from sfumato.shared.privacy.testing import SeededSource
from tests.statistical.auditor import Integers
from tests.statistical.devices import Noise, audit, make_opposites, make_plan

TURN = 1 << 16
N_DRAWS = 100_000
N_RUNS, FEW_RUNS = 16_000, 4_000
"""Runs on each record; half of them choose the event, the others bound it. Few for gross errors."""
POWER = 0.6
LAW = choose_law(Fraction(1))


def make_report_plan(epsilon: Fraction, r: int = 1) -> SketchPlan:
    return make_plan(
        "fourier",
        n_frequencies=4,
        frequencies_per_sketch=r,
        epsilon=epsilon,
        release="phase.v1",
        window=WindowRule(kind="time", length_s=60),
        most_records=1,
    )


def test_the_mean_of_many_reports_shrinks_by_the_gain_and_no_other() -> None:
    source = SeededSource(1)
    offsets = np.array([LAW.draw_offset(source) for _ in range(N_DRAWS)])
    cosines = np.cos(2 * math.pi * offsets / TURN)
    # Five standard errors: false alarm 6e-7 each.
    tolerance = 5 * float(cosines.std()) / math.sqrt(N_DRAWS)
    mean = float(cosines.mean())
    assert abs(mean - LAW.gain) < tolerance
    assert abs(float(np.sin(2 * math.pi * offsets / TURN).mean())) < tolerance * 1.2
    wrong = {
        "forgets the weight elsewhere": LAW.gain / (1 - 1 / float(LAW.odds)),
        "forgets the mass elsewhere": math.sin(math.pi * 0.4) / (math.pi * 0.4),
        "of an epsilon a tenth too large": choose_law(Fraction(11, 10)).gain,
    }
    assert all(abs(mean - gain) > tolerance for gain in wrong.values())


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_no_event_tells_two_phases_apart_beyond_epsilon(epsilon: Fraction) -> None:
    finding = audit(make_report_plan(epsilon), None, make_opposites(1), seed=2, n_runs=N_RUNS)
    assert POWER * epsilon <= finding.epsilon <= epsilon, finding


def test_nor_does_one_in_two_reports_of_a_record() -> None:
    plan = make_report_plan(Fraction(2), 2)
    finding = audit(plan, None, make_opposites(2), seed=3, n_runs=N_RUNS)
    assert POWER * 2 <= finding.epsilon <= 2, finding


UNUSABLE = replace(make_opposites(1), far=np.array([[np.nan, 0.0]]))


def test_nor_a_record_from_one_that_cannot_be_sketched() -> None:
    finding = audit(make_report_plan(Fraction(1)), None, UNUSABLE, seed=4, n_runs=N_RUNS)
    # The uniform report lies strictly within: its odds are 1.61 and 1.69 of 2.72.
    assert 0.25 <= finding.epsilon <= math.log(1.7), finding


@dataclass(frozen=True)
class Reports:
    """Reports of a law as they come, without a look at what it costs."""

    law: CircularLaw

    def report(self, phase: int, source: RandomSource) -> int:
        return self.law.report(phase, source)

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        reports = [self.report(phase, source) for phase in find_phases(sums.reshape(2, -1))]
        rows: Integers = feature_table()[reports].T.astype(np.int64).ravel()
        return rows


class BiasedReports(Reports):
    """Draws the offset from a single word: 64 bits reach only the first of a mass above 2^68."""

    def report(self, phase: int, source: RandomSource) -> int:
        number = int.from_bytes(source.draw_bytes(8), "little") % self.law.mass
        return int(phase + number // self.law.weight - self.law.arc) % TURN


@dataclass(frozen=True)
class SilentReports:
    """Reports nothing but phase 0 of a record that cannot be sketched."""

    right: Noise

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        if sums.any():
            return self.right.add_noise(sums, source)
        row: Integers = feature_table()[0].astype(np.int64)
        return row


def test_a_law_with_twice_the_odds_is_caught() -> None:
    doubled = CircularLaw(arc=LAW.arc, weight=2 * LAW.weight, bits=LAW.bits)
    plan, records = make_report_plan(Fraction(1)), make_opposites(1)
    finding = audit(plan, Reports(doubled), records, seed=5, n_runs=FEW_RUNS)
    assert finding.epsilon > 1, finding


def test_two_reports_with_the_whole_epsilon_each_are_caught() -> None:
    wrong = PhaseReports(law=LAW, n_reports=1, epsilon=Fraction(1))
    plan, records = make_report_plan(Fraction(1), 2), make_opposites(2)
    finding = audit(plan, wrong, records, seed=6, n_runs=2 * FEW_RUNS)
    assert finding.epsilon > 1, finding


def test_a_fixed_report_where_a_record_cannot_be_sketched_is_caught() -> None:
    plan = make_report_plan(Fraction(1))
    finding = audit(plan, SilentReports(plan.mechanism), UNUSABLE, seed=7, n_runs=FEW_RUNS)
    assert finding.epsilon > 1, finding


def test_an_offset_that_is_drawn_from_a_single_word_is_caught() -> None:
    plan, records = make_report_plan(Fraction(1)), make_opposites(1)
    finding = audit(plan, BiasedReports(LAW), records, seed=8, n_runs=FEW_RUNS)
    assert finding.epsilon > 1, finding
