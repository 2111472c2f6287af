"""Search boxes as people state them: bounds of some dimensions, by name.

A plan's bounds must be wide, because values beyond them are clipped. The search for clusters needs
narrow ones. A search box states those apart from the plan: it can come from private knowledge of
the records, such as a pilot, and changes nothing that a device releases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.learning.decoding.problem import Box
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan

Stated = Mapping[str, Sequence[float]]
"""Lower and upper bound by name of dimension."""

_FIELD = "search_box"


def check_search_box(plan: SketchPlan, stated: Stated) -> dict[str, list[float]]:
    """Check a search box, and bring it into its only form.

    Parameters
    ----------
    plan
        The plan of the sketches.
    stated
        Lower and upper bound by name of dimension, in its unit. A dimension without keeps the
        plan's bounds.

    Returns
    -------
    dict
        Lower and upper bound by name, in the plan's order, without bounds equal to the plan's:
        equal searches have equal boxes, and the empty one is the plan's own.

    Raises
    ------
    ConfigError
        A name is not one of the plan's dimensions, or bounds are not finite, not in order or not
        inside the plan's.
    """
    numbers = [dimension for dimension in plan.dimensions if not dimension.is_categorical]
    names = [dimension.name for dimension in numbers]
    for name in stated:
        if name not in names:
            raise ConfigError(
                f"is not a number of the plan, which has {', '.join(names)}",
                field=f"{_FIELD}.{name}",
                fix="correct the name or leave it out",
            )
    found: dict[str, list[float]] = {}
    for dimension in numbers:
        widest = list(dimension.bounds)
        lower, upper = _read_bounds(dimension.name, stated.get(dimension.name, widest))
        if not (widest[0] <= lower and upper <= widest[1]):
            raise ConfigError(
                f"must lie inside the plan's bounds, {widest[0]:g} to {widest[1]:g}, not be "
                f"{lower:g} to {upper:g}",
                field=f"{_FIELD}.{dimension.name}",
                fix="narrow it: devices clip values to the plan's bounds",
            )
        if [lower, upper] != widest:
            found[dimension.name] = [lower, upper]
    return found


def _read_bounds(name: str, stated: Sequence[Any]) -> tuple[float, float]:
    # Adding zero gives -0.0 and 0.0 the same form.
    numbers = [float(bound) + 0.0 for bound in stated]
    if len(numbers) == 2 and all(map(math.isfinite, numbers)) and numbers[0] < numbers[1]:
        return numbers[0], numbers[1]
    raise ConfigError(
        "must be two finite numbers, the lower bound first",
        field=f"{_FIELD}.{name}",
        fix="write lower and upper bound in the dimension's unit",
    )


def make_search_box(plan: SketchPlan, stated: Stated) -> Box | None:
    """Return a checked search box as the decoder takes it, or None for the plan's own box.

    Raises
    ------
    ConfigError
        As from :func:`check_search_box`.
    """
    found = check_search_box(plan, stated)
    if not found:
        return None
    bounds = [found.get(each.name, each.bounds) for each in plan.dimensions]
    lower, upper = plan.space.encoder.encode_bounds(*np.array(bounds).T)
    return Box(lower=lower, upper=upper)
