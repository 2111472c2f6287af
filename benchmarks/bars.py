"""Error bars of centroids and of questions on the density: how often they hold, where shown.

Run as ``python -m benchmarks.bars [--quick] [--json] [--shapes N] [--processes N]``; ``--keep F``
resumes an interrupted run, and ``--fit learning/decoding/bar_table.py`` fits the laws of the bars
anew and writes their table. Shapes are those of :mod:`benchmarks.shapes`. The bars are fitted to
shapes drawn from one text and judged on shapes drawn from a digest of the decoder's own source, so
that nobody who changes the decoder has seen them: the same families with other parameters, records
and noise, and of the real sets other records. Every shape is decoded at two noise levels with
honest guesses, and in one situation with something wrong.

The truth is about the records: of centroids where k-means on them ends that starts at the answer
(``local``) or the best of ten starts, matched to it (``best``); of questions the same figure of
the records. ``covered`` is the share of 90 % bars that hold it, each decode counting alike;
``median bar`` the median over decodes of their median bar, either way: of centroids, quantiles and
means in guessed standard deviations of a column; and ``shown`` the share of decodes with bars of
that kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.honest_trials import (
    OPTIONS,
    Situation,
    Task,
    collect_tasks,
    derive_seed,
    digest_decoder,
    list_situations,
    pose_shape,
)
from benchmarks.reference import find_reference
from benchmarks.runner import Bench, Row, make_rows, read_output, run
from benchmarks.shapes import Shape
from sfumato.learning.answers import questions
from sfumato.learning.answers.densities import (
    clip_interval,
    compute_blur,
    compute_correlations,
    compute_density,
    compute_means,
    compute_quantiles,
    compute_shares,
    pool,
    spread_points,
)
from sfumato.learning.decoding.bars import (
    LAWS,
    LEVEL,
    BarKind,
    BarLaw,
    BarsWord,
    choose_word,
)
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.decoding.judgement import Evidence
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.verdict import TRUSTED
from sfumato.shared.arrays import Floats

NAME = "bars"
_N_SHAPES, _FITTED_TO, _QUICK_SHAPES = 54, 81, 3
_FITTED_FROM = "bars"
_N_BOXES = 40
_N_MEANS = 10
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_MOST_COLUMNS = 4
_NOTHING = 1e-12
_LEAST = 1e-9
_KINDS = ("mixtures", "real", "other shapes")


@dataclass(frozen=True)
class Errors:
    """Errors of some figures of one decode, with what their bars are made of.

    ``errors`` are distances from the truth, ``spreads`` those of the posterior and ``samplings``
    the standard errors of sampling, 0 where the truth is about the same records; shape ``(p,)``.
    """

    errors: Floats
    spreads: Floats
    samplings: Floats

    def cover(self, law: BarLaw, held_out: float) -> float:
        """Return the share of 90 % bars by this law that hold the truth."""
        lengths = law.compute_length(self.spreads, self.samplings, held_out=held_out)
        return float(np.mean(self.errors <= lengths + _NOTHING))


@dataclass(frozen=True, kw_only=True)
class BarTrial:
    """One decode with the errors of its answers, by figure."""

    size: tuple[int, int, int]
    situation: Situation
    kind: str
    verdict: str
    evidence: Evidence
    errors: Mapping[str, Errors]

    @property
    def word(self) -> BarsWord:
        """Kind of its bars."""
        return choose_word(self.evidence.held_out, is_trusted=self.verdict in TRUSTED)

    def cover(self, figure: str) -> float:
        """Return the share of the bars of a figure that hold the truth."""
        return self.errors[figure].cover(LAWS[KINDS[figure]], self.evidence.held_out)


KINDS: Mapping[str, BarKind] = {
    "centroid local": "centroid",
    "centroid best": "centroid",
    "weight local": "weight",
    "share": "share",
    "quantile": "quantile",
    "mean": "mean",
    "correlation": "correlation",
}
"""The law of each figure's bars."""
_FITTED: Mapping[BarKind, str] = {
    "centroid": "centroid local",
    "weight": "weight local",
    "share": "share",
    "quantile": "quantile",
    "mean": "mean",
    "correlation": "correlation",
}
"""The figure that each law is fitted to."""


