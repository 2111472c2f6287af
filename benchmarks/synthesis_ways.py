"""Ways to private synthetic records of a few numeric columns, for :mod:`benchmarks.synthesis`.

All are pure and under add-remove-one, but for ``MomentMixture``, which has a delta. References are
at one curator; the sketch may also be that of a fleet, whose devices each add noise of their own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Dataset
from benchmarks.designs import advise_study
from sfumato.analyst.estimators import CompressiveMixture, MomentMixture
from sfumato.analyst.results import DecodeResult
from sfumato.analyst.sketching.release import draw_sums
from sfumato.analyst.sketching.solution import solve_totals, sum_parts
from sfumato.lab.generative.bins import Bins, draw_boxes
from sfumato.lab.generative.mwem import MwemDesign
from sfumato.lab.generative.pair_tree import PairTreeDesign
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.clustering.methods.contract import Curator
from sfumato.learning.estimate.counts import count_records
from sfumato.learning.generative.columns import Column, match_columns, read_columns
from sfumato.learning.planning.outline import StudyOutline
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.plan import Dimension, PlanSpec, SketchPlan, WindowRule, create_plan
from sfumato.shared.system import SystemSource

N_CLUSTERS: Final = 12
N_DRAWN: Final = 20_000
DELTA: Final = "1e-6"
"""Delta of ``MomentMixture``; the other ways have none."""
RELATION: Final = "add-remove-one"
SHARE_OF_HISTOGRAMS: Final = Fraction(3, 10)
_BINS_LOG2: Final = 9
_TREE_BINS: Final = 32
_CELLS_LOG2: Final = 16
_N_BOXES: Final = 1000
_ORIGIN: Final = 1_577_836_800
"""The start of a study that no record depends on."""
_MOST_SKETCHES: Final = 1 << 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """Synthetic records, and how far off they are said to be.

    Parameters
    ----------
    records
        Shape ``(n, d)``, data units.
    errors
        Stated mean error of random ranges by their number of columns; empty where none is stated.
    correlation_errors
        Stated mean error of the correlation of each pair of columns; empty where none is stated.
    """

    records: Floats
    errors: Mapping[int, float]
    correlation_errors: Sequence[float] = ()


def divide(dataset: Dataset, n_devices: int) -> list[Floats]:
    """Divide records over devices, in their order: those of weather over three are its airports."""
    return np.array_split(dataset.records, n_devices)


def _make_sketch_plan(dataset: Dataset, epsilon: Fraction, n_devices: int) -> SketchPlan:
    """Plan whole sketches for a fleet, as the planner advises."""
    n, d = dataset.records.shape
    outline = StudyOutline(
        n_records=n,
        n_sketches=n_devices,
        n_dimensions=d,
        n_clusters=N_CLUSTERS,
        devices_differ=False,
        neighbouring=RELATION,
    )
    chosen = advise_study(outline, epsilon, is_whole=True)
    return _make_plan(
        dataset,
        dataset.spread or 0.5,
        seed=secrets.token_hex(SEED_BYTES),
        n_frequencies=chosen.n_frequencies,
        mechanism=chosen.mechanism,
        radius_law=chosen.law_choice.law,
        epsilon=epsilon,
        most_clusters=N_CLUSTERS,
    )


def _make_plan(dataset: Dataset, scale: float | None, **chosen: object) -> SketchPlan:
    spec = PlanSpec(
        dimensions=tuple(
            Dimension(name=f"x{i}", unit="1", lower=dataset.lower, upper=dataset.upper, scale=scale)
            for i in range(dataset.n_dimensions)
        ),
        neighbouring=RELATION,
        window=WindowRule(kind="time", length_s=86_400, origin=_ORIGIN),
        most_records=len(dataset.records),
        most_sketches=_MOST_SKETCHES,
        **chosen,  # type: ignore[arg-type]
    )
    return create_plan(spec)


def _release(plan: SketchPlan, parts: Sequence[Floats]) -> list[tuple[Integers, int]]:
    """Sum each device's records and add its noise; the number of records is in the sums."""
    released = []
    for records in parts:
        summed = SketchAccumulator(plan.statistic_of(b"benchmark"))
        summed.add(records)
        released.append((draw_sums(plan, summed), 0))
    return released


def make_histograms(dataset: Dataset, epsilon: Fraction, n_devices: int) -> tuple[Column, ...]:
    """Release histograms of all columns, and read their distributions."""
    plan = _make_plan(dataset, None, statistic="histogram", epsilon=epsilon, bins_log2=_BINS_LOG2)
    return read_columns(plan, sum_parts(_release(plan, divide(dataset, n_devices))))


def fit_sketch(dataset: Dataset, epsilon: Fraction, seed: int, n_devices: int) -> DecodeResult:
    """Release sketches and decode their sum; a curator's is that of the estimator."""
    if n_devices > 1:
        return _fit_fleet(dataset, epsilon, seed, n_devices)
    found = CompressiveMixture(
        N_CLUSTERS,
        epsilon=epsilon,
        bounds=(dataset.lower, dataset.upper),
        scale=dataset.spread or 0.5,
        relation=RELATION,
        max_records=len(dataset.records),
        random_state=seed,
    )
    return found.fit(dataset.records).result_


