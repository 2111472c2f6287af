"""Clusters of records: the most likely under a fitted density, or that of the next centroid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.decoding.density import GaussianMixture
from sfumato.shared.arrays import Floats
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.results import MixtureBody

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class Assignment:
    """Centroids that records are assigned to.

    Parameters
    ----------
    plan
        Gives the box that records are clipped to, and the scales that distances are measured in.
    centroids
        Shape ``(k, d')``, data units.
    mixture
        The fitted density on the plan's axes, if any: of k Gaussians or more.
    """

    plan: SketchPlan
    centroids: Floats
    mixture: MixtureBody | None

    def find_clusters(self, records: Floats) -> NDArray[np.intp]:
        """Return the cluster of each record, shape ``(n,)``; -1 where a value is missing."""
        points = self.plan.space.place(records)
        found = np.full(len(points), -1, dtype=np.intp)
        whole = np.isfinite(points).all(axis=1)
        if self.mixture is None:
            found[whole] = self._find_nearest(points[whole])
        else:
            found[whole] = np.argmax(self._share(points[whole]), axis=1)
        return found

    def compute_shares(self, records: Floats) -> Floats:
        """Return the probability of each cluster, shape ``(n, k)``; NaN for a missing value."""
        points = self.plan.space.place(records)
        found = np.full((len(points), len(self.centroids)), np.nan)
        whole = np.isfinite(points).all(axis=1)
        found[whole] = self._share(points[whole])
        return found

    @cached_property
    def _metric(self) -> Floats:
        """The unit of each axis in a distance: its scale, or its width in a plan without scales."""
        if any(each.scale is None and not each.levels for each in self.plan.dimensions):
            return np.array([each.upper - each.lower for each in self.plan.axes])
        return self.plan.space.scale

    @cached_property
    def _centres(self) -> Floats:
        """The centroids on the plan's axes, in units of the metric."""
        rules = self.plan.space.encoder.dimensions
        columns = [
            column if axis.resolution is None else rules[axis.dimension].transform(column)
            for axis, column in zip(self.plan.axes, self.centroids.T, strict=True)
        ]
        return np.stack(columns, axis=1) / self._metric

    @cached_property
    def _density(self) -> GaussianMixture:
        assert self.mixture is not None
        return GaussianMixture(
            weights=np.array(self.mixture.weights),
            means=np.array(self.mixture.means),
            variances=np.array(self.mixture.variances),
        )

    def _find_nearest(self, points: Floats) -> NDArray[np.intp]:
        found = np.empty(len(points), dtype=np.intp)
        for first in range(0, len(points), _ROWS_AT_ONCE):
            part = points[first : first + _ROWS_AT_ONCE] / self._metric
            # Of |x - c|^2, what differs between centroids.
            far = np.sum(self._centres**2, axis=1) - 2.0 * part @ self._centres.T
            found[first : first + _ROWS_AT_ONCE] = np.argmin(far, axis=1)
        return found

    def _share(self, points: Floats) -> Floats:
        """Return the share of each cluster in the density; a Gaussian counts for its nearest."""
        of_gaussian = self._density.compute_responsibilities(points)
        shares = np.zeros((len(points), len(self.centroids)))
        owners = self._find_nearest(self._density.means)
        for gaussian, owner in enumerate(owners):
            shares[:, owner] += of_gaussian[:, gaussian]
        return shares
