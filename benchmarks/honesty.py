"""Honesty of answers: quality, verdicts and bands on data that no decoder was tuned to.

Run as ``python -m benchmarks.honesty [--quick] [--json] [--shapes N] [--processes N]``; ``--keep
FILE`` resumes an interrupted run, ``--page FILE`` also writes the tables as Markdown, ``--fit``
computes the coefficients of ``learning/decoding/judgement.py`` anew, and ``--far`` decodes records
of which some lie far outside the search box: none of these answers may be called sound and be bad.

The shapes are those of :mod:`benchmarks.shapes`: families of synthetic records, and real ones from
wheels. Half of them fit the band and half judge it. The judging half draws its parameters, records,
frequencies and noise from a digest of the decoder's own source, so that nobody who changes the
decoder has seen them.

Every shape is decoded in four situations: two noise levels with honest guesses of scale and bounds,
and two with something wrong. Worst rows come first. Relative SSE compares with k-means on the raw
records; ``truth_start`` with round clusters by descent from its clusters.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.honest_trials import (
    HonestTrial,
    Situation,
    digest_decoder,
    list_far_situations,
    list_shapes,
    list_situations,
    run_shape,
)
from benchmarks.honesty_page import write_page
from benchmarks.packages import PackageUnavailableError
from benchmarks.progress import show_progress
from benchmarks.rows import Row, create_parser, print_rows, read_count, read_page
from sfumato.learning.decoding.judgement import FEATURES, compute_features
from sfumato.learning.decoding.verdict import OFFSET

T = TypeVar("T")
NAME = "honesty"
WORDS = ("sound", "rough", "doubtful", "do not use")
N_SHAPES = 60
N_FAR = 200
_QUICK_SHAPES = 3
_N_WORST = 12
BASELINE = "kmeans++ n_init=10 on the records"
_FITTED_FROM = "fit"
# Limits of a good answer and of a bad one.
_GOOD, _BAD = 1.05, 1.3
_LOW_QUANTILE, _HIGH_QUANTILE = 0.05, 0.95
_PENALTY = 0.002
KINDS: tuple[tuple[str, Callable[[HonestTrial], bool]], ...] = (
    ("mixtures", lambda t: t.is_mixture),
    ("real", lambda t: t.is_real),
    ("other shapes", lambda t: not t.is_mixture and not t.is_real),
)
_LARGEST = 3.0


def measure(quick: bool) -> Iterator[Row]:
    """Yield the rows of the judging half; few shapes if ``quick``."""
    yield from describe(collect(digest_decoder(), _QUICK_SHAPES if quick else N_SHAPES))


def collect(
    text: str,
    n_shapes: int,
    *,
    n_processes: int = 1,
    kept: Path | None = None,
    far: bool = False,
) -> list[HonestTrial]:
    """Decode the shapes that a text determines, except those whose wheels cannot be fetched.

    Decodes kept in the file by an earlier run are not repeated.
    """
    tasks = [(i, family, own) for i, (family, own) in enumerate(list_shapes(text, n_shapes))]
    run_task = partial(_run_task, list_of=list_far_situations if far else list_situations)
    return collect_tasks(tasks, run_task, n_processes=n_processes, kept=kept)


def collect_tasks(
    tasks: Sequence[Task],
    run_task: Callable[[Task], list[T]],
    *,
    n_processes: int = 1,
    kept: Path | None = None,
) -> list[T]:
    """Run tasks, except those that an earlier run has kept in the file."""
    found: dict[Task, list[T]] = {}
    if kept is not None and kept.exists():
        found = pickle.loads(kept.read_bytes())
    left = [task for task in tasks if task not in found]
    with show_progress(len(tasks)) as bar, _open_pool(n_processes) as run:
        bar.report("", len(tasks) - len(left))
        for task, trials in zip(left, run(run_task, left), strict=True):
            bar.report(task[1], 1)
            found[task] = trials
            if kept is not None:
                kept.write_bytes(pickle.dumps(found))
    return [trial for task in tasks for trial in found[task]]


Task = tuple[int, str, str]
"""Number, family and text of a shape."""


def _run_task(task: Task, *, list_of: Callable[[int], tuple[Situation, ...]]) -> list[HonestTrial]:
    i, family, own = task
    try:
        return list(run_shape(family, own, list_of(i)))
    except PackageUnavailableError as error:
        print(f"left out: {family}: {error}", file=sys.stderr)
        return []


@contextmanager
def _open_pool(n_processes: int) -> Iterator[Callable[..., Iterator[Any]]]:
    """Yield a ``map`` over processes of one thread each; the built-in one for one process."""
    if n_processes == 1:
        yield map
        return
    # Read by the libraries of the child processes, which would compete for the cores.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        yield pool.map


def describe(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield worst answers, quality, coverage of the band, and accuracy of the verdicts."""
    yield from list_answers(NAME, trials, n_most=_N_WORST)
    mistakes = [t for t in trials if t.ratio > _BAD and t.word in ("sound", "rough")]
    yield from list_answers(NAME, mistakes, prefix="mistaken")
    yield from _summarise_quality(trials)
    yield from judge_verdicts(NAME, "all", trials)
    for kind, is_chosen in KINDS:
        own = [trial for trial in trials if is_chosen(trial)]
        if own:
            yield _row(kind, "coverage", _compute_coverage(own), len(own))
    for family in sorted({trial.family for trial in trials}):
        own = [trial for trial in trials if trial.family == family]
        yield _row(f"family {family}", "coverage", _compute_coverage(own), len(own))
    yield from _summarise_sizes(trials)