def _fit_fleet(dataset: Dataset, epsilon: Fraction, seed: int, n_devices: int) -> DecodeResult:
    plan = _make_sketch_plan(dataset, epsilon, n_devices)
    totals = sum_parts(_release(plan, divide(dataset, n_devices)))
    solved = solve_totals(plan, totals, n_clusters=N_CLUSTERS, rng=np.random.default_rng(seed))
    posterior = solved.solution.posterior
    n_records = count_records(plan, totals).n_records
    inquiry = None
    if posterior is not None:
        inquiry = Inquiry(plan=plan, posterior=posterior, n_records=n_records)
    return DecodeResult.of_solution(
        plan,
        solved.solution,
        snr=solved.utility.snr,
        seconds=0.0,
        posterior=inquiry,
    )


def _synthesise(result: DecodeResult, columns: Sequence[Column], seed: int) -> Drawn:
    made = replace(result, margins=columns).synthesise(N_DRAWN, seed=seed, allow_unusable=True)
    return Drawn(
        records=np.array(list(made.columns.values())).T,
        errors=made.errors,
        correlation_errors=list(made.correlation_errors.values()),
    )


def draw_by_sketch(dataset: Dataset, epsilon: Fraction, seed: int) -> Drawn:
    """Spend all of epsilon on the sketch."""
    return _synthesise(fit_sketch(dataset, epsilon, seed, 1), (), seed)


def draw_by_both(dataset: Dataset, epsilon: Fraction, seed: int, n_devices: int = 1) -> Drawn:
    """Spend 7/10 of epsilon on the sketch, and 3/10 on histograms of 512 bins."""
    result = fit_sketch(dataset, epsilon * (1 - SHARE_OF_HISTOGRAMS), seed, n_devices)
    columns = make_histograms(dataset, epsilon * SHARE_OF_HISTOGRAMS, n_devices)
    return _synthesise(result, columns, seed)


def draw_by_columns(dataset: Dataset, epsilon: Fraction, seed: int) -> Drawn:
    """Draw each column from its own histogram, independent of the others."""
    rng = np.random.default_rng(seed)
    columns = make_histograms(dataset, epsilon, 1)
    shuffled = rng.random((N_DRAWN, dataset.n_dimensions))
    names = [f"x{i}" for i in range(dataset.n_dimensions)]
    return Drawn(records=match_columns(shuffled, names, columns, rng), errors={})


def draw_by_moments(dataset: Dataset, epsilon: Fraction, seed: int) -> Drawn:
    """Draw from one Gaussian on all directions."""
    model = MomentMixture(
        epsilon=epsilon,
        delta=DELTA,
        bounds=(dataset.lower, dataset.upper),
        n_directions=dataset.n_dimensions,
        relation=RELATION,
        random_state=seed,
    )
    records, _ = model.fit(dataset.records).sample(N_DRAWN)
    return Drawn(records=records, errors={})


def _make_bins(dataset: Dataset, n_bins: int) -> Bins:
    d = dataset.n_dimensions
    return Bins(
        lower=np.full(d, dataset.lower), upper=np.full(d, dataset.upper), n_bins=(n_bins,) * d
    )


def release_and_draw(
    design: PairTreeDesign | MwemDesign, records: NDArray[Any], seed: int | np.random.Generator
) -> Floats:
    """Release by a reference method, and draw."""
    curator = Curator(rounds=design.rounds, relation=RELATION, source=SystemSource())
    return design.release(records, curator).draw(N_DRAWN, np.random.default_rng(seed))


def draw_by_tree(dataset: Dataset, epsilon: Fraction, seed: int) -> Drawn:
    """Draw from a tree of pairs of columns with 32 bins each."""
    bins = _make_bins(dataset, _TREE_BINS)
    design = PairTreeDesign(bins=bins, relation=RELATION, epsilon=epsilon)
    return Drawn(records=release_and_draw(design, dataset.records, seed), errors={})


def draw_by_mwem(dataset: Dataset, epsilon: Fraction, seed: int, n_rounds: int) -> Drawn:
    """Draw from the table of MWEM, of 2^16 cells at most, trained on 1,000 boxes."""
    bins = _make_bins(dataset, int(2 ** (_CELLS_LOG2 / dataset.n_dimensions) + 1e-9))
    rng = np.random.default_rng(seed)
    boxes = draw_boxes(bins.n_bins, _N_BOXES, rng)
    design = MwemDesign(
        bins=bins, boxes=boxes, n_rounds=n_rounds, relation=RELATION, epsilon=epsilon
    )
    return Drawn(records=release_and_draw(design, dataset.records, rng), errors={})


Way = Callable[[Dataset, Fraction, int], Drawn]

SKETCH: Final = "sketch and histograms"
WAYS: Final[Mapping[str, Way]] = {
    SKETCH: draw_by_both,
    "sketch alone": draw_by_sketch,
    "pair tree": draw_by_tree,
    "MWEM T=10": partial(draw_by_mwem, n_rounds=10),
    "MWEM T=30": partial(draw_by_mwem, n_rounds=30),
    "independent columns": draw_by_columns,
    "MomentMixture": draw_by_moments,
}
"""By the name of their rows."""
FLEETS: Final[Mapping[str, Way]] = {
    f"{SKETCH}, L={n}": partial(draw_by_both, n_devices=n) for n in (3, 100)
}
"""Over devices with noise of their own."""
