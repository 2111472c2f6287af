"""Questions on the density of a decode: names, units and bounds of a plan, bars and words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.learning.answers.columns import AskedColumn, Ends, make_column
from sfumato.learning.answers.densities import (
    compute_density,
    compute_own_means,
    compute_own_shares,
    compute_quantiles,
    pool,
)
from sfumato.learning.answers.distribution import LENGTHEN
from sfumato.learning.answers.question_words import describe_answers
from sfumato.learning.decoding.bars import (
    DEVIATIONS,
    LAWS,
    LEVEL,
    BarKind,
    BarsWord,
    choose_word,
)
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.estimate.histogram import Marginal
from sfumato.shared.core.logarithm import expand
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.questions import (
    AnswersBody,
    CurveBody,
    MarginalQuestion,
    MeanBody,
    MeanQuestion,
    QuantileQuestion,
    QuestionsRequest,
    ShareBody,
    ValueBody,
)

__all__ = ["Inquiry", "pool_means"]

Floats = NDArray[np.float64]
# A mean over fewer of the records says nothing.
_LEAST_SHARE: Final = 1e-3


class _UnansweredError(DecodingError):
    """A question that is refused alone; the others are answered."""


def pool_means(
    posterior: Posterior, shares: Floats, means: Floats, variances: Floats
) -> tuple[float, float, float]:
    """Return mean, spread over the draws and mean variance of a figure of some records.

    Draws count by the records that they have there: one without any says nothing about them.
    """
    chances = posterior.shares * shares
    chances = chances / np.sum(chances)
    mean = float(chances @ means)
    free = max(1e-9, 1.0 - float(np.sum(chances**2)))
    spread = math.sqrt(float(chances @ (means - mean) ** 2) / free)
    return mean, spread, float(chances @ variances)


@dataclass(frozen=True, kw_only=True, eq=False)
class Inquiry:
    """A posterior with the plan whose dimensions it is about.

    Parameters
    ----------
    plan
        The plan.
    posterior
        Draws in the plan's coordinates.
    n_records
        Number of records: answers are about them, and they are a sample of what one asks about.
    histograms
        Noised histograms of columns of the same records, in the plan's units.
    steps
        Steps of the values of columns that the plan does not state.
    doubt
        Sentence on a verdict that is not trusted, which bars leave out; empty for others.

    Raises
    ------
    DecodingError
        The posterior is of another plan.
    """

    plan: SketchPlan
    posterior: Posterior
    n_records: float
    histograms: Sequence[Marginal] = ()
    steps: Mapping[str, float | None] = field(default_factory=dict)
    doubt: str = ""
    _columns: dict[str, AskedColumn] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.posterior.n_dimensions != self.plan.n_axes:
            raise DecodingError(
                f"must have {self.plan.n_axes} coordinates, not {self.posterior.n_dimensions}",
                field="posterior",
                fix="use the plan of the sketches that were decoded",
            )

    @property
    def bars(self) -> BarsWord:
        """Kind of the bars."""
        return choose_word(self.posterior.held_out, is_trusted=self.posterior.is_trusted)

    def answer(self, questions: QuestionsRequest) -> AnswersBody:
        """Answer questions.

        A range that is too narrow, and one with hardly any record for a mean, is refused alone.

        Raises
        ------
        DecodingError
            A dimension is unknown or has levels, a range is empty, or a share is out of range.
        """
        return AnswersBody(
            ranges=[
                self._answer_share(ranges, questions, f"ranges[{i}]")
                for i, ranges in enumerate(questions.ranges)
            ],
            quantiles=[
                self.find_quantile(each, field=f"quantiles[{i}]")
                for i, each in enumerate(questions.quantiles)
            ],
            marginals=[
                self.find_marginal(each, field=f"marginals[{i}]")
                for i, each in enumerate(questions.marginals)
            ],
            means=[
                self._answer_mean(each, questions, f"means[{i}]")
                for i, each in enumerate(questions.means)
            ],
            level=LEVEL,
            bars=self.bars,
            is_rough=self.bars != "stated",
            words=describe_answers(
                questions,
                self._columns,
                bars=self.bars,
                held_out=self.posterior.held_out,
                n_records=self.n_records,
                doubt=self.doubt,
            ),
        )

    def find_share(
        self,
        ranges: Mapping[str, Sequence[float | None]],
        *,
        allow_narrow: bool = False,
        field: str = "ranges",
    ) -> ShareBody:
        """Find the share of the records in a box; see :meth:`answer`, which refuses it alone."""
        box = self._read_box(ranges, allow_narrow=allow_narrow, field=field)
        columns, ends = zip(*box, strict=True) if box else ((), ())
        if not box:
            share, error, cut = 1.0, 0.0, 0.0
        elif None in ends:
            share, error, cut = 0.0, 0.0, 0.0
        elif len(box) == 1 and columns[0].distribution is not None:
            # Exact: no draw is needed.
            share, error = columns[0].distribution.find_share(*ends[0].parts)
            cut = 0.0
        else:
            places = np.array([each.places for each in ends])
            shares = compute_own_shares(self.posterior, [c.axis for c in columns], places)
            pooled, spread = pool(self.posterior, shares)
            share, error = float(pooled), self._lengthen("share", columns) * float(spread)
            cut = _measure_cuts(box)
        sampling = LAWS["share"].sampling * self._sample(share)
        reach = DEVIATIONS * math.hypot(error, cut, sampling)
        low, high = self._bound(share, reach, columns, within=(0.0, 1.0))
        return ShareBody(share=share, low=low, high=high)

    def find_quantile(self, question: QuantileQuestion, *, field: str = "quantiles") -> ValueBody:
        """Find a quantile; see :meth:`answer`."""
        share = question.share
        if not 0.0 < share < 1.0:
            raise DecodingError(
                f"must lie strictly between 0 and 1, not {share:g}",
                field=f"{field}.share",
                fix="use 0.5 for the median",
            )
        column = self._find_column(question.dimension, f"{field}.dimension")
        if column.distribution is not None:
            sampling = LAWS["share"].sampling * self._sample(share)
            value, *ends = column.distribution.find_quantile(
                share, deviations=DEVIATIONS, sampling=sampling
            )
            low, high = ends if self.bars != "none" else (None, None)
            return ValueBody(value=value, low=low, high=high)
        axis, (lower, upper) = column.axis, column.bounds
        found = compute_quantiles(self.posterior, axis, share)
        value, spread = map(float, pool(self.posterior, found))
        height = float(
            pool(self.posterior, compute_density(self.posterior, axis, np.array([value])))[0][0]
        )
        sampling = self._sample(share) / max(height, 1e-9 / (upper - lower))
        reach = float(self._measure("quantile", spread, sampling))
        places = self._bound(value, reach, [column], within=(lower, upper))
        low, high = (None if place is None else column.show_quantile(place) for place in places)
        return ValueBody(value=column.show_quantile(value), low=low, high=high)

    def find_marginal(self, question: MarginalQuestion, *, field: str = "marginals") -> CurveBody:
        """Find the density of a dimension, without what the sketch blurs; see :meth:`answer`."""
        column = self._find_column(question.dimension, f"{field}.dimension")
        points = np.linspace(*column.bounds, question.points)
        heights, spreads = pool(
            self.posterior, compute_density(self.posterior, column.axis, points)
        )
        resolution = column.resolution
        x = points if resolution is None else expand(points, resolution)
        # A density is per unit of the data: the scale's slope there.
        slope = (
            np.ones_like(x)
            if resolution is None
            else 1.0 / (math.log(2.0) * (np.abs(x) + resolution))
        )
        # A density is the share of a narrow range.
        reach = self._measure("share", spreads)
        has_bars = self.bars != "none" and column.step is not None
        return CurveBody(
            dimension=question.dimension,
            x=x.tolist(),
            density=(slope * heights).tolist(),
            low=(slope * np.maximum(heights - reach, 0.0)).tolist() if has_bars else None,
            high=(slope * (heights + reach)).tolist() if has_bars else None,
        )

    def find_mean(
        self, question: MeanQuestion, *, allow_narrow: bool = False, field: str = "means"
    ) -> MeanBody:
        """Find the mean of a dimension in a box; see :meth:`answer`, which refuses it alone."""
        column = self._find_column(question.mean_of, f"{field}.mean_of")
        box = self._read_box(question.within, allow_narrow=allow_narrow, field=f"{field}.within")
        columns = [column, *(each for each, _ in box)]
        distribution = column.distribution
        if distribution is not None and all(each is column for each, _ in box):
            low, high = box[0][1].parts if box and box[0][1] else distribution.cells.whole
            share, mean, error, variance = distribution.find_mean(low, high)
        else:
            share, mean, spread, variance = self._find_mean_inside(column, box)
            error = self._lengthen("mean", columns) * spread
            if distribution is not None:
                error = math.hypot(error, distribution.find_mean(*distribution.cells.whole)[2])
        if share < _LEAST_SHARE:
            raise _UnansweredError(
                f"must hold at least {_LEAST_SHARE:.1%} of the records, not {share:.2g}",
                field=f"{field}.within",
                fix="widen the ranges",
            )
        sampling = math.sqrt(variance / max(1.0, self.n_records * share))
        reach = DEVIATIONS * math.hypot(error, LAWS["mean"].sampling * sampling)
        within, own = list(column.data_bounds), question.within.get(question.mean_of, [None, None])
        tails = (0.0, 0.0) if distribution is None else distribution.measure_tails()
        more = [0.0, 0.0]
        for i, (end, tail, nearer) in enumerate(zip(own, tails, (max, min), strict=True)):
            if end is None:
                more[i] = tail
            else:
                # An end beyond a bound is where its records stand.
                bounded = min(max(end, column.data_bounds[0]), column.data_bounds[1])
                within[i] = nearer(bounded, within[i])
        mean = min(max(mean, within[0]), within[1])
        start, stop = self._bound(mean, reach, columns, within=(within[0], within[1]))
        return MeanBody(
            mean=mean,
            low=None if start is None else max(start - more[0], within[0]),
            high=None if stop is None else min(stop + more[1], within[1]),
        )

    def _find_mean_inside(
        self, column: AskedColumn, box: Sequence[tuple[AskedColumn, Ends | None]]
    ) -> tuple[float, float, float, float]:
        """Return the share of a box, and mean, spread and variance of a column inside it."""
        ends = [each for _, each in box if each is not None]
        if len(ends) < len(box):
            return 0.0, 0.0, 0.0, 0.0
        n_draws = self.posterior.n_draws
        places = np.array([each.places for each in ends]).reshape(-1, 2, n_draws)
        shares, means, variances = compute_own_means(
            self.posterior,
            [each.axis for each, _ in box],
            places,
            column.axis,
            column.make_transform(),
        )
        share = float(pool(self.posterior, shares)[0])
        if share < _LEAST_SHARE:
            return share, 0.0, 0.0, 0.0
        return share, *pool_means(self.posterior, shares, means, variances)

    def _answer_share(
        self, ranges: Mapping[str, Sequence[float | None]], asked: QuestionsRequest, field: str
    ) -> ShareBody:
        try:
            return self.find_share(ranges, allow_narrow=asked.allow_narrow, field=field)
        except _UnansweredError as error:
            return ShareBody(share=None, low=None, high=None, refused=str(error))

    def _answer_mean(self, question: MeanQuestion, asked: QuestionsRequest, field: str) -> MeanBody:
        try:
            return self.find_mean(question, allow_narrow=asked.allow_narrow, field=field)
        except _UnansweredError as error:
            return MeanBody(mean=None, low=None, high=None, refused=str(error))

    def _lengthen(self, kind: BarKind, columns: Sequence[AskedColumn]) -> float:
        """Return the factor of the spread over draws, where some columns are asked for.

        Histograms show how far densities are off along single columns.
        """
        if all(each.distribution is not None for each in columns):
            return LENGTHEN
        return LAWS[kind].compute_factor(self.posterior.held_out)

    def _measure(self, kind: BarKind, spread: ArrayLike, sampling: ArrayLike = 0.0) -> Floats:
        held_out = self.posterior.held_out
        return LAWS[kind].compute_length(spread, sampling, held_out=held_out)

    def _bound(
        self,
        value: float,
        reach: float,
        columns: Sequence[AskedColumn],
        *,
        within: tuple[float, float],
    ) -> tuple[float | None, float | None]:
        """Return the ends of a bar; None where none is shown."""
        if self.bars == "none" or not all(each.is_known for each in columns):
            return None, None
        low, high = within
        return max(value - reach, low), min(value + reach, high)

    def _sample(self, share: float) -> float:
        """Return the standard error of a share among so many records, by sampling alone."""
        inside = min(max(share, 0.0), 1.0)
        return math.sqrt(inside * (1.0 - inside) / max(1.0, self.n_records))

    def _find_column(self, name: str, field: str) -> AskedColumn:
        if name not in self._columns:
            self._columns[name] = self._make_column(name, field)
        return self._columns[name]

    def _make_column(self, name: str, field: str) -> AskedColumn:
        names = [each.name for each in self.plan.dimensions]
        numbers = [each.name for each in self.plan.dimensions if not each.is_categorical]
        if name not in names:
            known = ", ".join(numbers)
            raise DecodingError(
                f"must be a dimension of the plan, not {name!r}",
                field=field,
                fix=f"use one of {known}",
            )
        if name not in numbers:
            raise DecodingError(
                f"must be a number, and {name!r} has levels",
                field=field,
                fix="read the shares of its levels off the centroids",
            )
        number = names.index(name)
        axis = self.plan.space.encoder.dimension_of.index(number)
        histograms = {each.name: each for each in self.histograms}
        return make_column(
            self.plan,
            self.posterior,
            number,
            axis,
            step=self.steps.get(name),
            histogram=histograms.get(name),
        )

    def _read_box(
        self,
        ranges: Mapping[str, Sequence[float | None]],
        *,
        allow_narrow: bool,
        field: str,
    ) -> list[tuple[AskedColumn, Ends | None]]:
        box = [
            (name, self._read_range(name, ends, allow_narrow=allow_narrow, field=f"{field}.{name}"))
            for name, ends in ranges.items()
        ]
        # Without an end, a range limits nothing.
        return [read for name, read in box if ranges[name] != [None, None]]

    def _read_range(
        self, name: str, ends: Sequence[float | None], *, allow_narrow: bool, field: str
    ) -> tuple[AskedColumn, Ends | None]:
        column = self._find_column(name, field)
        low = -math.inf if ends[0] is None else ends[0]
        high = math.inf if ends[1] is None else ends[1]
        if math.isnan(low) or math.isnan(high):
            raise DecodingError("must be numbers", field=field, fix="leave an open end out")
        if low > high:
            raise DecodingError(
                "must have its lower end first", field=field, fix="exchange the two ends"
            )
        lack = None if allow_narrow else column.measure_lack(low, high)
        if lack is not None:
            raise _UnansweredError(
                f"must be at least half of the plan's scale wide inside the bounds, "
                f"{lack[0]:.4g}, not {lack[1]:.4g}: the sketch blurs less",
                field=field,
                fix="widen it, or pass allow_narrow",
            )
        return column, column.find_ends(low, high)


def _measure_cuts(box: Sequence[tuple[AskedColumn, Ends | None]]) -> float:
    """Return the standard error of a share by ends inside of what histograms tell apart."""
    return math.hypot(
        *(
            column.distribution.measure_cut(part)
            for column, ends in box
            if column.distribution is not None and ends is not None
            for part in ends.parts
        )
    )
