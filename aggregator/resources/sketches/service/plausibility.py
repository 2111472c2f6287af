"""Plausibility: refuse counts, sums and windows that the plan makes impossible."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.aggregator.resources.devices.record import DeviceRecord
from sfumato.aggregator.resources.sketches.record import SketchRecord
from sfumato.learning.estimate.histogram import BinNoise
from sfumato.shared.errors import ImplausibleSketchError, TooEarlyError, WindowExpiredError
from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.plausibility import HONEST_BITS
from sfumato.shared.wire import CLOCK_LEEWAY_S, PayloadForm, SketchHeader

_LEAST_VARIANCE = 1e-12
"""Where an absurd epsilon leaves no noise at all."""


def require_plausible(header: SketchHeader, payload: bytes, plan: SketchPlan) -> None:
    """Check a sketch by itself.

    Raises
    ------
    ImplausibleSketchError
        The kind, the payload's length, the number of records, the slots, a coordinate or the norm
        of all coordinates is impossible.
    """
    _require(
        header.kind == plan.release.kind, "kind", f"must be {plan.release.kind} under this plan"
    )
    length = PayloadForm.of(plan).length
    _require(
        header.payload_length == length, "payload", f"must have {length} bytes under this plan"
    )
    _require(
        header.n_public != plan.releases_count,
        "n_public",
        f"must be {str(not plan.releases_count).lower()} under {plan.release.neighbouring}",
    )
    if plan.sum_release is not None:
        is_single = header.slots is not None and header.slots[0] == header.slots[1]
        _require(is_single, "slots", "must be one slot with a secure sum")
    if header.n_records is None:
        _require(
            header.slots == (header.sequence, header.sequence),
            "slots",
            "must be those of the sequence: sketch i covers slot i under add-remove-one",
        )
    else:
        least, most = plan.size_limits
        _require(
            least <= header.n_records <= most,
            "n_records",
            f"must lie between {least} and {most} under this plan"
            if least < most
            else f"must be {least} under this plan",
        )
    _require_block(header.block, plan)
    by_time = plan.window.kind == "time"
    _require(
        (header.slots is not None) == by_time,
        "slots",
        "must be given for windows by time" if by_time else "must be null for windows by count",
    )
    n_slots = plan.window.n_slots
    _require(
        n_slots is None or header.slots is None or header.slots[1] < n_slots,
        "slots",
        f"must lie below {n_slots}: the study has an end",
    )
    if plan.sum_release is not None:
        return  # masked: every integer is one that an honest device may send
    (sums,) = PayloadForm.of(plan).decode(payload)
    if plan.reports_phases:
        return  # every place on the circle is one that an honest device may report
    _require_each(sums, header.n_records, plan)
    _require_together(sums, header.n_records, plan)
    _require_totals(sums, header, plan)


def _require_block(block: int | None, plan: SketchPlan) -> None:
    # Any block has the same sensitivity, and a device that lies may choose its slots instead. So
    # the rule by which a device chooses is not checked.
    n_blocks = plan.blocks.n_blocks
    if plan.is_split:
        is_known = block is not None and block < n_blocks
        _require(is_known, "block", f"must be a number below {n_blocks} under this plan")
    else:
        _require(block is None, "block", "must be absent: a sketch of this plan has every feature")


def _require_each(sums: NDArray[np.int64], n_records: int | None, plan: SketchPlan) -> None:
    # Not the absolute value: that of the least 64-bit integer is negative.
    largest = plan.largest_coordinate(n_records)
    is_symmetric = plan.value_range[0] < 0 and not plan.releases_count
    if is_symmetric and -largest <= sums.min() and sums.max() <= largest:
        return
    low, high = plan.coordinate_limits(n_records)
    outside = np.flatnonzero((sums < low) | (sums > high))
    _require(
        not outside.size,
        "payload",
        f"cannot have a coordinate beyond {high[outside[0]] if outside.size else 0}, the largest "
        "for these records and the noise",
    )


def _require_together(sums: NDArray[np.int64], n_records: int | None, plan: SketchPlan) -> None:
    """Bound the influence of a lying device; an honest sketch is refused once in 2^40 times."""
    if n_records is None:
        # The largest number that the released one allows: noise never exceeds its bound.
        reached = int(sums[-1]) + plan.mechanism.noise_bound
        n_records = min(plan.most_records, max(0, reached) // plan.count_scale)
    features = sums[: plan.n_features].astype(np.float64)
    limit = plan.bound_squared_norm(n_records)
    _require(
        float(features @ features) <= limit,
        "payload",
        f"cannot have a norm above {math.sqrt(limit):.6g}, the largest for {n_records} records and "
        "their noise",
    )


def _require_totals(sums: NDArray[np.int64], header: SketchHeader, plan: SketchPlan) -> None:
    """Check that the counts of each dimension, or of a grid, add up to the number of records.

    An honest sketch is refused once in 2^40 times: the bound is Chernoff's, for all sums together.
    """
    groups = plan.find_counted(block=header.block or 0)
    if not groups:
        return
    # A secret number carries the noise of one more bin.
    n_records = int(sums[-1]) if header.n_records is None else header.n_records
    noise = BinNoise(
        variance=max(plan.mechanism.variance, _LEAST_VARIANCE),
        is_gaussian=plan.privacy_target.delta > 0,
    )
    widths = np.array([place.stop - place.start for place in groups], dtype=np.float64)
    exponent = HONEST_BITS * math.log(2.0) + math.log(2.0 * len(groups))
    limits = noise.bound(widths + int(plan.releases_count), exponent)
    for place, limit in zip(groups, limits.tolist(), strict=True):
        _require(
            abs(int(sums[place].sum()) - n_records) <= math.ceil(limit),
            "payload",
            f"cannot have counts that differ from the {n_records} records by more than {limit:.6g},"
            " the largest sum of their noise",
        )


def require_disjoint(
    header: SketchHeader,
    below: SketchRecord | None,
    above: SketchRecord | None,
    plan: SketchPlan,
) -> None:
    """Check that a sketch covers no window of its neighbours in the stream.

    Two sketches may share a slot only where the earlier one closed early, at the most records;
    never where the unit is a device.

    Raises
    ------
    ImplausibleSketchError
        A window is covered twice.
    """
    if header.slots is None:
        return
    first, last = header.slots
    most_records = None if plan.protects_devices else plan.most_records
    if below is not None and below.last_slot is not None:
        _require_order(below.last_slot, first, is_full=below.n_records == most_records)
    if above is not None and above.first_slot is not None:
        _require_order(last, above.first_slot, is_full=header.n_records == most_records)


def require_not_replaced(header: SketchHeader, device: DeviceRecord) -> None:
    """Check that no slot is one that the device's predecessor may have sent.

    Raises
    ------
    ImplausibleSketchError
        A slot lies before the first that is taken of this device.
    """
    if header.slots is not None and header.slots[0] < device.begins:
        raise ImplausibleSketchError(
            f"must be {device.begins} or later: the device that this one replaces has sent those "
            "before",
            field="slots",
            fix="leave out records of slots before `begins`, as `GET /v1/devices/me` states it",
        )


def require_in_time(header: SketchHeader, plan: SketchPlan, *, now: float) -> None:
    """Check that a batch of a secure sum still takes the report of a slot.

    Raises
    ------
    WindowExpiredError
        The slot ended too long ago.
    """
    release = plan.sum_release
    if release is None or header.slots is None:
        return
    _, end = plan.window.slot_bounds(header.slots[1])
    if now >= end + release.late_s:
        raise WindowExpiredError(
            f"cannot have ended {release.late_s} s ago or before: the plan's late_s has passed",
            field="slots",
            fix="let the device connect more often, or publish a study with a larger late_s",
        )


def require_begun(header: SketchHeader, plan: SketchPlan, *, now: float) -> None:
    """Check that the window of a sketch has begun, up to the clock leeway.

    It may not have ended: at the most records a window closes early. So a lying device has no more
    windows than have begun.

    Raises
    ------
    TooEarlyError
        The window has not begun; the error says when to send again.
    """
    if header.slots is None:
        return
    start, _ = plan.window.slot_bounds(header.slots[1])
    early_by = start - CLOCK_LEEWAY_S - now
    if early_by > 0:
        raise TooEarlyError(
            f"cannot begin more than {CLOCK_LEEWAY_S} s after the server's time",
            field="slots",
            fix="set the device's clock, and send the same after the seconds in Retry-After",
            retry_after_s=math.ceil(early_by),
        )


def _require_order(last: int, next_first: int, *, is_full: bool) -> None:
    _require(
        next_first > last or (next_first == last and is_full),
        "slots",
        "cannot overlap the window of another sketch",
        "number the sketches of a stream in the order of their windows, one for each",
    )


def _require(holds: bool, field: str, rule: str, fix: str | None = None) -> None:
    if not holds:
        raise ImplausibleSketchError(
            rule, field=field, fix=fix or "check that the device runs this plan, unaltered"
        )