def run_trial(shape: Shape, situation: Situation, text: str) -> BarTrial | None:
    """Decode a shape in one situation; None if the decoder keeps no posterior."""
    seed = derive_seed(f"bars {text} {situation.name}")
    posed = pose_shape(shape, situation, seed)
    records, scale = posed.dataset.records, posed.scale
    solution = MixtureDecoder().solve(posed.problem, rng=np.random.default_rng(seed))
    if solution.posterior is None or solution.bars is None or solution.evidence is None:
        return None
    shown, centroids = solution.bars, solution.centroids
    local, weights = _descend(records, centroids)
    best = _match(centroids, np.array(find_reference(posed.dataset).centroids))
    none, spreads = np.zeros(local.size), shown.centroid_spreads.ravel()
    off = np.abs(weights - solution.weights)
    errors = {
        "centroid local": Errors(np.abs(local - centroids).ravel(), spreads, none),
        "centroid best": Errors(np.abs(best - centroids).ravel(), spreads, none),
        "weight local": Errors(off, shown.weight_spreads, np.zeros(len(off))),
        **_ask(solution.posterior, records, scale, np.random.default_rng(seed)),
        **_correlate(solution.posterior, records, scale),
    }
    return BarTrial(
        size=posed.size,
        situation=situation,
        kind=posed.kind,
        verdict="none" if solution.verdict is None else solution.verdict.word,
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
    shares, means = [], []
    for i in range(_N_BOXES):
        box, inside = [], np.ones(n, dtype=np.bool_)
        for axis in rng.choice(d, size=min(d, 1 + i % 3), replace=False).tolist():
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
    found = {"share": shares, "quantile": _ask_quantiles(posterior, records), "mean": means}
    return {
        name: Errors(*np.array(rows, dtype=np.float64).T) for name, rows in found.items() if rows
    }


def _ask_quantiles(posterior: Posterior, records: Floats) -> list[tuple[float, float, float]]:
    found = []
    for axis in range(min(records.shape[1], _MOST_COLUMNS)):
        for share in _QUANTILES:
            value, spread = map(float, pool(posterior, compute_quantiles(posterior, axis, share)))
            truth = float(np.quantile(records[:, axis], share))
            density = pool(posterior, compute_density(posterior, axis, np.array([value])))[0][0]
            width = float(posterior.upper[axis] - posterior.lower[axis])
            error = math.sqrt(share * (1.0 - share) / len(records))
            found.append((abs(truth - value), spread, error / max(float(density), 1e-9 / width)))
    return found


def _correlate(posterior: Posterior, records: Floats, scale: float) -> dict[str, Errors]:
    """Compare the correlations of the first columns with those of the records."""
    d = min(records.shape[1], _MOST_COLUMNS)
    if d == 1:
        return {}
    drawn = [spread_points(posterior, draw) for draw in range(posterior.n_draws)]
    each = [compute_correlations(points[:, :d], shares) for points, shares in drawn]
    found, spreads = pool(posterior, np.array([correlations for correlations, _ in each]))
    deviations, _ = pool(posterior, np.array([deviations for _, deviations in each]))
    pairs = np.triu_indices(d, k=1)
    return {
        "correlation": Errors(
            errors=np.abs(found - np.corrcoef(records[:, :d].T))[pairs],
            spreads=spreads[pairs],
            # In place of sampling: the truth is about the same records.
            samplings=compute_blur(found, deviations, np.full(d, scale))[pairs],
        )
    }


def run_task(shape: Shape, task: Task, *, n_situations: int) -> list[BarTrial]:
    """Decode the shape of a task: two honest situations and one with something wrong."""
    i, _, own = task
    found = [run_trial(shape, each, own) for each in list_situations(i)[:n_situations]]
    return [trial for trial in found if trial is not None]


def describe(trials: Sequence[BarTrial]) -> Iterator[Row]:
    """Yield how often bars are shown and hold, by kind of answer, of data and of situation."""
    honest = [trial for trial in trials if trial.situation.is_honest]
    groups: list[tuple[str, list[BarTrial]]] = [("honest guesses", honest)]
    groups += [
        (f"honest guesses, {name}", [t for t in honest if t.kind == name]) for name in _KINDS
    ]
    for n_epsilon in sorted({t.situation.n_epsilon or math.inf for t in honest}):
        chosen = [t for t in honest if (t.situation.n_epsilon or math.inf) == n_epsilon]
        groups.append((f"honest guesses, {chosen[0].situation.name}", chosen))
    groups.append(("wrong guesses", [t for t in trials if not t.situation.is_honest]))
    for name, chosen in groups:
        if chosen:
            yield from _describe_group(name, chosen)


def _describe_group(name: str, trials: Sequence[BarTrial]) -> Iterator[Row]:
    for word in ("stated", "rough", "none"):
        case, chosen = f"{name}: {word}", [trial for trial in trials if trial.word == word]
        share = len(chosen) / len(trials)
        yield Row(NAME, case, "shown", share, "1", len(trials), "all decodes")
        for figure in KINDS if word != "none" else ():
            own = [trial for trial in chosen if figure in trial.errors]
            if own:
                covered = np.mean([trial.cover(figure) for trial in own])
                length = np.median([_measure_length(trial, figure) for trial in own])
                figures = (
                    (f"{figure} covered", covered, "1", "0.9"),
                    (f"{figure} median bar", length),
                )
                yield from make_rows(NAME, case, figures, runs=len(own))


def _measure_length(trial: BarTrial, figure: str) -> float:
    """Return the median length of the bars of one decode, either way."""
    own, law = trial.errors[figure], LAWS[KINDS[figure]]
    lengths = law.compute_length(own.spreads, own.samplings, held_out=trial.evidence.held_out)
    return float(np.median(lengths))


def fit(trials: Sequence[BarTrial]) -> dict[BarKind, BarLaw]:
    """Fit the law of each kind of answer to honest decodes that are trusted.

    The logarithm of the length is the 90 % quantile of that of the errors; decodes count alike. A
    misfit never shortens a bar, and sampling counts at most in full.
    """
    usable = [trial for trial in trials if trial.verdict in TRUSTED and trial.situation.is_honest]
    laws = {
        kind: _fit_law([trial for trial in usable if figure in trial.errors], figure)
        for kind, figure in sorted(_FITTED.items())
    }
    if "correlation" in laws:
        plain = [_leave_blur_out(trial) for trial in usable if "correlation" in trial.errors]
        # Blur counts in full: real sets that no shape is like are hurt by it more than shapes are.
        laws["correlation"] = replace(_fit_law(plain, "correlation"), sampling=1.0)
    return laws


def _leave_blur_out(trial: BarTrial) -> BarTrial:
    own = trial.errors["correlation"]
    none = replace(own, samplings=np.zeros_like(own.samplings))
    return replace(trial, errors={**trial.errors, "correlation": none})


def _fit_law(trials: Sequence[BarTrial], figure: str) -> BarLaw:
    from scipy.optimize import minimize  # noqa: PLC0415 - only to fit

    has_sampling = any(np.any(trial.errors[figure].samplings) for trial in trials)

    def make(point: Floats) -> BarLaw:
        noise = float(np.exp(point[0]))
        return BarLaw(
            noise=noise,
            model=noise * float(np.exp(abs(point[1]))),
            sampling=min(1.0, float(np.exp(point[2]))) if has_sampling else 0.0,
        )

    def measure(point: Floats) -> float:
        return float(np.mean([_measure_loss(trial, figure, make(point)) for trial in trials]))

    tries = [
        minimize(measure, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7})
        for start in ((0.3, 0.1, 0.0), (0.0, 1.0, -1.0))
    ]
    return make(min(tries, key=lambda found: found.fun).x)


