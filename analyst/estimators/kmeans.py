"""k-means from one sketch of the records, exact or private."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst.estimators.compressive import CompressiveEstimator, exact_only
from analyst.estimators.contract import refuse_arguments
from analyst.estimators.reading import Exact
from learning.decoding.kmeans import assign
from learning.decoding.solution import Solution

if TYPE_CHECKING:
    from sklearn.utils import Tags

Floats = NDArray[np.float64]

_MISSING = -1
"""Label of a record with a missing value."""


class CompressiveKMeans(CompressiveEstimator):
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
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, data units; values beyond them are
        clipped. Required with epsilon, and public. None without epsilon: as the records are.
    scale
        The spread inside one cluster: a number, or one a column, data units, from public knowledge;
        distances are in units of it if the columns differ. ``auto``, without epsilon only: from
        k-means of at most 10,000 records. ``pilot``, with epsilon only: ``fit`` spends a tenth of
        epsilon on a histogram of each column, and takes the scale from it.
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
        Of the frequencies: a number or text, published. None: fresh with epsilon, fixed without.
    compute_labels
        Without epsilon: whether ``fit`` reads the records again for ``labels_`` and ``inertia_``.
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

    Attributes
    ----------
    cluster_centers_
        Shape ``(k, d)``, data units, by falling weight.
    weights_
        Shape ``(k,)``: shares of the records.
    spreads_
        Shape ``(k, d)``, data units: standard deviations inside the clusters.
    mixture_
        The density that explains the sketch.
    solution_, verdict_, warnings_, snr_
        All that the decoder found, how far to trust it, doubts, and the signal-to-noise ratio.
    labels_, inertia_
        Without epsilon, after ``fit``: the nearest centroid of each record, -1 where a value is
        missing, and the sum of squared distances to it.
    plan_, n_records_seen_, n_features_in_, feature_names_in_, privacy_
        Plan of the sketch; number of records; columns; and the promise in words.
    release_, releases_, events_, guarantee_
        With epsilon: what was released last and in all, what was spent, and what each guarantees.
    pilot_
        With ``scale="pilot"``: what the pilot released, at a cost that ``guarantee_`` includes.

    Examples
    --------
    >>> import numpy as np
    >>> from analyst.estimators import CompressiveKMeans
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
    _DECODED = CompressiveEstimator._DECODED | {"cluster_centers_", "spreads_"}
    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **CompressiveEstimator._ABSENT,
            "labels_": "there is none after partial_fit or fit_sketch; call predict",
            "inertia_": "there is none after partial_fit or fit_sketch; call score",
        }
    )
    _PRIVATE_ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "labels_": "labels of the records would not be private; call predict for others",
            "inertia_": "a cost of the records would be another release",
            "score": "a score of the records would be another release",
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
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        scale: ArrayLike | Literal["auto", "pilot"] = "auto",
        n_frequencies: int | Literal["auto"] = "auto",
        mechanism: str = "auto",
        relation: Literal["replace-one", "add-remove-one"] = "replace-one",
        max_records: int | None = None,
        public_seed: int | str | bytes | None = None,
        compute_labels: bool = True,
        n_jobs: int | None = None,
        random_state: object = None,
        ledger: str | Path | None = None,
        source: str | Path | None = None,
        budget: Exact | None = None,
        refit: bool = False,
        **refused: Any,
    ) -> None:
        refuse_arguments(refused)
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.scale = scale
        self.n_frequencies = n_frequencies
        self.mechanism = mechanism
        self.relation = relation
        self.max_records = max_records
        self.public_seed = public_seed
        self.compute_labels = compute_labels
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.ledger = ledger
        self.source = source
        self.budget = budget
        self.refit = refit

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the nearest centroid of records: shape ``(n,)``; -1 where a value is missing.

        The centroids may be public, but what is computed here from private records is as private as
        they are.

        Raises
        ------
        RecordError
            The columns are not those of the fit.
        """
        return self._assign(self._read_columns(X))[0]

    def transform(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return distances of records to all centroids: shape ``(n, k)``.

        In data units, or in units of ``scale`` where it differs between columns.

        Raises
        ------
        RecordError
            The columns are not those of the fit.
        """
        rows = self._read_columns(X)
        metric = self._metric
        distances = np.empty((len(rows), len(self.cluster_centers_)))
        for i, centroid in enumerate(self.cluster_centers_):
            distances[:, i] = np.sqrt(np.sum(((rows - centroid) / metric) ** 2, axis=1))
        return distances

    @exact_only
    def fit_predict(self, X: ArrayLike, y: object = None) -> NDArray[np.intp]:  # noqa: N803
        """Fit to records, and return the nearest centroid of each: without epsilon only."""
        self.fit(X, y)
        return self.labels_ if self.compute_labels else self.predict(X)

    @exact_only
    def fit_transform(self, X: ArrayLike, y: object = None) -> Floats:  # noqa: N803
        """Fit to records, and return their distances to all centroids: without epsilon only."""
        return self.fit(X, y).transform(X)

    @exact_only
    def score(self, X: ArrayLike, y: object = None) -> float:  # noqa: N803
        """Return minus the sum of squared distances to the nearest centroid: without epsilon."""
        del y
        return -self._assign(self._read_columns(X))[1]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return a name for each distance of :meth:`transform`."""
        del input_features
        names = [f"compressivekmeans{i}" for i in range(len(self.cluster_centers_))]
        return np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        # Called by scikit-learn alone, so it is installed.
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags  # noqa: PLC0415

        return Tags(
            estimator_type="clusterer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(allow_nan=True),
            non_deterministic=self._is_private,
        )

    def _answer(self, solution: Solution) -> None:
        self.cluster_centers_ = solution.centroids
        self.weights_ = solution.weights
        assert solution.spreads is not None
        assert solution.mixture is not None
        self.spreads_ = solution.spreads
        self.mixture_ = solution.mixture

    def _describe_records(self, rows: NDArray[np.floating]) -> None:
        if self.compute_labels:
            self.labels_, self.inertia_ = self._assign(rows)

    @property
    def _metric(self) -> Floats:
        scale = self.plan_.scale
        return np.ones_like(scale) if np.all(scale == scale[0]) else scale

    def _assign(self, rows: NDArray[np.floating]) -> tuple[NDArray[np.intp], float]:
        """Return nearest centroids, and the sum of squared distances to them."""
        metric = self._metric
        is_plain = bool(np.all(metric == 1.0))
        # Nearly always finite, and then no record has a missing value.
        with np.errstate(over="ignore", invalid="ignore"):
            is_whole = bool(np.isfinite(np.sum(rows)))
        whole = np.ones(0, dtype=np.bool_) if is_whole else np.isfinite(rows).all(axis=1)
        n_whole = len(rows) if is_whole else int(np.count_nonzero(whole))
        chosen = rows if n_whole == len(rows) else rows[whole]
        labels, mean = assign(
            chosen if is_plain else chosen / metric, self.cluster_centers_ / metric
        )
        if n_whole < len(rows):
            found = np.full(len(rows), _MISSING, dtype=np.intp)
            found[whole] = labels
            labels = found
        return labels, mean * n_whole
