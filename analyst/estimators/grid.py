"""Private k-means from the noisy counts of a grid."""

from __future__ import annotations

from typing import Any, Self

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import read_whole
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.shared.arrays import Floats


@estimator
class GridKMeans(ClusteringEstimator):
    """k-means from the noisy counts of a grid and rounds of noisy sums.

    A histogram of all records on a uniform grid of the public bounds, released once with discrete
    Laplace noise; weighted k-means on the cells that noise does not explain; then rounds that sum
    residuals around these centroids under cube noise (Su, Cao, Li, Bertino and Jin 2016, with the
    differences that :mod:`sfumato.learning.clustering.methods.grid` lists).
    ``GridKMeans.published`` is the paper's. Best for 2 to 4 columns; up to 12 are possible.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. The noise is pure, so delta is not spent.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge:
        residuals are clipped to four of them. If None, it is estimated from the released grid.
    n_rounds
        Rounds of sums after the grid, which share half of epsilon; 0 gives all to the grid. If
        None, one to five by ``n epsilon / k``.
    is_published
        See ``published``.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import GridKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = GridKMeans(2, epsilon="1", bounds=(-12, 12)).fit(records)
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    >>> [(str(event.epsilon)) for event in found.events_]
    ['1/2', '1/2']
    """

    n_rounds: int | None = None
    is_published: bool = False

    @classmethod
    def published(cls, n_clusters: int = 8, *, n_rounds: int = 0, **parameters: Any) -> Self:
        """Return EUGkM as published, or with ``n_rounds=1`` its hybrid with DPLloyd.

        For comparison: a coarser grid, negative counts as weights, one start, Laplace noise.
        """
        return cls(n_clusters, n_rounds=n_rounds, is_published=True, **parameters)

    def _make_method(self, lower: Floats, upper: Floats) -> GridMethod:
        del lower, upper
        n_rounds = -1
        if self.n_rounds is not None:
            n_rounds = read_whole(self.n_rounds, "n_rounds", least=0, most=10, fix="leave it out")
        if self.is_published:
            return GridMethod.published(n_rounds=max(n_rounds, 0))
        return GridMethod(n_rounds=n_rounds)
