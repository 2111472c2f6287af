"""Records of three clusters, and estimators of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from sfumato.analyst.estimators import CompressiveKMeans

Floats = NDArray[np.float64]
K, D = 3, 2
ROOT = Path(__file__).resolve().parents[3]
MEANS = np.array([[-6.0, -5.0], [0.0, 6.0], [6.0, -4.0]])
SHARES = [0.5, 0.3, 0.2]


def make_records(n: int = 6000, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    records: Floats = MEANS[rng.choice(K, size=n, p=SHARES)] + rng.normal(size=(n, D))
    return records


def make_exact(**changes: Any) -> CompressiveKMeans:
    return CompressiveKMeans(**{"n_clusters": K, "random_state": 0} | changes)


def make_private(**changes: Any) -> CompressiveKMeans:
    public = {"epsilon": "5", "bounds": (-12.0, 12.0), "scale": 1.0}
    return make_exact(**public | changes)


def measure_sse(records: Floats, centroids: Floats) -> float:
    squares = np.sum((records[:, None] - centroids) ** 2, axis=2)
    return float(squares.min(axis=1).sum())


def compare(records: Floats, centroids: Floats) -> float:
    best = KMeans(K, n_init=3, random_state=0).fit(records).inertia_
    return measure_sse(records, centroids) / float(best)
