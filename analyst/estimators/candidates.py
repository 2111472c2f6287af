"""Private k-means from cells that hold many records."""

from __future__ import annotations

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import read_whole
from sfumato.learning.clustering.methods.candidates import CandidateMethod
from sfumato.shared.arrays import Floats


@estimator
class CandidateKMeans(ClusteringEstimator):
    """k-means among candidates, the centres of cells that hold many records.

    A quadtree divides cells that hold more records than noise explains; the centres of all such
    cells are candidates, and the noisy numbers of records nearest to each are clustered; a round
    sums residuals under cube noise (Balcan, Dick, Liang, Mou and Zhang 2017, with votes in place of
    their local search). For 2 to 4 columns; more than 10 are projected first, and
    :class:`CoverKMeans` is the better choice.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. The noise is pure, so delta is not spent.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge:
        residuals are clipped to four of them. If None, it is estimated from released candidates.
    depth
        Levels of the quadtree; None for a number by the columns.
    n_rounds
        Rounds of sums at the end, which share a third of epsilon. If None, one to five by
        ``n epsilon / k``.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import CandidateKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = CandidateKMeans(2, epsilon="2", bounds=(-12, 12)).fit(records)
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    """

    depth: int | None = None
    n_rounds: int | None = None

    def _make_method(self, lower: Floats, upper: Floats) -> CandidateMethod:
        del lower, upper
        depth = (
            -1
            if self.depth is None
            else read_whole(self.depth, "depth", most=10, fix="leave it out")
        )
        n_rounds = (
            -1
            if self.n_rounds is None
            else read_whole(self.n_rounds, "n_rounds", most=10, fix="leave it out")
        )
        return CandidateMethod(depth=depth, n_rounds=n_rounds)
