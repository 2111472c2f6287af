"""From records to the decoder's problem, through all steps of a study.

The steps use a real plan, the integer engine, exact noise (seeded, so that runs repeat), and the
server's weights and estimates. As in the server, the noise variance that a solver receives includes
the sampling of records, which an exact sketch has too. Exact sums depend on records and frequencies
only, and are computed once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.datasets import Dataset
from sfumato.aggregator.base.sums.layout import Layout
from sfumato.aggregator.base.sums.payloads import PayloadSum, Row
from sfumato.aggregator.base.sums.selection import SketchTotals
from sfumato.learning.decoding.problem import DecodingProblem
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.estimate.limbs import split_limbs
from sfumato.learning.estimate.problem import pose_problem
from sfumato.learning.estimate.sizes import SizeMoments
from sfumato.learning.estimate.snr import estimate_signal_energy, predict_snr
from sfumato.learning.estimate.totals import Totals
from sfumato.learning.estimate.utility import estimate_utility, form_sketch, weigh
from sfumato.learning.estimate.weights import SIZE_WEIGHTS
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import RadiusLaw, SketchAccumulator, feature_table
from sfumato.shared.plan import (
    Dimension,
    PhaseRelease,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from sfumato.shared.privacy.mechanisms.phase import PHASE_REPORT
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.wire import encode_payload

_WIDEST = 8
"""Bytes of a coordinate that hold any sum."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Guarantee of each sketch, and its mechanism."""

    mechanism: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)


# Laplace and K-norm noise are pure; the Gaussian needs a delta.
_MECHANISMS = {
    "knorm": ("discrete-knorm", Fraction(0)),
    "laplace": ("discrete-laplace", Fraction(0)),
    "gaussian": ("discrete-gaussian", Fraction(1, 10**6)),
}


def make_noise(name: str, epsilon: Fraction) -> Noise:
    """Make the noise of a name and an epsilon."""
    mechanism, delta = _MECHANISMS[name]
    return Noise(mechanism=mechanism, epsilon=epsilon, delta=delta)


def describe_noise(name: str, n_epsilon: str) -> str:
    """Describe a noise and its budget as case names do."""
    words = f"{name} delta=1e-6" if _MECHANISMS[name][1] else name
    return f"{words} n_eps={n_epsilon}"


