"""Private k-means from the noisy leaves of a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.columns import Bounds, Scale
from sfumato.analyst.estimators.inputs import Exact, read_whole
from sfumato.learning.clustering.methods.tree import MOST_DEPTH, TreeMethod
from sfumato.shared.reading.unreadable import MOST_UNREADABLE

Floats = NDArray[np.float64]


class TreeKMeans(ClusteringEstimator):
    """k-means from the noisy leaves of a tree of public hyperplanes, and rounds of noisy sums.

    The central counterpart of the trees of Ghazi, Kumar and Manurangsi (2020) and of Chang et al.
    (2021), with pure noise and exact integers: level by level the sums and counts of all live nodes
    are released under cube noise. The leaves can be clustered for any k.

    Parameters
    ----------
    n_clusters
        k.
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge: in
        the rounds after the tree residuals are clipped to four of them. None: nothing is clipped.
    n_rounds
        Rounds of sums after the tree, which share half of epsilon; 0 gives all to the tree.
    depth
        Levels below the root; None for a choice by n epsilon, the columns and k.
    relation
        ``replace-one``, where the number of records is public, or ``add-remove-one``, where it is
        secret too.
    max_records
        Required under ``add-remove-one``: a public number of records that sizes and rounds
        follow from.
    public_seed
        Seed of choices that depend on no record; it is published. None: fresh.
    random_state
        Steers k-means on the released counts, never noise.
    ledger, source, budget
        An owner's ledger that counts the rounds, the file that the records come from, and the
        limit of epsilon for each of them.
    refit
        Allow a second fit, which spends again.
    max_unreadable
        The largest share of a column whose values cannot be read; more spends nothing.

    Attributes
    ----------
    cluster_centers_
        Shape ``(k, d)``, data units, by falling weight.
    weights_
        Shape ``(k,)``: shares of the records, with noise.
    metric_
        Lengths that count as one along each axis.
    release_, events_, guarantee_
        What was released: a :class:`sfumato.ClusterRelease` that
        can be stored and read again; what each round spent; and what all guarantee together.
    n_features_in_, feature_names_in_
        Number and, of a table, names of the columns.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Exact,
        bounds: Bounds,
        delta: Exact = "0",
        scale: Scale | None = None,
        n_rounds: int = 2,
        depth: int | None = None,
        relation: Literal["replace-one", "add-remove-one"] = "replace-one",
        max_records: int | None = None,
        public_seed: int | str | bytes | None = None,
        random_state: object = None,
        ledger: str | Path | None = None,
        source: str | Path | None = None,
        budget: Exact | None = None,
        refit: bool = False,
        max_unreadable: float = MOST_UNREADABLE,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.bounds = bounds
        self.delta = delta
        self.scale = scale
        self.n_rounds = n_rounds
        self.depth = depth
        self.relation = relation
        self.max_records = max_records
        self.public_seed = public_seed
        self.random_state = random_state
        self.ledger = ledger
        self.source = source
        self.budget = budget
        self.refit = refit
        self.max_unreadable = max_unreadable

    def _make_method(self, lower: Floats, upper: Floats) -> TreeMethod:
        depth = -1
        if self.depth is not None:
            depth = read_whole(
                self.depth, "depth", least=0, most=MOST_DEPTH, fix="leave it out for a choice"
            )
        n_rounds = read_whole(self.n_rounds, "n_rounds", least=0, most=10, fix="use 2")
        return TreeMethod(n_rounds=n_rounds, depth=depth)
