"""The black-box auditor on what small devices send: reports, and sketches of some features."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.shared.core.quantise import STEPS
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy import FourierShape, RandomSource, calibrate_mechanism, choose_law
from sfumato.shared.privacy.mechanisms.phase import PhaseReports
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm
from tests.statistical.auditor import (
    Finding,
    Floats,
    Integers,
    Neighbours,
    audit_release,
    make_worst_neighbours,
)
from tests.statistical.test_audit import Noise

EPSILON = Fraction(1)
N_REPORTS, N_SKETCHES = 30_000, 6_000
"""Runs on each data set. False alarms of a whole test: at most 2e-6 for each finding."""
POWER = 0.75
"""The share of the claim that the bound on honest reports has to reach."""


def make_plan(m: int, r: int, *, phases: bool) -> SketchPlan:
    axes = tuple(
        Dimension(name=name, unit="1", lower=-STEPS, upper=STEPS, scale=8192) for name in "xy"
    )
    return create_plan(
        PlanSpec(
            dimensions=axes,
            n_frequencies=m,
            frequencies_per_sketch=r,
            seed=bytes(32).hex(),
            epsilon=EPSILON,
            release="phase.v1" if phases else "local.v1",
            window=WindowRule(kind="time", length_s=60),
            most_records=1,
        )
    )


def make_neighbours(r: int) -> Neighbours:
    """One record of some phases, and of the opposite ones."""
    pair = make_worst_neighbours([40 + 9000 * j for j in range(r)])
    return replace(pair, near=pair.near[:1], far=pair.far[1:])


@dataclass(frozen=True, kw_only=True)
class SmallDevice:
    """Releases a sum as a device of a plan does, many times."""

    noise: Noise
    form: PayloadForm

    def release(self, sums: Integers, n_runs: int, source: RandomSource) -> bytes:
        return b"".join(self.form.encode(self.noise.add_noise(sums, source)) for _ in range(n_runs))

    def read(self, payloads: bytes, n_runs: int) -> Floats:
        return self.form.decode(payloads, n_payloads=n_runs).astype(np.float64)


def audit(
    plan: SketchPlan, neighbours: Neighbours, noise: Noise | None = None, *, n_runs: int = N_REPORTS
) -> Finding:
    device = SmallDevice(noise=noise or plan.mechanism, form=PayloadForm.of(plan))
    return audit_release(device, neighbours, n_runs=n_runs, source=SeededSource(7))


@pytest.mark.parametrize("r", [1, 2])
def test_no_event_of_reports_contradicts_the_claim_and_the_best_comes_close(r: int) -> None:
    finding = audit(make_plan(4, r, phases=True), make_neighbours(r))
    assert finding.epsilon <= float(EPSILON), finding
    assert finding.epsilon >= POWER * float(EPSILON), finding


def test_an_unusable_record_cannot_be_told_from_any_other() -> None:
    plan = make_plan(4, 1, phases=True)
    usable = make_neighbours(1)
    finding = audit(plan, replace(usable, far=np.array([[np.nan, 0.0]])))
    assert finding.epsilon <= float(EPSILON), finding
    # Half way: a uniform report lies between those of opposite phases.
    assert finding.epsilon >= 0.25 * float(EPSILON), finding


def test_two_reports_with_the_law_of_one_are_caught() -> None:
    plan = make_plan(4, 2, phases=True)
    wrong = PhaseReports(law=choose_law(EPSILON, 1), n_reports=1, epsilon=EPSILON)
    finding = audit(plan, make_neighbours(2), wrong)
    assert finding.epsilon > float(EPSILON), finding


@dataclass(frozen=True)
class SilentReports:
    """Reports nothing but phase 0 of a record that cannot be sketched."""

    right: Noise

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        if sums.any():
            return self.right.add_noise(sums, source)
        return make_neighbours(sums.size // 2).compute_sums()[0]


def test_a_report_that_shows_an_unusable_record_is_caught() -> None:
    plan = make_plan(4, 1, phases=True)
    neighbours = replace(make_neighbours(1), far=np.array([[np.nan, 0.0]]))
    finding = audit(plan, neighbours, SilentReports(plan.mechanism))
    assert finding.epsilon > float(EPSILON), finding


def test_no_event_of_a_sketch_of_some_features_contradicts_the_claim() -> None:
    finding = audit(make_plan(4, 2, phases=False), make_neighbours(2), n_runs=N_SKETCHES)
    assert finding.epsilon <= float(EPSILON), finding
    assert finding.epsilon >= 0.4 * float(EPSILON), finding


def test_noise_for_fewer_features_than_a_sketch_carries_is_caught() -> None:
    plan = make_plan(4, 2, phases=False)
    one = calibrate_mechanism(
        replace(plan.privacy_target, shape=FourierShape(n_frequencies=1, measurements_per_record=1))
    )

    @dataclass(frozen=True)
    class EachByItself:
        """Noise of a sketch of one feature on each of two."""

        def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
            pairs = sums.reshape(2, -1).T
            return np.array([one.add_noise(pair, source) for pair in pairs]).T.ravel()

    finding = audit(plan, make_neighbours(2), EachByItself(), n_runs=N_SKETCHES)
    assert finding.epsilon > float(EPSILON), finding
