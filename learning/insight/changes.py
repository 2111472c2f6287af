"""Changes over windows: a monitor with a stated rate of false alarms, a review, change points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sfumato.learning.insight.comparison import N_DRAWS, SMALLEST_SHIFT
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.tails import NullDraws, SmallestDraws, find_discoveries
from sfumato.learning.insight.timeline import Timeline
from sfumato.shared.errors import DecodingError

__all__ = [
    "ChangePoint",
    "Reading",
    "compute_levels",
    "find_begins",
    "find_change_points",
    "join_stretches",
    "measure_usual_change",
    "review",
    "spend_levels",
    "watch",
]

SCAN_LEVEL: Final = 0.05
_LEAST_USUAL: Final = 9
_LEAST_SPREAD: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One window against the earlier ones of its reference.

    Parameters
    ----------
    window
        Its name.
    p
        Probability of a difference like this where nothing has changed; independent of the other
        readings' then, if all have one reference.
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


def find_begins(n_windows: int, references: Sequence[int]) -> list[int]:
    """Return, for every window but the first, the first window of its reference.

    A window that begins a reference is itself compared with the reference before: so a change is
    seen once, and then is what later windows are compared with.
    """
    known = sorted({0, *references})
    return [max(place for place in known if place < t) for t in range(1, n_windows)]


def watch(
    timeline: Timeline,
    levels: Floats,
    *,
    rng: np.random.Generator,
    references: Sequence[int] = (),
    stretches: Sequence[int] = (),
    smallest_shift: float = SMALLEST_SHIFT,
    n_years: int = N_DRAWS,
) -> tuple[Reading, ...]:
    """Compare every window but the first with all before it in its reference.

    Each reading has its level by itself, so references leave the number of false alarms that is
    expected as it is.

    Parameters
    ----------
    timeline
        The windows.
    levels
        Of :func:`compute_levels` or :func:`spend_levels`: shape ``(T - 1,)``.
    rng, n_years
        Source and number of the simulated years; the answer is for display only.
    references
        Windows that each begin a reference: accepted changes, or change points.
    stretches
        The first windows after all known changes, beside which the pattern of a week is the same.
    smallest_shift
        Size above which a difference is worth an alarm.

    Raises
    ------
    DecodingError
        There are more or fewer levels than tests.
    """
    contrasts = timeline.contrast(find_begins(len(timeline.windows), references), stretches)
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


def measure_usual_change(timeline: Timeline) -> float:
    """Return the median difference of neighbouring windows, in the plan's scales.

    About 0 where nothing changes, and where something changes once. Where records change all the
    time, as weather does, what exceeds it is out of the ordinary. 0 for fewer than nine windows: a
    few differences say little about what is usual.
    """
    if len(timeline.windows) < _LEAST_USUAL:
        return 0.0
    neighbours = timeline.contrast_stretches(range(len(timeline.windows) + 1))
    return float(np.median(timeline.measure_sizes(neighbours)))


def join_stretches(
    timeline: Timeline, points: Sequence[ChangePoint], *, smallest_shift: float
) -> tuple[ChangePoint, ...]:
    """Leave out change points that matter little: the smallest first, until all are large enough.

    The stretches on both sides of one that is left out become one. Sizes are those of the stretches
    that remain.
    """
    kept = list(points)
    while kept:
        ends = [0, *(point.place for point in kept), len(timeline.windows)]
        sizes = timeline.measure_sizes(timeline.contrast_stretches(ends, by_weekday=True))
        smallest = int(np.argmin(sizes))
        if sizes[smallest] > smallest_shift:
            return tuple(
                replace(point, size=size) for point, size in zip(kept, sizes.tolist(), strict=True)
            )
        del kept[smallest]
    return ()


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
    contrasts = timeline.weekly_splits
    is_told = contrasts.spreads > _LEAST_SPREAD
    drawn = timeline.simulate(contrasts, rng=rng, n_years=n_years)
    mean, deviation = np.mean(drawn, axis=0), np.std(drawn, axis=0)
    deviation[:, ~is_told] = np.inf
    # Each statistic in its own deviations, the larger of them at each split.
    observed = timeline.measure(timeline.coordinates, contrasts)
    scores = np.max((observed - mean) / deviation, axis=0)
    largest = NullDraws(draws=np.max((drawn - mean) / deviation, axis=(1, 2)))
    clearest = int(np.argmax(scores))
    return ChangePoint(
        place=first + clearest + 1,
        window=timeline.windows[clearest + 1].name,
        p=largest.estimate_p(float(scores[clearest])) if np.any(is_told) else 1.0,
        size=float(timeline.measure_sizes(contrasts)[clearest]),
    )
