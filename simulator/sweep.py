"""Sweeps: the same records under plans whose bounds, scale, m or epsilon are wrong by a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import Final

import numpy as np

from sfumato.learning.decoding.kmeans import measure_inertia
from sfumato.learning.planning.plans import vary_plan
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import SketchError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.plan.derivation import derive
from sfumato.simulator.fleet import require_sketches, run_fleet
from sfumato.simulator.outcome import find_box, find_reference, recover_centroids, take_sample
from sfumato.simulator.records import FleetRecords

FACTORS: Final = tuple(map(Fraction, ("1/4", "1/2", "1", "2", "4", "10")))
"""Default factors."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """A plan of a sweep, and the centroids of each repeat.

    Parameters
    ----------
    axis, factor
        What is varied, and by which factor; the plan as it is has the factor 1.
    plan
        The varied plan; None where there is none.
    refusal
        Why there is no plan, or no answer; None where there are answers.
    centroids
        Shape ``(k, d')`` each, on the axes.
    """

    axis: str
    factor: Fraction
    plan: SketchPlan | None
    refusal: str | None = None
    centroids: list[Floats] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """The quality of a point.

    Parameters
    ----------
    axis, factor, value
        What is varied, the factor, and what it gives: m, or epsilon; None for bounds and scale.
    refusal
        Why there is no answer; None where there are some, or where no time was left.
    relative_sse
        SSE over that of k-means on the raw records, for each repeat.
    """

    axis: str
    factor: Fraction
    value: str | None
    refusal: str | None
    relative_sse: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the repeats; NaN without any."""
        return float(np.median(self.relative_sse)) if self.relative_sse else np.nan

    @property
    def worst(self) -> float:
        """The largest of the repeats; NaN without any."""
        return max(self.relative_sse, default=np.nan)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The quality of a plan, and of its variations.

    Parameters
    ----------
    plan, n_clusters
        The plan as it is, and k.
    n_records, n_compared
        Records of all devices, and those that the SSE was computed on.
    base, varied
        The quality of the plan as it is; and of each variation, by axis and ascending factor.
    is_complete
        Whether there was time for every repeat.
    """

    plan: SketchPlan
    n_clusters: int
    n_records: int
    n_compared: int
    base: Quality
    varied: tuple[Quality, ...]
    is_complete: bool


def run_sweep(
    plan: SketchPlan,
    records: FleetRecords,
    *,
    axes: Sequence[str],
    factors: Iterable[Fraction] = FACTORS,
    n_devices: int,
    n_windows: int,
    n_clusters: int,
    n_repeats: int,
    seed: int,
    n_processes: int | None = None,
    is_over: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Sweep:
    """Simulate the plan as it is, and with each axis at each factor, and compare all answers.

    Every repeat draws frequencies and noise anew from the seed, the same for all plans. All answers
    are compared on the same records, clipped to the widest box of the sweep, in units of the scales
    of the plan as it is.

    Parameters
    ----------
    plan, records, n_devices, n_windows, n_processes
        As :func:`sfumato.simulator.fleet.run_fleet` takes them.
    axes, factors
        Names from ``AXES`` in :mod:`sfumato.learning.planning.plans`, and positive factors.
    n_clusters, n_repeats, seed
        k; simulations of each plan; and the seed of noise, frequencies and decoder.
    is_over
        Polled between simulations: true ends the sweep, once the plan as it is has an answer.
    on_progress
        Receives the simulations that are done, and their total.

    Raises
    ------
    SketchError
        The plan as it is gives no answer.
    """
    base = Point(axis="plan", factor=Fraction(1), plan=plan)
    points = [base] + [
        _make_point(plan, axis, factor)
        for axis in axes
        for factor in sorted(set(factors) - {Fraction(1)})
    ]
    turns = [(repeat, i) for repeat in range(n_repeats) for i in range(len(points))]
    n_done = 0
    for repeat, i in turns:
        if base.centroids and is_over():
            break
        try:
            found = _simulate(
                points[i],
                repeat,
                records,
                n_devices=n_devices,
                n_windows=n_windows,
                n_clusters=n_clusters,
                noise_seed=(seed << 32) + repeat,
                n_processes=n_processes,
            )
            if found is not None:
                points[i].centroids.append(found)
        except SketchError as error:
            if points[i] is base:
                raise
            points[i] = replace(points[i], refusal=str(error))
        n_done += 1
        on_progress(n_done, len(turns))
    return _compare(
        plan,
        points,
        take_sample(plan, records, n_devices),
        n_clusters=n_clusters,
        n_records=n_devices * records.n_records,
        seed=seed,
        is_complete=n_done == len(turns),
    )


def _make_point(plan: SketchPlan, axis: str, factor: Fraction) -> Point:
    try:
        return Point(axis=axis, factor=factor, plan=vary_plan(plan, axis, factor))
    except SketchError as error:
        return Point(axis=axis, factor=factor, plan=None, refusal=str(error))


def _reseed(plan: SketchPlan, repeat: int) -> SketchPlan:
    """Return the plan with other frequencies for each repeat; the first has its own."""
    if repeat == 0:
        return plan
    seed = sha256(plan.seed + f"repeat {repeat}".encode()).digest()
    return derive(replace(plan, statistic=replace(plan.fourier, seed=seed)))


def _simulate(
    point: Point,
    repeat: int,
    records: FleetRecords,
    *,
    n_devices: int,
    n_windows: int,
    n_clusters: int,
    noise_seed: int,
    n_processes: int | None,
) -> Floats | None:
    """Return the centroids of a repeat; None where the plan is refused."""
    if point.plan is None or point.refusal is not None:
        return None
    plan = _reseed(point.plan, repeat)
    tally, totals = run_fleet(
        plan,
        records,
        n_devices=n_devices,
        n_windows=n_windows,
        noise_seed=noise_seed,
        n_processes=n_processes,
    )
    require_sketches(tally)
    _, solution = recover_centroids(plan, totals, n_clusters=n_clusters, seed=noise_seed)
    return solution.centroids


def _compare(
    plan: SketchPlan,
    points: Sequence[Point],
    sample: Floats,
    *,
    n_clusters: int,
    n_records: int,
    seed: int,
    is_complete: bool,
) -> Sweep:
    boxes = [find_box(point.plan) for point in points if point.plan is not None]
    lower = np.min([box[0] for box in boxes], axis=0)
    upper = np.max([box[1] for box in boxes], axis=0)
    records = np.clip(sample, lower, upper) / plan.scale
    found = [centroids / plan.scale for point in points for centroids in point.centroids]
    reference = find_reference(records, found, seed)
    qualities = [
        Quality(
            axis=point.axis,
            factor=point.factor,
            value=_describe_value(point),
            refusal=point.refusal,
            relative_sse=tuple(
                measure_inertia(records, centroids / plan.scale) / reference
                if reference
                else np.inf
                for centroids in point.centroids
            ),
        )
        for point in points
    ]
    return Sweep(
        plan=plan,
        n_clusters=n_clusters,
        n_records=n_records,
        n_compared=len(records),
        base=qualities[0],
        varied=tuple(qualities[1:]),
        is_complete=is_complete,
    )


def _describe_value(point: Point) -> str | None:
    if point.plan is None:
        return None
    return {
        "m": str(point.plan.n_frequencies),
        "epsilon": str(point.plan.release.epsilon),
    }.get(point.axis)
