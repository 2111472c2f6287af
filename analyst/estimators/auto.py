"""Private k-means by the method that suits public numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.candidates import CandidateKMeans
from sfumato.analyst.estimators.clustering import (
    CentralEstimator,
    ClusteringEstimator,
    measure_by,
)
from sfumato.analyst.estimators.columns import read_box
from sfumato.analyst.estimators.cover import CoverKMeans
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.evaluation import (
    Evaluation,
    read_distance,
    rescale,
)
from sfumato.analyst.estimators.grid import GridKMeans
from sfumato.analyst.estimators.inputs import (
    Exact,
    find_names,
    list_names,
    open_table,
    refuse_words,
)
from sfumato.analyst.estimators.kmeans import CompressiveKMeans
from sfumato.analyst.estimators.lloyd import LloydKMeans
from sfumato.analyst.estimators.sizes import (
    count_public,
    read_clusters,
    read_scale,
    require_records,
)
from sfumato.analyst.estimators.split import SplitKMeans
from sfumato.analyst.estimators.tree import TreeKMeans
from sfumato.learning.planning.methods import SKETCH, Holding, MethodChoice, choose_method
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import SketchError
from sfumato.shared.privacy import PrivacyEvent, PrivacyGuarantee

KINDS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        SKETCH: CompressiveKMeans,
        "grid": GridKMeans,
        "tree": TreeKMeans,
        "candidates": CandidateKMeans,
        "cover": CoverKMeans,
        "lloyd": LloydKMeans,
        "split": SplitKMeans,
    }
)
"""The estimator of each method that can be chosen."""
_TAKEN: Final = (
    "release_",
    "events_",
    "guarantee_",
    "n_features_in_",
    "feature_names_in_",
    "cluster_centers_",
    "weights_",
)
"""What is shown of the chosen estimator."""


@estimator
class AutoKMeans(CentralEstimator):
    """k-means by the private method that was best on sets with as many columns and as much noise.

    The choice follows from public numbers alone: of records, columns and clusters, epsilon, delta,
    the relation, and whether a scale is stated. It costs nothing, and ``choose`` shows it before
    any record is read (:mod:`sfumato.learning.planning.methods`). All of epsilon goes to that
    method.

    Parameters
    ----------
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. With a delta Gaussian sketches, max cover and split cells are
        choices too.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge;
        their root mean square as a share of the bounds serves all columns. If None and the sketch
        is chosen, a part of epsilon finds one.

    Attributes
    ----------
    choice_, estimator_
        The choice with its reason, and the fitted estimator that was chosen.
    cluster_centers_, weights_
        As of that estimator.
    release_, events_, guarantee_
        What it released; what was spent; and what all guarantee together.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import AutoKMeans
    >>> rng = np.random.default_rng(0)
    >>> records = rng.normal(size=(20_000, 2)) + rng.choice([-6.0, 6.0], size=(20_000, 1))
    >>> found = AutoKMeans(2, epsilon="1", bounds=(-12, 12), scale=1.0).fit(records)
    >>> found.choice_.name == found.choose(20_000, 2).name
    True
    >>> sorted(found.cluster_centers_[:, 0].round().astype(int).tolist())
    [-6, 6]
    """

    choice_: MethodChoice = result()
    estimator_: ClusteringEstimator | CompressiveKMeans = result()
    _metric: Floats = result()

    def choose(
        self, n_records: int, n_features: int, *, names: Sequence[str] | None = None
    ) -> MethodChoice:
        """Choose the method for so many records and columns; reads no record.

        Parameters
        ----------
        names
            Names of the columns, where parameters name them.

        Raises
        ------
        ConfigError, PrivacyError
            A parameter is out of range.
        """
        epsilon, delta = self._read_level()
        known = list(names or list_names(None, n_features))
        lower, upper = read_box(self.bounds, known)
        holding = Holding(
            n_records=count_public(self.relation, n_records, self.max_records),
            n_dimensions=n_features,
            n_clusters=read_clusters(self.n_clusters),
            epsilon=epsilon,
            delta=delta,
            relation=self.relation,
            scale=read_scale(self.scale, known, (upper - lower) / 2.0),
        )
        choice = choose_method(holding)
        refusal: SketchError | None = None
        for name in dict.fromkeys((choice.name, *choice.expected)):
            possible = _take(choice, name)
            try:
                self._make(possible, known).plan_events(n_records, n_features, names=known)
            except SketchError as error:
                # By public numbers too, such as a pilot that could find nothing.
                refusal = refusal or error
            else:
                return possible
        assert refusal is not None
        raise refusal

    def plan_events(
        self, n_records: int, n_features: int, *, names: Sequence[str] | None = None
    ) -> tuple[PrivacyEvent, ...]:
        """Return what a fit of so many records and columns will spend; reads no record.

        Parameters
        ----------
        names
            Names of the columns, where parameters name them.
        """
        known = list(names or list_names(None, n_features))
        model = self._make(self.choose(n_records, n_features, names=known), known)
        planned: tuple[PrivacyEvent, ...] = model.plan_events(n_records, n_features, names=known)
        return planned

    def _fit(self, X: Any) -> None:  # noqa: N803
        """Choose a method by the shape of ``X`` and the parameters, and fit it."""
        n_records, names = self._look(X)
        choice = self.choose(n_records, len(names), names=names)
        model = self._make(choice, names)
        try:
            model.fit(X)
        finally:
            # What fails from a release on was spent all the same.
            if len(vars(model).get("events_", ())) > len(vars(self).get("events_", ())):
                self.choice_, self.estimator_ = choice, model
                self._metric = measure_by(*read_box(self.bounds, names))
                self._take_over()

    def decode(self, n_clusters: int | None = None) -> Self:
        """Compute clusters anew from the release, also for another k: this spends nothing.

        Parameters
        ----------
        n_clusters
            Another number of clusters; None for the parameter.

        Raises
        ------
        ConfigError, DecodingError
            The release does not tell of so many clusters.
        """
        self._require_fitted()
        k = read_clusters(self.n_clusters if n_clusters is None else n_clusters)
        self.estimator_.decode(k)
        self.n_clusters = k
        self._take_over()
        return self

    def predict(self, X: Any) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the nearest centroid of records: shape ``(n,)``; -1 where a value is missing.

        The centroids are public, but what is computed here from private records is as private as
        they are.

        Raises
        ------
        TableError
            The columns are not those of the fit.
        """
        self._require_fitted()
        return self.estimator_.predict(X)

    def transform(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return distances of records to all centroids: shape ``(n, k)``, in units of ``metric_``.

        Raises
        ------
        TableError
            The columns are not those of the fit.
        """
        self._require_fitted()
        distances: Floats = self._find_unit() * self.estimator_.transform(X)
        return distances

    def _find_unit(self) -> float:
        """Return the length, in units of the metric, that is one for the chosen estimator."""
        # A sketch measures in units of its scale.
        return float(self.estimator_.metric_[0] / self.metric_[0])

    def _evaluate(
        self,
        X: Any,  # noqa: N803
        stated: Exact,
        largest_distance: float | None,
    ) -> Evaluation:
        self._require_fitted()
        unit = self._find_unit()
        given = None if largest_distance is None else read_distance(largest_distance) / unit
        try:
            return rescale(
                self.estimator_.evaluate(X, epsilon=stated, largest_distance=given), unit
            )
        finally:
            self._take_over()

    @property
    def metric_(self) -> Floats:
        """Lengths that count as one along each axis: shape ``(d,)``, whatever method was chosen.

        All 1, so that distances are in data units, where all bounds are equally wide, and otherwise
        half their widths.
        """
        self._require_fitted()
        return self._metric

    def describe(self) -> str:
        """Describe in words what was spent, what it protects, and why this method."""
        return f"{super().describe()} Method {self.choice_.name}: {self.choice_.reason}."

    @property
    def _n_features_out(self) -> int:
        self._require_fitted()
        return len(self.cluster_centers_)

    def __str__(self) -> str:
        if "estimator_" not in vars(self):
            return f"{type(self).__name__}: not fitted"
        return f"{type(self).__name__}: {self.choice_.name}\n{self.estimator_}"

    def _state_spent(self, events: Sequence[PrivacyEvent]) -> PrivacyGuarantee:
        # By the rule of the estimator that composed them.
        return self.estimator_._state_spent(events)

    def _look(self, X: Any) -> tuple[int, list[str]]:  # noqa: N803
        """Return the number of records and the columns: all that a choice may know of a table."""
        refuse_words(X)
        shape = open_table(X).shape
        require_records(shape, self.relation)
        return shape[0], list(list_names(find_names(X), shape[1]))

    def _make(self, choice: MethodChoice, names: Sequence[str]) -> Any:
        """Make the chosen estimator; it goes on from what was spent before."""
        given = self.get_params(deep=False)
        if choice.name == SKETCH:
            # One share of the bounds for all columns, as the other methods measure distances.
            lower, upper = read_box(self.bounds, names)
            half = (upper - lower) / 2.0
            share = read_scale(self.scale, names, half)
            given["scale"] = "bounds" if share is None else share * half
            given["look_share"] = "auto"
            # With n public, room for more records would be planned for more.
            if self.relation == "replace-one":
                given["max_records"] = None
        model = KINDS[choice.name](**given)
        if "events_" in vars(self):
            model.events_ = self.events_
        return model

    def _take_over(self) -> None:
        found = vars(self.estimator_)
        for name in _TAKEN:
            self.__dict__.pop(name, None)
            if name in found:
                setattr(self, name, found[name])


def _take(choice: MethodChoice, name: str) -> MethodChoice:
    """Return a choice of another method, where the first cannot be planned."""
    if name == choice.name:
        return choice
    return replace(
        choice, name=name, reason=f"{choice.reason}. {choice.name} refuses these parameters"
    )
