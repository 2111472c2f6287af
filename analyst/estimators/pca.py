"""Private principal components: one release of clipped second moments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from sfumato.analyst.estimators.columns import read_box
from sfumato.analyst.estimators.contract import (
    PrivateEstimator,
    Release,
    absent,
    compose_guarantee,
    make_event,
)
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import (
    Exact,
    find_names,
    list_names,
    read_rows,
    refuse_words,
)
from sfumato.learning.estimate.moments import PrincipalComponents, estimate_components
from sfumato.shared.arrays import Floats
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.core.statistics import MomentsStatistic
from sfumato.shared.core.statistics.moments import MOMENT_STEPS
from sfumato.shared.errors import ConfigError, TableError
from sfumato.shared.privacy import DiscreteGaussian, DiscreteLaplace, PrivacyEvent
from sfumato.shared.system import SystemSource

_SPREADS = 3.0
"""Spreads from the centre to a bound, where the caller does not state a norm."""
_KEPT = 1.5
"""Squared radius over the sum of squared spreads: most records stay as they are."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Design:
    """Design of a release: public, and known before any record is read."""

    statistic: MomentsStatistic
    mechanism: DiscreteGaussian | DiscreteLaplace
    relation: str

    @property
    def public(self) -> dict[str, Any]:
        """Return the choices behind the release: numbers, texts and lists."""
        mechanism, quantiser = self.mechanism, self.statistic.quantiser
        return {
            "statistic": "moments",
            "centre": quantiser.centre.tolist(),
            "half_width": quantiser.half_width.tolist(),
            "norm_steps": self.statistic.norm_steps,
            "diagonal_weight": self.statistic.diagonal_weight,
            "mechanism": type(mechanism).__name__,
            "scale": mechanism.scale,
            "epsilon": mechanism.guarantee.epsilon,
            "delta": mechanism.guarantee.delta,
            "relation": self.relation,
        }


class _NoFitTransform:
    fit_transform = absent()


