"""Private k-means by Lloyd's algorithm with noisy sums."""

from __future__ import annotations

from typing import Any, Literal, Self

from numpy.typing import ArrayLike

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import read_whole
from sfumato.analyst.estimators.sizes import read_start
from sfumato.learning.clustering.methods.contract import Method
from sfumato.learning.clustering.methods.lloyd import MOST_ROUNDS, LloydMethod
from sfumato.shared.arrays import Floats


@estimator
class LloydKMeans(ClusteringEstimator):
    """k-means by rounds of Lloyd's algorithm, each with noisy sums and counts of its clusters.

    The field's baseline (Blum et al. 2005, McSherry 2009, Su et al. 2016). Sums have cube noise, or
    Gaussian noise with a delta; centroids move less where noise is strong. It ends in the local
    optimum of its start: with a released start, such as the centroids of another method, it
    refines. ``LloydKMeans.published`` is DPLloyd.

    Parameters
    ----------
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge:
        from the third round on, or from the first if a start is given, residuals are clipped to
        four of them. None: nothing is clipped.
    start
        ``packing``, ``uniform`` (mostly worse), or centroids of shape ``(k, d)``, data units, that
        are public or were released; what that release cost is not counted here.
    n_rounds
        T; None for 3, 5 or 8 by n epsilon.
    noise
        ``cube``, ``laplace`` or ``gaussian``, which pays above some 20 columns or 8 rounds.
    is_published
        See ``published``.

    Attributes
    ----------
    release_, events_, guarantee_
        What was released: a :class:`sfumato.ClusterRelease` that
        can be stored and read again; what each round spent, or all rounds of Gaussian noise as one
        event; and what all guarantee together.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import LloydKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = LloydKMeans(2, epsilon="1", bounds=(-12, 12), public_seed=1).fit(records)
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    """

    start: ArrayLike | Literal["packing", "uniform"] = "packing"
    n_rounds: int | None = None
    noise: Literal["cube", "laplace", "gaussian"] = "cube"
    is_published: bool = False

    @classmethod
    def published(
        cls,
        n_clusters: int = 8,
        *,
        start: Literal["packing", "uniform"] = "packing",
        n_rounds: int = 5,
        **parameters: Any,
    ) -> Self:
        """Return DPLloyd as published: Laplace noise, centroids ``S / N``, five rounds.

        ``start="uniform"`` is that of SuLQ and PINQ; the sphere packing is that of Su et al.
        """
        return cls(
            n_clusters,
            start=start,
            n_rounds=n_rounds,
            noise="laplace",
            is_published=True,
            **parameters,
        )

    def _make_method(self, lower: Floats, upper: Floats) -> Method:
        n_rounds = 0
        if self.n_rounds is not None:
            n_rounds = read_whole(self.n_rounds, "n_rounds", most=MOST_ROUNDS, fix="leave it out")
        start, given = read_start(self.start, lower, upper)
        return LloydMethod(
            n_rounds=n_rounds,
            start=start,
            centroids=given,
            noise=self.noise,
            is_published=self.is_published,
        )
