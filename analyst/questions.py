"""Questions on a density from plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sfumato.shared.errors import ConfigError
from sfumato.shared.wire.objects.questions import (
    MarginalQuestion,
    MeanQuestion,
    QuantileQuestion,
    QuestionsRequest,
)

__all__ = ["Box", "make_questions"]

Box = Mapping[str, Sequence[float | None]]
"""Lower and upper end by dimension; None for no end."""


def make_questions(
    *,
    ranges: Iterable[Box] = (),
    quantiles: Iterable[tuple[str, float]] = (),
    marginals: Iterable[str] = (),
    means: Iterable[str | tuple[str, Box]] = (),
    n_points: int = 64,
    allow_narrow: bool = False,
    histogram: str | None = None,
) -> QuestionsRequest:
    """Make a request of questions.

    Parameters
    ----------
    ranges
        Boxes whose share of the records is asked for, such as ``{"temperature": (70, None)}``.
    quantiles
        Pairs of a dimension and a share, such as ``("temperature", 0.5)``.
    marginals
        Dimensions whose density is asked for, at ``n_points`` points.
    means
        Dimensions whose mean is asked for, of all records or paired with a box.
    allow_narrow
        Whether ranges may be narrower than half of the plan's scale.
    histogram
        A snapshot of a histogram of the same records, whose columns the answers follow.

    Raises
    ------
    ConfigError
        Nothing is asked, or a range does not have two ends.
    """
    asked = QuestionsRequest(
        ranges=[_list_ends(box) for box in ranges],
        quantiles=[QuantileQuestion(dimension=name, share=share) for name, share in quantiles],
        marginals=[MarginalQuestion(dimension=name, points=n_points) for name in marginals],
        means=[_make_mean(mean) for mean in means],
        allow_narrow=allow_narrow,
        histogram=histogram,
    )
    if not (asked.ranges or asked.quantiles or asked.marginals or asked.means):
        raise ConfigError(
            "asks nothing", field="questions", fix='ask for instance ranges=[{"x": (0, None)}]'
        )
    return asked


def _make_mean(mean: str | tuple[str, Box]) -> MeanQuestion:
    name, box = (mean, {}) if isinstance(mean, str) else mean
    return MeanQuestion(mean_of=name, within=_list_ends(box))


def _list_ends(box: Box) -> dict[str, list[float | None]]:
    for name, ends in box.items():
        if len(ends) != 2:
            raise ConfigError(
                "must have a lower and an upper end",
                field=f"ranges.{name}",
                fix="give two numbers, None for no end",
            )
    return {
        name: [None if end is None else float(end) for end in ends] for name, ends in box.items()
    }
