"""Records of clusters, in steps, for tests of covers."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.coverage.plan import CoverPlan, plan_cover
from sfumato.learning.coverage.projection import Integers

SEED = bytes(32)
DELTA = Fraction(1, 10**6)


def draw_clusters(
    seed: int, *, n_records: int, n_dimensions: int, n_clusters: int, spread: float = 800.0
) -> tuple[NDArray[np.int16], Integers]:
    """Draw steps of shape ``(n, d)`` around centres of shape ``(k, d)``."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(-24_000, 24_001, size=(n_clusters, n_dimensions))
    labels = np.arange(n_records) % n_clusters
    steps = centres[labels] + rng.normal(scale=spread, size=(n_records, n_dimensions))
    return np.clip(np.rint(steps), -32767, 32767).astype(np.int16), centres


def measure_cost(steps: NDArray[np.int16], centroids: NDArray[Any]) -> float:
    """Mean squared distance to the nearest centroid, steps squared."""
    records = steps.astype(np.float64)
    squares = np.stack([np.sum((records - c) ** 2, axis=1) for c in centroids])
    return float(np.mean(squares.min(axis=0)))


def make_plan(**changed: Any) -> CoverPlan:
    numbers: dict[str, Any] = {
        "n_clusters": 6,
        "n_dimensions": 8,
        "n_records": 6000,
        "epsilon": Fraction(1),
        "delta": DELTA,
        "seed": SEED,
    }
    return plan_cover(**(numbers | changed))
