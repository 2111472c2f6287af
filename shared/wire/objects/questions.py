"""JSON bodies of questions on the density of a decode, and of their answers."""

from __future__ import annotations

from typing import Annotated, Literal

from sfumato.shared.structure import Rule, member
from sfumato.shared.wire.objects.declaration import Hex, SmallText, Switch, body, request

MOST_QUESTIONS = 32
"""Most questions of each kind in one request."""
MOST_POINTS = 512

Range = Annotated[list[float | None], Rule(min_length=2, max_length=2)]
"""Lower and upper end, data units; null for none."""
Ranges = dict[SmallText, Range]
"""Ranges by the name of a dimension."""


@request
class QuantileQuestion:
    """A quantile of one dimension."""

    dimension: SmallText = member("Name of the dimension.", "pressure")
    share: float = member("Share of the records below it, strictly between 0 and 1.", 0.5)


@request
class MarginalQuestion:
    """The density of one dimension, at equidistant points."""

    dimension: SmallText = member("Name of the dimension.", "pressure")
    points: Annotated[int, Rule(ge=2, le=MOST_POINTS)] = member(
        "Number of points from bound to bound.", 64, default=64
    )


@request
class MeanQuestion:
    """The mean of one dimension, of all records or of those in some ranges."""

    mean_of: SmallText = member("Name of the dimension whose mean is asked for.", "flow")
    within: Ranges = member(
        "Ranges by the name of a dimension.", {"pressure": [2.0, None]}, default_factory=dict
    )


@request
class QuestionsRequest:
    """Questions on the records behind a decode. They cost no privacy, however many."""

    ranges: Annotated[list[Ranges], Rule(max_length=MOST_QUESTIONS)] = member(
        "Boxes whose share of the records is asked for: ranges by the name of a dimension, both "
        "ends included.",
        [{"pressure": [2.0, None], "flow": [0.0, 5.0]}],
        default_factory=list,
    )
    quantiles: Annotated[list[QuantileQuestion], Rule(max_length=MOST_QUESTIONS)] = member(
        "Quantiles.", default_factory=list
    )
    marginals: Annotated[list[MarginalQuestion], Rule(max_length=MOST_QUESTIONS)] = member(
        "Densities of single dimensions.", default_factory=list
    )
    means: Annotated[list[MeanQuestion], Rule(max_length=MOST_QUESTIONS)] = member(
        "Means, of all records or of some.", default_factory=list
    )
    allow_narrow: Switch = member(
        "Answer ranges that are narrower than half of the plan's scale, which the sketch blurs.",
        False,
        default=False,
    )
    histogram: Hex | None = member(
        "A snapshot of a histogram of the same records: the answers follow its columns.",
        None,
        default=None,
    )


@body
class ShareBody:
    """Share of the records in a box, with its bar; null where none is shown."""

    share: float | None = member("Share of the records; null where the question is refused.", 0.32)
    low: float | None = member("Lower end of the bar.", 0.3)
    high: float | None = member("Upper end of the bar.", 0.34)
    refused: str | None = member("Why it is refused, and what would help.", None, default=None)

    def __str__(self) -> str:
        return self.refused or _show(self.share, self.low, self.high, ".1%")


@body
class ValueBody:
    """A quantile, with its bar; null where none is shown."""

    value: float = member("The quantile, in the unit of the dimension.", 3.1)
    low: float | None = member("Lower end of the bar.", 3.0)
    high: float | None = member("Upper end of the bar.", 3.2)

    def __str__(self) -> str:
        return _show(self.value, self.low, self.high, ".4g")


@body
class MeanBody:
    """A mean, with its bar; null where none is shown."""

    mean: float | None = member(
        "The mean, in the unit of the dimension; null where the question is refused.", 3.1
    )
    low: float | None = member("Lower end of the bar.", 3.0)
    high: float | None = member("Upper end of the bar.", 3.2)
    refused: str | None = member("Why it is refused, and what would help.", None, default=None)

    def __str__(self) -> str:
        return self.refused or _show(self.mean, self.low, self.high, ".4g")


@body
class CurveBody:
    """Density of one dimension inside its bounds; records beyond them stand on the bounds."""

    dimension: str = member("Name of the dimension.", "pressure")
    x: list[float] = member("Points, in the unit of the dimension.", [0.0, 5.0, 10.0])
    density: list[float] = member("Share of the records per unit.", [0.01, 0.15, 0.02])
    low: list[float] | None = member("Lower ends of the bars.", [0.0, 0.14, 0.01])
    high: list[float] | None = member("Upper ends of the bars.", [0.02, 0.16, 0.03])


@body
class AnswersBody:
    """Answers to questions on a density, in the order of the questions."""

    ranges: list[ShareBody] = member("Shares of the records.")
    quantiles: list[ValueBody] = member("Quantiles.")
    marginals: list[CurveBody] = member("Densities of single dimensions.")
    means: list[MeanBody] = member("Means.")
    level: float = member("Share of the bars that hold, where they are `stated`.", 0.9)
    bars: Literal["stated", "rough", "none"] = member("Kind of the bars.", "stated")
    is_rough: bool = member("Whether the bars are rough: widened, and less sure to hold.", False)
    words: list[str] = member("What to know about the answers, doubts first.", [])

    def __str__(self) -> str:
        answers = [*self.ranges, *self.quantiles, *self.means]
        curves = [f"density of {curve.dimension}: see marginals" for curve in self.marginals]
        return "\n".join([*map(str, answers), *curves, *self.words])


def _show(figure: float | None, low: float | None, high: float | None, form: str) -> str:
    if figure is None or low is None or high is None:
        return "none" if figure is None else f"{figure:{form}} (no error bar)"
    return f"{figure:{form}} ({low:{form}} to {high:{form}})"
