"""Looks of fleets: records sketched in one phase, and looked at in the same or another.

The cases that :mod:`benchmarks.looks` has beside one curator. ``secure sum`` are 10,000 devices
with one record each and two draws of noise for all of them; ``local`` are devices that add noise
to their own sums. With ``own records`` a look reads windows of its own, and each phase has all of
epsilon; otherwise both phases read the same records, and the look has the share of epsilon that
``look_share="auto"`` takes. Plans, sums, noise and refined centres are the product's, for all
devices in one process; sketches have the m, the r and the law that the planner chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.designs import TARGET_SSE, advise_study, find_scale, make_study
from benchmarks.fleets import Fleet
from benchmarks.reference import compute_sse, find_reference
from benchmarks.sketches import Sketcher, add_noises, split_sizes, sum_parts, total_releases
from sfumato.analyst.planning.looks import LookOutline, LookPlan, plan_look
from sfumato.analyst.results import DecodeResult
from sfumato.analyst.sketching.solving import solve_totals
from sfumato.learning.looks.study import measure_study
from sfumato.learning.planning.candidates import Candidate, choose_candidate
from sfumato.learning.planning.outline import StudyOutline
from sfumato.learning.planning.planner import advise
from sfumato.shared.core.quantise import STEPS

Floats = NDArray[np.float64]
SHARE = Fraction(3, 10)
"""Of epsilon, for a look at the same records: the estimator's rule."""
_OTHER_NOISE = 1 << 20
BAD, ALIKE = 1.3, 1e-3
"""A ratio of a lost cluster, and a difference that is none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Phases:
    """Records of the sketch and of the look, and the least SSE of all of them."""

    records: tuple[Dataset, ...]
    best: float

    def judge(self, centres: Floats) -> float:
        """Return the relative SSE on the records of all phases."""
        return sum(compute_sse(each.records, centres) for each in self.records) / self.best


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A fleet, its noise, and which records a look reads.

    Parameters
    ----------
    source, n_records
        The records, and those of one phase.
    n_noises
        The draws of noise of one phase.
    epsilon
        Of all phases together, for a record.
    has_own
        Whether a look reads records of its own.
    is_alike
        Whether devices hold records of all clusters.
    secures
        Whether two draws of noise are for a fleet of a record each.
    """

    source: Mixture | RealData
    n_records: int
    n_noises: int
    epsilon: Fraction
    has_own: bool
    is_alike: bool = True
    secures: bool = False

    @property
    def name(self) -> str:
        """The name of its rows."""
        devices = self.n_records if self.secures else self.n_noises
        way = "secure sum" if self.secures else "local"
        kind = self.source.name if isinstance(self.source, RealData) else "round"
        kind += "" if self.is_alike else ", two clusters a device"
        own = ", own records" if self.has_own else ""
        return f"{way} n={self.n_records} L={devices} eps={float(self.epsilon):g} {kind}{own}"

    def load(self, seed: int) -> Phases:
        """Return the records of each phase, in the order of devices."""
        if isinstance(self.source, RealData):
            parts = self._deal(self.source.load(seed), seed)
            whole = replace(parts[0], records=np.concatenate([each.records for each in parts]))
            return Phases(records=parts, best=find_reference(whole).sse)
        n_phases = 1 + self.has_own
        whole = replace(self.source, n_records=n_phases * self.n_records).load(seed)
        start = whole.true_means
        best = KMeans(whole.n_clusters, init=start, n_init=1).fit(whole.records).inertia_
        fleet = Fleet(
            source=self.source,
            n_sketches=self.n_noises,
            epsilon=self.epsilon,
            is_alike=self.is_alike,
        )
        parts = tuple(
            fleet.divide(replace(whole, name=f"{whole.name} {i}", records=part), seed)
            for i, part in enumerate(np.split(whole.records, n_phases))
        )
        return Phases(records=parts, best=float(best))

    def _deal(self, whole: Dataset, seed: int) -> tuple[Dataset, ...]:
        """Deal real records at random to devices with one each, and otherwise in their order."""
        if not self.secures:
            # One year is all there is: the same hours stand for those of the next.
            return (whole,)
        order = np.random.default_rng(seed).permutation(len(whole.records))
        parts = np.split(order[: (1 + self.has_own) * self.n_records], 1 + self.has_own)
        return tuple(
            replace(
                whole,
                name=f"{whole.name} {i} of {len(parts)}, seed={seed}",
                records=np.ascontiguousarray(whole.records[own]),
            )
            for i, own in enumerate(parts)
        )

    def choose(self, epsilon: Fraction) -> Candidate:
        """Choose the sketch as the planner does."""
        dataset = self.source
        d, k = (
            (4, 5) if isinstance(dataset, RealData) else (dataset.n_dimensions, dataset.n_clusters)
        )
        if not self.secures:
            outline = StudyOutline(
                n_records=self.n_records,
                n_sketches=self.n_noises,
                n_dimensions=d,
                n_clusters=k,
                devices_differ=not self.is_alike,
            )
            return advise_study(outline, epsilon)
        outline = StudyOutline(
            n_records=self.n_records,
            n_sketches=self.n_records,
            n_dimensions=d,
            n_clusters=k,
            n_noises=self.n_noises,
        )
        advice = advise(outline, epsilon=epsilon, target_sse=TARGET_SSE)
        knorm = [each for each in advice.candidates if each.mechanism == "discrete-knorm"]
        return choose_candidate(knorm, TARGET_SSE)

    def sketch(self, phases: Phases, epsilon: Fraction, seed: int) -> DecodeResult:
        """Sketch the first phase, and decode."""
        dataset = phases.records[0]
        study = make_study(
            self.choose(epsilon), n_sketches=self.n_noises, scale=find_scale(dataset)
        )
        plan, totals = Sketcher().total(dataset, study, seed)
        solved = solve_totals(
            plan, totals, n_clusters=dataset.n_clusters, rng=np.random.default_rng(seed)
        )
        return DecodeResult.of_solution(plan, solved.solution, snr=solved.utility.snr, seconds=0.0)

    def look(
        self, phases: Phases, first: DecodeResult, epsilon: Fraction, seed: int
    ) -> tuple[LookPlan, Floats]:
        """Look at the last phase, and return the refined centres, data units."""
        records = phases.records[-1].records
        planned = plan_look(
            first,
            LookOutline(
                aim="refine",
                epsilon=epsilon,
                n_records=len(records),
                n_sketches=self.n_noises,
                shares_records=not self.has_own,
            ),
        )
        plan, sizes = planned.plan, split_sizes(len(records), self.n_noises)
        noised = add_noises(plan, sum_parts(plan, records, sizes), seed + _OTHER_NOISE)
        found = measure_study(plan, total_releases(plan, noised, sizes))
        quantiser = plan.space.quantiser
        points = quantiser.centre + found.moved * quantiser.half_width / STEPS
        return planned, plan.space.encoder.decode(points)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Ratios before and after a look, and whether the planner promised that it pays."""

    first: float
    ratio: float
    pays: bool | None = None


def fit_once(campaign: Campaign, phases: Phases, seed: int) -> Seen:
    """Sketch with all of epsilon."""
    ratio = phases.judge(campaign.sketch(phases, campaign.epsilon, seed).centroids)
    return Seen(first=ratio, ratio=ratio)


def fit_with_look(campaign: Campaign, phases: Phases, seed: int) -> Seen:
    """Sketch, and look at the clusters that were found."""
    part = Fraction(0) if campaign.has_own else SHARE
    first = campaign.sketch(phases, campaign.epsilon * (1 - part), seed)
    planned, centres = campaign.look(phases, first, campaign.epsilon * (part or 1), seed)
    return Seen(first=phases.judge(first.centroids), ratio=phases.judge(centres), pays=planned.pays)
