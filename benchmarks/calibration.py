"""Two studies without any knowledge of the records, against one with bounds and scale known.

Run as ``python -m benchmarks.calibration [--quick] [--json] [--case PART]``. All go through plans,
the integer engine, exact noise under pure epsilon and replace-one, the planner and the mixture
decoder; L = 1. Ways to a main study:

* ``oracle``: bounds and scale read off the records, all records, the whole epsilon.
* ``pilot``: a histogram of the first tenth to quarter of the records, by the strength of the pilot,
  with the whole epsilon, without bounds; the main study has the others, and the whole epsilon too.

Relative SSE is that of the centroids over that of k-means on all records. ``over_oracle`` is its
ratio to the oracle's, seed by seed. ``told`` is the share of runs in which a person is told
before the main study: that a relative SSE of 1.1 is not assured, or for sets with rare clusters,
that one as rare cannot show. ``above_band`` is the share of runs above the stated band, which is
meant on the scales that the plan chose.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.designs import TARGET_SSE, advise_study
from benchmarks.reference import compute_sse
from benchmarks.runner import Bench, Case, Figure, Row, make_rows, run, run_case
from benchmarks.sketches import pose_totals, total_releases
from benchmarks.unknown_sets import SETS, UnknownSet, load_set
from sfumato.learning.calibration.calibration import Calibration, calibrate
from sfumato.learning.calibration.strength import (
    bound_excess,
    choose_bins_log2,
    choose_share,
    predict_strength,
)
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.estimate.studies import read_study_marginals
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.laws import LAW_CHOICES
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import RadiusLaw, SketchAccumulator
from sfumato.shared.core.logarithm import compress, expand
from sfumato.shared.plan import (
    Dimension,
    HistogramPart,
    LogTransform,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from sfumato.shared.privacy.testing import SeededSource

NAME = "calibration"
_RUNS = 10
BUDGETS = {"2e4": 20_000, "1e5": 100_000, "1e6": 1_000_000}
_QUICK_SETS = ("lognormal", "counts")
_REFERENCE = "kmeans++ n_init=10"
_OCTAVES = 40.0
_DOUBTED = frozenset(("tail", "hidden", "unplaced", "narrow", "weak"))
"""Findings for which ``sfumato plan refine`` widens its band."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One main study: the relative SSE of its answer, and what the pilot's reader was told.

    ``is_above`` is true if the relative SSE on the plan's scales is above the stated band.
    """

    relative_sse: float
    is_told: bool = False
    is_above: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """K-means on standardised columns."""

    deviations: Floats
    sse: float

    @property
    def varying(self) -> list[int]:
        """The columns that are not constant."""
        return [int(i) for i in np.flatnonzero(self.deviations > 0.0)]


@dataclass(frozen=True, kw_only=True, eq=False)
class MainStudy:
    """The choices of a main study over some columns.

    Parameters
    ----------
    columns
        Numbers of the columns.
    dimensions
        One for each of them.
    search_box
        By name of dimension, data units.
    needs_wider_law
        Whether the radius law is one wider than the planner's.
    """

    columns: list[int]
    dimensions: tuple[Dimension, ...]
    search_box: dict[str, tuple[float, float]]
    needs_wider_law: bool = False


def run_oracle(records: UnknownSet, reference: Reference, epsilon: Fraction, seed: int) -> Outcome:
    """Run a main study whose bounds and scale are read off the records."""
    study = _know(records, reference)
    centroids = _decode(study, records.records, records.n_clusters, epsilon, seed)
    sse = _judge(records, reference, study, records.records[0], centroids)
    return Outcome(relative_sse=sse)


def find_reference(records: UnknownSet) -> Reference:
    """Find the best k-means on standardised columns; constant ones have distance 0."""
    points = records.place(records.records)
    deviations = points.std(axis=0)
    deviations[np.ptp(points, axis=0) == 0.0] = 0.0
    sse = _find_sse(_standardise(points, deviations), records.n_clusters)
    return Reference(deviations=deviations, sse=sse)


def _find_sse(points: Floats, k: int) -> float:
    fitted = KMeans(k, n_init=10, random_state=0).fit(points)
    return float(fitted.inertia_)


def _standardise(points: Floats, deviations: Floats) -> Floats:
    varying = deviations > 0.0
    return points[:, varying] / deviations[varying]


def _judge(
    records: UnknownSet, reference: Reference, study: MainStudy, others: Floats, found: Floats
) -> float:
    """Return the relative SSE of centroids, with values in place of the columns left out."""
    centroids = np.tile(others, (records.n_clusters, 1))
    centroids[:, study.columns] = found
    placed = (records.place(points) for points in (records.records, centroids))
    points, centres = (_standardise(each, reference.deviations) for each in placed)
    return compute_sse(points, centres) / reference.sse


def _know(records: UnknownSet, reference: Reference) -> MainStudy:
    """Read bounds and scale off the records."""
    points, columns = records.place(records.records), reference.varying
    spread = math.sqrt(reference.sse / (len(points) * len(columns)))
    ends = points.min(axis=0), points.max(axis=0)
    resolution = records.resolution if records.is_logarithmic else None
    if resolution is not None:
        ends = expand(ends[0], resolution), expand(ends[1], resolution)
    dimensions = tuple(
        _make_dimension(
            f"x{i}", ends[0][i], ends[1][i], spread * reference.deviations[i], resolution
        )
        for i in columns
    )
    return MainStudy(columns=columns, dimensions=dimensions, search_box={})


def _make_dimension(
    name: str, lower: float, upper: float, scale: float | None, resolution: float | None
) -> Dimension:
    return Dimension(
        name=name,
        unit="1",
        lower=float(lower),
        upper=float(upper),
        scale=None if scale is None else float(scale),
        transform=None if resolution is None else LogTransform(resolution=resolution),
    )


def run_pilot(records: UnknownSet, reference: Reference, epsilon: Fraction, seed: int) -> Outcome:
    """Calibrate by a pilot, then run the main study that follows from it."""
    n, d = records.records.shape
    whole = predict_strength(n_records=n, epsilon=float(epsilon), n_dimensions=d)
    size = round(choose_share(whole) * n)
    first, others = records.records[:size], records.records[size:]
    found = calibrate_by_pilot(records, first, epsilon, seed)
    study = adopt(found)
    centroids = _decode(study, others, records.n_clusters, epsilon, seed)
    band = _advise(len(others), len(study.columns), records.n_clusters, epsilon).band
    has_tail = any(column.codes & _DOUBTED for column in found.kept)
    highest = band.high * bound_excess(found.strength, has_tail=has_tail)
    rarest = records.smallest_share
    is_rare = rarest is not None and found.unseen_share > rarest
    centre = np.array([column.centre for column in found.columns])
    return Outcome(
        relative_sse=_judge(records, reference, study, centre, centroids),
        is_told=is_rare or highest > TARGET_SSE or found.refusal is not None,
        is_above=_judge_on_plan(records, study, centroids) > highest,
    )


def _judge_on_plan(records: UnknownSet, study: MainStudy, centroids: Floats) -> float:
    """Return the relative SSE on the scales that the plan chose."""

    def place(points: Floats) -> Floats:
        scaled = []
        for each, x in zip(study.dimensions, points.T, strict=True):
            own = x if each.transform is None else compress(x, each.transform.resolution)
            scaled.append(own / (each.scale or 1.0))
        return np.stack(scaled, axis=1)

    points = place(records.records[:, study.columns])
    return compute_sse(points, place(centroids)) / _find_sse(points, records.n_clusters)


def calibrate_by_pilot(
    records: UnknownSet, first: Floats, epsilon: Fraction, seed: int
) -> Calibration:
    """Release a histogram of some records, and calibrate from it: nothing but names is known."""
    n, d = first.shape
    strength = predict_strength(n_records=n, epsilon=float(epsilon), n_dimensions=d)
    r = records.resolution
    reach = r * 2.0**_OCTAVES
    plan = create_plan(
        PlanSpec(
            dimensions=tuple(_make_dimension(f"x{i}", -reach, reach, None, r) for i in range(d)),
            statistic="histogram",
            bins_log2=choose_bins_log2(strength),
            mechanism="discrete-laplace",
            epsilon=epsilon,
            window=WindowRule(kind="count", length=n),
            most_records=n,
        )
    )
    assert isinstance(plan.statistic, HistogramPart)
    totals = total_releases(plan, _release(plan, first, seed)[None, :], np.array([n]))
    marginals = read_study_marginals(plan, totals)
    return calibrate(marginals, n_clusters=records.n_clusters)


def adopt(found: Calibration) -> MainStudy:
    """Take a calibration as it is."""
    return MainStudy(
        columns=[i for i, column in enumerate(found.columns) if column.is_kept],
        dimensions=tuple(
            _make_dimension(
                column.name,
                column.lower,
                column.upper,
                found.find_scale(column),
                column.resolution,
            )
            for column in found.kept
        ),
        search_box={
            column.name: (column.search_lower, column.search_upper) for column in found.kept
        },
        needs_wider_law=found.needs_wider_law,
    )


def _decode(study: MainStudy, records: Floats, k: int, epsilon: Fraction, seed: int) -> Floats:
    """Sketch records by the planner's advice, and decode: shape ``(k, d)``, data units."""
    n, d = len(records), len(study.columns)
    best = _advise(n, d, k, epsilon)
    plan = create_plan(
        PlanSpec(
            dimensions=study.dimensions,
            n_frequencies=best.n_frequencies,
            seed=hashlib.sha256(f"calibration {seed}".encode()).hexdigest(),
            radius_law=_choose_law(best, is_wider=study.needs_wider_law),
            mechanism=best.mechanism,
            epsilon=epsilon,
            window=WindowRule(kind="count", length=n),
            most_records=n,
        )
    )
    sums = _release(plan, records[:, study.columns], seed)
    totals = total_releases(plan, sums[None, :], np.array([n]))
    problem = pose_totals(plan, totals, k, search_box=study.search_box).problem
    solution = MixtureDecoder().solve(problem, rng=np.random.default_rng(seed))
    return plan.space.to_records(solution.centroids)


