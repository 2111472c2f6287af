"""Reference for decoders: the best k-means on the records themselves."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from benchmarks import packages
from benchmarks.datasets import Dataset
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.shared.arrays import Floats

MANY_CLUSTERS = 50
"""From this k on, k-means++ starts on part of the records to save time."""
_ROWS = 1 << 14
# Far below the reported differences; scikit-learn's default, 1e-4, is not.
_TOLERANCE = 1e-7


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The lowest SSE found on the records.

    Parameters
    ----------
    sse
        Sum of squared distances to the nearest centroid, squared data units.
    spread
        ``sqrt(sse / (n d))``: standard deviation within a cluster, per dimension.
    centroids
        Shape ``(k, d)``, data units, as nested lists.
    method
        Description in words.
    """

    sse: float
    spread: float
    centroids: list[list[float]]
    method: str


def compute_sse(records: Floats, centroids: Floats) -> float:
    """Sum over records of the squared distance to the nearest centroid.

    Parameters
    ----------
    records, centroids
        Shapes ``(n, d)`` and ``(k, d)``, data units.
    """
    # Relative to a point near the records, so that little cancels in |x|^2 - 2 x.c + |c|^2.
    origin = centroids.mean(axis=0)
    moved = centroids - origin
    squares = np.sum(moved**2, axis=1)
    total = 0.0
    for start in range(0, len(records), _ROWS):
        part = records[start : start + _ROWS] - origin
        nearest = np.min(squares - 2.0 * (part @ moved.T), axis=1)
        total += float(np.sum(np.maximum(nearest + np.sum(part**2, axis=1), 0.0)))
    return total


KMEANS = "k-means on the records"


def measure_ratio(dataset: Dataset, centroids: Floats) -> float:
    """Return the SSE of centroids over that of the reference."""
    return compute_sse(dataset.records, centroids) / find_reference(dataset).sse


def list_quality(ratios: Sequence[float]) -> Iterator[tuple[str, float, str, str]]:
    """Yield median and 90th percentile of relative SSE as figures."""
    yield "median_relative_sse", float(np.median(ratios)), "1", KMEANS
    yield "p90_relative_sse", float(np.quantile(ratios, 0.9)), "1", KMEANS


def describe_clusters(records: Floats, centroids: Floats) -> GaussianMixture:
    """Describe records as a mixture of the clusters around given centroids.

    An empty cluster has weight zero and the variances of all records.
    """
    k, d = centroids.shape
    counts, sums, squares = np.zeros(k), np.zeros((k, d)), np.zeros((k, d))
    for start in range(0, len(records), _ROWS):
        part = records[start : start + _ROWS]
        labels = np.argmin(np.sum(centroids**2, axis=1) - 2.0 * (part @ centroids.T), axis=1)
        members = np.eye(k)[labels].T
        offsets = part - centroids[labels]
        counts += members.sum(axis=1)
        sums += members @ part
        squares += members @ offsets**2
    full = counts > 0
    means, variances = centroids.copy(), np.tile(records.var(axis=0), (k, 1))
    means[full] = sums[full] / counts[full, None]
    variances[full] = squares[full] / counts[full, None] - (means - centroids)[full] ** 2
    least = np.finfo(np.float64).tiny
    return GaussianMixture(
        weights=counts / len(records), means=means, variances=np.maximum(variances, least)
    )


def find_reference(dataset: Dataset, folder: Path | None = None) -> Reference:
    """Find the best of k-means++ starts and, where they are known, a start at the true means.

    The result is kept in ``folder`` (the cache) under the digest of all its inputs.
    """
    method = _describe_method(dataset)
    path = (folder or packages.CACHE) / "references" / f"{_digest(dataset, method)}.json"
    if path.exists():
        return Reference(**json.loads(path.read_text(encoding="utf-8")))
    found = _cluster(dataset)
    sums = [compute_sse(dataset.records, centroids) for centroids in found]
    best = int(np.argmin(sums))
    reference = Reference(
        sse=sums[best],
        spread=math.sqrt(sums[best] / dataset.records.size),
        centroids=found[best].tolist(),
        method=method,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: two benchmarks may run at the same time.
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(asdict(reference)), encoding="utf-8")
    part.replace(path)
    return reference


def _describe_method(dataset: Dataset) -> str:
    starts = "kmeans++ n_init=10"
    if dataset.n_clusters >= MANY_CLUSTERS:
        starts = "kmeans++ n_init=3 on 300 k records"
    return starts if dataset.true_means is None else f"{starts} or true means, then Lloyd"


def _digest(dataset: Dataset, method: str) -> str:
    names = ",".join(field.name for field in fields(Reference))
    digest = hashlib.sha256(f"{names};{method};{dataset.n_clusters};{_TOLERANCE};".encode())
    digest.update(np.ascontiguousarray(dataset.records).tobytes())
    return digest.hexdigest()[:32]


def _cluster(dataset: Dataset) -> list[Floats]:
    """Run Lloyd from each kind of start."""
    records, k = dataset.records, dataset.n_clusters
    if k < MANY_CLUSTERS:
        found = [_run_lloyd(records, k, "k-means++", 10)]
    else:
        chosen = np.random.default_rng(0).permutation(len(records))[: 300 * k]
        start = _run_lloyd(records[chosen], k, "k-means++", 3)
        found = [_run_lloyd(records, k, start, 1)]
    if dataset.true_means is not None:
        found.append(_run_lloyd(records, k, dataset.true_means, 1))
    return found


def _run_lloyd(records: Floats, k: int, start: str | Floats, n_init: int) -> Floats:
    means = KMeans(k, init=start, n_init=n_init, tol=_TOLERANCE, max_iter=500, random_state=0)
    return np.asarray(means.fit(records).cluster_centers_, dtype=np.float64)
