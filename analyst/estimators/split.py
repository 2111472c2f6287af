"""Private k-means by cells that are split, merged and polished."""

from __future__ import annotations

from sfumato.analyst.estimators.clustering import ClusteringEstimator
from sfumato.analyst.estimators.declaration import estimator
from sfumato.learning.clustering.methods.contract import Method
from sfumato.learning.clustering.methods.split import SplitMethod
from sfumato.shared.arrays import Floats


@estimator
class SplitKMeans(ClusteringEstimator):
    """k-means by rounds that split cells, merge them, and move the centroids that are left.

    Each round puts the records to their nearest centres, and releases counts, clipped residuals and
    squares of the cells with Gaussian noise. The squares tell which cells to split and where to
    clip next, so that it needs neither a scale nor a start. It is for records in one place, and for
    any number of columns.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Gaussian noise needs a delta, less than one over the number of
        records.
    scale
        Changes nothing: it is there so that all classes take the same parameters.
    public_seed
        The published seed of the directions in which cells are split. None: fresh.
    random_state
        Steers what is computed from the release for another k, never noise.

    Attributes
    ----------
    release_, events_, guarantee_
        What was released: a :class:`sfumato.ClusterRelease` that
        can be stored and read again; what was spent, all rounds as one event, because their noise
        is bounded together; and what that guarantees.

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

    def _make_method(self, lower: Floats, upper: Floats) -> Method:
        return SplitMethod()
