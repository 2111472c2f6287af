"""k-means from one sketch of the records, exact or private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.cluster import KMeans

from sfumato.analyst.estimators.columns import Bounds, Logs, Scale
from sfumato.analyst.estimators.compressive import ExactTransforms, exact_only
from sfumato.analyst.estimators.evaluation import EvaluatedEstimator, Evaluation, Placed
from sfumato.analyst.estimators.inputs import Exact
from sfumato.analyst.estimators.look import Look, LookedEstimator
from sfumato.learning.decoding.kmeans import assign
from sfumato.learning.decoding.solution import Solution
from sfumato.shared.errors import ConfigError
from sfumato.shared.reading.unreadable import MOST_UNREADABLE

if TYPE_CHECKING:
    from sklearn.utils import Tags

Floats = NDArray[np.float64]

_MISSING = -1
"""Label of a record with a missing value."""


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
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. None: no noise, and nothing is private.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, data units; or a mapping of
        columns to such pairs. Values beyond them are clipped. With epsilon they are public, and
        required, unless a pilot finds them. None without epsilon: as the records are.
    scale
        The spread inside one cluster: a number, one a column, or a mapping of columns to numbers,
        data units, from public knowledge. ``auto`` finds one for each column: without epsilon from
        k-means of at most 10,000 records, with it from a pilot. Distances are in units of it;
        where all are alike, within a factor of 2, one serves all columns, and distances are in data
        units. ``pooled`` is one for all, however much they differ; ``bounds``, with epsilon, is one
        share of the bounds of each, by which the other methods measure. ``pilot`` is ``auto`` with
        epsilon: ``fit`` spends a tenth of epsilon, up to a quarter where noise is strong, on a
        histogram of each column, and takes scales from it, and bounds where there are none.
    log
        Columns on a logarithmic scale: a list of them, or a mapping of columns to resolutions, the
        size below which values are alike. Their scale is in octaves: 1 is a factor of 2. A pilot
        chooses between both scales, for these columns and for those without bounds.
    levels
        Columns of text, each with all its values: ``{"colour": ["red", "green"]}``. A value becomes
        a coordinate that is 0 or 1; another value counts as missing.
    n_frequencies
        m, or ``auto``: ``max(64, 5 k d)`` without epsilon, and with it what the planner chooses.
    mechanism
        Name of the noise, or ``auto`` for the one that the planner chooses.
    relation
        ``replace-one``, where the number of records is public, or ``add-remove-one``, where it is
        secret too.
    max_records
        The most records of one sketch, public. Required with epsilon by ``partial_fit``, and under
        ``add-remove-one``.
    public_seed
        Seed of the frequencies: a number or text, published. None: fresh with epsilon, fixed
        without.
    look_share
        With epsilon: the share of it that ``fit`` leaves for a second look, which refines what the
        sketch found and measures it, in ``look_``. ``auto``: 0.3 where the sketch is expected to
        find the clusters with the rest; else none.
    compute_labels
        Without epsilon: whether ``fit`` reads the records again, to move the centroids to the
        optimum of k-means near them, and for ``labels_`` and ``inertia_``.
    n_jobs
        Threads that sum; -1 for all. Changes no result.
    random_state
        Steers the decoder's random starts and the subset for ``scale``, never noise.
    ledger, source, budget
        An owner's ledger that counts the release, the file that the records come from, and the
        limit of epsilon for each of them. A fit that was killed is finished by the next one with
        the same parameters: the same release, counted once.
    refit
        Allow a second private fit, which spends again.
    max_unreadable
        The largest share of a column whose values cannot be read; more spends nothing.

    Attributes
    ----------
    cluster_centers_
        Shape ``(k, d')``, data units, by falling weight. A column with levels has one number for
        each: the share of its records. ``axes_`` names them.
    weights_
        Shape ``(k,)``: shares of the records.
    spreads_
        Shape ``(k, d')``: standard deviations inside the clusters; on a logarithmic scale octaves.
    mixture_
        The density that explains the sketch.
    centers_std_, weights_std_
        Standard errors of centroids and shares; an error that says why, where none may be shown.
    solution_, result_, verdict_, warnings_, snr_
        All that the decoder found, also as a result that can be saved, drawn and put in a table;
        how far to trust it, doubts, and the signal-to-noise ratio.
    labels_, inertia_
        Without epsilon, after ``fit``: the nearest centroid of each record, -1 where a value is
        missing, and the sum of squared distances to it.
    plan_, n_records_seen_, n_features_in_, feature_names_in_, privacy_
        Plan of the sketch; number of records; columns; and the promise in words.
    release_, releases_, events_, guarantee_
        With epsilon: what was released last and in all, what was spent, and what each guarantees.
    look_
        The second look that refined centroids and shares, if one did.
    axes_, metric_, search_box_
        Names of the axes; lengths that count as one along them; and where clusters were searched.
    pilot_, pilot_doubts_
        What a pilot released, at a cost that ``guarantee_`` includes, and what it could not see.

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

    cluster_centers_: Floats
    weights_: Floats
    spreads_: Floats
    labels_: NDArray[np.intp]
    inertia_: float

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: Exact | None = None,
        delta: Exact = "0",
        bounds: Bounds | None = None,
        scale: Scale = "auto",
        log: Logs = None,
        levels: Mapping[Any, Sequence[object]] | None = None,
        n_frequencies: int | Literal["auto"] = "auto",
        mechanism: str = "auto",
        relation: Literal["replace-one", "add-remove-one"] = "replace-one",
        max_records: int | None = None,
        public_seed: int | str | bytes | None = None,
        look_share: Exact | Literal["auto"] = 0,
        compute_labels: bool = True,
        n_jobs: int | None = None,
        random_state: object = None,
        ledger: str | Path | None = None,
        source: str | Path | None = None,
        budget: Exact | None = None,
        refit: bool = False,
        max_unreadable: float = MOST_UNREADABLE,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.scale = scale
        self.log = log
        self.levels = levels
        self.n_frequencies = n_frequencies
        self.mechanism = mechanism
        self.relation = relation
        self.max_records = max_records
        self.public_seed = public_seed
        self.look_share = look_share
        self.compute_labels = compute_labels
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger
        self.source = source
        self.budget = budget
        self.refit = refit
        self.max_unreadable = max_unreadable

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the nearest centroid of records: shape ``(n,)``; -1 where a value is missing.

        The centroids may be public, but what is computed here from private records is as private as
        they are.

        Raises
        ------
        RecordError
            The columns are not those of the fit.
        """
        return self._assign(self._read_points(X))[0]

    def transform(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
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
    def fit_predict(self, X: ArrayLike, y: object = None) -> NDArray[np.intp]:  # noqa: N803
        """Fit to records, and return the nearest centroid of each: without epsilon only."""
        self.fit(X, y)
        return self.labels_ if self.compute_labels else self.predict(X)

    @exact_only
    def score(self, X: ArrayLike, y: object = None) -> float:  # noqa: N803
        """Return minus the sum of squared distances to the nearest centroid: without epsilon."""
        del y
        return -self._assign(self._read_points(X))[1]

    def _evaluate(
        self,
        X: ArrayLike,  # noqa: N803
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

    def _place_all(self, X: ArrayLike) -> Placed:  # noqa: N803
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self._is_private
        return tags

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

    def _describe_records(self, rows: NDArray[np.floating]) -> None:
        if self.compute_labels:
            # In the precision of score: single precision loses what lies far from zero.
            points = self._place(rows).astype(np.float64, copy=False)
            self._settle(points)
            self.labels_, self.inertia_ = self._assign(points)

    def _settle(self, points: Floats) -> None:
        """Move the centroids to the optimum of k-means near them.

        The density that explains the sketch has an optimum of its own, beside the records'; without
        epsilon the records are there to tell.
        """
        metric, k = self.metric_, len(self.solution_.centroids)
        scaled = points[np.isfinite(points).all(axis=1)] / metric
        if len(scaled) < k:
            return
        found = KMeans(k, init=self.solution_.centroids / metric, n_init=1).fit(scaled)
        shares = np.bincount(found.labels_, minlength=k) / len(scaled)
        centroids = found.cluster_centers_ * metric
        self.cluster_centers_ = self.plan_.space.encoder.decode(centroids)
        self.weights_ = shares
        self.n_steps_ = int(found.n_iter_)
        self.solution_ = replace(self.solution_, centroids=centroids, weights=shares)
        body = replace(
            self.result_.body,
            centroids=self.cluster_centers_.tolist(),
            weights=shares.tolist(),
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
