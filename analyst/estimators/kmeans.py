"""k-means from one sketch of the records, exact or private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans

from sfumato.analyst.estimators.compressive import ExactTransforms, exact_only
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.evaluation import EvaluatedEstimator, Evaluation, Placed
from sfumato.analyst.estimators.inputs import Exact
from sfumato.analyst.estimators.look import Look, LookedEstimator
from sfumato.analyst.estimators.weights import read_weights
from sfumato.learning.answers.words import name_clusters
from sfumato.learning.decoding.kmeans import assign
from sfumato.learning.decoding.solution import Solution
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.objects.results import BarsBody

_MISSING = -1
"""Label of a record with a missing value."""
_SETTLED: Final = (
    "k-means on the records ended here, so nothing is estimated; another optimum may be better"
)


@estimator
class CompressiveKMeans(
    ExactTransforms,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    LookedEstimator,
    EvaluatedEstimator,
):
    """k-means from one small sum of random features of the records.

    ``fit`` reads the records once and keeps some hundred numbers, whatever their number; centroids
    are computed from these. Without ``epsilon`` the sum is exact, and the results are those of
    k-means. With it, the sum is released once with exact integer noise, and everything that the
    estimator then shows is differentially private.

    Parameters
    ----------
    n_clusters
        k.
    look_share
        With epsilon: the share of it that ``fit`` leaves for a second look, which refines what the
        sketch found and measures it, in ``look_``. ``auto``: 0.3 where the sketch is expected to
        find the clusters with the rest; else none.
    compute_labels
        Without epsilon: whether ``fit`` reads the records again, to move the centroids to the
        optimum of k-means near them, and for ``labels_`` and ``inertia_``.

    Attributes
    ----------
    cluster_centers_
        Shape ``(k, d')``, data units, by falling weight. A column with levels has one number for
        each: the share of its records. ``axes_`` names them.
    spreads_
        Shape ``(k, d')``: standard deviations inside the clusters; on a logarithmic scale octaves.
    labels_, inertia_
        Without epsilon, after ``fit``: the nearest centroid of each record, -1 where a value is
        missing, and the sum of squared distances to it.
    look_
        The second look that refined centroids and shares, if one did.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import CompressiveKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> exact = CompressiveKMeans(n_clusters=2, random_state=0).fit(records)
    >>> exact.cluster_centers_[:, 0].round().astype(int).tolist() in ([-6, 6], [6, -6])
    True
    >>> private = CompressiveKMeans(
    ...     n_clusters=2, epsilon="1", bounds=(-12, 12), scale=1.0, random_state=0
    ... ).fit(records)
    >>> sorted(private.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    >>> private.guarantee_.epsilon <= 1
    True
    """

    spreads_: Floats = result()
    labels_: NDArray[np.intp] = result()
    inertia_: float = result()

    _COUNT = "n_clusters"
    _DECODED = LookedEstimator._DECODED | {"cluster_centers_", "spreads_"}
    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **LookedEstimator._ABSENT,
            "labels_": "there is none after partial_fit or fit_sketch; call predict",
            "inertia_": "there is none after partial_fit or fit_sketch; call score",
            "look_": "no second look refined the centroids; call look(X, refine=True)",
        }
    )
    _PRIVATE_ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "labels_": "labels of the records would not be private; call predict for others",
            "inertia_": "a cost of the records is another release; call evaluate",
            "score": "a score of the records is another release; call evaluate",
            "fit_predict": "labels of the records would not be private; call predict for others",
            "fit_transform": "the transformed records would not be private",
        }
    )

    n_clusters: int = field(default=8, kw_only=False)
    compute_labels: bool = True

    def predict(self, X: Any) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the nearest centroid of records: shape ``(n,)``; -1 where a value is missing.

        The centroids may be public, but what is computed here from private records is as private as
        they are.

        Raises
        ------
        RecordError
            The columns are not those of the fit.
        """
        return self._assign(self._read_points(X))[0]

    def transform(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return distances of records to all centroids: shape ``(n, k)``.

        In units of ``metric_``, on the scales of the columns.

        Raises
        ------
        RecordError
            The columns are not those of the fit.
        """
        points, centroids, metric = self._read_points(X), self.solution_.centroids, self.metric_
        distances = np.empty((len(points), len(centroids)))
        for i, centroid in enumerate(centroids):
            distances[:, i] = np.sqrt(np.sum(((points - centroid) / metric) ** 2, axis=1))
        return distances

    @exact_only
    def fit_predict(
        self,
        X: Any,  # noqa: N803
        y: object = None,
        sample_weight: Any = None,
    ) -> NDArray[np.intp]:
        """Fit to records, and return the nearest centroid of each: without epsilon only."""
        self.fit(X, y, sample_weight=sample_weight)
        return self.labels_ if self.compute_labels else self.predict(X)

    @exact_only
    def score(self, X: Any, y: object = None, sample_weight: Any = None) -> float:  # noqa: N803
        """Return minus the sum of squared distances to the nearest centroid: without epsilon."""
        del y
        points = self._read_points(X)
        weights = None if sample_weight is None else read_weights(sample_weight, len(points))
        return -self._measure(points, weights)[1]

    def _evaluate(
        self,
        X: Any,  # noqa: N803
        stated: Exact,
        largest_distance: float | None,
    ) -> Evaluation:
        self._require_fitted()
        if self._held.is_exact:
            raise ConfigError(
                "has no guarantee to add to: the fit was exact",
                field="evaluate",
                fix="call score, which is exact as well",
            )
        return super()._evaluate(X, stated, largest_distance)

    def _place_all(self, X: Any) -> Placed:  # noqa: N803
        points, metric = self._read_points(X), self.metric_
        axes = self.plan_.space.axes
        return Placed(
            points=points / metric,
            centroids=self.solution_.centroids / metric,
            lower=np.array([axis.lower for axis in axes]) / metric,
            upper=np.array([axis.upper for axis in axes]) / metric,
        )

    @property
    def _n_features_out(self) -> int:
        self._require_fitted()
        # Without a decode, which may release: a pipeline asks before it is displayed.
        found = vars(self).get("cluster_centers_")
        return self._read_count() if found is None else len(found)

    def __getattr__(self, name: str) -> Any:
        if name in ("centers_std_", "weights_std_") and "result_" in vars(self):
            described = f"{type(self).__name__!r} has no attribute {name!r}"
            raise AttributeError(f"{described}: {self.result_.bars.sentence}")
        return super().__getattr__(name)

    def _answer(self, solution: Solution) -> None:
        self.cluster_centers_ = self.plan_.space.encoder.decode(solution.centroids)
        self.weights_ = solution.weights
        assert solution.spreads is not None
        assert solution.mixture is not None
        self.spreads_ = solution.spreads
        self.mixture_ = solution.mixture

    def _describe_records(self, rows: NDArray[np.floating], weights: Floats | None) -> None:
        if not self.compute_labels:
            return
        # In the precision of score: single precision loses what lies far from zero.
        points = self._place(rows).astype(np.float64, copy=False)
        self._settle(points, weights)
        self.labels_, self.inertia_ = self._measure(points, weights)

    def _measure(self, points: Floats, weights: Floats | None) -> tuple[NDArray[np.intp], float]:
        """Return nearest centroids, and the weighted sum of squared distances to them."""
        labels, inertia = self._assign(points)
        if weights is not None:
            is_whole = labels != _MISSING
            apart = (points[is_whole] - self.solution_.centroids[labels[is_whole]]) / self.metric_
            inertia = float(weights[is_whole] @ np.sum(apart**2, axis=1))
        return labels, inertia

    def _settle(self, points: Floats, weights: Floats | None) -> None:
        """Move the centroids to the optimum of k-means near them.

        The density that explains the sketch has an optimum of its own, beside the records'; without
        epsilon the records are there to tell.
        """
        metric, k = self.metric_, len(self.solution_.centroids)
        is_whole = np.isfinite(points).all(axis=1)
        scaled = points[is_whole] / metric
        counts = None if weights is None else weights[is_whole]
        if len(scaled) < k or (counts is not None and np.count_nonzero(counts) < k):
            return
        found = KMeans(k, init=self.solution_.centroids / metric, n_init=1)
        found.fit(scaled, sample_weight=counts)
        sizes = np.bincount(found.labels_, weights=counts, minlength=k).astype(np.float64)
        shares = sizes / np.sum(sizes)
        centroids = found.cluster_centers_ * metric
        self.cluster_centers_ = self.plan_.space.encoder.decode(centroids)
        self.weights_ = shares
        self.n_steps_ = int(found.n_iter_)
        self.solution_ = replace(self.solution_, centroids=centroids, weights=shares)
        body = replace(
            self.result_.body,
            centroids=self.cluster_centers_.tolist(),
            weights=shares.tolist(),
            words=name_clusters(self.cluster_centers_, shares, self.result_.names),
            centroid_errors=None,
            weight_errors=None,
            bars=BarsBody(word="none", sentence=_SETTLED),
        )
        self.result_ = replace(self.result_, body=body)

    @property
    def centers_std_(self) -> Floats:
        """Standard errors of the centroids: shape ``(k, d')``, data units.

        1.645 of them either way are a 90 % bar; ``result_.bars`` says what it means. They hold the
        clusters' identity: another set of clusters may fit nearly as well.

        Raises
        ------
        AttributeError
            No bars may be shown; it says why.
        """
        look: Look | None = vars(self).get("look_")
        found = self.result_.centroid_errors if look is None else look.centers_std
        return self._require_bars(found, "centers_std_")

    @property
    def weights_std_(self) -> Floats:
        """Standard errors of the shares, as :attr:`centers_std_`: shape ``(k,)``."""
        look: Look | None = vars(self).get("look_")
        found = self.result_.weight_errors if look is None else look.weights_std
        return self._require_bars(found, "weights_std_")

    def _require_bars(self, errors: Floats | None, name: str) -> Floats:
        if errors is None:
            # Python asks __getattr__ next, which gives this reason.
            raise AttributeError(name)
        return errors

    @property
    def metric_(self) -> Floats:
        """Lengths that count as one along each axis: shape ``(d',)``.

        All 1, so that distances are in data units, where one scale serves all columns.
        """
        self._require_fitted()
        scale, dimensions = self.plan_.scale, self.plan_.dimensions
        is_plain = all(not each.levels and each.transform is None for each in dimensions)
        return np.ones_like(scale) if is_plain and np.all(scale == scale[0]) else scale

    def _assign(self, rows: NDArray[np.floating]) -> tuple[NDArray[np.intp], float]:
        """Return nearest centroids, and the sum of squared distances to them."""
        metric, centroids = self.metric_, self.solution_.centroids
        is_plain = bool(np.all(metric == 1.0))
        # Nearly always finite, and then no record has a missing value.
        with np.errstate(over="ignore", invalid="ignore"):
            is_whole = bool(np.isfinite(np.sum(rows)))
        whole = np.ones(0, dtype=np.bool_) if is_whole else np.isfinite(rows).all(axis=1)
        n_whole = len(rows) if is_whole else int(np.count_nonzero(whole))
        if not n_whole:
            return np.full(len(rows), _MISSING, dtype=np.intp), 0.0
        chosen = rows if n_whole == len(rows) else rows[whole]
        labels, mean = assign(chosen if is_plain else chosen / metric, centroids / metric)
        if n_whole < len(rows):
            found = np.full(len(rows), _MISSING, dtype=np.intp)
            found[whole] = labels
            labels = found
        return labels, mean * n_whole
