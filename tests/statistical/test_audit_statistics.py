"""Releases of a tiny histogram and of tiny moments: the exact law, and no event beyond epsilon.

Neighbours are the two records, or the record and none, that move the sums furthest. The noise of
what a device would send is compared with its exact law by a chi-square test: false alarm 5e-7 each,
over the choice of a seed. The black-box auditor raises a false alarm with probability 2e-6 each.
Seeds are fixed. Both must find a mechanism at two thirds of the scale.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.device_agent.agent.reading.release import _draw_payload
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.privacy import RandomSource
from sfumato.shared.privacy.mechanisms.gaussian import draw_gaussian
from sfumato.shared.privacy.mechanisms.laplace import draw_laplace
from sfumato.shared.privacy.samplers import UNIT
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm
from tests.statistical import test_gaussian, test_laplace
from tests.statistical.auditor import Finding, Neighbours, audit_release
from tests.statistical.test_audit import Noise

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EPSILON, DELTA = Fraction(2), Fraction(1, 100)
RADIUS = 24
N_RUNS = 30_000
"""Runs on each data set; half of them choose the event, the others bound it."""
POWER = 0.5
"""The share of the claim that the bound on an honest device has to reach."""
ALARM = 4.9
"""Standard deviations of a chi-square statistic: false alarm 5e-7."""
RELATIONS = {
    "replace-one": WindowRule(kind="count", length=1),
    "add-remove-one": WindowRule(kind="time", origin=3600, length_s=3600),
}
CASES = [
    ("histogram", "discrete-laplace", "replace-one"),
    ("histogram", "discrete-laplace", "add-remove-one"),
    ("moments", "discrete-laplace", "add-remove-one"),
    ("moments", "discrete-gaussian", "replace-one"),
]


def make_plan(statistic: str, mechanism: str, neighbouring: str) -> SketchPlan:
    """Make a plan of few sums, whose stated sensitivity two records attain, or nearly.

    Those of moments that L2 measures take two coordinates. A step of their coarser quantiser is 16
    units of the data.
    """
    names = "xy" if mechanism == "discrete-gaussian" else "x"
    axes = [Dimension(name=name, unit="1", lower=-32767.0, upper=32767.0) for name in names]
    chosen: dict[str, Any] = {"dimensions": tuple(axes)}
    chosen |= {"bins_log2": 1} if statistic == "histogram" else {"norm_steps": RADIUS}
    is_secret = neighbouring == "add-remove-one"
    return create_plan(
        PlanSpec(
            statistic=statistic,  # type: ignore[arg-type]
            epsilon=EPSILON,
            delta=DELTA if mechanism == "discrete-gaussian" else Fraction(0),
            mechanism=mechanism,
            neighbouring=neighbouring,  # type: ignore[arg-type]
            window=RELATIONS[neighbouring],
            least_records=0 if is_secret else 1,
            most_records=1,
            **chosen,
        )
    )


def make_neighbours(plan: SketchPlan) -> Neighbours:
    """Return the records that move the sums furthest in the norm of the mechanism."""
    if plan.kind == "histogram":
        near, far = np.array([[-1.0]]), np.array([[np.nan]])
    else:
        near, far = _find_furthest(plan)
    if plan.releases_count:
        far = np.empty((0, plan.n_dimensions))
    statistic = plan.statistic_of(b"")
    return Neighbours(statistic=statistic, near=near, far=far, count_scale=plan.count_scale)


def _find_furthest(plan: SketchPlan) -> tuple[Floats, Floats]:
    """Search all pairs of clipped records near the sphere, up to the sign of the first."""
    steps = itertools.product(range(-RADIUS, RADIUS + 1), repeat=plan.n_dimensions)
    ball = [u for u in steps if 0.9 <= math.hypot(*u) / RADIUS <= 1]
    records = 16.0 * np.array(ball)
    sums = []
    for record in records:
        accumulator = SketchAccumulator(plan.statistic_of(b""))
        accumulator.add(record[None])
        sums.append(accumulator.sums)
    moved = np.array(sums)
    changes = np.abs(moved[:, None] - (0 if plan.releases_count else moved))
    norms = (changes if plan.sensitivity.norm == "l1" else np.square(changes)).sum(axis=2)
    first, second = np.unravel_index(int(norms.argmax()), norms.shape)
    return records[[first]], records[[second]]


@dataclass(frozen=True, kw_only=True)
class SmallDevice:
    """Noise, clip and encode as a device of a plan does, many times.

    Coordinates are independent, so one call on many copies of a sum has the law of many calls.
    """

    plan: SketchPlan
    noise: Noise

    def release(self, sums: Integers, n_runs: int, source: RandomSource) -> bytes:
        noisy = self.noise.add_noise(np.tile(sums, n_runs), source).reshape(n_runs, -1)
        low, high = self.plan.coordinate_limits(None if self.plan.releases_count else 1)
        return PayloadForm.of(self.plan).encode(np.clip(noisy, low, high).ravel())

    def read(self, payloads: bytes, n_runs: int) -> Floats:
        released = PayloadForm.of(self.plan).decode(payloads, n_payloads=n_runs)
        return released.astype(np.float64)


@dataclass(frozen=True)
class TwoThirds:
    """The noise of a plan at two thirds of its scale."""

    plan: SketchPlan

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers:
        scale = Fraction(2, 3) * self.plan.mechanism.scale
        if self.plan.release.delta:
            return sums + draw_gaussian(source, int(scale), sums.size)
        return sums + draw_laplace(source, math.floor(UNIT / scale), sums.size)


def audit(plan: SketchPlan, noise: Noise, *, seed: int) -> Finding:
    return audit_release(
        SmallDevice(plan=plan, noise=noise),
        make_neighbours(plan),
        n_runs=N_RUNS,
        source=SeededSource(seed),
        delta=float(plan.release.delta),
    )


def score_law(plan: SketchPlan, noise: Noise, *, seed: int) -> list[float]:
    """Compare the noise of what is sent with the plan's law, under either data set."""
    device, source = SmallDevice(plan=plan, noise=noise), SeededSource(seed)
    scale, n_runs, scores = plan.mechanism.scale, N_RUNS // plan.n_coordinates, []
    for sums in make_neighbours(plan).compute_sums():
        released = device.read(device.release(sums, n_runs, source), n_runs).astype(np.int64)
        drawn = (released - sums).ravel()
        if plan.release.delta:
            scores.append(test_gaussian.score(drawn, int(scale)))
        else:
            scores.append(test_laplace.chi_square_score(drawn, float(scale)))
    return scores


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_neighbours_nearly_attain_the_stated_sensitivity(case: tuple[str, str, str]) -> None:
    plan = make_plan(*case)
    near, far = make_neighbours(plan).compute_sums()
    change = np.abs(near - far)
    is_l1 = plan.sensitivity.norm == "l1"
    moved = int(change.sum()) if is_l1 else int(np.square(change).sum())
    assert 0.9 * plan.sensitivity.value <= moved <= plan.sensitivity.value


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_audited_bytes_are_those_that_a_device_would_send(case: tuple[str, str, str]) -> None:
    plan = make_plan(*case)
    neighbours = make_neighbours(plan)
    accumulator = SketchAccumulator(neighbours.statistic)
    accumulator.add(neighbours.near)
    sent = _draw_payload(plan, accumulator, SeededSource(1))
    device = SmallDevice(plan=plan, noise=plan.mechanism)
    assert device.release(neighbours.compute_sums()[0], 1, SeededSource(1)) == sent


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_what_is_sent_has_the_exact_law_and_two_thirds_of_the_scale_are_found(
    case: tuple[str, str, str],
) -> None:
    plan = make_plan(*case)
    assert max(score_law(plan, plan.mechanism, seed=1)) < ALARM
    assert min(score_law(plan, TwoThirds(plan), seed=2)) > ALARM


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_no_event_contradicts_the_claim_and_two_thirds_of_the_scale_are_caught(
    case: tuple[str, str, str],
) -> None:
    plan = make_plan(*case)
    finding = audit(plan, plan.mechanism, seed=3)
    assert POWER * float(EPSILON) <= finding.epsilon <= float(EPSILON), finding
    finding = audit(plan, TwoThirds(plan), seed=4)
    assert finding.epsilon > float(EPSILON), finding
