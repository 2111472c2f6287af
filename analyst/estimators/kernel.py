"""Private kernel k-means: Lloyd's algorithm on random features, with noisy sums."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import read_whole
from sfumato.analyst.estimators.sizes import read_start
from sfumato.learning.clustering.methods.contract import Method
from sfumato.learning.clustering.methods.kernel import MOST_FEATURES, MOST_ROUNDS, KernelMethod
from sfumato.shared.arrays import Floats
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.errors import ConfigError

_FEATURES = 200
_ROUNDS = 5
_BANDWIDTH = 2.0


@estimator
class KernelKMeans(ClusteringEstimator):
    """Kernel k-means by rounds of noisy sums of random Fourier features (Acs et al. 2019).

    Records become features whose inner products are a Gaussian kernel, and rounds of Lloyd's
    algorithm cluster these. Clusters need not be convex in the columns, and the noise does not grow
    with the number of columns. ``predict`` compares features; a centroid is the point whose
    features are nearest to a cluster's mean. It ends in the local optimum of its start: with a
    released start, such as the centroids of another method, it refines.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Gaussian noise needs a delta.
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
    public_seed
        Seed of the features and the start, which depend on no record; it is published. None: fresh.
    random_state
        Steers the search for centroids from released means, never noise.

    Attributes
    ----------
    release_, events_, guarantee_
        What was released: a :class:`sfumato.ClusterRelease` that
        can be stored and read again; what was spent, all rounds as one event, because their noise
        is bounded together; and what that guarantees.

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

    n_features: int = _FEATURES
    bandwidth: float = _BANDWIDTH
    start: ArrayLike | Literal["packing", "uniform"] = "packing"
    n_rounds: int = _ROUNDS

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
