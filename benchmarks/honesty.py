"""Honesty of answers: quality, verdicts and bands on data that no decoder was tuned to.

Run as ``python -m benchmarks.honesty [--quick] [--json] [--shapes N] [--processes N]``; ``--keep
FILE`` resumes an interrupted run, ``--fit`` computes the coefficients of
``learning/decoding/judging.py`` anew, and ``--far`` decodes records of which some lie far outside
the search box, ``--large`` mixtures of so many clusters that fits have a thousand parameters: none
of these answers may be called sound and be bad.

The shapes are those of :mod:`benchmarks.shapes`: families of synthetic records, and real ones from
wheels. Half of them fit the band and half judge it. The judging half draws its parameters, records,
frequencies and noise from a digest of the decoder's own source, so that nobody who changes the
decoder has seen them.

Every shape is decoded in four situations: two noise levels with honest guesses of scale and bounds,
and two with something wrong. Worst rows come first. Relative SSE compares with k-means on the raw
records; ``truth_start`` with round clusters by descent from its clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.honest_trials import (
    OPTIONS,
    Situation,
    Task,
    collect_tasks,
    derive_seed,
    digest_decoder,
    list_far_situations,
    list_large_situations,
    list_situations,
    pose_shape,
)
from benchmarks.reference import compute_sse, describe_clusters, find_reference
from benchmarks.runner import Bench, Figure, Row, make_rows, run
from benchmarks.shapes import Shape
from sfumato.learning.decoding.judgement import FEATURES, Evidence, compute_features
from sfumato.learning.decoding.mixture.decoder import MixtureDecoder
from sfumato.learning.decoding.mixture.round_descent import descend_from
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.decoding.verdict import OFFSET
from sfumato.shared.arrays import Bools, Floats

NAME = "honesty"
WORDS = ("sound", "rough", "doubtful", "do not use")
_UNUSABLE = WORDS[-1]
_N_SHAPES, _N_FAR, _N_LARGE, _QUICK_SHAPES = 60, 200, 20, 3
_N_WORST = 12
BASELINE = "kmeans++ n_init=10 on the records"
_FITTED_FROM = "fit"
_EASY = ("no noise", "n eps 100000")
_PHANTOM_DEVIATIONS = 3.0
# Limits of a good answer and of a bad one.
_GOOD, _BAD = 1.05, 1.3
_LOW_QUANTILE, _HIGH_QUANTILE = 0.05, 0.95
_PENALTY = 0.002
KINDS = ("mixtures", "real", "other shapes")
_LARGEST = 3.0


@dataclass(frozen=True, kw_only=True)
class HonestTrial:
    """One decode with its quality, its evidence and its verdict.

    Parameters
    ----------
    family, size, situation
        Family and situation of the records; (d, k, m).
    kind
        ``mixtures``, ``real`` or ``other shapes``.
    ratio, ideal
        Relative SSE of the answer, and of round clusters by descent from the truth.
    shares, phantoms
        Weight of each centroid, and whether no record lies within three standard deviations of its
        cluster.
    evidence
        Evidence for the verdict.
    word, low, high
        The verdict, and the band.
    """

    family: str
    size: tuple[int, int, int]
    situation: Situation
    kind: str
    ratio: float
    ideal: float
    shares: Floats
    phantoms: Bools
    evidence: Evidence
    word: str
    low: float
    high: float

    @property
    def shows_phantom(self) -> bool:
        """Whether a centroid without records is presented as a cluster."""
        is_shown = self.word != _UNUSABLE
        return is_shown and bool(np.any(self.phantoms & self.evidence.resolved))


def run_trial(shape: Shape, situation: Situation, text: str) -> HonestTrial:
    """Decode a shape in one situation, and judge the answer on the records."""
    seed = derive_seed(f"{text} {situation.name}")
    posed = pose_shape(shape, situation, seed)
    records, reference = posed.dataset.records, find_reference(posed.dataset)
    solution = MixtureDecoder().solve(posed.problem, rng=np.random.default_rng(seed))
    truth = describe_clusters(records, np.array(reference.centroids))
    ideal = descend_from(posed.problem, truth)
    if solution.evidence is None or solution.verdict is None:
        raise AssertionError("the mixture decoder judges its answers")
    return HonestTrial(
        family=shape.family,
        size=posed.size,
        situation=situation,
        kind=posed.kind,
        ratio=compute_sse(records, solution.centroids) / reference.sse,
        ideal=compute_sse(records, ideal) / reference.sse,
        shares=solution.weights,
        phantoms=find_phantoms(records, solution),
        evidence=solution.evidence,
        word=solution.verdict.word,
        low=solution.verdict.low,
        high=solution.verdict.high,
    )


def find_phantoms(records: Floats, solution: Solution) -> Bools:
    """Mark the centroids that have no record within three deviations of their cluster."""
    if solution.spreads is None:
        return np.zeros(len(solution.weights), dtype=np.bool_)
    found = []
    for centroid, spread in zip(solution.centroids, solution.spreads, strict=True):
        offsets = (records - centroid) / np.maximum(spread, 1e-9)
        nearest = float(np.sqrt(np.min(np.mean(offsets**2, axis=1))))
        found.append(nearest > _PHANTOM_DEVIATIONS)
    return np.array(found)


def _run_task(
    shape: Shape, task: Task, *, list_of: Callable[[int], tuple[Situation, ...]]
) -> list[HonestTrial]:
    return [run_trial(shape, situation, task[2]) for situation in list_of(task[0])]


def describe(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield worst answers, quality, coverage of the band, and accuracy of the verdicts."""
    yield from list_answers(NAME, trials, n_most=_N_WORST)
    mistakes = [t for t in trials if t.ratio > _BAD and t.word in ("sound", "rough")]
    yield from list_answers(NAME, mistakes, prefix="mistaken")
    yield from _summarise_quality(trials)
    yield from judge_verdicts(NAME, "all", trials)
    for kind in KINDS:
        if own := [t for t in trials if t.kind == kind]:
            yield from _rows(kind, own, ("coverage", _compute_coverage(own)))
    yield from _summarise_sizes(trials)


