"""Two studies without any knowledge of the records, against one with bounds and scale known.

Run as ``python -m benchmarks.calibration [--quick] [--json] [--case PART]``. All go through plans,
the integer engine, exact noise under pure epsilon and replace-one, the planner and the mixture
decoder; L = 1. Ways to a main study:

* ``oracle``: bounds and scale read off the records, all records, the whole epsilon.
* ``pilot``: a histogram of the first tenth to quarter of the records, by the strength of the pilot,
  with the whole epsilon, without bounds; the main study has the others, and the whole epsilon too.
* ``share``: a histogram of all records with as large a share of epsilon; the main study has the
  rest.
* ``x4``, ``/4``: bounds three times too wide, and the scale four times too large or too small.

Relative SSE is that of the centroids over that of k-means on all records. ``over_oracle`` is its
ratio to the oracle's, seed by seed. ``told`` is the share of runs in which a person is told
before the main study: that a relative SSE of 1.1 is not assured, or for sets with rare clusters,
that one as rare cannot show. ``above_band`` is the share of runs above the stated band, which is
meant on the scales that the plan chose.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from benchmarks.designs import TARGET_SSE, advise_study
from benchmarks.reference import compute_sse
from benchmarks.runner import Bench, Case, Figure, Row, make_rows, run, run_case
from benchmarks.sketches import pose_totals, total_releases
from benchmarks.unknown_sets import SETS, Floats, UnknownSet, load_set
from sfumato.learning.calibration.calibration import Calibration, calibrate
from sfumato.learning.calibration.strength import (
    bound_excess,
    choose_bins_log2,
    choose_share,
    predict_strength,
)
from sfumato.learning.decoding.recovery import MixtureDecoder
from sfumato.learning.estimate.studies import read_study_marginals
from sfumato.learning.planning.candidates import Candidate
from sfumato.learning.planning.laws import LAW_CHOICES
from sfumato.learning.planning.outline import StudyOutline
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
_ORACLE = "oracle"
WAYS = (_ORACLE, "pilot", "share", "x4", "/4")
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


def run_way(
    way: str, records: UnknownSet, reference: Reference, n_epsilon: int, seed: int
) -> Outcome:
    """Run one way to a main study, and judge its centroids on all records."""
    epsilon = Fraction(n_epsilon, len(records.records))
    if way in ("pilot", "share"):
        return _run_pilot(records, reference, epsilon, seed, is_share=way == "share")
    factors = {"oracle": (1.0, 1.0), "x4": (3.0, 4.0), "/4": (3.0, 0.25)}
    study = _know(records, reference, *factors[way])
    centroids = _decode(study, records.records, records.n_clusters, epsilon, seed)
    full = np.tile(records.records[0], (records.n_clusters, 1))
    full[:, study.columns] = centroids
    return Outcome(relative_sse=_judge(records, reference, full))


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


def _judge(records: UnknownSet, reference: Reference, centroids: Floats) -> float:
    placed = (records.place(points) for points in (records.records, centroids))
    points, centres = (_standardise(each, reference.deviations) for each in placed)
    return compute_sse(points, centres) / reference.sse


def _know(records: UnknownSet, reference: Reference, wide: float, scale: float) -> MainStudy:
    """Read bounds and scale off the records, then make both wrong by a factor."""
    points, columns = records.place(records.records), reference.varying
    spread = math.sqrt(reference.sse / (len(points) * len(columns)))
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2.0, wide * (high - low) / 2.0
    resolution = records.resolution if records.is_logarithmic else None
    ends = middle - half, middle + half
    if resolution is not None:
        ends = expand(ends[0], resolution), expand(ends[1], resolution)
    scales = scale * spread * reference.deviations
    dimensions = [
        _make_dimension(f"x{i}", ends[0][i], ends[1][i], scales[i], resolution) for i in columns
    ]
    return MainStudy(columns=columns, dimensions=tuple(dimensions), search_box={})


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


def _run_pilot(
    records: UnknownSet, reference: Reference, epsilon: Fraction, seed: int, *, is_share: bool
) -> Outcome:
    """Calibrate by a pilot, then run the main study that follows from it."""
    n, d = records.records.shape
    whole = predict_strength(n_records=n, epsilon=float(epsilon), n_dimensions=d)
    share = choose_share(whole)
    if is_share:
        first, others = records.records, records.records
        spent = epsilon * Fraction(share).limit_denominator(1000)
        left = epsilon - spent
    else:
        size = round(share * n)
        first, others = records.records[:size], records.records[size:]
        spent = left = epsilon
    found = calibrate_by_pilot(records, first, spent, seed)
    study = adopt(found)
    full = np.tile([column.centre for column in found.columns], (records.n_clusters, 1))
    centroids = _decode(study, others, records.n_clusters, left, seed)
    full[:, study.columns] = centroids
    band = _advise(len(others), len(study.columns), records.n_clusters, left).band
    has_tail = any(column.codes & _DOUBTED for column in found.kept)
    highest = band.high * bound_excess(found.strength, has_tail=has_tail)
    rarest = records.smallest_share
    is_rare = rarest is not None and found.unseen_share > rarest
    return Outcome(
        relative_sse=_judge(records, reference, full),
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


def _release(plan: SketchPlan, records: Floats, seed: int) -> NDArray[np.int64]:
    accumulator = SketchAccumulator(plan.statistic_of(bytes(4), block=0))
    accumulator.add(records)
    return plan.mechanism.add_noise(accumulator.sums, SeededSource(seed))


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each set and budget; the oracle is run beside every other way."""
    for name in SETS:
        for words, n_epsilon in BUDGETS.items():
            case = make_case(name, words, n_epsilon)
            is_quick = name in _QUICK_SETS and words == "1e5"
            ways = [w for w in WAYS if bench.includes(case.name_rows(w), in_quick=is_quick)]
            if ways:
                seeds = bench.list_seeds(_RUNS, 1, first=0)
                bench.expect(len(seeds) * len({_ORACLE, *ways}))
                found = run_case(bench, case, list(dict.fromkeys((_ORACLE, *ways))), seeds)
                yield from _summarise(case, found)