@estimator
class PrivatePCA(
    _NoFitTransform,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    PrivateEstimator,
):
    """Principal components of records under differential privacy, in one release.

    Each record is clipped to the public bounds and then to a ball around their centre. The sums of
    its coordinates and of their products are released once, with exact integer noise: Laplace, or
    Gaussian where ``delta`` allows it and it is less. Components, variances and their error bands
    are computed from that release and cost nothing more.

    Parameters
    ----------
    n_components
        How many components to keep; all if None.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, data units. Required and public:
        they must not be read off the records.
    norm
        Radius of the ball, in half widths of the bounds: a record with ``sum ((x - centre) /
        half_width)^2 > norm^2`` is pulled in. A smaller radius means less noise, and variances that
        are too small where it cuts much: the root of the sum of squared spreads is a good choice.
        If None, ``sqrt(1.5 d) / 3``, which suits bounds of three spreads. Public, as the bounds
        are.
    metric
        Shape ``(d,)``, data units: what counts as one unit in each dimension. If None, data units
        where all bounds are equally wide, and half widths otherwise, so that no dimension leads
        because of its unit.
    random_state
        Accepted for the sake of tools that set it. Nothing here is drawn but noise, and that never
        depends on it.

    Attributes
    ----------
    components_
        Shape ``(n_components, d)``: directions of length 1, in the metric.
    explained_variance_, explained_variance_ratio_
        Shape ``(n_components,)``: variances along them, squared units of the metric, and their
        shares of the sum.
    mean_
        Shape ``(d,)``, data units.
    metric_
        Shape ``(d,)``, data units.
    answer_
        Everything that the release tells, with error bands:
        :class:`sfumato.learning.estimate.moments.PrincipalComponents`.
    n_components_, n_features_in_, feature_names_in_
        Number of components; number and, of a table, names of the columns.
    release_, events_, guarantee_
        What was released, what was spent, and what it guarantees.
    """

    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "fit_transform": "the transformed records would not be private",
            "score": "a score of the records would be another release",
            "score_samples": "a score of the records would be another release",
            "singular_values_": "they are of the records; use explained_variance_",
            "n_samples_": "it is secret under add-remove-one; see release_.n_records",
            "feature_names_in_": "the records had no names of columns",
        }
    )

    n_components: int | None = field(default=None, kw_only=False)
    epsilon: Exact
    bounds: tuple[ArrayLike, ArrayLike]
    norm: float | None = None
    metric: ArrayLike | None = None

    def _fit(self, X: Any) -> None:  # noqa: N803
        """Release the moments of some records, and compute their components."""
        refuse_words(X)
        records = read_rows(X)
        n_records, n_features = records.shape
        if self.relation == "replace-one" and not n_records:
            raise TableError("has no record", field="X", fix="pass at least one")
        self._require_readable(records, list_names(find_names(X), n_features), X)
        design = self._design(n_features)
        self._count_components(n_features)
        self._read_metric(design.statistic.quantiser.half_width)
        accumulator = SketchAccumulator(design.statistic)
        accumulator.add(records)
        n_public = n_records if self.relation == "replace-one" else None
        with self._take_turn({**design.public, "n_records": n_public}) as turn:
            event = self._make_event(design)
            sums = self._draw_once(
                turn,
                lambda: design.mechanism.add_noise(accumulator.sums, SystemSource()),
                event,
            )
            self.release_ = Release(
                design=design.public,
                n_records=n_public,
                sums=sums,
                noise_variance=design.mechanism.variance,
            )
            self.guarantee_ = compose_guarantee(self.events_)
            self._note_columns(n_features, find_names(X))
            self._answer(design.statistic)

    def plan_events(self, n_features: int) -> tuple[PrivacyEvent, ...]:
        """Return what a fit to records of so many columns will spend; reads no record."""
        design = self._design(n_features)
        return (self._make_event(design),)

    def _make_event(self, design: _Design) -> PrivacyEvent:
        guarantee = design.mechanism.guarantee
        return make_event(design.public, guarantee, relation=self.relation, stream=self._name_fit())

    def transform(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the components of records: shape ``(n, n_components)``, units of the metric.

        ``((x - mean_) / metric_) components_'``. The components are public, but what is computed
        here from private records is as private as they are.

        Raises
        ------
        TableError
            The shape does not fit.
        """
        self._require_fitted()
        records = read_rows(X)
        self._require_columns(records.shape[1], find_names(X))
        moved: Floats = ((records - self.mean_) / self.metric_) @ self.components_.T
        return moved

    def inverse_transform(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the records of given components: shape ``(n, d)``, data units.

        Raises
        ------
        TableError
            The shape does not fit.
        """
        self._require_fitted()
        moved = read_rows(X)
        if moved.shape[1] != self.n_components_:
            raise TableError(
                f"must have {self.n_components_} columns and has {moved.shape[1]}",
                field="X",
                fix="pass what transform returns",
            )
        records: Floats = self.mean_ + (moved @ self.components_) * self.metric_
        return records

    def get_covariance(self) -> Floats:
        """Return the covariance of the records: shape ``(d, d)``, data units."""
        return self.answer_.covariance

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    # ---- before the records ----

    def _design(self, n_features: int) -> _Design:
        """Calibrate the noise: the less of those that the guarantee allows."""
        epsilon, delta = self._read_level()
        lower, upper = read_box(self.bounds, list_names(None, n_features))
        quantiser = Quantiser.from_bounds(lower, upper)
        norm_steps = self._choose_norm(n_features)
        designs = [self._calibrate(quantiser, norm_steps, epsilon, Fraction(0))]
        if delta:
            designs.append(self._calibrate(quantiser, norm_steps, epsilon, delta))
        return min(designs, key=lambda design: design.mechanism.variance)

    def _calibrate(
        self, quantiser: Quantiser, norm_steps: int, epsilon: Fraction, delta: Fraction
    ) -> _Design:
        statistic = MomentsStatistic(
            quantiser=quantiser, norm_steps=norm_steps, diagonal_weight=5 if delta else 7
        )
        mechanism: DiscreteGaussian | DiscreteLaplace
        if delta:
            mechanism = DiscreteGaussian.calibrate(
                n_coordinates=statistic.n_coordinates,
                sensitivity_l2_squared=statistic.measure_l2_squared(self.relation),
                epsilon=epsilon,
                delta=delta,
                neighbouring=self.relation,
            )
        else:
            mechanism = DiscreteLaplace.calibrate(
                sensitivity_l1=statistic.measure_l1(self.relation),
                epsilon=epsilon,
                neighbouring=self.relation,
            )
        return _Design(statistic=statistic, mechanism=mechanism, relation=self.relation)

    def _choose_norm(self, n_features: int) -> int:
        most = MOMENT_STEPS * math.sqrt(n_features)
        if self.norm is None:
            return round(min(most, MOMENT_STEPS * math.sqrt(_KEPT * n_features) / _SPREADS))
        if isinstance(self.norm, bool) or not 0 < self.norm < math.inf:
            raise ConfigError(
                "must be a positive number of half widths",
                field="norm",
                fix="use the root of the sum of squared spreads, each over its half width",
            )
        # Nothing lies beyond the corners of the bounds.
        return max(1, round(min(most, MOMENT_STEPS * self.norm)))

    def _count_components(self, n_features: int) -> int:
        if self.n_components is None:
            return n_features
        if isinstance(self.n_components, bool) or not 1 <= self.n_components <= n_features:
            raise ConfigError(
                f"must be a whole number from 1 to {n_features}",
                field="n_components",
                fix="leave it out for all",
            )
        return int(self.n_components)

    def _read_metric(self, half_width: Floats) -> Floats:
        if self.metric is None:
            is_even = np.all(half_width == half_width[0])
            return np.ones_like(half_width) if is_even else half_width
        metric = np.asarray(self.metric, dtype=np.float64)
        if metric.shape != half_width.shape or not np.all((metric > 0) & (metric < math.inf)):
            raise ConfigError(
                f"must be {len(half_width)} finite positive numbers",
                field="metric",
                fix="give one unit a dimension, or leave it out",
            )
        return metric

    # ---- after the release ----

    def _answer(self, statistic: MomentsStatistic) -> None:
        """Set all other attributes: functions of the release and of public parameters."""
        release, quantiser = self.release_, statistic.quantiser
        answer: PrincipalComponents = estimate_components(
            release.sums,
            statistic,
            noise_variance=release.noise_variance,
            n_records=release.n_records,
            metric=self._read_metric(quantiser.half_width),
        )
        n = self._count_components(self.n_features_in_)
        self.answer_ = answer
        self.n_components_ = n
        self.mean_ = answer.mean
        self.metric_ = answer.metric
        self.components_ = answer.directions[:n]
        self.explained_variance_ = answer.eigenvalues[:n]
        self.explained_variance_ratio_ = answer.share[:n]
