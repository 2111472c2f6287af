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
from benchmarks.rows import Row, create_parser, print_rows, read_count, read_page
from benchmarks.shapes import REAL_SETS, Shape, draw_shape
from benchmarks.sketches import Noise, Sketcher, Study
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
    TRUSTED,
    BarKind,
    BarLaw,
    BarsWord,
    choose_word,
)
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.decoding.judgement import Evidence
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder

NAME = "bars"
N_SHAPES = 54
_FITTED_TO = 81
_QUICK_SHAPES = 3
_FITTED_FROM = "bars"
_N_BOXES = 40
_N_MEANS = 10
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_MOST_COLUMNS = 4
_NOTHING = 1e-12
_LEAST = 1e-9
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

    def cover(self, law: BarLaw, held_out: float) -> float:
        """Return the share of 90 % bars by this law that hold the truth."""
        lengths = law.compute_length(self.spreads, self.samplings, held_out=held_out)
        return float(np.mean(self.errors <= lengths + _NOTHING))


@dataclass(frozen=True, kw_only=True)
class BarTrial:
    """One decode with the errors of its answers, by figure."""

    family: str
    size: tuple[int, int, int]
    situation: Situation
    is_mixture: bool
    verdict: str
    evidence: Evidence
    errors: Mapping[str, Errors]

    @property
    def is_real(self) -> bool:
        """Whether the records are real rather than synthetic."""
        return self.family in REAL_SETS

    @property
    def word(self) -> BarsWord:
        """Kind of its bars."""
        return choose_word(self.evidence.held_out, is_trusted=self.verdict in TRUSTED)

    def cover(self, figure: str) -> float:
        """Return the share of the bars of a figure that hold the truth."""
        return self.errors[figure].cover(LAWS[KINDS[figure]], self.evidence.held_out)


_GROUPS: tuple[tuple[str, Callable[[BarTrial], bool]], ...] = (
    ("mixtures", lambda t: t.is_mixture),
    ("real", lambda t: t.is_real),
    ("other shapes", lambda t: not t.is_mixture and not t.is_real),
)
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
        **_correlate(solution.posterior, dataset.records, scale),
    }
    return BarTrial(
        family=shape.family,
        size=(dataset.n_dimensions, k, design.n_frequencies),
        situation=situation,
        is_mixture=shape.is_mixture,
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


def run_task(task: Task, *, n_situations: int = 3) -> list[BarTrial]:
    """Decode the shape of a task: two honest situations and one with something wrong."""
    i, family, own = task
    try:
        return list(run_shape(family, own, list_situations(i)[:n_situations]))
    except PackageUnavailableError as error:
        print(f"left out: {family}: {error}", file=sys.stderr)
        return []


def describe(trials: Sequence[BarTrial]) -> Iterator[Row]:
    """Yield how often bars are shown and hold, by kind of answer, of data and of situation."""
    honest = [trial for trial in trials if trial.situation.is_honest]
    groups: list[tuple[str, list[BarTrial]]] = [("honest guesses", honest)]
    groups += [(f"honest guesses, {name}", [t for t in honest if of(t)]) for name, of in _GROUPS]
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
                covered = float(np.mean([trial.cover(figure) for trial in own]))
                length = float(np.median([_measure_length(trial, figure) for trial in own]))
                yield Row(NAME, case, f"{figure} covered", covered, "1", len(own), "0.9")
                yield Row(NAME, case, f"{figure} median bar", length, "1", len(own), "none")


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
    parser.add_argument(
        "--fit", type=read_page, metavar="FILE", help="fit the laws, and write their table there"
    )
    parser.add_argument("--shapes", type=read_count, help="shapes, instead of the usual number")
    parser.add_argument("--processes", type=read_count, default=1, help="at a time (default: 1)")
    parser.add_argument("--keep", type=Path, help="go on from this file, and keep decodes in it")
    options = parser.parse_args()
    usual = _QUICK_SHAPES if options.quick else _FITTED_TO if options.fit else N_SHAPES
    n_shapes = options.shapes or usual
    run = partial(collect, n_processes=options.processes, kept=options.keep)
    if options.fit:
        trials = run(_FITTED_FROM, n_shapes)
        options.fit.write_text(format_table(fit(trials), trials, n_shapes), encoding="utf-8")
        return 0
    print_rows(describe(run(digest_decoder(), n_shapes)), as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