def _measure_loss(trial: BarTrial, figure: str, law: BarLaw) -> float:
    """Return the mean loss of the 90 % quantile of the logarithm of the errors."""
    own = trial.errors[figure]
    lengths = law.compute_length(own.spreads, own.samplings, held_out=trial.evidence.held_out)
    beyond = np.log(np.maximum(own.errors, _LEAST) / np.maximum(lengths, _LEAST))
    return float(np.mean(np.where(beyond > 0.0, LEVEL * beyond, (LEVEL - 1.0) * beyond)))


def format_table(laws: Mapping[BarKind, BarLaw], trials: Sequence[BarTrial], n_shapes: int) -> str:
    """Return the source of the table of laws."""
    honest = [trial for trial in trials if trial.situation.is_honest]
    n_honest, n_trusted = len(honest), sum(trial.verdict in TRUSTED for trial in honest)
    rows = "\n".join(
        f'    "{kind}": ({law.noise:.3f}, {law.model:.3f}, {law.sampling:.3f}),'
        for kind, law in laws.items()
    )
    return f'''"""Factors of error bars; see :mod:`sfumato.learning.decoding.bars`.

Written by ``python -m benchmarks.bars --fit FILE``: fitted to {n_trusted} decodes that were
found sound or rough, of {n_honest} of {n_shapes} shapes, under noise from none to
n epsilon = 5,000. No bar is judged on these shapes. A row is, of a kind of answer: the factors of
the posterior's spread where densities explain the sketch and where they miss it, and that of the
error of sampling.
"""

from collections.abc import Mapping
from typing import Final

ROWS: Final[Mapping[str, tuple[float, float, float]]] = {{
{rows}
}}
'''


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of shapes that nobody fitted to; or fit the factors, and write their table."""
    path: Path | None = bench.own.get("fit")
    usual = _QUICK_SHAPES if bench.quick else _FITTED_TO if path else _N_SHAPES
    # Factors are fitted to honest guesses alone, which come first.
    task = partial(run_task, n_situations=2 if path else 3)
    n_shapes = bench.own.get("shapes") or usual
    trials = collect_tasks(bench, _FITTED_FROM if path else digest_decoder(), n_shapes, task)
    if path:
        path.write_text(format_table(fit(trials), trials, n_shapes), encoding="utf-8")
    else:
        yield from describe(trials)


if __name__ == "__main__":
    words = "fit the laws, and write their table there"
    fits = ("--fit", {"type": read_output, "metavar": "FILE", "help": words})
    run(NAME, __doc__, measure, fits, *OPTIONS)
