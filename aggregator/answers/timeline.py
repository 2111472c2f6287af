"""Timelines: windows in order, each compared with all before, and the changes between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from sfumato.aggregator.answers.kind import Inputs, Slots, require_slots
from sfumato.aggregator.base.clock import show_utc
from sfumato.aggregator.base.sums.selection import Selection
from sfumato.aggregator.resources.keys.record import KeyScope
from sfumato.learning.answers.comparisons import describe_change, describe_common, describe_widths
from sfumato.learning.insight.changes import compute_levels
from sfumato.learning.insight.columns import describe_columns
from sfumato.learning.insight.history import Change, Estimate, History, Window
from sfumato.learning.insight.selection import Selection as Sketches
from sfumato.learning.insight.sizes import describe_size
from sfumato.learning.insight.spread import Spread
from sfumato.learning.insight.weeks import find_phases
from sfumato.learning.insight.windows import MOST_WINDOWS, follow_windows, require_windows
from sfumato.learning.looks.measurement import Measurement
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire.objects.analyses import (
    ChangePointBody,
    ColumnChangeBody,
    SpreadBody,
    TimelineBody,
    TimelineRequest,
    WindowBody,
    WindowClusterBody,
)
from sfumato.shared.wire.objects.answers import VerdictBody
from sfumato.shared.wire.objects.declaration import make_body, to_rfc3339

_YEAR_S = 365.25 * 86_400
_DAY_S = 86_400
_MOST_FINDINGS = 5


class TimelineKind:
    """When the records of a study changed, how surely, and in what."""

    request = TimelineRequest
    result = TimelineBody
    version = 1
    scope: KeyScope = "viewer"
    needs_devices = False

    def select(
        self, plan: SketchPlan, request: TimelineRequest, slots: Slots | None
    ) -> Sequence[Selection]:
        """Return the windows of the slots that hold sketches, or of those that are asked for."""
        require_slots(plan)
        first, last = _find_ends(request, slots)
        length = request.slots_per_window
        n_windows = -(-(last - first + 1) // length)
        if n_windows > MOST_WINDOWS:
            raise ConfigError(
                f"gives {n_windows} windows, and must give at most {MOST_WINDOWS}",
                field="slots_per_window",
                fix=f"make it at least {-(-(last - first + 1) // MOST_WINDOWS)}, or choose a "
                "shorter stretch",
            )
        # Here and not by the worker: the request is at fault.
        compute_levels(
            1,
            windows_per_year=_count_windows_per_year(plan, request),
            alarms_per_year=request.false_alarms_per_year,
        )
        return [
            Selection(
                first_slot=start,
                last_slot=min(start + length - 1, last),
                labels=request.labels,
            )
            for start in range(first, last + 1, length)
        ]

    def find_shared(self, request: TimelineRequest) -> Selection | None:
        """Return None: windows follow each other."""
        return None

    def name_parts(
        self, plan: SketchPlan, request: TimelineRequest, selections: Sequence[Selection]
    ) -> list[str]:
        """Name windows by their slots and their beginnings."""
        return [_name_window(plan, selection) for selection in selections]

    def require(self, inputs: Inputs, request: TimelineRequest) -> None:
        """Refuse too few windows that can be read, and sums that k clusters cannot be fitted to."""
        require_windows(
            inputs.plan,
            _list_windows(inputs),
            windows_per_year=_count_windows_per_year(inputs.plan, request),
            alarms_per_year=request.false_alarms_per_year,
        )
        inputs.require_clusters(request.n_clusters)

    def compute(
        self,
        inputs: Inputs,
        request: TimelineRequest,
        *,
        progress: Callable[[float], None],
        cancelled: Callable[[], bool],
    ) -> History:
        """Follow the windows."""
        return follow_windows(
            inputs.plan,
            _list_windows(inputs),
            n_clusters=request.n_clusters,
            windows_per_year=_count_windows_per_year(inputs.plan, request),
            alarms_per_year=request.false_alarms_per_year,
            smallest_shift=request.smallest_shift,
            seed=request.seed,
            names=[part.name for part in inputs.parts],
            accepted=_find_accepted(inputs, request),
            follows_changes=request.reference == "last-change",
            phases=_find_phases(inputs, request),
            progress=progress,
            cancelled=cancelled,
        )

    def describe(self, inputs: Inputs, request: TimelineRequest, answer: History) -> TimelineBody:
        """Return the windows as a body."""
        looks = inputs.measure(answer.model.fit.means)
        n_measured = sum(each is not None for each in looks)
        words = [f"shares of {n_measured} of {len(looks)} windows are measured by a second look"]
        windows = [
            _describe_window(
                inputs.plan,
                part.selection,
                window,
                measured,
                is_last=i == answer.last,
                spread=answer.spreads.get(i),
            )
            for i, (part, window, measured) in enumerate(
                zip(inputs.parts, answer.windows, looks, strict=True)
            )
        ]
        points = [
            _describe_change_point(inputs, change, answer.spreads.get(change.window))
            for change in answer.changes
        ]
        for point in points:
            window = windows[point.window]
            if window.finding and not any(each.is_named for each in window.columns):
                windows[point.window] = replace(window, finding=point.finding)
        findings = {i: window.finding for i, window in enumerate(windows) if window.finding}
        findings |= {point.window: point.finding for point in points if point.finding}
        told = [findings[i] for i in sorted(findings, reverse=True)[:_MOST_FINDINGS]]
        common = describe_common(
            inputs.plan,
            answer.model,
            [*told, *answer.describe(), *(words if n_measured else [])],
            answer.assumptions,
            digests=inputs.digests,
        )
        return TimelineBody(
            kind="timeline",
            **common,
            windows=windows,
            change_points=points,
            level=answer.level,
            smallest_shift=answer.smallest_shift,
            usual=answer.usual,
            by_weekday=answer.by_weekday,
        )


def join_windows(inputs: Inputs, numbers: Sequence[int]) -> list[Selection]:
    """Return the selections of windows, those of neighbours in one."""
    joined: list[Selection] = []
    for i, number in enumerate(numbers):
        selection = inputs.parts[number].selection
        if i and numbers[i - 1] == number - 1:
            joined[-1] = replace(joined[-1], last_slot=selection.last_slot)
        else:
            joined.append(selection)
    return joined


def _find_accepted(inputs: Inputs, request: TimelineRequest) -> list[int]:
    """Return the numbers of the windows that hold the slots of accepted changes."""
    if request.reference == "all-before":
        return []
    slots = request.accepted_slots or ()
    return [
        number
        for number, (first, last) in enumerate(_slots_of(part.selection) for part in inputs.parts)
        if any(first <= slot <= last for slot in slots)
    ]


def _find_phases(inputs: Inputs, request: TimelineRequest) -> tuple[int, ...] | None:
    """Return the place of each window in the week."""
    window = inputs.plan.window
    starts = [window.slot_bounds(_slots_of(part.selection)[0])[0] for part in inputs.parts]
    return find_phases(starts, window.length_s * request.slots_per_window)


def _find_ends(request: TimelineRequest, slots: Slots | None) -> Slots:
    if slots is None:
        raise ConfigError(
            "contains no sketch", field="selection", fix="wait until devices have sent some"
        )
    first = slots[0] if request.first_slot is None else request.first_slot
    # Slots without sketches have no answer, and their times may be beyond every calendar.
    last = slots[1] if request.last_slot is None else min(slots[1], request.last_slot)
    if first > last:
        raise ConfigError(
            "must be at or before last_slot, and before the last sketch",
            field="first_slot",
            fix=f"choose from slots {slots[0]} to {slots[1]}, which hold sketches",
        )
    return first, last


def _count_windows_per_year(plan: SketchPlan, request: TimelineRequest) -> float:
    return _YEAR_S / (plan.window.length_s * request.slots_per_window)


def _list_windows(inputs: Inputs) -> list[Sketches | str]:
    return [
        part.doubt or "contains no sketch" if part.snapshot is None else part.require()
        for part in inputs.parts
    ]


def _name_window(plan: SketchPlan, selection: Selection) -> str:
    first, last = _slots_of(selection)
    start, _ = plan.window.slot_bounds(first)
    time = datetime.fromtimestamp(start, UTC)
    is_by_day = plan.window.length_s % _DAY_S == 0 and start % _DAY_S == 0
    date = time.strftime("%Y-%m-%d" if is_by_day else "%Y-%m-%d %H:%M")
    slots = f"slot {first}" if first == last else f"slots {first} to {last}"
    return f"{date} ({slots})"


def _slots_of(selection: Selection) -> Slots:
    assert selection.first_slot is not None
    assert selection.last_slot is not None
    return selection.first_slot, selection.last_slot


def _describe_finding(
    what: str, start: float, end: float | None = None, spread: Spread | None = None
) -> str:
    """Describe a change, since when it is or from when to when it was, and in how many devices."""
    time = f"since {show_utc(start)}"
    if end is not None:
        time = f"from {show_utc(start)} to {show_utc(end)}"
    where = "" if spread is None else spread.words
    return f"{what} {time}, {where}" if where else f"{what} {time}"


def _describe_window(
    plan: SketchPlan,
    selection: Selection,
    window: Window,
    measured: Measurement | None,
    *,
    is_last: bool,
    spread: Spread | None,
) -> WindowBody:
    first, last = _slots_of(selection)
    reading = window.reading
    start, end = plan.window.slot_bounds(first)[0], plan.window.slot_bounds(last)[1]
    finding = None
    if window.is_alarm and reading is not None:
        size = describe_size(reading.size, window.size_error or 0.0, is_certain=True)
        what = describe_columns(plan, window.columns) or f"the records differ {size},"
        finding = _describe_finding(what, start, None if is_last else end, spread)
    return make_body(
        WindowBody,
        window,
        first_slot=first,
        last_slot=last,
        start=to_rfc3339(start),
        end=to_rfc3339(end),
        finding=finding,
        devices=None if spread is None else make_body(SpreadBody, spread),
        columns=[
            make_body(ColumnChangeBody, each, name=axis.name, unit=axis.unit)
            for each, axis in zip(window.columns, plan.axes, strict=bool(window.columns))
        ],
        p=None if reading is None else reading.p,
        size=None if reading is None else reading.size,
        level=None if reading is None else reading.level,
        verdict=window.estimate and make_body(VerdictBody, window.estimate.verdict),
        clusters=window.estimate and _list_estimates(plan, window.estimate, measured),
    )


def _list_estimates(
    plan: SketchPlan, found: Estimate, measured: Measurement | None
) -> list[WindowClusterBody]:
    weights = found.weights if measured is None else measured.shares
    weight_errors = found.weight_errors if measured is None else measured.shares_error
    has_errors = not bool(np.isnan(found.weight_errors).any())
    shown, errors = describe_widths(plan, found.centres, np.nan_to_num(found.centre_errors))
    return [
        WindowClusterBody(
            weight=float(weights[i]),
            weight_error=float(weight_errors[i]) if has_errors or measured else None,
            is_measured=measured is not None,
            centre=shown[i].tolist(),
            centre_error=errors[i].tolist() if has_errors else None,
        )
        for i in range(len(found.weights))
    ]


def _describe_change_point(
    inputs: Inputs, change: Change, spread: Spread | None
) -> ChangePointBody:
    found = change.comparison
    first, _ = _slots_of(inputs.parts[change.window].selection)
    start, size = inputs.plan.window.slot_bounds(first)[0], found.describe_size()
    # Where no mean is certain, a cluster may tell what changed.
    named = found.named[0].describe() if found.named else f"the records differ {size},"
    what = describe_columns(inputs.plan, change.columns) or named
    return ChangePointBody(
        window=change.window,
        start=to_rfc3339(start),
        p=change.p,
        size=found.size,
        size_error=found.size_error,
        words=f"{size}; {change.describe_named()}",
        finding=_describe_finding(what, start, spread=spread),
        devices=None if spread is None else make_body(SpreadBody, spread),
        changes=[describe_change(each) for each in found.changes],
    )
