"""Verdicts on answers that had a second look, on shapes that nobody tuned to.

Run as ``python -m benchmarks.verdicts [--quick] [--json] [--shapes N] [--keep FILE]``. The shapes
are those of :mod:`benchmarks.shapes`, drawn from a digest of the decoder's source and of the rules
of looks. ``CompressiveKMeans`` fits each at three levels of noise under replace-one, with honest
guesses of bounds and scale, and leaves three tenths of epsilon for a look. The verdict is the worse
of the fit's and the look's. ``relative_sse`` is that of the refined centres over the best k-means
of the records, ``first`` that of the centres which the look was shown.

An answer called sound should have at most 1.1. Rows of ``rule`` are the reasons for which a look
alone doubts, with the SSE of the answers they apply to; ``alone`` counts those that the fit's
evidence had called sound.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.honest_trials import OPTIONS, Task, collect_tasks, derive_seed, digest_decoder
from benchmarks.reference import find_reference, measure_ratio
from benchmarks.runner import Bench, Row, make_rows, run
from benchmarks.shapes import Shape
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.learning.answers import clusters as rules
from sfumato.learning.looks.measurement import LARGEST_BEYOND
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import SketchError

NAME = "verdicts"
BASELINE = "kmeans++ n_init=10 on the records"
MOST_OF_SOUND: Final = 1.1
_N_SHAPES, _QUICK_SHAPES = 110, 3
_N_EPSILONS: Final = (100_000, 20_000, 5_000)
_SHARE: Final = "3/10"
_N_WORST = 12


@dataclass(frozen=True, kw_only=True)
class LookTrial:
    """One answer with its look.

    Parameters
    ----------
    family, size, n_epsilon
        Family of the records, (d, k), and n epsilon.
    ratio, first
        Relative SSE of the refined centres, and of those that the look was shown.
    word, of_fit, of_look
        The verdict; what the fit's evidence and what the look said.
    gain, gain_error
        What the look measured; None where nothing was.
    phantoms, wide, beyond
        Shares of the clusters, and of the records.
    """

    family: str
    size: tuple[int, int]
    n_epsilon: int
    ratio: float
    first: float
    word: str
    of_fit: str
    of_look: str
    gain: float | None
    gain_error: float | None
    phantoms: float
    wide: float
    beyond: float


def run_trials(shape: Shape, task: Task) -> list[LookTrial]:
    """Fit a shape at each level of noise, with a look; refused plans have no answer."""
    found = []
    for n_epsilon in _N_EPSILONS:
        try:
            found.append(run_trial(shape, n_epsilon, derive_seed(f"{task[2]} {n_epsilon}")))
        except SketchError:
            # Such as noise that hides all clusters: nothing is answered.
            continue
    return found


def run_trial(shape: Shape, n_epsilon: int, seed: int) -> LookTrial:
    """Fit a shape, and compare what is said of it with its records."""
    dataset = shape.dataset
    model = CompressiveKMeans(
        dataset.n_clusters,
        epsilon=f"{n_epsilon}/{len(dataset.records)}",
        bounds=(dataset.lower, dataset.upper),
        scale=find_reference(dataset).spread * shape.guess,
        public_seed=seed,
        random_state=seed,
        look_share=_SHARE,
    ).fit(dataset.records)
    look = model.look_
    body = look.body
    return LookTrial(
        family=shape.family,
        size=(dataset.n_dimensions, dataset.n_clusters),
        n_epsilon=n_epsilon,
        ratio=measure_ratio(dataset, model.cluster_centers_),
        first=measure_ratio(dataset, np.array([each.centre for each in body.clusters])),
        word=look.verdict,
        of_fit=model.result_.verdict or look.verdict,
        of_look=body.verdict.word,
        gain=None if body.gain is None else body.gain.value,
        gain_error=None if body.gain is None else body.gain.error,
        phantoms=float(np.mean([each.is_phantom for each in body.clusters])),
        wide=float(np.mean([each.is_wide for each in body.clusters])),
        beyond=0.0 if body.beyond is None else body.beyond.value,
    )


def digest_rules() -> str:
    """Compute a digest of the decoder and of the rules of looks."""
    text = digest_decoder() + inspect.getsource(rules)
    return hashlib.sha256(text.encode()).hexdigest()


def describe(trials: Sequence[LookTrial]) -> Iterator[Row]:
    """Yield false answers, the quality by verdict, and that of the answers of each rule."""
    false = [each for each in trials if each.word == "sound" and each.ratio > MOST_OF_SOUND]
    yield Row(NAME, "all", f"sound_above_{MOST_OF_SOUND}", len(false), "1", len(trials), BASELINE)
    for trial in sorted(false, key=lambda each: -each.ratio)[:_N_WORST]:
        d, k = trial.size
        case = f"false {trial.family}, n eps {trial.n_epsilon}, d={d} k={k}"
        yield Row(NAME, case, trial.of_fit, trial.ratio, "1", 1, BASELINE)
    for word in rules.WORDS:
        yield from _summarise(word, [each for each in trials if each.word == word])
        by_look = [each for each in trials if each.of_look == word]
        yield from _summarise(f"look {word}", by_look)
    for name, applies in RULES.items():
        own = [each for each in trials if applies(each)]
        alone = sum(each.of_fit == "sound" for each in own)
        yield from _summarise(f"rule {name}", own, ("alone", alone))


def _summarise(case: str, trials: Sequence[LookTrial], *more: tuple[str, float]) -> Iterator[Row]:
    figures: list[tuple[str, float]] = [("answers", len(trials)), *more]
    for name in ("ratio", "first"):
        values: Floats = np.array([getattr(each, name) for each in trials])
        if values.size:
            figures += [
                (f"{name}_median", float(np.median(values))),
                (f"{name}_p90", float(np.quantile(values, 0.9))),
                (f"{name}_worst", float(values.max())),
            ]
    yield from make_rows(NAME, case, figures, runs=len(trials), baseline=BASELINE)


def _bound_gain(trial: LookTrial) -> float:
    """Return what the gain clearly exceeds; minus infinity where it was not measured."""
    if trial.gain is None or trial.gain_error is None:
        return -np.inf
    return trial.gain - 2.0 * trial.gain_error


RULES: Final[Mapping[str, Callable[[LookTrial], bool]]] = {
    "no gain above 2 %": lambda each: _bound_gain(each) <= 0.02,
    "gain of 2 to 5 %": lambda each: 0.02 < _bound_gain(each) <= 0.05,
    "gain of 5 to 15 %": lambda each: 0.05 < _bound_gain(each) <= 0.15,
    "gain above 15 %": lambda each: _bound_gain(each) > 0.15,
    "phantoms, up to 20 %": lambda each: 0.0 < each.phantoms <= 0.2,
    "phantoms, above 20 %": lambda each: each.phantoms > 0.2,
    "wide clusters": lambda each: each.wide > 0.0,
    "records beyond": lambda each: each.beyond > LARGEST_BEYOND,
}
"""The reasons of a look, by what it measured."""


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of all shapes."""
    n_shapes = bench.own.get("shapes") or (_QUICK_SHAPES if bench.quick else _N_SHAPES)
    yield from describe(collect_tasks(bench, digest_rules(), n_shapes, run_trials))


if __name__ == "__main__":
    run(NAME, __doc__, measure, *OPTIONS)
