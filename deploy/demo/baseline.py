"""Ordinary k-means on the pooled raw records, a comparison that only a demonstration can make."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from sfumato.shared.plan import SketchPlan

COLUMNS = ("temp", "dewp", "wind_speed", "visib")
"""The columns of the data, in the order of the plan's dimensions."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """K-means on complete records, clipped to the plan's public box.

    Parameters
    ----------
    records
        Shape ``(n, d)``, data units.
    unit
        Shape ``(d,)``: the plan's scales, the units of distances.
    centroids
        Shape ``(k, d)``, data units.
    """

    records: NDArray[np.float64]
    unit: NDArray[np.float64]
    centroids: NDArray[np.float64]

    def sse(self, centroids: NDArray[np.float64]) -> float:
        """Sum over records of the squared distance to the nearest centroid, in scale units."""
        points, centres = self.records / self.unit, centroids / self.unit
        squared = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        return float(squared.min(axis=1).sum())

    def relative_sse(self, centroids: NDArray[np.float64]) -> float:
        """SSE relative to that of k-means on the same records."""
        return self.sse(centroids) / self.sse(self.centroids)


def compute_baseline(folder: Path, names: list[str], plan: SketchPlan, n_clusters: int) -> Baseline:
    """Pool the raw records and cluster them: k-means++, the best of 10 starts."""
    return cluster_records(read_records(folder, names), plan, n_clusters)


def cluster_records(records: NDArray[np.float64], plan: SketchPlan, n_clusters: int) -> Baseline:
    """Cluster raw records, shape ``(n, d)``: k-means++, the best of 10 starts."""
    lower = np.array([dimension.lower for dimension in plan.dimensions])
    upper = np.array([dimension.upper for dimension in plan.dimensions])
    records = np.clip(records[np.isfinite(records).all(axis=1)], lower, upper)
    found = KMeans(n_clusters, n_init=10, random_state=0).fit(records / plan.scale)
    return Baseline(records=records, unit=plan.scale, centroids=found.cluster_centers_ * plan.scale)


def read_records(folder: Path, names: list[str]) -> NDArray[np.float64]:
    """Pool the records of airports: shape ``(n, d)``, NaN where a value is missing."""
    return np.concatenate([_read_records(folder / f"{name.lower()}.csv") for name in names])


def _read_records(path: Path) -> NDArray[np.float64]:
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [
            [float(row[column]) if row[column] else np.nan for column in COLUMNS]
            for row in csv.DictReader(lines)
        ]
    return np.array(rows)


def read_times(folder: Path, name: str) -> NDArray[np.float64]:
    """Read the times of an airport's records: shape ``(n,)``, seconds since 1970."""
    with (folder / f"{name.lower()}.csv").open(encoding="utf-8", newline="") as lines:
        times = [row["time_hour"] for row in csv.DictReader(lines)]
    return np.array([datetime.fromisoformat(time).timestamp() for time in times])
