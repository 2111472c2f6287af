"""Error bars of centroids and of questions on the density: how often they hold, where shown.

Run as ``python -m benchmarks.bars [--quick] [--json] [--shapes N] [--processes N]``; ``--keep F``
resumes an interrupted run, and ``--fit`` computes anew the coefficients of
``learning/decoding/bars.py`` and ``learning/answers/questions.py``. Shapes are those of
:mod:`benchmarks.shapes`. The bars are fitted to shapes drawn from one text and judged on shapes
drawn from a digest of the decoder's own source, so that nobody who changes the decoder has seen
them. Every shape is decoded at two noise levels with honest guesses, and in one situation with
something wrong.

The truth is about the records: of centroids where k-means on them ends that starts at the answer
(``local``) or the best of ten starts, matched to it (``best``); of questions the same figure of
the records. ``covered`` is the share of 90 % bars that hold it, each decode counting alike;
``median bar`` the median over decodes of their median bar, either way: of centroids, quantiles and
means in guessed standard deviations of a column; and ``shown`` the share of decodes with bars of
that kind.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.design import choose_design
from benchmarks.honest_trials import (
    N_RECORDS,
    Situation,
    digest_decoder,
    list_shapes,
    list_situations,
)
from benchmarks.honesty import Task, collect_tasks
from benchmarks.packages import PackageUnavailableError
from benchmarks.reference import find_reference
from benchmarks.rows import Row, create_parser, print_rows, read_count
from benchmarks.shapes import REAL_SETS, Shape, draw_shape
from benchmarks.sketches import Noise, Sketcher, Study
from learning.answers import questions
from learning.answers.densities import (
    clip_interval,
    compute_density,
    compute_means,
    compute_quantiles,
    compute_shares,
    pool,
)
from learning.decoding import bars
from learning.decoding.densities import Posterior
from learning.decoding.evidence import Evidence
from learning.decoding.recovery import MixtureDecoder

NAME = "bars"
N_SHAPES = 54
_FITTED_TO = 81
_QUICK_SHAPES = 3
_FITTED_FROM = "bars"
_DEVIATIONS = 1.6448536269514722
_N_BOXES = 40
_N_MEANS = 10
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_MOST_COLUMNS = 4
_PENALTY = 1e-4
_LEAST = 1e-2
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of some figures of one decode, with what their bars are made of.

    ``errors`` are distances from the truth, ``spreads`` those of the posterior and ``samplings``
    the standard errors of sampling, 0 where the truth is about the same records; shape ``(p,)``.
    """

    errors: Floats
    spreads: Floats
    samplings: Floats

    def cover(self, factor: float) -> float:
        """Return the share of 90 % bars of this factor that hold the truth."""
        return float(np.mean(self.errors <= self.compute_reach(factor) + 1e-12))

    def compute_reach(self, factor: float) -> Floats:
        """Return the lengths of 90 % bars of this factor, either way."""
        reach: Floats = _DEVIATIONS * np.hypot(factor * self.spreads, self.samplings)
        return reach

    def compute_needs(self) -> Floats:
        """Return the factor with which each bar would just hold the truth."""
        left = (self.errors / _DEVIATIONS) ** 2 - self.samplings**2
        needs: Floats = np.sqrt(np.maximum(left, 0.0)) / np.maximum(self.spreads, 1e-12)
        return np.maximum(needs, _LEAST)


@dataclass(frozen=True, kw_only=True)
class BarTrial:
    """One decode with the errors of its answers, by figure."""

    family: str
    size: tuple[int, int, int]
    situation: Situation
    is_mixture: bool
    verdict: str
    word: str
    factor: float
    question_word: str
    question_factor: float
    evidence: Evidence
    errors: Mapping[str, Errors]

    @property
    def is_real(self) -> bool:
        """Whether the records are real rather than synthetic."""
        return self.family in REAL_SETS


_KINDS: tuple[tuple[str, Callable[[BarTrial], bool]], ...] = (
    ("mixtures", lambda t: t.is_mixture),
    ("real", lambda t: t.is_real),
    ("other shapes", lambda t: not t.is_mixture and not t.is_real),
)
OF_CENTROIDS = ("centroid local", "centroid best", "weight local")
OF_QUESTIONS = ("share", "quantile", "mean")


