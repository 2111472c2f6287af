"""Cost of privacy: predicted and measured relative SSE over n epsilon, for each noise.

Run as ``python -m benchmarks.utility [--quick] [--json]``; ``--help`` lists the options. Relative
SSE is as in :mod:`benchmarks.decoding`, on the seed paper's mixtures with d = k = 10 and n = 2e5.
The predicted band is that of ``sfumato.learning.planning.quality`` at the SNR that the server
estimates from the sketch, median over the runs; ``share_within_band`` counts the runs that ended
inside their own. Noise is spread over L sketches of equal size, or of log-normal sizes under either
weighting; ``alpha=0.1`` are the seed paper's masks. m and the radius law are the planner's choice
for each noise, as in :mod:`benchmarks.decoding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from benchmarks.datasets import TEN
from benchmarks.runner import Bench, Figure, Row, measure_cases, run
from benchmarks.sketches import describe_noise, make_noise
from benchmarks.trials import Setting, Trial, TrialCase, make_case, summarise
from sfumato.learning.planning.quality import predict_relative_sse

NAME = "utility"
_PREDICTED = "sfumato.learning.planning.quality at the estimated SNR"


def list_cases() -> Iterator[TrialCase]:
    """List the cases: every noise over n epsilon, many sketches, masks, weightings."""
    for noise, budgets, n_sketches, mask_groups, quick in (
        ("laplace", ("6e3", "2e4", "6e4", "1e5", "3e5"), 1, 1, "1e5"),
        ("laplace", ("2e4", "1e5"), 1, 10, ""),
        ("knorm", ("4e3", "1e4", "2e4", "6e4", "1e5"), 1, 1, "2e4"),
        ("gaussian", ("1e3", "2e3", "4e3", "1e4", "6e4"), 1, 1, "4e3"),
        ("knorm", ("6e4", "1e5", "3e5"), 100, 1, "1e5"),
        ("gaussian", ("2e4", "6e4", "1e5"), 100, 1, ""),
    ):
        words = f"L={n_sketches}" + (f" alpha={1 / mask_groups:g}" if mask_groups > 1 else "")
        for n_epsilon in budgets:
            more = {"n_sketches": n_sketches, "mask_groups": mask_groups}
            yield _make(noise, n_epsilon, words, quick_runs=2 * (n_epsilon == quick), **more)
    # The basis of the predicted band: under Gaussian noise SNR m hardly depends on m.
    for n_epsilon in ("7e2", "1e3", "1.5e3", "2e3", "3e3", "4e3", "1e4"):
        for features in (2, 3, 5):
            yield _make("gaussian", n_epsilon, f"L=1 m={features}kd", features=features)


def _make(noise: str, n_epsilon: str, words: str, *, quick_runs: int = 0, **more: Any) -> TrialCase:
    own = make_noise(noise, Fraction(n_epsilon) / TEN.n_records)
    setting = Setting(source=TEN, noise=own, **more)
    name = f"{describe_noise(noise, n_epsilon)} d=10 k=10 {words}"
    return replace(make_case(name, setting, quick_runs=quick_runs), summarise=compare)


def compare(trials: Sequence[Trial]) -> Iterator[Figure]:
    """Yield the figures of quality, the predicted band, and the share of runs inside it."""
    yield from summarise(trials)
    predict = partial(predict_relative_sse, n_clusters=10, n_dimensions=10)
    bands = [predict(snr=trial.snr, n_frequencies=trial.n_frequencies) for trial in trials]
    pairs = zip(bands, trials, strict=True)
    inside = [band.low <= trial.relative_sse <= band.high for band, trial in pairs]
    yield "median_snr", np.median([trial.snr for trial in trials]), "1", "seed eq. 7"
    yield "predicted_low", np.median([band.low for band in bands]), "1", _PREDICTED
    yield "predicted_high", np.median([band.high for band in bands]), "1", _PREDICTED
    yield "share_within_band", np.mean(inside), "1", _PREDICTED


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of the requested cases."""
    yield from measure_cases(NAME, bench, list_cases())


if __name__ == "__main__":
    run(NAME, __doc__, measure)
