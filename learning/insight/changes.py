"""Changes over windows: a monitor with a stated rate of false alarms, a review, change points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from learning.insight.comparing import N_DRAWS, SMALLEST_SHIFT
from learning.insight.covariance import Floats
from learning.insight.tails import NullDraws, SmallestDraws, find_discoveries
from learning.insight.timeline import Timeline
from shared.errors import DecodingError

__all__ = [
    "ChangePoint",
    "Reading",
    "compute_levels",
    "find_change_points",
    "review",
    "spend_levels",
    "watch",
]

SCAN_LEVEL: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One window against all earlier ones.

    Parameters
    ----------
    window
        Its name.
    p
        Probability of a difference like this where nothing has changed; independent of the other
        readings' then.
    size
        Equivalent common shift, in the plan's scales.
    level, smallest_shift
        Limits of an alarm.
    """

    window: str
    p: float
    size: float
    level: float
    smallest_shift: float

    @property
    def is_alarm(self) -> bool:
        """Whether the difference is both certain and large enough to matter."""
        return self.p < self.level and self.size > self.smallest_shift


@dataclass(frozen=True, kw_only=True)
class ChangePoint:
    """A window from which on the records differ from those of the windows before.

    Parameters
    ----------
    place, window
        Number, from 0, and name of the first window after the change.
    p
        Probability of a change this clear, anywhere in the stretch that was searched, where nothing
        has changed.
    size
        Equivalent common shift, in the plan's scales.
    """

    place: int
    window: str
    p: float
    size: float


def compute_levels(
    n_tests: int, *, windows_per_year: float, alarms_per_year: float = 1.0
) -> Floats:
    """Return equal levels for a rate of false alarms: shape ``(n_tests,)``.

    Raises
    ------
    DecodingError
        There would be a false alarm at every window.
    """
    level = alarms_per_year / windows_per_year
    if not 0.0 < level < 1.0:
        raise DecodingError(
            f"must be above 0 and below windows_per_year, {windows_per_year:g}",
            field="alarms_per_year",
            fix="accept fewer false alarms",
        )
    return np.full(n_tests, level)


def spend_levels(n_tests: int, *, ever: float = 0.05) -> Floats:
    """Return falling levels with one probability of a false alarm ever: ``6 ever / (pi t)^2``."""
    levels: Floats = 6.0 * ever / (np.pi * np.arange(1.0, n_tests + 1.0)) ** 2
    return levels


def watch(
    timeline: Timeline,
    levels: Floats,
    *,
    rng: np.random.Generator,
    smallest_shift: float = SMALLEST_SHIFT,
    n_years: int = N_DRAWS,
) -> tuple[Reading, ...]:
    """Compare every window but the first with all before it.

    Parameters
    ----------
    timeline
        The windows since the last accepted change.
    levels
        Of :func:`compute_levels` or :func:`spend_levels`: shape ``(T - 1,)``.
    rng, n_years
        Source and number of the simulated years; the answer is for display only.
    smallest_shift
        Size above which a difference is worth an alarm.

    Raises
    ------
    DecodingError
        There are more or fewer levels than tests.
    """
    contrasts = timeline.prefixes
    if len(levels) != len(timeline.windows) - 1:
        raise DecodingError(
            f"must be {len(timeline.windows) - 1}, one for each window but the first",
            field="levels",
            fix="compute them for so many tests",
        )
    drawn = timeline.simulate(contrasts, rng=rng, n_years=n_years)
    observed = timeline.measure(timeline.coordinates, contrasts)
    sizes = timeline.measure_sizes(contrasts)
    return tuple(
        Reading(
            window=window.name,
            p=_combine(drawn[:, :, i], observed[:, i]),
            size=float(sizes[i]),
            level=float(levels[i]),
            smallest_shift=smallest_shift,
        )
        for i, window in enumerate(timeline.windows[1:])
    )


def _combine(drawn: Floats, observed: Floats) -> float:
    """Return the p-value of the smallest of those of several statistics, by the same draws."""
    laws = tuple(NullDraws(draws=each) for each in drawn.T)
    p_values = [law.estimate_p(value) for law, value in zip(laws, observed.tolist(), strict=True)]
    return SmallestDraws(laws=laws).estimate_p(min(p_values))


def review(readings: Sequence[Reading], *, rate: float = 0.05) -> tuple[Reading, ...]:
    """Return the readings of a finished period that differ; at most this share of them is false.

    By Benjamini and Hochberg, in the mean. The levels of the monitor have no effect.
    """
    found = find_discoveries(np.array([reading.p for reading in readings]), rate=rate)
    return tuple(reading for reading, is_found in zip(readings, found, strict=True) if is_found)


def find_change_points(
    timeline: Timeline,
    *,
    rng: np.random.Generator,
    level: float = SCAN_LEVEL,
    n_years: int = N_DRAWS,
) -> tuple[ChangePoint, ...]:
    """Find the windows at which the records change, in order.

    The clearest split of all windows, if simulated years have one as clear with probability at most
    the level; then the same in the stretches before and after it.
    """
    found: list[ChangePoint] = []
    stretches = [(0, len(timeline.windows))]
    while stretches:
        first, stop = stretches.pop()
        if stop - first == 1:
            continue
        point = _scan(timeline.cut(first, stop), first, rng, n_years)
        if point.p <= level:
            found.append(point)
            stretches += [(first, point.place), (point.place, stop)]
    return tuple(sorted(found, key=lambda point: point.place))


def _scan(timeline: Timeline, first: int, rng: np.random.Generator, n_years: int) -> ChangePoint:
    """Return the clearest split of a stretch."""
    contrasts = timeline.splits
    drawn = timeline.simulate(contrasts, rng=rng, n_years=n_years)
    mean, deviation = np.mean(drawn, axis=0), np.std(drawn, axis=0)
    # Each statistic in its own deviations, the larger of them at each split.
    observed = timeline.measure(timeline.coordinates, contrasts)
    scores = np.max((observed - mean) / deviation, axis=0)
    largest = NullDraws(draws=np.max((drawn - mean) / deviation, axis=(1, 2)))
    clearest = int(np.argmax(scores))
    return ChangePoint(
        place=first + clearest + 1,
        window=timeline.windows[clearest + 1].name,
        p=largest.estimate_p(float(scores[clearest])),
        size=float(timeline.measure_sizes(contrasts)[clearest]),
    )