def run_shape(family: str, text: str, situations: Sequence[Situation]) -> Iterator[BarTrial]:
    """Decode one shape in several situations."""
    shape = draw_shape(family, text, N_RECORDS)
    for situation in situations:
        trial = run_trial(shape, situation, text)
        if trial is not None:
            yield trial


def run_trial(shape: Shape, situation: Situation, text: str) -> BarTrial | None:
    """Decode a shape in one situation; None if the decoder keeps no posterior."""
    digest = hashlib.sha256(f"bars {text} {situation.name}".encode()).digest()
    seed = int.from_bytes(digest[:4], "big")
    k = max(1, round(situation.clusters * shape.dataset.n_clusters))
    dataset = replace(shape.dataset, name=f"{shape.dataset.name} k={k}", n_clusters=k)
    reference = find_reference(dataset)
    noise = None
    if situation.n_epsilon is not None:
        budget = Fraction(situation.n_epsilon, len(dataset.records))
        noise = Noise(mechanism="discrete-knorm", epsilon=budget)
    boxed = replace(
        dataset,
        lower=situation.bounds * dataset.lower,
        upper=situation.bounds * dataset.upper,
    )
    design = choose_design(boxed, noise)
    scale = reference.spread * shape.guess * situation.scale
    study = Study(n_frequencies=design.n_frequencies, scale=scale, noise=noise, law=design.law)
    posed = Sketcher().pose(boxed, study, seed)
    solution = MixtureDecoder().solve(posed.problem, rng=np.random.default_rng(seed))
    if solution.posterior is None or solution.bars is None or solution.evidence is None:
        return None
    rng = np.random.default_rng(seed)
    shown = solution.bars
    local, weights = _descend(dataset.records, solution.centroids)
    best = _match(solution.centroids, np.array(reference.centroids))
    none = np.zeros(local.size)
    spreads = shown.centroid_spreads.ravel()
    errors = {
        "centroid local": Errors(
            errors=np.abs(local - solution.centroids).ravel(), spreads=spreads, samplings=none
        ),
        "centroid best": Errors(
            errors=np.abs(best - solution.centroids).ravel(), spreads=spreads, samplings=none
        ),
        "weight local": Errors(
            errors=np.abs(weights - solution.weights),
            spreads=shown.weight_spreads,
            samplings=np.zeros(k),
        ),
        **_ask(solution.posterior, dataset.records, scale, rng),
    }
    held = solution.posterior
    word, factor = questions.choose_bars(held.doubt, held.held_out, is_trusted=held.is_trusted)
    return BarTrial(
        family=shape.family,
        size=(dataset.n_dimensions, k, design.n_frequencies),
        situation=situation,
        is_mixture=shape.is_mixture,
        verdict="none" if solution.verdict is None else solution.verdict.word,
        word=shown.word,
        factor=shown.factor,
        question_word=word,
        question_factor=factor,
        evidence=solution.evidence,
        errors=errors,
    )


def _descend(records: Floats, centroids: Floats) -> tuple[Floats, Floats]:
    """Run k-means on records from some centroids: where it ends, and the shares there."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - only to judge

    k = len(centroids)
    found = KMeans(k, init=centroids, n_init=1, tol=1e-7, max_iter=300).fit(records)
    shares = np.bincount(found.labels_, minlength=k) / len(records)
    return np.asarray(found.cluster_centers_, dtype=np.float64), shares


def _match(centroids: Floats, others: Floats) -> Floats:
    """Return other centroids in the order of these, each with a partner, nearest in all."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - only to judge

    costs = np.sum((centroids[:, None] - others[None]) ** 2, axis=2)
    return np.asarray(others[linear_sum_assignment(costs)[1]], dtype=np.float64)


