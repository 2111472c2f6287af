"""Base of the compressive estimators: one sum of random features, and all that follows from it.

Without epsilon the sum is exact, and stays with its holder. With epsilon it is released once, with
noise, and forgotten; whatever is computed afterwards follows from the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.columns import find_own_steps
from sfumato.analyst.estimators.declaration import estimator, reading
from sfumato.analyst.estimators.held import Held, Sketches, name_event, read_sketches
from sfumato.analyst.estimators.inputs import list_names, read_rng
from sfumato.analyst.estimators.lock import holding
from sfumato.analyst.estimators.pilots import leave_rest, list_numbers, plan_pilot
from sfumato.analyst.estimators.planning import Choices, make_plan, predict_quality, require_hope
from sfumato.analyst.estimators.release import PILOT, SKETCH, ReleasingEstimator, list_following
from sfumato.analyst.estimators.summary import describe_estimator
from sfumato.analyst.estimators.weights import read_weights
from sfumato.analyst.questions import Box, make_questions
from sfumato.analyst.results.analyses import Comparison
from sfumato.analyst.sketching.comparison import (
    LEVEL,
    SMALLEST_SHIFT,
    ComparisonChoices,
    compare_totals,
)
from sfumato.analyst.sketching.sketch_file import SketchFile
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.decoding.density import GaussianMixture
from sfumato.learning.estimate.search_box import check_search_box
from sfumato.learning.planning.quality import QualityBand
from sfumato.shared.arrays import Floats
from sfumato.shared.errors import ConfigError, DecodingError, PrivacyError, SketchError
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.privacy import PrivacyEvent
from sfumato.shared.wire.objects.questions import AnswersBody

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MARGIN = 0.5
"""Share of the first batch's range that later batches may go beyond it, on each side."""


