"""Questions on a density from plain Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any, cast

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
        Nothing is asked, or a question is malformed.
    """
    asked = QuestionsRequest(
        ranges=[_list_ends(box, f"ranges[{i}]") for i, box in enumerate(ranges)],
        quantiles=[_make_quantile(each, f"quantiles[{i}]") for i, each in enumerate(quantiles)],
        marginals=[MarginalQuestion(dimension=name, points=n_points) for name in marginals],
        means=[_make_mean(mean, f"means[{i}]") for i, mean in enumerate(means)],
        allow_narrow=allow_narrow,
        histogram=histogram,
    )
    if not (asked.ranges or asked.quantiles or asked.marginals or asked.means):
        raise ConfigError(
            "asks nothing", field="questions", fix='ask for instance ranges=[{"x": (0, None)}]'
        )
    return asked


def _make_quantile(quantile: object, field: str) -> QuantileQuestion:
    match quantile:
        case (str(name), Real() as share):
            return QuantileQuestion(dimension=name, share=float(share))
    raise ConfigError(
        "must be a dimension and a share", field=field, fix='write ("x", 0.5) for the median of x'
    )


def _make_mean(mean: object, field: str) -> MeanQuestion:
    match mean:
        case str(name):
            return MeanQuestion(mean_of=name, within={})
        case (str(name), box):
            return MeanQuestion(mean_of=name, within=_list_ends(box, field))
    raise ConfigError(
        "must be a dimension, or one and a box",
        field=field,
        fix='write "x", or ("x", {"y": (0, 1)})',
    )


def _list_ends(box: object, field: str) -> dict[str, list[float | None]]:
    if not isinstance(box, Mapping):
        raise ConfigError(
            "must be a mapping of dimensions to ends", field=field, fix='write {"x": (0, None)}'
        )
    return {name: _read_ends(ends, f"{field}.{name}") for name, ends in box.items()}


def _read_ends(ends: object, field: str) -> list[float | None]:
    with suppress(TypeError, ValueError):
        low, high = cast("Iterable[Any]", ends)
        return [None if end is None else float(end) for end in (low, high)]
    raise ConfigError(
        "must have a lower and an upper end",
        field=field,
        fix="give two numbers, None for no end",
    )
