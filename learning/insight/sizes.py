"""Sizes of differences in words, which never contradict whether there is a difference.

A size is what all features together show. The tests of
:mod:`sfumato.learning.insight.statistics` look where the clusters of the fit may change, and see
more: so a difference may be certain while noise hides its size, which then is estimated as 0. And a
size alone is no finding: noise makes differences of the size of its error.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["SATURATED", "describe_size", "find_largest", "is_hidden", "show_figures", "show_size"]

SATURATED: Final = 1.0
"""Scales beyond which a common shift turns the features too far to be told from a longer one."""
_LEAST_ERROR: Final = 1e-9
_PRINTED: Final = 0.01
_CERTAIN: Final = 2.0
"""Standard errors within which an amount is all but certain to lie."""


def is_hidden(size: float, error: float) -> bool:
    """Whether noise hides a size: it is within one standard error of 0."""
    return size < error


def find_largest(size: float, error: float) -> float:
    """Return about the largest size that fits an estimate: two standard errors of its square.

    The square ``s^2`` of a size has the standard error ``(s + e)^2 - s^2``, as
    :func:`sfumato.learning.insight.comparison.measure_size` defines e.
    """
    return math.sqrt(size**2 + _CERTAIN * ((size + error) ** 2 - size**2))


def show_size(size: float, error: float) -> str:
    """Return a size and its standard error, short: ``0.27 scales (error 0.05)``."""
    if size > SATURATED:
        return "more than 1 scale"
    if max(size, error) < _PRINTED / 2.0:
        return f"less than {_PRINTED} scales"
    return f"{size:.2f} scales (error {error:.2f})"


def describe_size(size: float, error: float, *, is_certain: bool) -> str:
    """Describe a size in words.

    Parameters
    ----------
    size, error
        Equivalent common shift and its standard error, in the plan's scales.
    is_certain
        Whether there is a difference by its p-value. Then the words follow a verb ("differ ...").
    """
    if not is_certain:
        return f"{show_size(size, error)}, which noise alone may make"
    if size > SATURATED:
        return "as if every record had moved by more than 1 scale"
    if is_hidden(size, error):
        most = find_largest(size, error)
        amount = f"by less than about {max(most, _PRINTED):.2f} scales"
        if most > SATURATED:
            amount = "by some amount"
        return f"{amount}: clusters move, grow or spread, while noise hides the size of it all"
    if size < _PRINTED / 2.0:
        return f"by less than {_PRINTED} scales"
    return f"as if every record had moved by {show_size(size, error)}"


def show_figures(*values: float, error: float) -> list[str]:
    """Write figures, and then their error, to the first digit of it."""
    least = max(error, _LEAST_ERROR * max(1.0, *map(abs, values)))
    place = -math.floor(math.log10(least))
    return [f"{round(each, place):.{max(0, place)}f}" for each in (*values, least)]