def _ask(
    posterior: Posterior, records: Floats, scale: float, rng: np.random.Generator
) -> dict[str, Errors]:
    """Draw questions: random boxes at least one scale wide, quantiles, means within boxes."""
    n, d = records.shape
    shares, means, quantiles = [], [], []
    for i in range(_N_BOXES):
        axes = rng.choice(d, size=min(d, 1 + i % 3), replace=False)
        box, inside = [], np.ones(n, dtype=np.bool_)
        for axis in axes.tolist():
            low = float(records[rng.integers(n), axis]) - scale * rng.uniform(0.0, 2.0)
            high = math.inf if rng.uniform() < 0.3 else low + scale * rng.uniform(1.0, 4.0)
            box.append(clip_interval(posterior, axis, low, high))
            inside &= (records[:, axis] >= low) & (records[:, axis] <= high)
        truth = float(np.mean(inside))
        share, spread = map(float, pool(posterior, compute_shares(posterior, box)))
        shares.append((abs(truth - share), spread, math.sqrt(truth * (1.0 - truth) / n)))
        if i < _N_MEANS and truth > 0.01 and share > 0.01:
            axis = int(rng.integers(d))
            of_draw, by_draw, variances = compute_means(posterior, box, axis, None)
            mean, spread, variance = questions.pool_means(posterior, of_draw, by_draw, variances)
            own = records[inside, axis]
            means.append((abs(own.mean() - mean), spread, math.sqrt(variance / len(own))))
    for axis in range(min(d, _MOST_COLUMNS)):
        for share in _QUANTILES:
            value, spread = map(float, pool(posterior, compute_quantiles(posterior, axis, share)))
            truth = float(np.quantile(records[:, axis], share))
            height = float(
                pool(posterior, compute_density(posterior, axis, np.array([value])))[0][0]
            )
            width = float(posterior.upper[axis] - posterior.lower[axis])
            sampling = math.sqrt(share * (1.0 - share) / n) / max(height, 1e-9 / width)
            quantiles.append((abs(truth - value), spread, sampling))
    found = {"share": shares, "quantile": quantiles, "mean": means}
    return {
        name: Errors(errors=rows[:, 0], spreads=rows[:, 1], samplings=rows[:, 2])
        for name, rows in ((name, np.array(own, dtype=np.float64)) for name, own in found.items())
        if len(rows)
    }


def run_task(task: Task, *, n_situations: int = 3) -> list[BarTrial]:
    """Decode the shape of a task: two honest situations and one with something wrong."""
    i, family, own = task
    try:
        return list(run_shape(family, own, list_situations(i)[:n_situations]))
    except PackageUnavailableError as error:
        print(f"left out: {family}: {error}", file=sys.stderr)
        return []


def describe(trials: Sequence[BarTrial]) -> Iterator[Row]:
    """Yield how often bars are shown and hold, by kind of bars, of data and of situation."""
    honest = [trial for trial in trials if trial.situation.is_honest]
    groups: list[tuple[str, list[BarTrial]]] = [("honest guesses", honest)]
    groups += [(f"honest guesses, {name}", [t for t in honest if of(t)]) for name, of in _KINDS]
    groups.append(("wrong guesses", [t for t in trials if not t.situation.is_honest]))
    for name, chosen in groups:
        yield from _describe_group(name, chosen, OF_CENTROIDS, "centroids", _word, _factor)
        yield from _describe_group(
            name, chosen, OF_QUESTIONS, "questions", _question_word, _question_factor
        )


def _word(trial: BarTrial) -> str:
    return trial.word


def _factor(trial: BarTrial) -> float:
    return trial.factor


def _question_word(trial: BarTrial) -> str:
    return trial.question_word


def _question_factor(trial: BarTrial) -> float:
    return trial.question_factor


def _describe_group(
    name: str,
    trials: Sequence[BarTrial],
    figures: Sequence[str],
    topic: str,
    word_of: Callable[[BarTrial], str],
    factor_of: Callable[[BarTrial], float],
) -> Iterator[Row]:
    if not trials:
        return
    for word in ("stated", "rough", "none"):
        chosen = [trial for trial in trials if word_of(trial) == word]
        share = len(chosen) / len(trials)
        yield Row(NAME, f"{name}: {word}", f"{topic} shown", share, "1", len(trials), "all decodes")
        for figure in figures:
            covered = [
                trial.errors[figure].cover(factor_of(trial))
                for trial in chosen
                if figure in trial.errors
            ]
            if covered and word != "none":
                yield Row(
                    NAME,
                    f"{name}: {word}",
                    f"{figure} covered",
                    float(np.mean(covered)),
                    "1",
                    len(covered),
                    "0.9",
                )