@lru_cache(maxsize=256)
def _advise(n: int, d: int, k: int, epsilon: Fraction) -> Candidate:
    outline = StudyOutline(n_records=n, n_sketches=1, n_dimensions=d, n_clusters=k)
    return advise_study(outline, epsilon)


def _choose_law(best: Candidate, *, is_wider: bool) -> RadiusLaw:
    place = LAW_CHOICES.index(best.law_choice)
    return LAW_CHOICES[max(0, place - 1) if is_wider else place].law


def _release(plan: SketchPlan, records: Floats, seed: int) -> Integers:
    accumulator = SketchAccumulator(plan.statistic_of(bytes(4), block=0))
    accumulator.add(records)
    return plan.mechanism.add_noise(accumulator.sums, SeededSource(seed))


Data = tuple[UnknownSet, Reference]
_Way = Callable[[UnknownSet, Reference, Fraction, int], Outcome]
WAYS: Mapping[str, _Way] = {"oracle": run_oracle, "pilot": run_pilot}


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each set and budget."""
    for name in SETS:
        for words, n_epsilon in BUDGETS.items():
            case, is_quick = f"{name} n_eps={words}", name in _QUICK_SETS and words == "1e5"
            if bench.includes(f"{case} pilot", in_quick=is_quick):
                yield from _measure_case(bench, name, case, n_epsilon)


def _measure_case(bench: Bench, name: str, case: str, n_epsilon: int) -> Iterator[Row]:
    def run_way(way: _Way, data: Data, seed: int) -> Outcome:
        return way(*data, Fraction(n_epsilon, len(data[0].records)), seed)

    both = Case(
        name=case,
        load=partial(_load, name),
        methods={words: partial(run_way, way) for words, way in WAYS.items()},
        summarise=lambda found: (),
    )
    seeds = bench.list_seeds(_RUNS, 1, first=0)
    bench.expect(len(seeds) * len(WAYS))
    found = run_case(bench, both, list(WAYS), seeds)
    oracle, pilot = (np.array([each.relative_sse for each in found[way]]) for way in WAYS)
    over = pilot / oracle
    for way, ratios in (("oracle", oracle), ("pilot", pilot)):
        figures: list[Figure] = [
            ("median_relative_sse", np.median(ratios), "1", _REFERENCE),
            ("worst_relative_sse", np.max(ratios), "1", _REFERENCE),
        ]
        if way == "pilot":
            figures += [
                ("median_over_oracle", np.median(over), "1", "oracle"),
                ("worst_over_oracle", np.max(over), "1", "oracle"),
                ("told", np.mean([each.is_told for each in found[way]])),
                ("above_band", np.mean([each.is_above for each in found[way]])),
            ]
        yield from make_rows(NAME, f"{case} {way}", figures, runs=len(seeds))


# The budgets of a set take turns with its seeds.
@lru_cache(maxsize=_RUNS)
def _load(name: str, seed: int) -> Data:
    records = load_set(name, seed)
    return records, find_reference(records)


if __name__ == "__main__":
    run(NAME, __doc__, measure)
