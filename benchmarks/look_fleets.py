"""Looks of fleets: records sketched in one phase, and looked at in the same or another.

The cases that :mod:`benchmarks.looks` has beside one curator. ``secure sum`` are 10,000 devices
with one record each and two draws of noise for all of them; ``local`` are devices that add noise
to their own sums. With ``own records`` a look reads windows of its own, and each phase has all of
epsilon; otherwise both phases read the same records, and the look has the share of epsilon that
``look_share="auto"`` takes. Plans, sums, noise and refined centres are the product's, for all
devices in one process; sketches have the m, the r and the law that the planner chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from sklearn.cluster import KMeans

from benchmarks import secure_sum
from benchmarks.datasets import Dataset, Mixture, RealData
from benchmarks.designs import advise_study, find_scale, make_study
from benchmarks.fleets import Fleet
from benchmarks.reference import compute_sse, find_reference
from benchmarks.runner import Case, Figure
from benchmarks.sketches import Sketcher, add_noises, split_sizes, sum_parts, total_releases
from sfumato.analyst.results import DecodeResult
from sfumato.analyst.sketching.solution import solve_totals
from sfumato.learning.looks.study import measure_study
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.looks import LookOutline, LookPlan, plan_look
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.arrays import Floats
from sfumato.shared.core.quantise import STEPS

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
        Epsilon of all phases together, for a record.
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
        kind += "" if self.is_alike else ", differing devices"
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

    @lru_cache(maxsize=4)  # noqa: B019 - campaigns are few, and live as long as the program
    def choose(self, epsilon: Fraction) -> Candidate:
        """Choose the sketch as the planner does."""
        if self.secures:
            return secure_sum.choose_design(self.n_noises, epsilon)
        d, k = (4, 5)
        if isinstance(self.source, Mixture):
            d, k = self.source.n_dimensions, self.source.n_clusters
        outline = StudyOutline(
            n_records=self.n_records,
            n_sketches=self.n_noises,
            n_dimensions=d,
            n_clusters=k,
            devices_differ=not self.is_alike,
        )
        return advise_study(outline, epsilon)

    # Both methods begin with it where phases have records of their own.
    @lru_cache(maxsize=1)  # noqa: B019
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
            first.shown,
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


CampaignCase = Case[Phases, Seen]


def summarise(results: Sequence[Seen]) -> Iterator[Figure]:
    """Yield the quality, the share of lost clusters, and what the planner foretold."""
    ratios = np.array([each.ratio for each in results])
    yield "relative_sse", np.median(ratios)
    yield "relative_sse_p90", np.quantile(ratios, 0.9)
    yield f"share_above_{BAD}", np.mean(ratios > BAD)
    looked = [each for each in results if each.pays is not None]
    if looked:
        harmed = [each for each in looked if each.ratio > each.first + ALIKE]
        yield "made_worse", len(harmed) / len(looked)
        yield "worse_unforetold", sum(bool(each.pays) for each in harmed) / len(looked)


def list_cases() -> Iterator[CampaignCase]:
    """List secure sums, and fleets with noise of their own."""
    small, ten = (Mixture(n_dimensions=d, n_clusters=k) for d, k in ((4, 5), (10, 10)))
    weather = RealData(name="weather")
    for source in (small, weather):
        for has_own in (False, True):
            secure = Campaign(
                source=source,
                n_records=10_000,
                n_noises=2,
                epsilon=Fraction(1),
                has_own=has_own,
                secures=True,
            )
            yield _make_case(secure, quick_runs=2 * (source == small))
    for is_alike in (True, False):
        yield _make_case(
            Campaign(
                source=ten,
                n_records=10**6,
                n_noises=1000,
                epsilon=Fraction(1, 10),
                has_own=True,
                is_alike=is_alike,
            )
        )
    yield _make_case(
        Campaign(
            source=weather,
            n_records=weather.n_records,
            n_noises=300,
            epsilon=Fraction(1),
            has_own=True,
            is_alike=False,
        )
    )


def _make_case(campaign: Campaign, *, quick_runs: int = 0) -> CampaignCase:
    methods = {"one shot": fit_once, "with a look": fit_with_look}
    return CampaignCase(
        name=campaign.name,
        load=campaign.load,
        methods={name: partial(method, campaign) for name, method in methods.items()},
        summarise=summarise,
        quick_runs=quick_runs,
    )