class GeneratorSource:
    """Bytes of a NumPy generator: many times faster than a hash, and as repeatable."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def draw_bytes(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        return self._rng.bytes(count)


@dataclass(frozen=True, kw_only=True)
class Study:
    """Settings by which records become a global sketch.

    Parameters
    ----------
    n_frequencies
        m.
    scale
        The plan's scale in each dimension, data units.
    noise
        None for the exact sketch.
    n_sketches
        L.
    mask_groups
        m / r, for the features of a record.
    blocks
        m / r, for the features of a sketch.
    law
        Law of the radii.
    """

    n_frequencies: int
    scale: float
    noise: Noise | None = None
    n_sketches: int = 1
    mask_groups: int = 1
    blocks: int = 1
    law: RadiusLaw = field(default_factory=RadiusLaw)


@dataclass(frozen=True, kw_only=True)
class Posed:
    """A problem, and the SNR that the server estimates; from sampling alone for an exact sketch."""

    problem: DecodingProblem
    snr: float


def split_sizes(n_records: int, n_sketches: int) -> Integers:
    """Split n records over L sketches: shape ``(L,)``, summing to n."""
    ends = np.rint(n_records * np.arange(1, n_sketches + 1) / n_sketches).astype(np.int64)
    sizes: Integers = np.diff(ends, prepend=0)
    return sizes


def make_plan(dataset: Dataset, study: Study, sizes: Integers, seed: int) -> SketchPlan:
    """Make the plan of a study; without noise, its release is not used."""
    noise = study.noise or Noise(mechanism="discrete-laplace", epsilon=Fraction(1))
    is_phase = noise.mechanism == PHASE_REPORT
    largest = int(sizes.max())
    by_count = WindowRule(kind="count", length=largest)
    window = WindowRule(kind="time", length_s=1) if is_phase else by_count
    known: dict[str, Any] = {"lower": dataset.lower, "upper": dataset.upper, "scale": study.scale}
    return create_plan(
        PlanSpec(
            dimensions=tuple(
                Dimension(name=f"x{i}", unit="1", **known) for i in range(dataset.n_dimensions)
            ),
            n_frequencies=study.n_frequencies,
            measurements_per_record=study.n_frequencies // study.mask_groups,
            frequencies_per_sketch=study.n_frequencies // study.blocks,
            seed=hashlib.sha256(f"benchmark {seed}".encode()).hexdigest(),
            radius_law=study.law,
            release="phase.v1" if is_phase else "local.v1",
            mechanism=None if is_phase else noise.mechanism,
            epsilon=noise.epsilon,
            delta=noise.delta,
            window=window,
            most_records=largest,
        )
    )


@dataclass(kw_only=True)
class Sketcher:
    """Poses problems, and caches the exact sums that several of them share."""

    _sums: dict[tuple[object, ...], Integers] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget the sums: those of many small sketches are large, and seldom needed again."""
        self._sums.clear()

    def pose(self, dataset: Dataset, study: Study, seed: int) -> Posed:
        """Sketch records, add noise, form the global sketch and pose the inverse problem.

        Parameters
        ----------
        dataset, study
            The records, and the settings.
        seed
            Seed of the frequencies and the noise.
        """
        plan, totals = self.total(dataset, study, seed)
        if study.noise is None:
            return _pose_exact(dataset, plan, totals)
        return pose_totals(plan, totals, dataset.n_clusters)

    def total(self, dataset: Dataset, study: Study, seed: int) -> tuple[SketchPlan, SketchTotals]:
        """Sketch records, add noise, and add the sketches up; parameters as of :meth:`pose`."""
        sizes = split_sizes(len(dataset.records), study.n_sketches)
        plan = make_plan(dataset, study, sizes, seed)
        if isinstance(plan.release, PhaseRelease):
            return plan, report_phases(plan, plan.release, dataset.records, seed)
        exact = self._sum_records(dataset, plan, sizes)
        if study.noise is not None:
            exact = add_noises(plan, exact, seed)
        return plan, total_releases(plan, exact, sizes)

    def _sum_records(self, dataset: Dataset, plan: SketchPlan, sizes: Integers) -> Integers:
        """Return the exact sum of each sketch: shape ``(L, 2 r)``."""
        shape = (plan.measurements_per_record, plan.frequencies_per_sketch)
        key = (dataset.name, plan.frequencies.digest, shape, sizes.tobytes())
        if key not in self._sums:
            self._sums[key] = sum_parts(plan, dataset.records, sizes)
        return self._sums[key]


def add_noises(plan: SketchPlan, exact: Integers, seed: int) -> Integers:
    """Add noise to the sums of each sketch: shape ``(L, ...)``."""
    source = SeededSource(seed)
    return np.array([plan.mechanism.add_noise(sums, source) for sums in exact])


def sum_parts(plan: SketchPlan, records: Floats, sizes: Integers) -> Integers:
    """Return the exact sums of each sketch of records that lie one after the other."""
    parts = np.split(records, np.cumsum(sizes)[:-1])
    return np.array([_sum_one(plan, part, i) for i, part in enumerate(parts)])


def _sum_one(plan: SketchPlan, records: Floats, sketch: int) -> Integers:
    block = choose_block(plan, sketch)
    accumulator = SketchAccumulator(plan.statistic_of(sketch.to_bytes(4, "big"), block=block))
    accumulator.add(records)
    return accumulator.sums


def choose_block(plan: SketchPlan, sketch: int) -> int:
    """Return the block of the sketch of one device among many."""
    return plan.blocks.choose(ordinal=sketch, stream="main", turn=0)


