"""Private k-means from the noisy leaves of a tree."""

from __future__ import annotations

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import read_whole
from sfumato.learning.clustering.methods.tree import MOST_DEPTH, TreeMethod
from sfumato.shared.arrays import Floats


@estimator
class TreeKMeans(ClusteringEstimator):
    """k-means from the noisy leaves of a tree of public hyperplanes, and rounds of noisy sums.

    The central counterpart of the trees of Ghazi, Kumar and Manurangsi (2020) and of Chang et al.
    (2021), with pure noise and exact integers: level by level the sums and counts of all live nodes
    are released under cube noise. The leaves can be clustered for any k.

    Parameters
    ----------
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge: in
        the rounds after the tree residuals are clipped to four of them. None: nothing is clipped.
    n_rounds
        Rounds of sums after the tree, which share half of epsilon; 0 gives all to the tree.
    depth
        Levels below the root; None for a choice by n epsilon, the columns and k.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import TreeKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = TreeKMeans(2, epsilon="1", bounds=(-12, 12), public_seed=1).fit(records)
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    """

    n_rounds: int = 2
    depth: int | None = None

    def _make_method(self, lower: Floats, upper: Floats) -> TreeMethod:
        depth = -1
        if self.depth is not None:
            depth = read_whole(
                self.depth, "depth", least=0, most=MOST_DEPTH, fix="leave it out for a choice"
            )
        n_rounds = read_whole(self.n_rounds, "n_rounds", least=0, most=10, fix="use 2")
        return TreeMethod(n_rounds=n_rounds, depth=depth)