def describe_far(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield the false answers, the worst first, and how many answers were found and called what."""
    false = [t for t in trials if t.ratio > _BAD and t.word == "sound"]
    yield from list_answers(NAME, [t for t in trials if t.ratio > _BAD], prefix="missed")
    yield _row("far records", f"sound_above_{_BAD}", len(false), len(trials))
    for word in WORDS:
        own = [trial.ratio for trial in trials if trial.word == word]
        yield _row("far records", word.replace(" ", "_"), len(own), len(trials))
        if own:
            share = float(np.mean(np.array(own) <= _BAD))
            yield _row(f"far records, {word}", f"at_most_{_BAD}", share, len(own))


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
        yield Row(
            benchmark=benchmark,
            case=f"{prefix} {trial.family}, {trial.situation.name}, d={d} k={k} m={m}",
            figure=trial.word,
            value=trial.ratio,
            unit="1",
            runs=1,
            baseline=f"band {trial.low:.2f} to {trial.high:.2f}, truth start {trial.ideal:.2f}",
        )


def _summarise_quality(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    for name, chosen in _split(trials):
        ratios = np.array([trial.ratio for trial in chosen])
        ideals = np.array([trial.ideal for trial in chosen])
        for figure, value in (
            ("median_relative_sse", np.median(ratios)),
            ("p90_relative_sse", np.quantile(ratios, 0.9)),
            ("truth_start_median", np.median(ideals)),
            ("truth_start_p90", np.quantile(ideals, 0.9)),
            # A wrong search is worse by a hundredth than descent from the truth.
            ("share_within_truth_start", np.mean(ratios <= np.maximum(1.01, ideals + 0.01))),
            ("phantoms_shown", sum(trial.shows_phantom for trial in chosen)),
        ):
            yield _row(name, figure, float(value), len(chosen))


def _split(trials: Sequence[HonestTrial]) -> Iterator[tuple[str, list[HonestTrial]]]:
    """Yield kinds of data by situation."""
    for situation in sorted({trial.situation.name for trial in trials}):
        own = [trial for trial in trials if trial.situation.name == situation]
        for name, is_chosen in KINDS:
            chosen = [trial for trial in own if is_chosen(trial)]
            if chosen:
                yield f"{name}, {situation}", chosen


def _summarise_sizes(trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield the quality of mixtures by (d, k), at the noise levels where all can be found."""
    easy = [t for t in trials if t.is_mixture and t.situation.name in ("no noise", "n eps 100000")]
    for d, k in sorted({t.size[:2] for t in easy}):
        own = [t for t in easy if t.size[:2] == (d, k)]
        ratios, ideals = [t.ratio for t in own], [t.ideal for t in own]
        for figure, value in (
            ("median_relative_sse", np.median(ratios)),
            ("p90_relative_sse", np.quantile(ratios, 0.9)),
            ("truth_start_median", np.median(ideals)),
            ("truth_start_p90", np.quantile(ideals, 0.9)),
        ):
            yield _row(f"mixtures d={d} k={k}, at most weak noise", figure, float(value), len(own))


def judge_verdicts(benchmark: str, name: str, trials: Sequence[HonestTrial]) -> Iterator[Row]:
    """Yield coverage and width of the band, and the shares of the verdicts by quality."""
    yield _row(name, "coverage", _compute_coverage(trials), len(trials), benchmark)
    width = float(np.median([trial.high - trial.low for trial in trials]))
    # JSON has no infinity: no row for the width where most bands have no upper end.
    if math.isfinite(width):
        yield _row(name, "median_width", width, len(trials), benchmark)
    for kind, chosen in (
        (f"answers below {_GOOD}", [t for t in trials if t.ratio < _GOOD]),
        ("answers between", [t for t in trials if _GOOD <= t.ratio <= _BAD]),
        (f"answers above {_BAD}", [t for t in trials if t.ratio > _BAD]),
    ):
        for word in WORDS:
            share = np.mean([trial.word == word for trial in chosen]) if chosen else 0.0
            yield _row(kind, word.replace(" ", "_"), float(share), len(chosen), benchmark)


def _compute_coverage(trials: Sequence[HonestTrial]) -> float:
    # A low end of 1 also includes answers that beat k-means.
    inside = [(t.low <= 1.0 + OFFSET or t.low <= t.ratio) and t.ratio <= t.high for t in trials]
    return float(np.mean(inside))


def _row(case: str, figure: str, value: float, runs: int, benchmark: str = NAME) -> Row:
    return Row(benchmark, case, figure, value, "1", runs, BASELINE)


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


def _fit_quantile(
    quantile: float, features: NDArray[np.float64], logs: NDArray[np.float64]
) -> tuple[float, ...]:
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


def main() -> int:
    """Run the benchmark, or fit the band."""
    parser = create_parser(NAME, __doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="fit the band and print it")
    parser.add_argument("--far", action="store_true", help="records far outside the search box")
    parser.add_argument("--shapes", type=read_count, help=f"shapes, {N_SHAPES} if not given")
    parser.add_argument("--processes", type=read_count, default=1, help="at a time (default: 1)")
    parser.add_argument("--keep", type=Path, help="go on from this file, and keep decodes in it")
    parser.add_argument("--page", type=read_page, help="write a page of Markdown here too")
    options = parser.parse_args()
    usual = N_FAR if options.far else N_SHAPES
    n_shapes = options.shapes or (_QUICK_SHAPES if options.quick else usual)
    run = partial(collect, n_processes=options.processes, kept=options.keep)
    if options.fit:
        for name, coefficients in fit(run(_FITTED_FROM, n_shapes)).items():
            print(f"{name}: Final = {coefficients}")
        return 0
    trials = run(digest_decoder(), n_shapes, far=options.far)
    rows = list((describe_far if options.far else describe)(trials))
    print_rows(rows, as_json=options.json)
    if options.page is not None:
        options.page.write_text(write_page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