def total_releases(plan: SketchPlan, sums: Integers, sizes: Integers) -> SketchTotals:
    """Add sketches up, each at the places of its block; exact sums fit any width."""
    form = replace(Layout.of(plan).form, width=_WIDEST)
    running = PayloadSum(replace(Layout.of(plan), form=form))
    running.add(
        [
            Row(b"", b"", i, size, choose_block(plan, i), encode_payload(released, _WIDEST))
            for i, (size, released) in enumerate(zip(sizes.tolist(), sums, strict=True))
        ]
    )
    return running.total().to_totals()


def report_phases(
    plan: SketchPlan, release: PhaseRelease, records: Floats, seed: int
) -> SketchTotals:
    """Report the phases of devices that hold one record each, and add up their rows.

    All devices of a block at once, which a device does for itself; the phases are the same.
    """
    steps, _ = plan.quantiser.quantise(records)
    turns, bits = plan.frequencies.turns.astype(np.float64), plan.frequencies.bits
    n, n_blocks, m = len(records), plan.blocks.n_blocks, plan.n_frequencies
    blocks = np.array([choose_block(plan, i) for i in range(n_blocks)])[np.arange(n) % n_blocks]
    source, law = SeededSource(seed), release.make_law()
    sums = np.zeros((2, m), dtype=np.int64)
    counts, energies = np.bincount(blocks, minlength=n_blocks), [0] * n_blocks
    for block, members in enumerate(plan.blocks.members):
        product = steps[blocks == block].astype(np.float64) @ turns[:, members]
        phases = (product.astype(np.int64) >> (bits - 16)) & 0xFFFF
        reports = [law.report(phase, source) for phase in phases.ravel().tolist()]
        rows = feature_table()[reports].astype(np.int64).reshape(*phases.shape, 2)
        sums[:, members] += rows.sum(axis=0).T
        energies[block] = int(np.sum(rows**2))
    ones = counts.tolist()
    return SketchTotals(
        sums=sums.ravel(),
        # Every sketch has one record.
        size_sums=split_limbs(sums.ravel().tolist()),
        moments=SizeMoments.of_rows([ones, ones, ones, ones, energies]),
        n_devices=n,
        members=b"",
    )


def pose_totals(plan: SketchPlan, totals: Totals, n_clusters: int, **more: Any) -> Posed:
    """Weigh, estimate and pose as the server does; ``more`` is for ``pose_problem``."""
    weights = weigh(plan, totals, "size")
    utility = estimate_utility(plan, totals, count_records(plan, totals), weights)
    signal = utility.signal_energy
    problem = pose_problem(
        plan, totals, weights, signal_energy=signal, n_clusters=n_clusters, **more
    )
    return Posed(problem=problem, snr=utility.snr)


def _pose_exact(dataset: Dataset, plan: SketchPlan, totals: SketchTotals) -> Posed:
    """Pose the problem of an exact sketch; its noise is the sampling of records alone."""
    sketch = form_sketch(
        plan, SIZE_WEIGHTS, totals.moments, sums=totals.sums, size_sums=totals.size_sums
    )
    n, alpha = totals.n_records, plan.alpha
    signal = estimate_signal_energy(sketch, noise_energy=0.0, alpha=alpha, n_records=n)
    signal = min(signal, 1.0 / alpha)
    problem = DecodingProblem(
        sketch=sketch,
        frequencies=plan.frequencies.to_angular(plan.quantiser),
        lower=np.full(dataset.n_dimensions, dataset.lower),
        upper=np.full(dataset.n_dimensions, dataset.upper),
        centre=plan.quantiser.centre,
        unit=plan.scale,
        noise_variance=max(0.0, 1.0 / alpha - signal) / n,
        n_clusters=dataset.n_clusters,
        sampling_variance=max(0.0, 1.0 - signal) / n,
    )
    snr = predict_snr(signal_energy=signal, noise_energy=0.0, alpha=alpha, n_records=n)
    return Posed(problem=problem, snr=snr)
