"""The pattern of a week: windows compared with those of the same weekday and time of day.

    X_t = level of its stretch + effect of its place in the week

by least squares. What is compared is ``X_t`` without its effect: a contrast of windows, so that
simulated years without a change have its law, whatever the pattern is.

Effects of one stretch are its own. Features of records that have moved do not simply add up, so
effects that a short stretch takes over from the one before are a first guess: see
:meth:`sfumato.learning.insight.timeline.Timeline.find_borrowed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.insight.covariance import Floats

__all__ = [
    "LEAST_WEEKS",
    "choose_alike",
    "find_phases",
    "has_weeks",
    "place_stretches",
    "share_places",
    "subtract_weeks",
]

LEAST_WEEKS: Final = 5
"""Windows of each weekday: one that is judged, and four that it is compared with."""
_WEEK_S: Final = 604_800


def find_phases(starts: Sequence[float], length_s: float) -> tuple[int, ...] | None:
    """Return the place in the week of windows that begin at some times, seconds since 1970.

    None where no number of windows makes a week, or one is as long. A place is the same weekday and
    time of day in every zone, but for summer time.
    """
    if length_s >= _WEEK_S or _WEEK_S % length_s:
        return None
    return tuple(int(start % _WEEK_S // length_s) for start in starts)


def has_weeks(phases: Sequence[int] | NDArray[np.intp]) -> bool:
    """Return whether windows last so many weeks that their pattern is known."""
    counts = np.unique(np.array(phases), return_counts=True)[1]
    return bool(counts.size and np.median(counts) >= LEAST_WEEKS)


def choose_alike(
    phases: Sequence[int] | None, earlier: Sequence[int], later: Sequence[int]
) -> Sequence[int]:
    """Choose the last windows with the same shares of places in the week as later ones.

    All where the week is not known, and none where there are too few.
    """
    if phases is None:
        return earlier
    wanted = Counter(phases[t] for t in later)
    held = Counter(phases[t] for t in earlier)
    n_times = min(held[place] // n for place, n in wanted.items())
    left = {place: n_times * n for place, n in wanted.items()}
    chosen = []
    for t in reversed(earlier):
        if left.get(phases[t]):
            left[phases[t]] -= 1
            chosen.append(t)
    return chosen[::-1]


def share_places(
    phases: Sequence[int] | None, earlier: Sequence[int], later: Sequence[int]
) -> Sequence[int]:
    """Choose the windows of places in the week that later ones have too; all if it is not known."""
    if phases is None:
        return earlier
    places = {phases[t] for t in later}
    return [t for t in earlier if phases[t] in places]


def place_stretches(n_windows: int, begins: Sequence[int]) -> NDArray[np.intp]:
    """Return the number of each window's stretch, given the first windows of later ones."""
    return np.searchsorted(sorted(set(begins) - {0}), np.arange(n_windows), side="right")


def subtract_weeks(
    phases: Sequence[int], spreads: Floats, begins: Sequence[int] = (), *, borrows: bool = False
) -> Floats:
    """Return what takes the pattern of a week from windows: shape ``(T, T)``.

    Parameters
    ----------
    phases, spreads
        Place in the week of each window, and its variance: shapes ``(T,)``.
    begins
        First window of each later stretch.
    borrows
        Whether a stretch without enough weeks has the effects of the one before it.
    """
    places, n = np.array(phases), len(phases)
    stretch = place_stretches(n, begins)
    n_levels = int(stretch[-1]) + 1
    group = stretch
    if borrows:
        is_long = [has_weeks(places[stretch == each]) for each in range(n_levels)]
        group = np.maximum(0, np.cumsum(is_long) - 1)[stretch]
    kinds, member = np.unique(np.stack([group, places], axis=1), axis=0, return_inverse=True)
    levels, effects = np.eye(n_levels)[stretch], np.eye(len(kinds))[member.ravel()]
    root = 1.0 / np.sqrt(spreads)
    solved = np.linalg.pinv(root[:, None] * np.concatenate([levels, effects], axis=1)) * root
    found = solved[n_levels:]
    # A level may be counted as an effect of every place: the effects of a week sum to 0.
    same = (kinds[:, :1] == kinds[:, 0]).astype(float)
    found -= same @ found / np.sum(same, axis=1, keepdims=True)
    kept: Floats = np.eye(n) - effects @ found
    return kept
