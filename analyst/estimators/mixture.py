"""A mixture of Gaussians from one sketch of the records, exact or private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin

from sfumato.analyst.estimators.compressive import CompressiveEstimator, exact_only
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.decoding.solution import Solution
from sfumato.shared.arrays import Floats


@estimator
class CompressiveMixture(DensityMixin, CompressiveEstimator):  # type: ignore[misc]  # untyped
    """A mixture of Gaussians with diagonal covariances, from one sketch of the records.

    The sketch and the guarantee are those of :class:`CompressiveKMeans`. There is no ``aic`` or
    ``bic``: they need the likelihood of the records, which the sketch does not have.

    Parameters
    ----------
    n_components
        k, the number of Gaussians.

    Attributes
    ----------
    weights_, means_, covariances_
        Shapes ``(k,)``, ``(k, d')`` and ``(k, d')``: shares, means and variances, by falling
        weight, on the scales of the columns: octaves from zero on a logarithmic one.
    mixture_
        The density that explains the sketch best; it may have more Gaussians than asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import CompressiveMixture
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 1)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> mixture = CompressiveMixture(n_components=2, random_state=0).fit(records)
    >>> mixture.predict_proba([[-6.0], [6.0]]).max(axis=1).round().tolist()
    [1.0, 1.0]
    """

    weights_: Floats = result()
    means_: Floats = result()
    covariances_: Floats = result()

    _COUNT = "n_components"
    _DECODED = CompressiveEstimator._DECODED | {"means_", "covariances_"}
    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **CompressiveEstimator._ABSENT,
            "cluster_centers_": "a mixture has means_",
            "aic": "it needs the likelihood of the records",
            "bic": "it needs the likelihood of the records",
        }
    )
    _PRIVATE_ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "score": "a score of the records would be another release",
            "fit_predict": "labels of the records would not be private; call predict for others",
        }
    )

    n_components: int = field(default=1, kw_only=False)

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the share of each Gaussian in the density at records: shape ``(n, k)``.

        Raises
        ------
        RecordError
            The columns are not those of the fit.
        """
        rows = self._read_points(X)
        return self._density.compute_responsibilities(rows)

    def predict(self, X: Any) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the Gaussian with the largest share at records; -1 where a value is missing.

        Raises
        ------
        RecordError
            The columns are not those of the fit.
        """
        shares = self.predict_proba(X)
        labels: NDArray[np.intp] = np.where(np.isnan(shares[:, 0]), -1, np.argmax(shares, axis=1))
        return labels

    @exact_only
    def fit_predict(self, X: Any, y: object = None) -> NDArray[np.intp]:  # noqa: N803
        """Fit to records, and return the most likely Gaussian of each: without epsilon only."""
        return self.fit(X, y).predict(X)

    @exact_only
    def score(self, X: Any, y: object = None) -> float:  # noqa: N803
        """Return the mean logarithm of the density at records: without epsilon only."""
        del y
        return float(np.mean(self.score_samples(X)))

    @property
    def _density(self) -> GaussianMixture:
        return GaussianMixture(
            weights=self.weights_, means=self.means_, variances=self.covariances_
        )

    def _answer(self, solution: Solution) -> None:
        assert solution.spreads is not None
        assert solution.mixture is not None
        found = solution.mixture
        if len(found.weights) != len(solution.weights):
            # More Gaussians explain the sketch; each cluster of them becomes one.
            found = GaussianMixture(
                weights=solution.weights,
                means=solution.centroids,
                variances=solution.spreads**2,
            )
        self.mixture_ = solution.mixture
        self.weights_, self.means_, self.covariances_ = found.weights, found.means, found.variances
