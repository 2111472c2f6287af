"""Private kernel k-means: Lloyd's algorithm on random features, with noisy sums."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.columns import Bounds, Scale
from sfumato.analyst.estimators.inputs import Exact, read_whole
from sfumato.analyst.estimators.sizes import read_start
from sfumato.learning.clustering.methods.contract import Method
from sfumato.learning.clustering.methods.kernel import MOST_FEATURES, MOST_ROUNDS, KernelMethod
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.errors import ConfigError
from sfumato.shared.reading.unreadable import MOST_UNREADABLE

Floats = NDArray[np.float64]

_FEATURES = 200
_ROUNDS = 5
_BANDWIDTH = 2.0


class KernelKMeans(ClusteringEstimator):
    """Kernel k-means by rounds of noisy sums of random Fourier features (Acs et al. 2019).

    Records become features whose inner products are a Gaussian kernel, and rounds of Lloyd's
    algorithm cluster these. Clusters need not be convex in the columns, and the noise does not grow
    with the number of columns. ``predict`` compares features; a centroid is the point whose
    features are nearest to a cluster's mean. It ends in the local optimum of its start: with a
    released start, such as the centroids of another method, it refines.

    Parameters
    ----------
    n_clusters
        k.
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Gaussian noise needs a delta.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge.
        None: a guess by k and the number of columns.
    n_features
        m, some hundreds: inner products are those of the kernel up to ``1 / sqrt(m)``.
    bandwidth
        w of the kernel ``exp(-|x - y|^2 / (2 w^2 d s^2))``, s the scale. A narrow one ends in local
        optima.
    start
        ``packing``, ``uniform`` (mostly worse), or points of shape ``(k, d)``, data units, that are
        public or were released: rounds start from their features. What that release cost is not
        counted here.
    n_rounds
        T, rounds of equal cost.
    relation
        ``replace-one``, where the number of records is public, or ``add-remove-one``, where it is
        secret too.
    max_records
        Required under ``add-remove-one``: a public number of records that sizes follow from.
    public_seed
        Seed of the features and the start, which depend on no record; it is published. None: fresh.
    random_state
        Steers the search for centroids from released means, never noise.
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
    >>> from sfumato import KernelKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> model = KernelKMeans(2, epsilon="1", delta="1e-6", bounds=(-12, 12), public_seed=1)
    >>> labels = model.fit(records).predict([[-6.0, -6.0], [6.0, 6.0]])
    >>> sorted(labels.tolist())
    [0, 1]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Exact,
        bounds: Bounds,
        delta: Exact = "0",
        scale: Scale | None = None,
        n_features: int = _FEATURES,
        bandwidth: float = _BANDWIDTH,
        start: ArrayLike | Literal["packing", "uniform"] = "packing",
        n_rounds: int = _ROUNDS,
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
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.start = start
        self.n_rounds = n_rounds
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
        is_number = isinstance(self.bandwidth, int | float | np.number)
        if isinstance(self.bandwidth, bool) or not (is_number and 0.0 < self.bandwidth < np.inf):
            raise ConfigError(
                "must be a finite positive number", field="bandwidth", fix="leave it out"
            )
        start, given = read_start(self.start, lower, upper)
        return KernelMethod(
            n_frequencies=read_whole(
                self.n_features, "n_features", most=MOST_FEATURES, fix="use 200"
            ),
            n_rounds=read_whole(self.n_rounds, "n_rounds", most=MOST_ROUNDS, fix="use 5"),
            width=float(self.bandwidth),
            start=start,
            centroids=given,
        )

    def _label(self, rows: Floats) -> NDArray[np.intp]:
        release = self.release_
        assert isinstance(release.method, KernelMethod)
        quantiser = Quantiser.from_bounds(release.lower, release.upper)
        steps, _ = quantiser.quantise(rows * self.metric_)
        return release.method.assign(release.task, release.answers, steps)
