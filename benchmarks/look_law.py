"""The law of the excess that a second look leaves, fitted on half of the shapes.

Run as ``python -m benchmarks.look_law [--quick] [--json] [--shapes N] [--keep FILE]``. The shapes
are those of :mod:`benchmarks.shapes`, drawn from the digest of :mod:`benchmarks.verdicts`; each is
fitted at three levels of noise with seven tenths of epsilon, and looked at with the rest. The
constants of :func:`sfumato.learning.looks.gain.predict_excess` are fitted on shapes with even
numbers (``fitted``), and judged on the others with the values that the product has (``judged``).

``factor`` is how far the predicted excess lies from the true one, where both count from 0.001 on:
the median, and nine in ten; ``factor_of_no_change`` that of a law by which a look changes nothing.
``worth`` is the share of answers that lost a tenth of their excess at least, ``foretold`` the share
for which the plan of the look said rightly whether they would, and ``harmed`` that of those that
gained a tenth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Final

import numpy as np

from benchmarks.honest_trials import N_RECORDS, OPTIONS, Task, collect_tasks, derive_seed
from benchmarks.reference import find_reference, measure_ratio
from benchmarks.runner import Bench, Row, make_rows, run
from benchmarks.shapes import Shape
from benchmarks.verdicts import digest_rules
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.learning.looks.gain import LOST, MISSED, expect_excess, is_worth, predict_excess
from sfumato.learning.planning.looks import LookOutline, plan_look
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import SketchError

NAME = "look_law"
BASELINE = "kmeans++ n_init=10 on the records"
_N_SHAPES, _QUICK_SHAPES = 80, 2
_N_EPSILONS: Final = (100_000, 20_000, 5_000)
_SHARE: Final = Fraction(3, 10)
_LEAST: Final = 1e-3


@dataclass(frozen=True, kw_only=True)
class LawTrial:
    """Excess before and after a look, what its plan predicts, and what the answer's band does."""

    number: int
    first: float
    after: float
    noise: float
    overlap: float
    low: float
    high: float | None


def run_trials(shape: Shape, task: Task) -> list[LawTrial]:
    """Fit a shape at each level of noise, and look; what noise hides has no answer."""
    found = []
    for n_epsilon in _N_EPSILONS:
        seed = derive_seed(f"{task[2]} {n_epsilon}")
        try:
            found.append(run_trial(shape, Fraction(n_epsilon, N_RECORDS), seed, task[0]))
        except SketchError:
            continue
    return found


def run_trial(shape: Shape, epsilon: Fraction, seed: int, number: int) -> LawTrial:
    """Fit a shape, plan a look at it, and take it."""
    dataset = shape.dataset
    model = CompressiveKMeans(
        dataset.n_clusters,
        epsilon=epsilon * (1 - _SHARE),
        bounds=(dataset.lower, dataset.upper),
        scale=find_reference(dataset).spread * shape.guess,
        public_seed=seed,
        random_state=seed,
    ).fit(dataset.records)
    outline = LookOutline(
        aim="refine",
        epsilon=epsilon * _SHARE,
        n_records=len(dataset.records),
        n_sketches=1,
        shares_records=True,
    )
    planned = plan_look(model.result_.shown, outline)
    band = model.result_.body.band
    first = measure_ratio(dataset, model.cluster_centers_) - 1.0
    model.look(dataset.records, epsilon=epsilon * _SHARE, refine=True)
    assert planned.prediction.excess is not None
    return LawTrial(
        number=number,
        first=first,
        after=measure_ratio(dataset, model.cluster_centers_) - 1.0,
        noise=planned.prediction.excess,
        overlap=planned.overlap,
        low=0.0 if band is None else band.low - 1.0,
        high=None if band is None or band.high is None else band.high - 1.0,
    )


def compare(trials: Sequence[LawTrial], missed: float, lost: float) -> Floats:
    """Return the logarithm of predicted over true excess, both from 0.001 on."""
    predicted = [
        predict_excess(each.first, each.noise, each.overlap, missed=missed, lost=lost)
        for each in trials
    ]
    truth = np.array([each.after for each in trials])
    logs: Floats = np.log(np.maximum(predicted, _LEAST) / np.maximum(truth, _LEAST))
    return logs


def fit(trials: Sequence[LawTrial]) -> tuple[float, float]:
    """Fit both constants: the least mean absolute logarithm."""
    grid = product(np.geomspace(0.005, 0.5, 41).tolist(), np.linspace(0.5, 1.0, 11).tolist())
    return min(grid, key=lambda tried: float(np.abs(compare(trials, *tried)).mean()))


def _is_promised(trial: LawTrial) -> bool:
    """Return whether the plan of a look says that it pays, or that nobody can tell."""
    if trial.high is None:
        return True
    now = expect_excess(trial.low, trial.high)
    return is_worth(now, predict_excess(now, trial.noise, trial.overlap))


def describe(trials: Sequence[LawTrial]) -> Iterator[Row]:
    """Yield the constants, and what the law is worth on both halves."""
    halves = [[each for each in trials if each.number % 2 == part] for part in (0, 1)]
    for name, value in zip(("missed", "lost"), fit(halves[0]), strict=True):
        yield Row(NAME, "fitted", name, value, "1", len(halves[0]), BASELINE)
    for case, half in zip(("fitted", "judged"), halves, strict=True):
        factors = np.exp(np.abs(compare(half, MISSED, LOST)))
        unchanged = np.exp(np.abs(compare(half, 0.0, 1.0)))
        changes = np.array([(each.after - each.first) / max(each.first, _LEAST) for each in half])
        pays = np.array([_is_promised(each) for each in half])
        worth = changes <= -0.1
        figures = [
            ("factor_median", float(np.median(factors))),
            ("factor_p90", float(np.quantile(factors, 0.9))),
            ("factor_of_no_change", float(np.median(unchanged))),
            ("excess_before", float(np.median([each.first for each in half]))),
            ("excess_after", float(np.median([each.after for each in half]))),
            ("worth", float(np.mean(worth))),
            ("foretold", float(np.mean(pays == worth))),
            ("harmed", float(np.mean(changes >= 0.1))),
        ]
        yield from make_rows(NAME, case, figures, runs=len(half), baseline=BASELINE)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of all shapes."""
    n_shapes = bench.own.get("shapes") or (_QUICK_SHAPES if bench.quick else _N_SHAPES)
    yield from describe(collect_tasks(bench, digest_rules(), n_shapes, run_trials))


if __name__ == "__main__":
    run(NAME, __doc__, measure, *OPTIONS)
