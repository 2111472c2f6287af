"""Questions on the density of a decode: names, units and bounds of a plan, bars and words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.learning.answers.densities import (
    Interval,
    clip_interval,
    compute_density,
    compute_means,
    compute_quantiles,
    compute_shares,
    pool,
)
from sfumato.learning.decoding.bars import LAWS, LEVEL, BarKind, BarsWord, choose_word, compute_miss
from sfumato.learning.decoding.density import Posterior
from sfumato.shared.core.logarithm import compress, expand
from sfumato.shared.errors import DecodingError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.questions import (
    AnswersBody,
    ConditionalQuestion,
    CurveBody,
    MarginalQuestion,
    MeanBody,
    QuantileQuestion,
    QuestionsRequest,
    ShareBody,
    ValueBody,
)

__all__ = ["Inquiry", "pool_means"]

Floats = NDArray[np.float64]
_NARROW: Final = 0.5
# A mean over fewer of the records says nothing.
_LEAST_SHARE: Final = 1e-3


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

    Raises
    ------
    DecodingError
        The posterior is of another plan.
    """

    plan: SketchPlan
    posterior: Posterior
    n_records: float

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

        Raises
        ------
        DecodingError
            A dimension is unknown or has levels, a range is empty or too narrow, a share is out of
            range, or hardly any record is in the ranges of a mean.
        """
        narrow = questions.allow_narrow
        return AnswersBody(
            ranges=[
                self.find_share(ranges, allow_narrow=narrow, field=f"ranges[{i}]")
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
            conditional=[
                self.find_mean(each, allow_narrow=narrow, field=f"conditional[{i}]")
                for i, each in enumerate(questions.conditional)
            ],
            level=LEVEL,
            bars=self.bars,
            is_rough=self.bars != "stated",
            words=list(self._describe(questions)),
        )

    def find_share(
        self,
        ranges: Mapping[str, Sequence[float | None]],
        *,
        allow_narrow: bool = False,
        field: str = "ranges",
    ) -> ShareBody:
        """Find the share of the records in a box; see :meth:`answer`."""
        box = self._read_box(ranges, allow_narrow=allow_narrow, field=field)
        share, spread = pool(self.posterior, compute_shares(self.posterior, box))
        low, high = self._bound(
            "share",
            float(share),
            float(spread),
            sampling=self._sample(float(share)),
            within=(0.0, 1.0),
        )
        return ShareBody(share=float(share), low=low, high=high)

    def find_quantile(self, question: QuantileQuestion, *, field: str = "quantiles") -> ValueBody:
        """Find a quantile; see :meth:`answer`."""
        share = question.share
        if not 0.0 < share < 1.0:
            raise DecodingError(
                f"must lie strictly between 0 and 1, not {share:g}",
                field=f"{field}.share",
                fix="use 0.5 for the median",
            )
        axis = self._find_axis(question.dimension, f"{field}.dimension")
        value, spread = pool(self.posterior, compute_quantiles(self.posterior, axis, share))
        height = float(
            pool(self.posterior, compute_density(self.posterior, axis, np.array([value])))[0][0]
        )
        lower, upper = float(self.posterior.lower[axis]), float(self.posterior.upper[axis])
        low, high = self._bound(
            "quantile",
            float(value),
            float(spread),
            sampling=self._sample(share) / max(height, 1e-9 / (upper - lower)),
            within=(lower, upper),
        )
        shown = self._shower(axis)
        return ValueBody(
            value=shown(float(value)),
            low=None if low is None else shown(low),
            high=None if high is None else shown(high),
        )

    def find_marginal(self, question: MarginalQuestion, *, field: str = "marginals") -> CurveBody:
        """Find the density of a dimension; see :meth:`answer`."""
        axis = self._find_axis(question.dimension, f"{field}.dimension")
        lower, upper = self.posterior.lower[axis], self.posterior.upper[axis]
        points = np.linspace(lower, upper, question.points)
        heights, spreads = pool(self.posterior, compute_density(self.posterior, axis, points))
        resolution = self.plan.axes[axis].resolution
        x = points if resolution is None else expand(points, resolution)
        # A density is per unit of the data: the scale's slope there.
        slope = (
            np.ones_like(x)
            if resolution is None
            else 1.0 / (math.log(2.0) * (np.abs(x) + resolution))
        )
        # A density is the share of a narrow range.
        reach = self._measure("share", spreads)
        has_bars = self.bars != "none"
        return CurveBody(
            dimension=question.dimension,
            x=x.tolist(),
            density=(slope * heights).tolist(),
            low=(slope * np.maximum(heights - reach, 0.0)).tolist() if has_bars else None,
            high=(slope * (heights + reach)).tolist() if has_bars else None,
        )

    def find_mean(
        self,
        question: ConditionalQuestion,
        *,
        allow_narrow: bool = False,
        field: str = "conditional",
    ) -> MeanBody:
        """Find the mean of a dimension over the records in a box; see :meth:`answer`."""
        axis = self._find_axis(question.mean_of, f"{field}.mean_of")
        box = self._read_box(question.within, allow_narrow=allow_narrow, field=f"{field}.within")
        resolution = self.plan.axes[axis].resolution
        shares, means, variances = compute_means(
            self.posterior,
            box,
            axis,
            None if resolution is None else lambda values: expand(values, resolution),
        )
        share = float(pool(self.posterior, shares)[0])
        if share < _LEAST_SHARE:
            raise DecodingError(
                f"must hold at least {_LEAST_SHARE:.1%} of the records, not {share:.2g}",
                field=f"{field}.within",
                fix="widen the ranges",
            )
        mean, spread, variance = pool_means(self.posterior, shares, means, variances)
        ends = (self.posterior.lower[axis], self.posterior.upper[axis])
        shown = self._shower(axis)
        low, high = self._bound(
            "mean",
            mean,
            spread,
            sampling=math.sqrt(variance / max(1.0, self.n_records * share)),
            within=(shown(float(ends[0])), shown(float(ends[1]))),
        )
        return MeanBody(mean=mean, low=low, high=high)

    def _measure(self, kind: BarKind, spread: ArrayLike, sampling: ArrayLike = 0.0) -> Floats:
        held_out = self.posterior.held_out
        return LAWS[kind].compute_length(spread, sampling, held_out=held_out)

    def _bound(
        self,
        kind: BarKind,
        value: float,
        spread: float,
        *,
        sampling: float,
        within: tuple[float, float],
    ) -> tuple[float | None, float | None]:
        """Return the ends of a bar; None where none are shown."""
        if self.bars == "none":
            return None, None
        reach = float(self._measure(kind, spread, sampling))
        low, high = within
        return max(value - reach, low), min(value + reach, high)

    def _sample(self, share: float) -> float:
        """Return the standard error of a share among so many records, by sampling alone."""
        inside = min(max(share, 0.0), 1.0)
        return math.sqrt(inside * (1.0 - inside) / max(1.0, self.n_records))

    def _shower(self, axis: int) -> Callable[[float], float]:
        """Return the function from a coordinate to data units."""
        resolution = self.plan.axes[axis].resolution
        if resolution is None:
            return lambda value: value
        return lambda value: float(expand(np.array(value), resolution))

    def _find_axis(self, name: str, field: str) -> int:
        for number, dimension in enumerate(self.plan.dimensions):
            if dimension.name == name:
                if dimension.is_categorical:
                    raise DecodingError(
                        f"must be a number, and {name!r} has levels",
                        field=field,
                        fix="read the shares of its levels off the centroids",
                    )
                return self.plan.space.encoder.dimension_of.index(number)
        known = ", ".join(each.name for each in self.plan.dimensions if not each.is_categorical)
        raise DecodingError(
            f"must be a dimension of the plan, not {name!r}", field=field, fix=f"use one of {known}"
        )

    def _read_box(
        self,
        ranges: Mapping[str, Sequence[float | None]],
        *,
        allow_narrow: bool,
        field: str,
    ) -> list[Interval]:
        return [
            self._read_range(name, ends, allow_narrow=allow_narrow, field=f"{field}.{name}")
            for name, ends in ranges.items()
        ]

    def _read_range(
        self, name: str, ends: Sequence[float | None], *, allow_narrow: bool, field: str
    ) -> Interval:
        axis = self._find_axis(name, field)
        low, high = (
            self._place(axis, -math.inf if ends[0] is None else ends[0], field),
            self._place(axis, math.inf if ends[1] is None else ends[1], field),
        )
        if low > high:
            raise DecodingError(
                "must have its lower end first", field=field, fix="exchange the two ends"
            )
        lower, upper = float(self.posterior.lower[axis]), float(self.posterior.upper[axis])
        width = min(high, upper) - max(low, lower)
        scale = float(self.plan.scale[axis])
        if width < _NARROW * scale and not allow_narrow and not (low > upper or high < lower):
            raise DecodingError(
                f"must be at least half of the plan's scale wide inside the bounds, "
                f"{_NARROW * scale:.4g}, not {max(0.0, width):.4g}: the sketch blurs less",
                field=field,
                fix="widen it, or pass allow_narrow",
            )
        return clip_interval(self.posterior, axis, low, high)

    def _place(self, axis: int, value: float, field: str) -> float:
        """Return a value in data units on the scale of its axis; infinite ones stay so."""
        if math.isnan(value):
            raise DecodingError("must be numbers", field=field, fix="leave an open end out")
        resolution = self.plan.axes[axis].resolution
        if resolution is None or math.isinf(value):
            return value
        return float(compress(np.array(value), resolution))

    def _describe(self, questions: QuestionsRequest) -> list[str]:
        words = []
        if self.bars == "none":
            words.append(
                "no bars are shown: no density describes this sketch well enough to tell how far "
                "the answers may be off"
            )
        elif self.bars == "rough":
            words.append(
                "bars are rough: the densities behind them describe the records so badly that few "
                "such cases were there to tell how often they hold"
            )
        elif compute_miss(self.posterior.held_out) == 1.0:
            words.append(
                "bars are longer than the densities behind them suggest, which miss the sketch by "
                "more than its noise"
            )
        if questions.allow_narrow:
            words.append(
                "ranges narrower than half of the plan's scale may be far off: the sketch blurs "
                "details of that size"
            )
        words.append(
            f"about {self.n_records:,.0f} records, clipped to the plan's bounds: those beyond a "
            "bound stand on it"
        )
        return words