class exact_only:  # noqa: N801 - used as a decorator
    """A method that there is only without epsilon: with it, an attribute that is missing."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = reading(method)
        self.__doc__ = method.__doc__

    def __get__(self, instance: CompressiveEstimator | None, owner: type) -> Any:
        if instance is None:
            return self._method
        if instance._is_private:
            # The reason comes from __getattr__, which follows.
            raise AttributeError(self._method.__name__)
        return MethodType(self._method, instance)


class ExactTransforms:
    """Methods of transformers that there are only without epsilon.

    Apart from the class itself, where scikit-learn would wrap them: they return what ``transform``
    does, which is wrapped.
    """

    @exact_only
    def fit_transform(self, X: Any, y: object = None, sample_weight: Any = None) -> Floats:  # noqa: N803
        """Fit to records, and return their distances to all centroids: without epsilon only."""
        found: Any = self
        return cast(Floats, found.fit(X, y, sample_weight=sample_weight).transform(X))


@estimator
class CompressiveEstimator(ReleasingEstimator):
    """Methods of the compressive estimators; a subclass says what is computed from a solution."""

    # ---- records in ----

    def _require_first(self) -> None:
        if self._is_private:
            super()._require_first()

    def fit(self, X: Any, y: object = None, sample_weight: Any = None) -> Self:  # noqa: N803
        """Sketch records in one pass, and decode; with epsilon, release the sketch once before.

        Parameters
        ----------
        X
            Shape ``(n, d)``, data units. A record with a missing value moves no result.
        y
            Ignored.
        sample_weight
            Without epsilon: shape ``(n,)``; a record counts as often as its weight says.

        Raises
        ------
        PrivacyError
            Weights with epsilon: one record could move the sum by more than the noise hides. Or as
            in the other classes.
        ConfigError, TableError, PlanError, BudgetExceededError
            A parameter, or the shape or type of ``X``, is refused, or too many of its values cannot
            be read, or the ledger does not allow it; nothing was spent.
        DecodingError
            The sum shows no clusters; a release stays in ``release_``.

        Guarantees
        ----------
        As :meth:`PrivateEstimator.fit`, with epsilon. Without it nothing is private.
        """
        del y
        if self._is_private and sample_weight is not None:
            raise PrivacyError(
                "must be None with epsilon: a weight multiplies what one record adds, and noise "
                "hides a record that adds once",
                field="sample_weight",
                fix="leave it out, or fit without epsilon",
            )
        with holding(self):
            self._require_first()
            self._fit(X, sample_weight)
        return self

    def _fit(self, X: Any, sample_weight: Any = None) -> None:  # noqa: N803
        rows, names = self._read_table(X, is_begun=False)
        self._require_records(rows)
        weights = None if sample_weight is None else read_weights(sample_weight, len(rows))
        choices = self._choose(rows, list_names(names, rows.shape[1]), margin=0.0, weights=weights)
        self._require_room(len(rows), choices.most_records)
        if not self._is_private:
            self._begin(Held(plan=make_plan(choices), is_exact=True), names)
            self._held.add(self._sum(rows, self._held.plan, weights))
            self._own_steps = find_own_steps(self._held.plan.dimensions, rows)
            self._finish()
            self._describe_records(rows, weights)
            return
        require_hope(self._leave_sketch(choices), self._COUNT)
        self._require_readable(rows, list_names(names, rows.shape[1]), X)
        self._release_of(rows, choices, names)

    def partial_fit(self, X: Any, y: object = None) -> Self:  # noqa: N803
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
        with holding(self):
            self._add(X)
        return self

    def _add(self, X: Any) -> None:  # noqa: N803
        is_begun = "_held" in vars(self)
        # What all records have that were fitted at once, others need not have.
        self._own_steps = {}
        rows, names = self._read_table(X, is_begun=is_begun)
        if not is_begun:
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
            choices = self._choose(rows, list_names(names, rows.shape[1]), margin=_MARGIN)
            held = Held(
                plan=make_plan(choices),
                is_exact=not self._is_private,
                design=choices.name_design(SKETCH),
            )
            self._begin(held, names)
        elif self._held.is_exact == self._is_private:
            raise PrivacyError(
                "was set or removed after the sum was begun",
                field="epsilon",
                fix="put back what it was, or begin with a new estimator",
            )
        elif self._held.is_exact and self.bounds is None:
            self._warn_of_clipped(rows)
        held = self._held
        held.require_own("partial_fit")
        new = len(rows) + (0 if held.unreleased is None else held.unreleased.n_records)
        self._require_room(new, held.plan.most_records)
        held.add(self._sum(rows, held.plan))
        self._forget_results()

    def merge(self, other: Self) -> Self:
        """Add what another estimator has summed, or released, of other records.

        With epsilon, a sum that was not released moves here: a record is in one release only.

        Raises
        ------
        ConfigError, PlanMismatchError, TableError
            It has no sum, another plan, another ledger or source for what is not released, or has
            released its sum while this one has not; or both are more than ``max_records``.
        """
        with holding(self, other):
            self._merge(other)
        return self

    def _merge(self, other: Self) -> None:
        self._own_steps = {}
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
        # Its sketch costs what this one's does; a pilot before it has cost its records more.
        is_without = mine.pilot is None and others.is_foreign and not mine.is_exact
        pilot = others.list_costs()[:-1] if is_without else ()
        mine.merge(others)
        if moves:
            # Released here; released there too, its records would have spent twice.
            others.unreleased = None
            other._forget_results()
            if not others.releases:
                del other._held
        if not mine.is_exact:
            self.events_ = (*self.events_, *pilot, *other.events_)
            self._show_releases()
        self._forget_results()

    def fit_sketch(
        self,
        source: Sketches,
        *,
        plan: SketchPlan | str | Path | None = None,
        search_box: Mapping[str, Sequence[float]] | None = None,
        exact: bool = False,
    ) -> Self:
        """Decode sketches that were made elsewhere, instead of records.

        Parameters
        ----------
        source
            A sketch file, as ``sfumato sketch`` makes them, or its path; the sums of a sketch with
            its number of records; a list of such sketches of one plan, of different records; what
            an estimator has in ``release_``; or a snapshot: of
            :func:`sfumato.analyst.sketching.sources.find_snapshot`, or its body.
        plan
            Their plan, or the path of its file; None where a snapshot or a release has it.
        search_box
            Where to search for clusters: lower and upper bound by name of dimension.
        exact
            Whether sums that are given as numbers are without noise. Sketch files say so
            themselves, and snapshots are private.

        Guarantees
        ----------
        Spends nothing: who made the sketches has spent.

        Raises
        ------
        PlanMismatchError
            A sketch is of another plan.
        ConfigError, MalformedMessageError
            A file cannot be read, is there twice, or some are exact and others private.
        DecodingError
            The sketches show no clusters.
        """
        with holding(self):
            self._take(read_sketches(source, plan, is_exact=exact), search_box or {})
        return self

    def _take(self, held: Held, search_box: Mapping[str, Sequence[float]]) -> None:
        box = check_search_box(held.plan, search_box)
        names = [dimension.name for dimension in held.plan.dimensions]
        is_named = names != list_names(None, len(names))
        self._begin(held, np.array(names, dtype=object) if is_named else None)
        if box:
            self.search_box_ = box
        if not held.is_exact:
            self._show_releases()
        self._finish()

    # ---- results ----

    def release(self) -> SketchFile:
        """Return the sum as a sketch file's content; with epsilon, release what was not yet.

        After a pilot the file's plan promises the sketch alone: ``release_.encode()`` keeps what
        both cost.

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

        Raises
        ------
        ConfigError, DecodingError
            There is no sum, or it does not tell of so many clusters; then the results stay.
        """
        if "_held" not in vars(self):
            raise ConfigError("has no sum yet", field="decode", fix="call fit or partial_fit")
        with holding(self):
            count, results = getattr(self, self._COUNT), self._list_results()
            if n_clusters is not None:
                self.set_params(**{self._COUNT: n_clusters})
            self._forget_results()
            try:
                self._finish()
            except SketchError:
                self.set_params(**{self._COUNT: count})
                self.__dict__.update(results)
                raise
        return self

    def posterior(self) -> Inquiry:
        """Return the densities that may have made the sketch: they answer questions, with bars.

        Shares of ranges, quantiles, densities of a column, means inside ranges: see
        :class:`sfumato.learning.answers.questions.Inquiry`. Questions cost nothing more.

        Raises
        ------
        DecodingError
            There are too many numbers in them to keep.
        """
        found = self.result_.posterior
        if found is None:
            raise DecodingError(
                "was not kept: it would be too large",
                field="posterior",
                fix="ask score_samples and sample, or use fewer clusters and columns",
            )
        return found

    def ask(
        self,
        *,
        ranges: Iterable[Box] = (),
        quantiles: Iterable[tuple[str, float]] = (),
        marginals: Iterable[str] = (),
        means: Iterable[str | tuple[str, Box]] = (),
        n_points: int = 64,
        allow_narrow: bool = False,
    ) -> AnswersBody:
        """Answer questions on the records, with 90 % bars where any may be shown, at no cost.

        As ``Decode.ask`` of the client, with the names of ``axes_``.

        Parameters
        ----------
        ranges, quantiles, marginals, means, n_points, allow_narrow
            As in :func:`sfumato.analyst.questions.make_questions`.

        Raises
        ------
        ConfigError
            Nothing is asked.
        DecodingError
            A question is refused, or there is no density to ask.
        """
        asked = make_questions(
            ranges=ranges,
            quantiles=quantiles,
            marginals=marginals,
            means=means,
            n_points=n_points,
            allow_narrow=allow_narrow,
        )
        return self.posterior().answer(asked)

    def compare(
        self,
        other: Self,
        *,
        n_clusters: int | None = None,
        level: float = LEVEL,
        smallest_shift: float = SMALLEST_SHIFT,
        seed: int = 0,
    ) -> Comparison:
        """Compare what two private estimators released of different records, at no cost.

        The result's ``is_alarm`` says whether they differ; printed, it says by how much, how surely
        and in which clusters of both together.

        Parameters
        ----------
        other
            An estimator with the same plan: the same parameters, of which ``bounds``, ``scale``,
            ``public_seed`` and ``max_records`` are stated.
        n_clusters
            Number of clusters of one fit to both; None for the parameter.
        level
            Share of false alarms where nothing has changed.
        smallest_shift
            A smaller difference is no alarm: a shift of all records, in units of the scales.
        seed
            Seed of the draws behind the probabilities. Never noise.

        Raises
        ------
        ConfigError
            A sum is missing, without noise, of another plan or in both, or is a snapshot.
        DecodingError
            The sums hold hardly more than noise.
        """
        sides = []
        for each in (self, other):
            if "_held" not in vars(each):
                raise ConfigError("has no sum yet", field="compare", fix="fit both before")
            each._held.require_own("compare")
            if each._held.is_exact:
                raise ConfigError(
                    "is missing: the law of the noise is what the answer rests on",
                    field="epsilon",
                    fix="compare exact results by their records",
                )
            each._finish(decode=False)
            sides.append(each._held)
        mine, theirs = sides
        if compute_plan_digest(mine.plan) != compute_plan_digest(theirs.plan):
            raise ConfigError(
                "has another plan, whose features differ",
                field="compare",
                fix="state the same bounds, scale, public_seed and max_records for both",
            )
        if any(np.array_equal(a.sums, b.sums) for a in mine.releases for b in theirs.releases):
            raise ConfigError(
                "must not share a release: what is in both carries the same noise",
                field="compare",
                fix="fit each estimator to other records",
            )
        count: int = getattr(self, self._COUNT) if n_clusters is None else n_clusters
        choices = ComparisonChoices(
            n_clusters=count, seed=seed, level=level, smallest_shift=smallest_shift
        )
        return compare_totals(mine.plan, mine.totals, theirs.totals, choices)

    def plot(
        self, *, pairs: Sequence[tuple[int, int]] | None = None, title: str | None = None
    ) -> Figure:
        """Draw centroids over pairs of axes, and their shares, with matplotlib.

        Parameters
        ----------
        pairs
            Numbers of axes, a panel for each pair; by default the first six in turn.
        title
            Above the figure; by default the verdict.
        """
        return self.result_.plot(pairs=pairs, title=title)

    def __str__(self) -> str:
        return describe_estimator(self)

    def _html_repr(self) -> str:
        """Return what a notebook shows: the parameters, and what was found, if anything was."""
        if "_held" in vars(self) and "result_" not in vars(self):
            # Nothing is released for a cell's display.
            return f"<pre>{escape(describe_estimator(self))}</pre>"
        shown: str = super()._html_repr()
        return shown + (self.result_._repr_html_() if "result_" in vars(self) else "")

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return the fitted attributes that a notebook lists, also inside of a pipeline."""
        if "_held" in vars(self) and "result_" not in vars(self):
            # It would read all of them, and a read releases.
            return {}
        return super()._get_fitted_attr_html(doc_link)

    def score_samples(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the logarithm of the density at records: shape ``(n,)``; low values are outliers.

        Per product of the columns' units. Where a column has levels it is no density over them,
        and only its order means something.

        Raises
        ------
        TableError
            The columns are not those of the fit.
        """
        rows = self._read_columns(X)
        space = self.plan_.space
        logs = self._density.compute_log_density(self._place(rows).astype(np.float64, copy=False))
        for column, dimension in zip(rows.T, space.dimensions, strict=True):
            if dimension.transform is not None:
                # The scale's slope: so many octaves a unit.
                r = dimension.transform.resolution
                logs -= np.log((np.abs(column) + r) * math.log(2.0))
        return logs

    def sample(self, n_samples: int = 1, random_state: object = None) -> NDArray[Any]:
        """Draw synthetic records from the densities: shape ``(n, d)``, inside the bounds.

        Floats, or objects where a column has levels, which are then texts. Any number of them
        costs nothing more. ``result_.synthesise`` returns a table with its names and promises.

        Raises
        ------
        ConfigError
            ``n_samples`` is less than 1.
        DecodingError
            The fit is private, and noise decided what it found.
        """
        rng = read_rng(random_state)
        found = self.result_
        if found.posterior is None:
            return self._draw_around(n_samples, rng)
        drawn = found.synthesise(
            n_samples, seed=int(rng.integers(1 << 62)), allow_unusable=self._held.is_exact
        )
        has_texts = any(each.is_categorical for each in self.plan_.dimensions)
        kind = object if has_texts else np.float64
        return np.array(list(drawn.columns.values()), dtype=kind).T

    def _draw_around(self, n_samples: int, rng: np.random.Generator) -> NDArray[Any]:
        """Draw records of the one density that there is."""
        drawn = self._density.draw_samples(n_samples, rng=rng)
        space = self.plan_.space
        lower, upper = zip(*((axis.lower, axis.upper) for axis in space.axes), strict=True)
        records = space.to_records(np.clip(drawn, lower, upper))
        if not any(dimension.is_categorical for dimension in space.dimensions):
            return records
        written = records.astype(object)
        for i, dimension in enumerate(space.dimensions):
            if dimension.is_categorical:
                written[:, i] = [dimension.levels[int(place)] for place in records[:, i]]
        return written

    def plan_events(
        self, n_records: int, n_features: int, *, names: Sequence[str] | None = None
    ) -> tuple[PrivacyEvent, ...]:
        """Return what a private fit of so many records and columns will spend; reads no record.

        Parameters
        ----------
        names
            Names of the columns, where parameters name them.
        """
        if self.epsilon is None:
            return ()
        known = list(names or list_names(None, n_features))
        choices = self._choose(np.zeros((n_records, n_features)), known, margin=0.0)
        if not self._wants_pilot or not list_numbers(choices):
            plans = {SKETCH: make_plan(choices)}
        else:
            pilot = plan_pilot(choices)
            # The plan itself follows from the pilot; its cost does not.
            plans = {PILOT: pilot, SKETCH: make_plan(leave_rest(choices, pilot))}
        stream = self._name_fit()
        sketches = (
            name_event(plan, choices.name_design(part), stream=stream)
            for part, plan in plans.items()
        )
        return (*sketches, *list_following(choices, stream))

    def expect(
        self, n_records: int, n_features: int, *, names: Sequence[str] | None = None
    ) -> QualityBand | None:
        """Predict how good a private fit of so many records and columns will be; reads no record.

        The range of the SSE relative to k-means on the records, as ``sfumato plan advise`` predicts
        it; ``describe()`` gives it in words, and ``is_hopeless`` says that noise will decide.

        Parameters
        ----------
        names
            Names of the columns, where parameters name them.

        Returns
        -------
        QualityBand or None
            None without epsilon: no noise is added.
        """
        if self.epsilon is None:
            return None
        known = list(names or list_names(None, n_features))
        choices = self._choose(np.zeros((n_records, n_features)), known, margin=0.0)
        return predict_quality(self._leave_sketch(choices))

    def _leave_sketch(self, choices: Choices) -> Choices:
        """Return the choices of the sketch alone, after a pilot if there is one."""
        if not self._wants_pilot or not list_numbers(choices):
            return choices
        return leave_rest(choices, plan_pilot(choices))

    @property
    def axes_(self) -> list[str]:
        """Names of the axes: those of the columns, and ``column=level`` where one has levels."""
        self._require_fitted()
        return [axis.name for axis in self.plan_.axes]

    @property
    def n_iter_(self) -> int:
        """Passes over the records that the centroids took.

        One, and after an exact ``fit`` the steps of k-means that followed it.
        """
        self._require_fitted()
        steps: int = vars(self).get("n_steps_", 0)
        return 1 + steps

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
