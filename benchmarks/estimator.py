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

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.datasets import SPREAD, public_half_width
from benchmarks.rows import Row, create_parser, measure_in_turn, print_rows, read_count
from sfumato.analyst.estimators import CompressiveKMeans
from sfumato.learning.decoding.kmeans import measure_inertia

NAME = "estimator"
N_DIMENSIONS = N_CLUSTERS = 10
BATCH = 4096
_SIZES, _QUICK_SIZES = (100_000, 1_000_000, 10_000_000), (100_000,)
_RUNS, _QUICK_RUNS = 3, 1
_CHUNK = 1 << 20
_SAMPLE = 1_000_000
_WARM = 50_000

Records = NDArray[np.float32]
Fit = Callable[[Records, int], NDArray[np.float64]]
"""From records and a seed to centroids."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to find centroids, and the name of the one that it is compared with."""

    name: str
    fit: Fit
    baseline: str = ""


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


def list_methods(n_threads: int) -> list[Method]:
    """Return the methods, each baseline before those that are compared with it."""
    half_width = public_half_width(N_DIMENSIONS)

    def fit_exact(records: Records, seed: int, *, labels: bool) -> NDArray[np.float64]:
        return (
            CompressiveKMeans(
                N_CLUSTERS, compute_labels=labels, n_jobs=n_threads, random_state=seed
            )
            .fit(records)
            .cluster_centers_
        )

    def fit_private(records: Records, seed: int) -> NDArray[np.float64]:
        return (
            CompressiveKMeans(
                N_CLUSTERS,
                epsilon="1",
                bounds=(-half_width, half_width),
                scale=SPREAD,
                n_jobs=n_threads,
                random_state=seed,
            )
            .fit(records)
            .cluster_centers_
        )

    def fit_batches(records: Records, seed: int, *, labels: bool) -> NDArray[np.float64]:
        # Imported here, because it is not a dependency of what ships.
        from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415

        found = MiniBatchKMeans(
            N_CLUSTERS, n_init=3, batch_size=BATCH, compute_labels=labels, random_state=seed
        ).fit(records)
        return np.asarray(found.cluster_centers_, dtype=np.float64)

    # Its time depends on the version: since 1.9 each batch draws from all records by weight.
    plain = f"MiniBatchKMeans of scikit-learn {version('scikit-learn')}"
    labelled = f"{plain}, with labels"
    return [
        Method(name=plain, fit=lambda x, seed: fit_batches(x, seed, labels=False)),
        Method(name=labelled, fit=lambda x, seed: fit_batches(x, seed, labels=True)),
        Method(name="exact", fit=lambda x, seed: fit_exact(x, seed, labels=False), baseline=plain),
        Method(
            name="exact with labels",
            fit=lambda x, seed: fit_exact(x, seed, labels=True),
            baseline=labelled,
        ),
        Method(name="epsilon=1", fit=fit_private, baseline=plain),
    ]


def find_best(records: Records) -> float:
    """Return the mean squared distance of the best of ten starts of k-means.

    They fit the first million records, by which more would hardly move them; the distance is that
    of all.
    """
    from sklearn.cluster import KMeans  # noqa: PLC0415

    found = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit(records[:_SAMPLE])
    return measure_inertia(records, np.asarray(found.cluster_centers_, dtype=np.float64))


def measure_size(n_records: int, runs: int, n_threads: int) -> Iterator[Row]:
    """Yield the rows of one number of records."""
    records = draw_records(n_records)
    methods = list_methods(n_threads)
    found: dict[str, list[NDArray[np.float64]]] = {method.name: [] for method in methods}

    def make_work(method: Method) -> Callable[[], object]:
        def work() -> None:
            fits = found[method.name]
            fits.append(method.fit(records, len(fits)))

        return work

    with threadpool_limits(limits=n_threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = measure_in_turn(
            [make_work(m) for m in methods],
            runs,
            clock=time.process_time,
            warm_up=lambda i: methods[i].fit(records[:_WARM], 0),
        )
        best = find_best(records)
        errors = {
            name: float(np.median([measure_inertia(records, fit) for fit in fits])) / best
            for name, fits in found.items()
        }
    taken = {method.name: seconds[i] for i, method in enumerate(methods)}
    for method in methods:
        case = f"{method.name} n={n_records:.0e} threads={n_threads}"
        figures = [
            ("cpu_s", float(np.median(taken[method.name])), "s", "-"),
            ("relative_sse", errors[method.name], "1", "KMeans(n_init=10)"),
        ]
        if method.baseline:
            ratio = float(np.median(taken[method.name] / taken[method.baseline]))
            figures.insert(1, ("cpu_ratio", ratio, "1", method.baseline))
        for figure, value, unit, baseline in figures:
            if not math.isfinite(value):
                raise RuntimeError(f"{figure} of {case} is not finite")
            yield Row(
                benchmark=NAME,
                case=case,
                figure=figure,
                value=value,
                unit=unit,
                runs=runs,
                baseline=baseline,
            )


def measure(
    quick: bool,
    sizes: tuple[int, ...] | None = None,
    n_threads: int = 1,
    runs: int | None = None,
) -> Iterator[Row]:
    """Yield the rows of each number of records."""
    for n_records in sizes or (_QUICK_SIZES if quick else _SIZES):
        yield from measure_size(n_records, runs or (_QUICK_RUNS if quick else _RUNS), n_threads)


def main() -> None:
    """Read the command line and print the rows."""
    parser = create_parser(NAME, __doc__.splitlines()[0])
    parser.add_argument(
        "--records",
        type=read_count,
        nargs="+",
        metavar="N",
        help="numbers of records; default: 100000 1000000 10000000, and the first with --quick",
    )
    parser.add_argument("--runs", type=read_count, help="default: 3, and 1 with --quick")
    parser.add_argument("--threads", type=read_count, default=1, help="default: 1")
    options = parser.parse_args()
    sizes = tuple(options.records) if options.records else None
    rows = measure(options.quick, sizes, options.threads, options.runs)
    print_rows(rows, as_json=options.json)


if __name__ == "__main__":
    main()
