"""Base of the compressive estimators: one sum of random features, and all that follows from it.

Without epsilon the sum is exact, and stays with its holder. With epsilon it is released once, with
noise, and forgotten; whatever is computed afterwards follows from the release.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analyst.estimators.held import RELEASING, Held, make_event, read_sketches
from analyst.estimators.pilots import SHARE, plan_pilot
from analyst.estimators.planning import make_plan
from analyst.estimators.reading import read_rng
from analyst.estimators.releasing import ReleasingEstimator
from analyst.sketching.sketch_file import SketchFile
from learning.decoding.density import GaussianMixture
from shared.errors import ConfigError, PrivacyError
from shared.plan import SketchPlan
from shared.privacy import PrivacyEvent

Floats = NDArray[np.float64]

_MARGIN = 0.5
"""Share of the first batch's range that later batches may go beyond it, on each side."""


class exact_only:  # noqa: N801 - used as a decorator
    """A method that there is only without epsilon: with it, an attribute that is missing."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: CompressiveEstimator | None, owner: type) -> Any:
        if instance is None:
            return self._method
        if instance._is_private:
            # The reason comes from __getattr__, which follows.
            raise AttributeError(self._method.__name__)
        return MethodType(self._method, instance)


class CompressiveEstimator(ReleasingEstimator):
    """Methods of the compressive estimators; a subclass says what is computed from a solution."""

    # ---- records in ----

    def fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Sketch records in one pass, and decode; with epsilon, release the sketch once before.

        Parameters
        ----------
        X
            Shape ``(n, d)``, data units. A record with a missing value adds nothing.
        y
            Ignored.

        Raises
        ------
        ConfigError, PrivacyError, PlanError, TableError
            A parameter, or the shape or type of ``X``, is refused; nothing was spent.
        BudgetExceededError
            The ledger does not allow it; nothing was released.
        DecodingError
            The sketch shows no clusters. What was released stays in ``release_``, for ``decode``.

        Guarantees
        ----------
        With epsilon: ``guarantee_``, for everything that this estimator then shows.
        """
        del y
        if self._is_private:
            self._require_first()
        rows, names = self._read_table(X)
        self._require_records(rows)
        choices = self._choose(rows, names, margin=0.0)
        self._require_room(len(rows), choices.most_records)
        if not self._is_private:
            self._begin(make_plan(choices), names, is_exact=True)
            self._held.add(self._sum(rows, self._held.plan))
            self._finish()
            self._describe_records(rows)
            return self
        self._release_of(rows, choices, names)
        return self

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:  # noqa: N803
        """Add records to the sum; the first look at a result decodes, and with epsilon releases.

        Records that are added after a release form the next one. A record is in one of them, so its
        epsilon stays the same; passing it again would spend again.

        Raises
        ------
        ConfigError, PrivacyError, PlanError, TableError
            As :meth:`fit`. With epsilon ``max_records`` is required, as a plan is made before the
            number of records is known.
        """
        del y
        rows, names = self._read_table(X)
        if "_held" not in vars(self):
            self._require_records(rows)
            if self._is_private and self.max_records is None:
                raise ConfigError(
                    "is missing: noise is planned before the number of records is known",
                    field="max_records",
                    fix="state the most records that one release may have",
                )
            if self._wants_pilot:
                raise ConfigError(
                    "cannot be found by a pilot of a first batch",
                    field="scale",
                    fix="state it, or call fit with all records",
                )
            choices = self._choose(rows, names, margin=_MARGIN)
            self._begin(make_plan(choices), names, is_exact=not self._is_private)
            self._choices = choices
        elif self._held.is_exact == self._is_private:
            raise PrivacyError(
                "was set or removed after the sum was begun",
                field="epsilon",
                fix="put back what it was, or begin with a new estimator",
            )
        else:
            self._require_columns(rows, names)
            if self._held.is_exact and self.bounds is None:
                self._warn_of_clipped(rows)
        held = self._held
        with RELEASING:
            new = len(rows) + (0 if held.unreleased is None else held.unreleased.n_records)
            self._require_room(new, held.plan.most_records)
            held.add(self._sum(rows, held.plan))
            self._forget_results()
        return self

    def merge(self, other: Self) -> Self:
        """Add what another estimator has summed, or released, of other records.

        With epsilon, a sum that was not released moves here: a record is in one release only.

        Raises
        ------
        ConfigError, PlanMismatchError, TableError
            It has no sum, another plan, another ledger or source for what is not released, or has
            released its sum while this one has not; or both are more than ``max_records``.
        """
        mine: Held | None = vars(self).get("_held")
        others: Held | None = vars(other).get("_held")
        if mine is None or others is None:
            raise ConfigError(
                "has no sum yet", field="merge", fix="call partial_fit or fit of both before"
            )
        moves = not mine.is_exact and others.unreleased is not None
        if moves and self._name_account() != other._name_account():
            raise ConfigError(
                "has another ledger or source, where its records are counted",
                field="merge",
                fix="call release() of both before",
            )
        parts = [held.unreleased.n_records for held in (mine, others) if held.unreleased]
        if len(parts) == 2:
            self._require_room(sum(parts), mine.plan.most_records)
        mine.merge(others)
        if moves:
            # Released here; released there too, its records would have spent twice.
            others.unreleased = None
            other._forget_results()
            if not others.releases:
                del other._held
        if not mine.is_exact:
            self.events_ = (*self.events_, *other.events_)
            self._show_releases()
        self._forget_results()
        return self

    def fit_sketch(
        self,
        source: SketchFile | str | Path | Sequence[SketchFile | str | Path],
        *,
        plan: SketchPlan | str | Path,
    ) -> Self:
        """Decode sketch files, as ``sfumato sketch`` makes them, instead of records.

        Parameters
        ----------
        source
            A sketch, or the path of its file, or several of one plan, of different records.
        plan
            Their plan, or the path of its file.

        Guarantees
        ----------
        Spends nothing: who made the files has spent.

        Raises
        ------
        PlanMismatchError
            A sketch is of another plan.
        ConfigError, MalformedMessageError
            A file cannot be read, is there twice, or some are exact and others private.
        DecodingError
            The sketches show no clusters.
        """
        held = read_sketches(source, plan)
        names = [dimension.name for dimension in held.plan.dimensions]
        self._begin(held.plan, np.array(names, dtype=object), is_exact=held.is_exact)
        self._held = held
        if not held.is_exact:
            self.guarantee_ = held.plan.mechanism.guarantee
            self._show_releases()
        self._finish()
        return self

    # ---- results ----

    def release(self) -> SketchFile:
        """Return the sum as a sketch file's content; with epsilon, release what was not yet.

        Raises
        ------
        ConfigError
            There is no sum, or there are several releases, or the number of records is secret.
        """
        if "_held" not in vars(self):
            raise ConfigError("has no sum yet", field="release", fix="call fit or partial_fit")
        self._finish(decode=False)
        return self._held.write()

    def decode(self, n_clusters: int | None = None) -> Self:
        """Compute the results anew from what is summed or released: this spends nothing.

        Parameters
        ----------
        n_clusters
            Another number of clusters; None for the parameter.
        """
        if "_held" not in vars(self):
            raise ConfigError("has no sum yet", field="decode", fix="call fit or partial_fit")
        if n_clusters is not None:
            self.set_params(**{self._COUNT: n_clusters})
        self._forget_results()
        self._finish()
        return self

    def score_samples(self, X: ArrayLike) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the logarithm of the density at records: shape ``(n,)``; low values are outliers.

        Raises
        ------
        TableError
            The columns are not those of the fit.
        """
        rows = self._read_columns(X)
        return self._density.compute_log_density(rows)

    def sample(self, n_samples: int = 1, random_state: object = None) -> Floats:
        """Draw synthetic records from the density: shape ``(n, d)``, inside the bounds.

        Any number of them costs nothing more. They say little about correlations inside clusters.
        """
        drawn = self._density.draw_samples(n_samples, rng=read_rng(random_state))
        space = self.plan_.space
        return np.clip(drawn, space.lower, space.upper)

    def plan_events(self, n_records: int, n_features: int) -> tuple[PrivacyEvent, ...]:
        """Return what a private fit of so many records and columns will spend; reads no record."""
        if self.epsilon is None:
            return ()
        choices = self._choose(np.zeros((n_records, n_features)), None, margin=0.0)
        if not self._wants_pilot or choices.epsilon is None:
            return (make_event(make_plan(choices)),)
        rest = replace(choices, epsilon=choices.epsilon * (1 - SHARE))
        pilot = plan_pilot(choices, choices.epsilon * SHARE)
        # The plan itself follows from the pilot; its cost does not.
        return make_event(pilot), make_event(make_plan(rest))

    @property
    def n_records_seen_(self) -> int:
        """Number of records; where it is secret, an estimate from the release."""
        if "_held" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} has no records: call fit first")
        self._finish(decode=False)
        return self._held.count_records()

    @property
    def privacy_(self) -> str:
        """The promise in words."""
        if "_held" in vars(self) and not self._held.is_exact:
            self._finish(decode=False)
            return self.describe()
        if "_held" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} has no promise: call fit first")
        return "NOT PRIVATE: no noise was added, and results may reveal single records."

    @property
    def _density(self) -> GaussianMixture:
        """The density that questions are answered by."""
        return self.mixture_
