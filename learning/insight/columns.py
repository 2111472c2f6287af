"""Changes of columns: the mean of each column before and after, in the units of the plan.

Means are those of the densities that explain a window. A change is a contrast of these means,
the one that the window's test is of, so that it is a change of the same thing.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sfumato.learning.decoding.bars import DEVIATIONS, LAWS
from sfumato.learning.decoding.density import Posterior
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.sizes import show_figures
from sfumato.learning.insight.tails import adjust_holm
from sfumato.learning.insight.timeline import Timeline
from sfumato.shared.plan import SketchPlan

__all__ = ["ColumnChange", "Means", "describe_columns", "measure_columns", "measure_steps"]

_NAMED: Final = 0.05
_MOST_TOLD: Final = 2
_LEAST_WINDOWS: Final = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Means:
    """The means of a window's columns and their standard errors, units of the fit: shapes ``(d,)``.

    On a logarithmic scale the mean is of logarithms.
    """

    values: Floats
    errors: Floats

    @classmethod
    def of(cls, posterior: Posterior, n_records: int) -> Means:
        """Return the means over the densities of a decode, with the bars of means."""
        weighted = (posterior.weights[:, None] * posterior.means).T
        drawn = np.array([posterior.sum_draws(each) for each in weighted])
        values = drawn @ posterior.shares
        spreads = np.sqrt((drawn - values[:, None]) ** 2 @ posterior.shares)
        inner = np.sum(posterior.roots**2, axis=2) + posterior.means**2
        chances = posterior.shares[posterior.draw_of] * posterior.weights
        variances = np.maximum(0.0, chances @ inner - values**2)
        sampling = np.sqrt(variances / max(1, n_records))
        length = LAWS["mean"].compute_length(spreads, sampling, held_out=posterior.held_out)
        return cls(values=values, errors=length / DEVIATIONS)


@dataclass(frozen=True, kw_only=True)
class ColumnChange:
    """The change of a column's mean.

    Parameters
    ----------
    axis
        Number of the axis.
    before, after, error
        Data units; the error is that of their difference.
    p
        Probability of such a difference where nothing has changed, adjusted by Holm over the axes.
    shift
        The difference in the plan's scales.
    """

    axis: int
    before: float
    after: float
    error: float
    p: float
    shift: float

    @property
    def is_named(self) -> bool:
        """Whether noise explains the change with probability below 5 %."""
        return self.p < _NAMED


def measure_columns(
    timeline: Timeline,
    means: Mapping[int, Means],
    begins: Sequence[int],
    stretches: Sequence[int],
) -> dict[int, tuple[ColumnChange, ...]]:
    """Measure the columns of windows against their references, by windows that tell their means.

    Parameters
    ----------
    means
        By window.
    begins
        Of :func:`sfumato.learning.insight.changes.find_begins`.
    stretches
        As of :meth:`sfumato.learning.insight.timeline.Timeline.contrast`.
    """
    known = list(means)
    if len(known) < _LEAST_WINDOWS:
        return {}
    told = timeline.choose(known)
    # A window without a reference is compared with the one before it, and then left out.
    firsts = [min(bisect_left(known, begins[t - 1]), i) for i, t in enumerate(known[1:])]
    contrasts = told.contrast(firsts, [bisect_left(known, each) for each in stretches])
    return {
        t: _measure(timeline.model.plan, contrasts.weights[i], means, np.eye(len(known))[i + 1])
        for i, t in enumerate(known[1:])
        if begins[t - 1] <= known[firsts[i]]
    }


def measure_steps(
    timeline: Timeline, means: Mapping[int, Means], points: Sequence[int]
) -> dict[int, tuple[ColumnChange, ...]]:
    """Measure the columns of each stretch against the one before, by its first window."""
    known = list(means)
    ends = [0, *(bisect_left(known, point) for point in points), len(known)]
    # Without a window that tells its means, a stretch has none.
    if len(known) < _LEAST_WINDOWS or len(set(ends)) < len(ends):
        return {}
    told = timeline.choose(known)
    contrasts = told.contrast_stretches(ends, by_weekday=True)
    found = {}
    for i, point in enumerate(points):
        share = np.zeros(len(known))
        share[ends[i + 1] : ends[i + 2]] = 1.0 / told.spreads[ends[i + 1] : ends[i + 2]]
        share /= np.sum(share)
        found[point] = _measure(timeline.model.plan, contrasts.weights[i], means, share)
    return found


def _measure(
    plan: SketchPlan, contrast: Floats, means: Mapping[int, Means], share: Floats
) -> tuple[ColumnChange, ...]:
    """Measure a contrast of means; ``share`` are the weights of the windows after the change."""
    values = np.array([each.values for each in means.values()])
    errors = np.sqrt(contrast**2 @ np.array([each.errors for each in means.values()]) ** 2)
    difference, after = contrast @ values, share @ values
    z = np.abs(difference) / np.maximum(errors, np.finfo(float).tiny)
    # Bars of a decode have no exact law: Laplace tails bound those of all that it is made of.
    p = adjust_holm(np.exp(-math.sqrt(2.0) * z))
    encoder = plan.space.encoder
    ends = encoder.decode(np.array([after - difference, after]))
    shown = encoder.decode_widths(after, errors)
    return tuple(
        ColumnChange(
            axis=i,
            before=float(ends[0, i]),
            after=float(ends[1, i]),
            error=float(shown[i]),
            p=float(p[i]),
            shift=float(difference[i] / plan.scale[i]),
        )
        for i in range(plan.n_axes)
    )


def describe_columns(plan: SketchPlan, columns: Sequence[ColumnChange]) -> str | None:
    """Describe the largest certain changes, before and after; None without one.

    Figures stand to the first digit of the error.
    """
    named = sorted((each for each in columns if each.is_named), key=lambda each: -abs(each.shift))
    return ", ".join(_describe(plan, each) for each in named[:_MOST_TOLD]) or None


def _describe(plan: SketchPlan, change: ColumnChange) -> str:
    axis = plan.axes[change.axis]
    unit = "" if axis.unit == "1" else f" {axis.unit}"
    before, after, error = show_figures(change.before, change.after, error=change.error)
    return f"{axis.name} {before} -> {after}{unit} (error {error})"
