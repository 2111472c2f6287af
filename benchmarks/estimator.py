"""Time and quality of ``CompressiveKMeans`` against scikit-learn.

Mixtures of the seed paper (d = k = 10, float32 in memory). ``cpu_s`` is the process's CPU time of
one ``fit``, with all that it needs: the sketch, ``scale="auto"`` and bounds where there is no
epsilon, planning and decoding. ``cpu_ratio`` divides it, run by run, by that of
``MiniBatchKMeans(n_init=3, batch_size=4096)`` with the same number of threads and the same choice
of labels; medians over runs. ``relative_sse`` is the mean squared distance to the nearest centroid
over that of the best of ten ``KMeans`` starts, the median of the runs. The starts of ``KMeans``
fit the first million records (they have no order); all distances are those of all records.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

from benchmarks.datasets import SPREAD, public_half_width
from benchmarks.runner import Bench, Figure, Row, make_rows, measure_in_turn, read_count, run
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.learning.decoding.kmeans import measure_inertia
from sfumato.shared.arrays import Floats

NAME = "estimator"
N_DIMENSIONS = N_CLUSTERS = 10
_SIZES = (100_000, 1_000_000, 10_000_000)
_CHUNK = 1 << 20
_SAMPLE = 1_000_000
_WARM = 50_000
# Its time depends on the version: since 1.9 each batch draws from all records by weight.
_PLAIN = f"MiniBatchKMeans of scikit-learn {version('scikit-learn')}"
_LABELLED = f"{_PLAIN}, with labels"
_BASELINES = {"exact": _PLAIN, "exact with labels": _LABELLED, "epsilon=1": _PLAIN}

Records = NDArray[np.float32]
Fit = Callable[[Records, int], Floats]
"""From records and a seed to centroids."""


def draw_records(n_records: int, seed: int = 0) -> Records:
    """Draw a mixture of the seed paper: shape ``(n, 10)``, in chunks, as there may be many."""
    rng = np.random.default_rng((seed, N_DIMENSIONS, N_CLUSTERS))
    width = 1.5 * N_CLUSTERS ** (1.0 / N_DIMENSIONS)
    means = rng.normal(0.0, width, size=(N_CLUSTERS, N_DIMENSIONS)).astype(np.float32)
    records = np.empty((n_records, N_DIMENSIONS), dtype=np.float32)
    for first in range(0, n_records, _CHUNK):
        part = records[first : first + _CHUNK]
        rng.standard_normal(out=part, dtype=np.float32)
        part *= np.float32(SPREAD)
        part += means[rng.integers(N_CLUSTERS, size=len(part))]
    return records


def list_methods(n_threads: int) -> dict[str, Fit]:
    """Return the methods by name, each baseline before those that are compared with it."""
    half = public_half_width(N_DIMENSIONS)

    def fit(make: Callable[..., Any], records: Records, seed: int) -> Floats:
        found = make(N_CLUSTERS, random_state=seed).fit(records)
        return np.asarray(found.cluster_centers_, dtype=np.float64)

    batches = partial(MiniBatchKMeans, n_init=3, batch_size=4096)
    ours = partial(CompressiveKMeans, n_jobs=n_threads)
    private = partial(ours, epsilon="1", bounds=(-half, half), scale=SPREAD)
    return {
        _PLAIN: partial(fit, partial(batches, compute_labels=False)),
        _LABELLED: partial(fit, partial(batches, compute_labels=True)),
        "exact": partial(fit, partial(ours, compute_labels=False)),
        "exact with labels": partial(fit, partial(ours, compute_labels=True)),
        "epsilon=1": partial(fit, private),
    }


def measure_size(n_records: int, runs: int, n_threads: int) -> Iterator[Row]:
    """Yield the rows of one number of records."""
    records, methods = draw_records(n_records), list_methods(n_threads)
    found: dict[str, list[Floats]] = {name: [] for name in methods}

    def work(name: str) -> None:
        found[name].append(methods[name](records, len(found[name])))

    with threadpool_limits(limits=n_threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = measure_in_turn(
            [partial(work, name) for name in methods],
            runs,
            clock=time.process_time,
            warm_up=lambda i: list(methods.values())[i](records[:_WARM], 0),
        )
        # More records would hardly move the best of ten starts; the distance is that of all.
        best = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit(records[:_SAMPLE])
        least = measure_inertia(records, np.asarray(best.cluster_centers_, dtype=np.float64))
        errors = {
            name: np.median([measure_inertia(records, fit) for fit in fits]) / least
            for name, fits in found.items()
        }
    taken = dict(zip(methods, seconds, strict=True))
    for name in methods:
        figures: list[Figure] = [("cpu_s", np.median(taken[name]), "s")]
        if name in _BASELINES:
            ratio = np.median(taken[name] / taken[_BASELINES[name]])
            figures.append(("cpu_ratio", ratio, "1", _BASELINES[name]))
        figures.append(("relative_sse", errors[name], "1", "KMeans(n_init=10)"))
        case = f"{name} n={n_records:.0e} threads={n_threads}"
        yield from make_rows(NAME, case, figures, runs=runs)


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each number of records."""
    for n_records in bench.own.get("records") or (_SIZES[:1] if bench.quick else _SIZES):
        yield from measure_size(n_records, bench.count_runs(3, 1), bench.own.get("threads", 1))


if __name__ == "__main__":
    count = {"type": read_count, "metavar": "N"}
    words = "numbers of records; default: 100000 1000000 10000000, and the first with --quick"
    sizes = ("--records", {**count, "nargs": "+", "help": words})
    run(NAME, __doc__, measure, sizes, ("--threads", {**count, "default": 1, "help": "(1)"}))