def describe_found(name: str, trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield the false answers, the worst first, and how many answers were found and called what."""
    false = [t for t in trials if t.ratio > _BAD and t.word == "sound"]
    yield from list_answers(NAME, [t for t in trials if t.ratio > _BAD], prefix="missed")
    figures = ("coverage", _compute_coverage(trials)), (f"sound_above_{_BAD}", len(false))
    yield from _rows(name, trials, *figures)
    for word in WORDS:
        own = [trial for trial in trials if trial.word == word]
        yield from _rows(name, trials, (word.replace(" ", "_"), len(own)))
        if own:
            share = np.mean([trial.ratio <= _BAD for trial in own])
            yield from _rows(f"{name}, {word}", own, (f"at_most_{_BAD}", share))


def list_answers(
    benchmark: str,
    trials: Sequence[HonestTrial],
    *,
    n_most: int | None = None,
    prefix: str = "worst",
) -> Iterator[Row]:
    """Yield answers with their verdicts as rows, the worst first."""
    for trial in sorted(trials, key=lambda trial: -trial.ratio)[:n_most]:
        d, k, m = trial.size
        case = f"{prefix} {trial.family}, {trial.situation.name}, d={d} k={k} m={m}"
        band = f"band {trial.low:.2f} to {trial.high:.2f}, truth start {trial.ideal:.2f}"
        yield Row(benchmark, case, trial.word, trial.ratio, "1", 1, band)


def _list_quality(trials: Sequence[HonestTrial]) -> Iterator[Figure]:
    for prefix, found in (
        ("{}_relative_sse", [trial.ratio for trial in trials]),
        ("truth_start_{}", [trial.ideal for trial in trials]),
    ):
        yield prefix.format("median"), np.median(found)
        yield prefix.format("p90"), np.quantile(found, 0.9)


def _summarise_quality(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield the quality of kinds of data by situation."""
    for situation in sorted({trial.situation.name for trial in trials}):
        for kind in KINDS:
            own = [t for t in trials if t.situation.name == situation and t.kind == kind]
            if own:
                yield from _rows(f"{kind}, {situation}", own, *_list_quality(own))
                # A wrong search is worse by a hundredth than descent from the truth.
                near = np.mean([t.ratio <= max(1.01, t.ideal + 0.01) for t in own])
                shown = sum(trial.shows_phantom for trial in own)
                figures = ("share_within_truth_start", near), ("phantoms_shown", shown)
                yield from _rows(f"{kind}, {situation}", own, *figures)


def _summarise_sizes(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield the quality of mixtures by (d, k), at the noise levels where all can be found."""
    easy = [t for t in trials if t.kind == "mixtures" and t.situation.name in _EASY]
    for d, k in sorted({t.size[:2] for t in easy}):
        own = [t for t in easy if t.size[:2] == (d, k)]
        yield from _rows(f"mixtures d={d} k={k}, at most weak noise", own, *_list_quality(own))


def judge_verdicts(benchmark: str, name: str, trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield coverage and width of the band, and the shares of the verdicts by quality."""
    width = np.median([trial.high - trial.low for trial in trials])
    figures = ("coverage", _compute_coverage(trials)), ("median_width", width)
    yield from _rows(name, trials, *figures, benchmark=benchmark)
    for kind, chosen in (
        (f"answers below {_GOOD}", [t for t in trials if t.ratio < _GOOD]),
        ("answers between", [t for t in trials if _GOOD <= t.ratio <= _BAD]),
        (f"answers above {_BAD}", [t for t in trials if t.ratio > _BAD]),
    ):
        shares = (
            (word.replace(" ", "_"), sum(t.word == word for t in chosen) / max(1, len(chosen)))
            for word in WORDS
        )
        yield from _rows(kind, chosen, *shares, benchmark=benchmark)


def _compute_coverage(trials: Sequence[HonestTrial]) -> float:
    # A low end of 1 also includes answers that beat k-means.
    inside = [(t.low <= 1.0 + OFFSET or t.low <= t.ratio) and t.ratio <= t.high for t in trials]
    return float(np.mean(inside))


def _rows(
    case: str, trials: Sequence[HonestTrial], *figures: Figure, benchmark: str = NAME
) -> Iterator[Row]:
    yield from make_rows(benchmark, case, figures, runs=len(trials), baseline=BASELINE)


def fit(trials: Sequence[HonestTrial]) -> dict[str, tuple[float, ...]]:
    """Fit both ends of the band: coefficients in the order of ``FEATURES``, none below 0.

    A larger feature means a possibly worse answer; one that seems to mean the opposite is left out.
    """
    features = np.array([compute_features(trial.evidence) for trial in trials])
    ratios = np.array([trial.ratio for trial in trials])
    logs = np.minimum(np.log(np.maximum(ratios - 1.0, 0.0) + OFFSET), _LARGEST)
    return {
        "_LOW": _fit_quantile(_LOW_QUANTILE, features, logs),
        "_HIGH": _fit_quantile(_HIGH_QUANTILE, features, logs),
    }


def _fit_quantile(quantile: float, features: Floats, logs: Floats) -> tuple[float, ...]:
    from sklearn.linear_model import QuantileRegressor  # noqa: PLC0415 - only to fit

    kept = list(range(1, len(FEATURES)))
    while True:
        model = QuantileRegressor(quantile=quantile, alpha=_PENALTY, solver="highs")
        model.fit(features[:, kept], logs)
        left = [i for i, slope in zip(kept, model.coef_, strict=True) if slope >= 0.0]
        if left == kept:
            break
        kept = left
    slopes = dict(zip(kept, model.coef_, strict=True))
    return (
        round(float(model.intercept_), 3),
        *(round(float(slopes.get(i, 0.0)), 3) for i in range(1, len(FEATURES))),
    )


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the judging half, or of far records; or print the fitted band."""
    is_far, is_large, is_fit = (bool(bench.own.get(each)) for each in ("far", "large", "fit"))
    usual = _N_FAR if is_far else _N_LARGE if is_large else _N_SHAPES
    list_of = list_large_situations if is_large else list_situations
    trials = collect_tasks(
        bench,
        _FITTED_FROM if is_fit else digest_decoder(),
        bench.own.get("shapes") or (_QUICK_SHAPES if bench.quick else usual),
        partial(_run_task, list_of=list_far_situations if is_far else list_of),
        is_large=is_large,
    )
    if is_far or is_large:
        yield from describe_found("far records" if is_far else "many clusters", trials)
        return
    if not is_fit:
        yield from describe(trials)
        return
    for name, coefficients in fit(trials).items():
        for feature, value in zip(("intercept", *FEATURES[1:]), coefficients, strict=True):
            yield Row(NAME, f"fit {name}", feature, value, "1", len(trials), BASELINE)


if __name__ == "__main__":
    fits = ("--fit", {"action": "store_true", "help": "fit the band and print it"})
    far = ("--far", {"action": "store_true", "help": "records far outside the search box"})
    large = ("--large", {"action": "store_true", "help": "mixtures of many clusters"})
    run(NAME, __doc__, measure, fits, far, large, *OPTIONS)
