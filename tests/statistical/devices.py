"""Small devices for the auditor: a tiny plan, two worst neighbours, and what is sent of their sums.

Every plan here has a record a sketch, or two, so that one record moves the sums by all it can.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from sfumato.shared.core import SketchAccumulator, feature_table
from sfumato.shared.core.quantise import STEPS
from sfumato.shared.core.statistics.clusters import Units
from sfumato.shared.plan import (
    ClustersPart,
    Dimension,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from sfumato.shared.privacy import RandomSource
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import PayloadForm
from tests.statistical.auditor import (
    Finding,
    Floats,
    Integers,
    Neighbours,
    audit_release,
    compute_gauge,
    make_worst_neighbours,
)

EPSILON, DELTA = Fraction(2), Fraction(1, 100)
RADIUS = 24
LENGTH, ORIGIN = 60, 1_700_000_000


class Noise(Protocol):
    """The one thing that an error is planted in."""

    def add_noise(self, sums: Integers, source: RandomSource) -> Integers: ...


CLUSTERS = ClustersPart(
    assigned=("x",),
    summed=("x",),
    centres=((-16_000,), (16_000,)),
    weights=(1,),
    cap=3000**2,
    origins=((-16_000,), (16_000,)),
    radii=((3000,), (3000,)),
    units=Units(residual=12, count=1, square=1),
    clusters_per_sketch=2,
)


def make_plan(
    statistic: str,
    mechanism: str | None = None,
    neighbouring: str = "replace-one",
    **chosen: Any,
) -> SketchPlan:
    """Make a plan of few sums, whose stated sensitivity two records attain, or nearly.

    Those of moments that L2 measures take two coordinates. A step of their coarser quantiser is 16
    units of the data.
    """
    is_secret, is_fourier = neighbouring == "add-remove-one", statistic == "fourier"
    n_records = 2 if is_fourier and not is_secret else 1
    is_pair = is_fourier or (statistic == "moments" and mechanism == "discrete-gaussian")
    names = "xy" if is_pair else "x"
    own: dict[str, dict[str, Any]] = {
        "fourier": {"n_frequencies": 1, "seed": bytes(32).hex()},
        "histogram": {"bins_log2": 1},
        "moments": {"norm_steps": RADIUS},
        "clusters": {"clusters": CLUSTERS},
    }
    fields = own[statistic] | {
        "dimensions": tuple(
            Dimension(
                name=name, unit="1", lower=-STEPS, upper=STEPS, scale=8192 if is_fourier else None
            )
            for name in names
        ),
        "statistic": statistic,
        "epsilon": EPSILON,
        "delta": DELTA if mechanism == "discrete-gaussian" else Fraction(0),
        "mechanism": mechanism,
        "neighbouring": neighbouring,
        "window": WindowRule(kind="time", origin=ORIGIN, length_s=LENGTH)
        if is_secret
        else WindowRule(kind="count", length=n_records),
        "least_records": 0 if is_secret else 1,
        "most_records": n_records,
    }
    return create_plan(PlanSpec(**(fields | chosen)))


def make_neighbours(plan: SketchPlan) -> Neighbours:
    """Return the records that move the sums furthest in the norm of the mechanism."""
    if plan.kind == "fourier":
        phases = _find_worst_phases(plan)
        return make_worst_neighbours(phases, count_scale=plan.count_scale)
    if plan.kind == "histogram":
        near, far = np.array([[-1.0]]), np.array([[np.nan]])
    elif plan.kind == "clusters":
        # At the cap and the clip of either centre: both blocks change by all of their units.
        near, far = np.array([[-19_000.0]]), np.array([[19_000.0]])
    else:
        near, far = _find_furthest(plan)
    if plan.releases_count:
        far = np.empty((0, plan.n_dimensions))
    statistic = plan.statistic_of(b"")
    return Neighbours(statistic=statistic, near=near, far=far, count_scale=plan.count_scale)


def make_opposites(n_features: int) -> Neighbours:
    """Make one record of some phases, and one of the opposite phases."""
    pair = make_worst_neighbours([40 + 9000 * j for j in range(n_features)])
    return replace(pair, near=pair.near[:1], far=pair.far[1:])


def _find_worst_phases(plan: SketchPlan) -> list[int]:
    """Put the record at the phase that is worst for the mechanism, a quarter turn on each time."""
    table = feature_table().astype(np.float64)
    size = {
        "discrete-laplace": np.abs(table).sum(axis=1),
        "discrete-knorm": compute_gauge(table),
        "discrete-gaussian": np.square(table).sum(axis=1),
    }[plan.release.mechanism]
    worst = int(np.argmax(size))
    return [(worst + j * 16384) % 65536 for j in range(plan.n_frequencies)]


def _find_furthest(plan: SketchPlan) -> tuple[Floats, Floats]:
    """Search all pairs of clipped records near the sphere, up to the sign of the first."""
    steps = itertools.product(range(-RADIUS, RADIUS + 1), repeat=plan.n_dimensions)
    ball = [u for u in steps if 0.95 <= math.hypot(*u) / RADIUS <= 1]
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

    The coordinates of Laplace and Gaussian noise are independent, so one call on many copies of a
    sum has the law of many calls. A device with ``copies`` draws fresh noise for each.
    """

    plan: SketchPlan
    noise: Noise
    copies: int = 1

    def release(self, sums: Integers, n_runs: int, source: RandomSource) -> bytes:
        n_runs *= self.copies
        if self.plan.release.mechanism in ("discrete-laplace", "discrete-gaussian"):
            noisy = self.noise.add_noise(np.tile(sums, n_runs), source)
        else:
            noisy = np.concatenate([self.noise.add_noise(sums, source) for _ in range(n_runs)])
        low, high = self.plan.coordinate_limits(
            None if self.plan.releases_count else self.plan.most_records
        )
        form = PayloadForm.of(self.plan)
        clipped = np.clip(noisy.reshape(n_runs, -1), low, high)
        if form.holds_phases:
            return b"".join(form.encode(row) for row in clipped)
        return form.encode(clipped.ravel())

    def read(self, payloads: bytes, n_runs: int) -> Floats:
        released = PayloadForm.of(self.plan).decode(payloads, n_payloads=n_runs * self.copies)
        return released.astype(np.float64)


def audit(
    plan: SketchPlan,
    noise: Noise | None = None,
    neighbours: Neighbours | None = None,
    *,
    seed: int,
    n_runs: int,
    copies: int = 1,
) -> Finding:
    """Bound from below the epsilon of what a device sends; its noise is the plan's unless given."""
    return audit_release(
        SmallDevice(plan=plan, noise=noise or plan.mechanism, copies=copies),
        neighbours or make_neighbours(plan),
        n_runs=n_runs,
        source=SeededSource(seed),
        delta=float(plan.release.delta),
    )
