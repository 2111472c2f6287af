"""The history of a study: its windows in order, what each holds, and the changes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sfumato.learning.decoding.verdict import Verdict
from sfumato.learning.insight.changes import Reading
from sfumato.learning.insight.columns import ColumnChange, Means
from sfumato.learning.insight.comparison import Comparison
from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.spread import Spread

__all__ = ["Change", "Estimate", "History", "Stretches", "Window"]

_MOST_TOLD: Final = 3

Stretches = tuple[Sequence[int], Sequence[int]]
"""Numbers of the windows before a change, and of those after it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """The clusters in one window, decoded by descent from the common fit.

    Parameters
    ----------
    verdict
        How far to trust them, as of any decode; one that is not to be used is no estimate.
    weights, weight_errors
        Shapes ``(k,)``, summing to 1; errors are NaN where the verdict forbids them.
    centres, centre_errors
        Shapes ``(k, d)``, units of the fit.
    means
        Means of the columns; None where the verdict forbids their errors.
    """

    verdict: Verdict
    weights: Floats
    weight_errors: Floats
    centres: Floats
    centre_errors: Floats
    means: Means | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Window:
    """One window.

    Parameters
    ----------
    name
        Name of its selection.
    n_records, n_sketches, snr
        Its records, or an estimate where they are secret; its sketches; its signal-to-noise ratio.
    reading, size_error
        The comparison with the readable windows of its reference; None for the first.
    reference
        Number of the first window of that reference, from 0, unreadable ones counted.
    is_accepted
        Whether a change at it was accepted: it begins a reference.
    columns
        Changes of columns from its reference.
    is_first_of_weekday
        Whether it is the only one of its weekday since the last change; then it is an alarm only
        if a column tells so too, as surely.
    estimate
        Its clusters.
    unknown
        Why nothing is known of its clusters, although it can be read and compared.
    doubt
        Why it cannot be read; then the others are None.
    """

    name: str
    n_records: int
    n_sketches: int
    snr: float | None = None
    reading: Reading | None = None
    size_error: float | None = None
    reference: int | None = None
    is_accepted: bool = False
    columns: tuple[ColumnChange, ...] = ()
    is_first_of_weekday: bool = False
    estimate: Estimate | None = None
    unknown: str | None = None
    doubt: str | None = None

    @property
    def is_alarm(self) -> bool:
        """Whether it differs from its reference, and nobody has accepted that."""
        if self.reading is None or not self.reading.is_alarm or self.is_accepted:
            return False
        level = self.reading.level
        return not self.is_first_of_weekday or any(each.p < level for each in self.columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class Change:
    """A change between two windows.

    Parameters
    ----------
    window
        Number of the first window after it, from 0, unreadable ones counted.
    p
        p-value of the scan: the probability of a change this clear anywhere, where nothing has
        changed.
    comparison
        From the windows since the change before to those until the next change.
    columns
        Changes of columns from the ones to the others.
    """

    window: int
    p: float
    comparison: Comparison
    columns: tuple[ColumnChange, ...] = ()

    def describe_named(self) -> str:
        """Describe the surest changes of clusters in words."""
        told = [change.describe() for change in self.comparison.named[:_MOST_TOLD]]
        return "; ".join(told) or "no change of a single cluster can be named"


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """Windows in order, and the changes between them.

    Parameters
    ----------
    model
        Model of all readable windows together.
    windows, changes
        In order.
    level, smallest_shift
        Limits of an alarm: of the p-value of a window, and of its size.
    usual
        The usual change of neighbouring windows.
    by_weekday
        Whether windows are compared by weekday; None where they have none.
    newest
        The windows before and after the newest change, and the newest alarm: by window.
    spreads
        In how many devices they are, by window.
    assumptions
        Assumptions of the p-values in words.
    """

    model: StudyModel
    windows: tuple[Window, ...]
    changes: tuple[Change, ...]
    level: float
    smallest_shift: float
    usual: float
    assumptions: tuple[str, ...]
    by_weekday: bool | None = None
    newest: Mapping[int, Stretches] = field(default_factory=dict)
    spreads: Mapping[int, Spread] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """Number of the last window that is compared; 0 without one."""
        return max(i for i, each in enumerate(self.windows) if each.reading or not i)

    def describe(self) -> tuple[str, ...]:
        """Describe the history in words, doubts first."""
        unread = [window for window in self.windows if window.doubt is not None]
        alarms = [window for window in self.windows if window.is_alarm]
        readable = len(self.windows) - len(unread)
        told = []
        if unread:
            told.append(
                f"{len(unread)} of {len(self.windows)} windows cannot be read: {unread[0].doubt}"
            )
        if alarms and self.by_weekday is False:
            told.append("not yet compared with the same weekday, which needs four weeks before")
        if self.changes:
            for change in self.changes:
                name, size = self.windows[change.window].name, change.comparison.describe_size()
                told.append(f"a change at {name}: {size}; {change.describe_named()}")
        else:
            told.append(f"no change between {readable} windows is known")
        if alarms:
            listed = ", ".join(window.name for window in alarms)
            told.append(f"unlike the windows that they are compared with: {listed}")
        return tuple(told)
