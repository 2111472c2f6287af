"""Private k-means by cells that are split, merged and polished."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.columns import Bounds, Scale
from sfumato.analyst.estimators.inputs import Exact
from sfumato.learning.clustering.methods.contract import Method
from sfumato.learning.clustering.methods.split import SplitMethod
from sfumato.shared.reading.unreadable import MOST_UNREADABLE

Floats = NDArray[np.float64]


class SplitKMeans(ClusteringEstimator):
    """k-means by rounds that split cells, merge them, and move the centroids that are left.

    Each round puts the records to their nearest centres, and releases counts, clipped residuals and
    squares of the cells with Gaussian noise. The squares tell which cells to split and where to
    clip next, so that it needs neither a scale nor a start. It is for records in one place, and for
    any number of columns.

    Parameters
    ----------
    n_clusters
        k.
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Gaussian noise needs a delta, less than one over the number of
        records.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    scale
        Changes nothing: it is there so that all classes take the same parameters.
    relation
        ``replace-one``, where the number of records is public, or ``add-remove-one``, where it is
        secret too.
    max_records
        Required under ``add-remove-one``: a public number of records that radii follow from.
    public_seed
        The published seed of the directions in which cells are split. None: fresh.
    random_state
        Steers what is computed from the release for another k, never noise.
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
        can be stored and read again; what was spent, all rounds as one event, because their noise
        is bounded together; and what that guarantees.
    n_features_in_, feature_names_in_
        Number and, of a table, names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import SplitKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = SplitKMeans(2, epsilon="1", delta="1e-6", bounds=(-12, 12)).fit(records)
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
        self.relation = relation
        self.max_records = max_records
        self.public_seed = public_seed
        self.random_state = random_state
        self.ledger = ledger
        self.source = source
        self.budget = budget
        self.refit = refit
        self.max_unreadable = max_unreadable

    def _make_method(self, lower: Floats, upper: Floats) -> Method:
        return SplitMethod()