def fit(trials: Sequence[BarTrial]) -> dict[str, tuple[float, ...]]:
    """Fit the factors to honest answers that are trusted: the 90 % quantiles of what is needed."""
    usable = [t for t in trials if t.verdict in bars.TRUSTED and t.situation.is_honest]
    of_centroids = [
        (bars.compute_features(t.evidence)[1:], t.errors["centroid local"].compute_needs())
        for t in usable
    ]
    found = {"learning/decoding/bars.py: _COEFFICIENTS": _fit_slopes(of_centroids)}
    for word in ("stated", "rough"):
        own = [t.errors["share"] for t in usable if _choose_word(t.evidence) == word]
        if own:
            needs = [((), each.compute_needs()) for each in own]
            found[f"learning/answers/questions.py: _{word.upper()}"] = _fit_slopes(
                needs, is_logarithm=False
            )
    return found


def _choose_word(evidence: Evidence) -> str:
    word, _ = questions.choose_bars(
        evidence.residual_deviations, evidence.held_out, is_trusted=True
    )
    return word


def _fit_slopes(
    rows: Sequence[tuple[tuple[float, ...], Floats]], *, is_logarithm: bool = True
) -> tuple[float, ...]:
    """Fit the 90 % quantile of the logarithm of the factor that is needed; decodes count alike.

    A slope below 0 is left out: a worse sign never means a shorter bar.
    """
    from sklearn.linear_model import QuantileRegressor  # noqa: PLC0415 - only to fit

    n_features = len(rows[0][0])
    features = np.concatenate([np.tile(own, (len(needs), 1)) for own, needs in rows])
    logs = np.concatenate([np.log(needs) for _, needs in rows])
    masses = np.concatenate([np.full(len(needs), 1.0 / len(needs)) for _, needs in rows])
    kept = list(range(n_features))
    while True:
        # Without any feature, a column of zeros: the constant alone.
        columns = features[:, kept] if kept else np.zeros((len(logs), 1))
        model = QuantileRegressor(quantile=bars.LEVEL, alpha=_PENALTY, solver="highs")
        model.fit(columns, logs, sample_weight=masses)
        left = [i for i, slope in zip(kept, model.coef_, strict=False) if slope >= 0.0]
        if left == kept:
            break
        kept = left
    slopes = dict(zip(kept, model.coef_, strict=False))
    constant = float(model.intercept_)
    found = (constant, *(float(slopes.get(i, 0.0)) for i in range(n_features)))
    return tuple(round(value if is_logarithm else math.exp(value), 3) for value in found)


def collect(
    text: str, n_shapes: int, *, n_processes: int = 1, kept: Path | None = None
) -> list[BarTrial]:
    """Decode the shapes that a text determines; see :func:`benchmarks.honesty.collect_tasks`."""
    tasks = [(i, family, own) for i, (family, own) in enumerate(list_shapes(text, n_shapes))]
    # Factors are fitted to honest guesses alone, which come first.
    run = partial(run_task, n_situations=2) if text == _FITTED_FROM else run_task
    return collect_tasks(tasks, run, n_processes=n_processes, kept=kept)


def main() -> int:
    """Run the benchmark, or fit the factors."""
    parser = create_parser(NAME, __doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="fit the factors and print them")
    parser.add_argument("--shapes", type=read_count, help="shapes, instead of the usual number")
    parser.add_argument("--processes", type=read_count, default=1, help="at a time (default: 1)")
    parser.add_argument("--keep", type=Path, help="go on from this file, and keep decodes in it")
    options = parser.parse_args()
    usual = _QUICK_SHAPES if options.quick else _FITTED_TO if options.fit else N_SHAPES
    n_shapes = options.shapes or usual
    run = partial(collect, n_processes=options.processes, kept=options.keep)
    if options.fit:
        for name, coefficients in fit(run(_FITTED_FROM, n_shapes)).items():
            print(f"{name} = {coefficients}")
        return 0
    print_rows(describe(run(digest_decoder(), n_shapes)), as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