def make_case(name: str, words: str, n_epsilon: int) -> Case[Data, Outcome]:
    """Make the case of a set and a budget."""
    return Case(
        name=f"{name} n_eps={words}",
        load=partial(_load, name),
        methods={way: _bind(way, n_epsilon) for way in WAYS},
        summarise=lambda found: (),
    )


def _bind(way: str, n_epsilon: int) -> Callable[[Data, int], Outcome]:
    return lambda data, seed: run_way(way, *data, n_epsilon, seed)


Data = tuple[UnknownSet, Reference]


# The budgets of a set take turns with its seeds.
@lru_cache(maxsize=_RUNS)
def _load(name: str, seed: int) -> Data:
    records = load_set(name, seed)
    return records, find_reference(records)


def _summarise(
    case: Case[Data, Outcome], outcomes: Mapping[str, Sequence[Outcome]]
) -> Iterator[Row]:
    oracle = np.array([outcome.relative_sse for outcome in outcomes[_ORACLE]])
    for way, found in outcomes.items():
        ratios = np.array([outcome.relative_sse for outcome in found])
        figures: list[Figure] = [
            ("median_relative_sse", np.median(ratios), "1", _REFERENCE),
            ("worst_relative_sse", np.max(ratios), "1", _REFERENCE),
        ]
        if way != _ORACLE:
            over = ratios / oracle
            figures.append(("median_over_oracle", np.median(over), "1", _ORACLE))
            figures.append(("worst_over_oracle", np.max(over), "1", _ORACLE))
        if way in ("pilot", "share"):
            figures.append(("told", np.mean([outcome.is_told for outcome in found])))
            figures.append(("above_band", np.mean([outcome.is_above for outcome in found])))
        yield from make_rows(NAME, case.name_rows(way), figures, runs=len(found))


if __name__ == "__main__":
    run(NAME, __doc__, measure)
