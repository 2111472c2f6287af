"""Private k-means from the noisy counts of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.columns import Bounds, Scale
from sfumato.analyst.estimators.inputs import Exact, read_whole
from sfumato.learning.clustering.methods.grid import GridMethod
from sfumato.shared.reading.unreadable import MOST_UNREADABLE

Floats = NDArray[np.float64]


class GridKMeans(ClusteringEstimator):
    """k-means from the noisy counts of a grid and rounds of noisy sums.

    A histogram of all records on a uniform grid of the public bounds, released once with discrete
    Laplace noise; weighted k-means on the cells that noise does not explain; then rounds that sum
    residuals around these centroids under cube noise (Su, Cao, Li, Bertino and Jin 2016, with the
    differences that :mod:`sfumato.learning.clustering.methods.grid` lists).
    ``GridKMeans.published`` is the paper's. Best for 2 to 4 columns; up to 12 are possible.

    Parameters
    ----------
    n_clusters
        k.
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. The noise is pure, so delta is not spent.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge:
        residuals are clipped to four of them. If None, it is estimated from the released grid.
    n_rounds
        Rounds of sums after the grid, which share half of epsilon; 0 gives all to the grid. If
        None, one to five by ``n epsilon / k``.
    relation
        ``replace-one``, where the number of records is public, or ``add-remove-one``, where it is
        secret too.
    max_records
        Required under ``add-remove-one``: a public number of records that the grid's size follows
        from.
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
    >>> from sfumato import GridKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = GridKMeans(2, epsilon="1", bounds=(-12, 12)).fit(records)
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    >>> [(str(event.epsilon)) for event in found.events_]
    ['1/2', '1/2']
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Exact,
        bounds: Bounds,
        delta: Exact = "0",
        scale: Scale | None = None,
        n_rounds: int | None = None,
        is_published: bool = False,
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
        self.is_published = is_published
        self.relation = relation
        self.max_records = max_records
        self.public_seed = public_seed
        self.random_state = random_state
        self.ledger = ledger
        self.source = source
        self.budget = budget
        self.refit = refit
        self.max_unreadable = max_unreadable

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
