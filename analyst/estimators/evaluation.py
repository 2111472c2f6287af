"""Evaluation of released centroids on private records: one more release, counted as any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.analyst.estimators.contract import PrivateEstimator, describe_level, make_event
from sfumato.analyst.estimators.declaration import estimator
from sfumato.analyst.estimators.inputs import Exact, list_names, read_number
from sfumato.analyst.estimators.lock import holding
from sfumato.learning.clustering.evaluation import Cost, NoisyCost, bound_distance
from sfumato.learning.decoding.bars import DEVIATIONS
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import PrivacyEvent, PrivacyGuarantee
from sfumato.shared.system import SystemSource


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How well released centroids fit some records, as it was released; printed, with a 90 % bar.

    Parameters
    ----------
    cost
        ``cost.mean`` is SSE / n, in units of the estimator's ``metric_``; ``cost.mean_std`` the
        standard deviation of its noise; ``cost.total`` and ``cost.n_records`` its parts.
    guarantee
        What this release cost by itself.
    """

    cost: Cost
    guarantee: PrivacyGuarantee

    def __str__(self) -> str:
        bar = DEVIATIONS * self.cost.mean_std
        return (
            f"SSE / n = {self.cost.mean:.4g} +- {bar:.2g} (90 %), distances up to "
            f"{self.cost.largest_distance:.4g}; {describe_level(self.guarantee)} under "
            f"{self.guarantee.neighbouring}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Placed:
    """Records, centroids and bounds, in units of an estimator's metric.

    Parameters
    ----------
    points
        Shape ``(n, d)``, NaN where a value is missing.
    centroids
        Shape ``(k, d)``.
    lower, upper
        Shape ``(d,)``.
    """

    points: Floats
    centroids: Floats
    lower: Floats
    upper: Floats


@estimator
class EvaluatedEstimator(PrivateEstimator):
    """A private estimator whose centroids can be evaluated on records, at a cost of its own.

    A subclass places records in ``_place_all``.
    """

    def _place_all(self, X: Any) -> Placed:  # noqa: N803
        raise NotImplementedError

    def _list_spent(self) -> Sequence[PrivacyEvent]:
        """Return all that the centroids and earlier evaluations have cost."""
        return self.events_

    def evaluate(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        *,
        epsilon: Exact,
        largest_distance: float | None = None,
    ) -> Evaluation:
        """Release the cost of the centroids on some records, SSE / n, with exact noise.

        This is another release, also of the records of the fit: ``events_``, ``guarantee_`` and
        the owner's ledger count it, under ``relation``.

        Parameters
        ----------
        X
            Shape ``(n, d)``, data units. A record with a missing value counts for nothing; values
            beyond the bounds are clipped to them.
        epsilon
            What this release may cost.
        largest_distance
            In units of ``metric_``, from public knowledge: records further from their nearest
            centroid count as that far, and the noise falls with its square. None: the furthest that
            a point inside the bounds can be.

        Raises
        ------
        ConfigError, PrivacyError, TableError
            A parameter, or the shape of ``X``, is refused; nothing was spent.
        BudgetExceededError
            The ledger does not allow it; nothing was released.

        Guarantees
        ----------
        What is returned is (epsilon, 0) differentially private by itself, and ``guarantee_`` holds
        for it together with all before.
        """
        with holding(self):
            return self._evaluate(X, epsilon, largest_distance)

    def _evaluate(
        self,
        X: Any,  # noqa: N803
        stated: Exact,
        largest_distance: float | None,
    ) -> Evaluation:
        self._require_fitted()
        epsilon = self._read_epsilon(stated)
        self._require_relation()
        placed = self._place_all(X)
        points = placed.points
        self._require_readable(points, list_names(None, points.shape[1]), points)
        furthest = bound_distance(placed.centroids, placed.lower, placed.upper)
        if largest_distance is not None:
            furthest = min(furthest, read_distance(largest_distance))
        noise = NoisyCost.calibrate(
            largest_distance=furthest, epsilon=epsilon, neighbouring=self.relation
        )
        before = tuple(self._list_spent())
        design = {
            # A second evaluation is of the same records, and costs on its own.
            "evaluation": len(before),
            "centroids": placed.centroids.astype("<f8").tobytes(),
            "largest_distance": furthest,
            "epsilon": str(epsilon),
            "relation": self.relation,
        }
        guarantee = replace(noise.mechanism.guarantee, epsilon=epsilon)
        event = make_event(design, guarantee, relation=self.relation, stream=before[-1].stream)
        inside = np.clip(placed.points, placed.lower, placed.upper)
        sums = noise.sum_records(inside, placed.centroids)
        with self._take_turn(design) as turn:
            released = self._draw_once(
                turn, lambda: noise.add_noise(sums, SystemSource()).ravel(), event
            )
        self.guarantee_ = self._state_spent(self._list_spent())
        return Evaluation(cost=noise.read(released), guarantee=guarantee)


def read_distance(value: object) -> float:
    """Return a positive distance.

    Raises
    ------
    ConfigError, PrivacyError
        It is none.
    """
    distance = float(read_number(value, "largest_distance"))
    if not distance > 0.0:
        raise ConfigError(
            "must be above 0",
            field="largest_distance",
            fix="leave it out for the furthest inside the bounds",
        )
    return distance


def rescale(found: Evaluation, unit: float) -> Evaluation:
    """Return an evaluation with distances in another unit, of which the old one has so many."""
    cost = found.cost
    return replace(
        found,
        cost=replace(
            cost,
            total=cost.total * unit**2,
            total_std=cost.total_std * unit**2,
            largest_distance=cost.largest_distance * unit,
        ),
    )
