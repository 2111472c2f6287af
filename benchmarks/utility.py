"""Cost of privacy: predicted and measured relative SSE over n epsilon, for each noise.

Run as ``python -m benchmarks.utility [--quick] [--json] [--plot FILE]``; ``--help`` lists the
options of experiments. Relative SSE is as in :mod:`benchmarks.decoding`, on the seed paper's
mixtures with d = k = 10 and n = 2e5. The predicted band is that of
``sfumato.learning.planning.quality`` at the SNR that the server estimates from the sketch, median
over the runs; ``share_within_band`` counts the runs that ended inside their own. Noise is spread
over L sketches of equal size, or of log-normal sizes under either weighting; ``alpha=0.1`` are the
seed paper's masks. m and the radius law are the planner's choice for each noise, as in
:mod:`benchmarks.decoding`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.cases import TEN, describe_noise, make_noise
from benchmarks.experiments import Bench, Options, run_experiment, select_cases
from benchmarks.rows import Row
from benchmarks.trials import Case, Trial, summarise
from sfumato.learning.planning.quality import QualityBand, predict_relative_sse

NAME = "utility"
MASK_GROUPS = 10
_PREDICTED = "sfumato.learning.planning.quality at the estimated SNR"


@dataclass(frozen=True, kw_only=True)
class Point:
    """A case, and its position in the picture.

    Parameters
    ----------
    case
        The case.
    curve
        Name of its curve; empty if it is on none.
    n_epsilon
        n times epsilon.
    """

    case: Case
    curve: str
    n_epsilon: float


def list_points() -> tuple[Point, ...]:
    """List the cases: every noise over n epsilon, many sketches, masks, weightings."""
    return (
        *_curve("laplace", ("6e3", "2e4", "6e4", "1e5", "3e5"), quick="1e5"),
        *_curve("laplace", ("2e4", "1e5"), mask_groups=MASK_GROUPS),
        *_curve("knorm", ("4e3", "1e4", "2e4", "6e4", "1e5"), quick="2e4"),
        *_curve("gaussian", ("1e3", "2e3", "4e3", "1e4", "6e4"), quick="4e3"),
        *_curve("knorm", ("6e4", "1e5", "3e5"), n_sketches=100, quick="1e5"),
        *_curve("gaussian", ("2e4", "6e4", "1e5"), n_sketches=100),
        *_weightings("knorm", "1e5", quick_runs=1),
        *_weightings("gaussian", "6e4"),
        *_features(),
    )


def measure(quick: bool) -> Iterator[Row]:
    """Yield every row; few seeds and cases if ``quick``."""
    yield from measure_cases(Bench(options=Options(quick=quick)))


def measure_cases(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases."""
    options = bench.options
    for case in _select(options):
        for law in options.laws:
            trials = bench.run(case, law)
            name = options.extend_name(case.name, law)
            yield from summarise(NAME, name, trials)
            yield from _compare(name, trials)


def _curve(
    noise: str,
    budgets: Sequence[str],
    *,
    n_sketches: int = 1,
    mask_groups: int = 1,
    quick: str = "",
) -> Iterator[Point]:
    masks = f" alpha={1 / mask_groups:g}" if mask_groups > 1 else ""
    for n_epsilon in budgets:
        case = Case(
            name=f"{describe_noise(noise, n_epsilon)} d=10 k=10 L={n_sketches}{masks}",
            source=TEN,
            noise=make_noise(noise, Fraction(n_epsilon) / TEN.n_records),
            n_sketches=n_sketches,
            mask_groups=mask_groups,
            quick_runs=2 if n_epsilon == quick else 0,
        )
        yield Point(case=case, curve=f"{noise} L={n_sketches}{masks}", n_epsilon=float(n_epsilon))


def _weightings(noise: str, n_epsilon: str, *, quick_runs: int = 0) -> Iterator[Point]:
    for weighting in ("size", "noise-optimal"):
        name = f"{describe_noise(noise, n_epsilon)} d=10 k=10 L=100 sizes=lognormal"
        case = Case(
            name=f"{name} weights={weighting}",
            source=TEN,
            noise=make_noise(noise, Fraction(n_epsilon) / TEN.n_records),
            n_sketches=100,
            uneven=True,
            weighting=weighting,
            quick_runs=quick_runs,
        )
        yield Point(case=case, curve="", n_epsilon=float(n_epsilon))


def _features() -> Iterator[Point]:
    """Yield the basis of the predicted band: under Gaussian noise SNR m hardly depends on m."""
    for n_epsilon in ("7e2", "1e3", "1.5e3", "2e3", "3e3", "4e3", "1e4"):
        for features in (2, 3, 5):
            case = Case(
                name=f"{describe_noise('gaussian', n_epsilon)} d=10 k=10 L=1 m={features}kd",
                source=TEN,
                noise=make_noise("gaussian", Fraction(n_epsilon) / TEN.n_records),
                features=features,
            )
            yield Point(case=case, curve="", n_epsilon=float(n_epsilon))


def _compare(name: str, trials: Sequence[Trial]) -> Iterator[Row]:
    """Yield the predicted band, and the number of runs inside it."""
    bands = [_predict(trial) for trial in trials]
    inside = [
        band.low <= trial.relative_sse <= band.high
        for band, trial in zip(bands, trials, strict=True)
    ]
    high = float(np.median([band.high for band in bands]))
    figures = {
        "median_snr": float(np.median([trial.snr for trial in trials])),
        "predicted_low": float(np.median([band.low for band in bands])),
        "predicted_high": high,
        "share_within_band": float(np.mean(inside)),
    }
    for figure, value in figures.items():
        # JSON has no infinity: no row without an upper bound.
        if math.isfinite(value):
            yield Row(
                benchmark=NAME,
                case=name,
                figure=figure,
                value=value,
                unit="1",
                runs=len(trials),
                baseline="seed eq. 7" if figure == "median_snr" else _PREDICTED,
            )


def _predict(trial: Trial) -> QualityBand:
    return predict_relative_sse(
        snr=trial.snr, n_frequencies=trial.n_frequencies, n_clusters=10, n_dimensions=10
    )


def _select(options: Options) -> list[Case]:
    return select_cases([point.case for point in list_points()], options)


def _list_names() -> list[str]:
    return [point.case.name for point in list_points()]


def _count(options: Options) -> int:
    runs = (len(options.list_seeds(c.runs, c.quick_runs)) for c in _select(options))
    return sum(runs) * len(options.laws)


def _draw(rows: Sequence[Row], path: Path) -> None:
    # Imported here, because matplotlib takes a second to load.
    from benchmarks.figures import draw_utility  # noqa: PLC0415

    places = {point.case.name: (point.curve, point.n_epsilon) for point in list_points()}
    draw_utility(rows, places, path)


if __name__ == "__main__":
    sys.exit(
        run_experiment(NAME, __doc__.splitlines()[0], _list_names, measure_cases, _count, _draw)
    )
