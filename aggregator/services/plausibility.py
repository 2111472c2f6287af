"""What no honest device can send: counts, sums and windows that the plan makes impossible."""

from __future__ import annotations

import numpy as np

from aggregator.ports import SketchRecord
from shared.errors import ImplausibleSketchError
from shared.plan import SketchPlan
from shared.wire import SketchHeader, decode_payload


def require_plausible(header: SketchHeader, payload: bytes, plan: SketchPlan) -> None:
    """Check a sketch by itself.

    Raises
    ------
    ImplausibleSketchError
        The payload's length, the number of records, the slots or a coordinate cannot be.
    """
    _require(
        header.payload_length == plan.payload_bytes,
        "payload",
        f"must have {plan.payload_bytes} bytes under this plan",
    )
    _require(
        header.n_public != plan.releases_count,
        "n_public",
        f"must be {str(not plan.releases_count).lower()} under {plan.release.neighbouring}",
    )
    if header.n_records is None:
        _require(
            header.slots == (header.sequence, header.sequence),
            "slots",
            "must be those of the sequence: sketch i covers slot i under add-remove-one",
        )
    else:
        _require(
            plan.least_records <= header.n_records <= plan.most_records,
            "n_records",
            f"must lie between {plan.least_records} and {plan.most_records} under this plan",
        )
    by_time = plan.window.kind == "time"
    _require(
        (header.slots is not None) == by_time,
        "slots",
        "must be given for windows by time" if by_time else "must be null for windows by count",
    )
    low, high = plan.coordinate_limits(header.n_records)
    sums = decode_payload(payload, width=plan.payload_width, n_coordinates=plan.n_coordinates)
    # Not the absolute value: that of the least 64-bit integer is negative.
    outside = np.flatnonzero((sums < low) | (sums > high))
    _require(
        not outside.size,
        "payload",
        f"has a coordinate beyond {high[outside[0]] if outside.size else 0}, the most that these "
        "records and the noise can reach",
    )


def require_disjoint(
    header: SketchHeader,
    below: SketchRecord | None,
    above: SketchRecord | None,
    *,
    most_records: int,
) -> None:
    """Check that a sketch covers no window that its neighbours in the stream cover.

    Two sketches share a slot only where the earlier one was closed early, at the most records.

    Raises
    ------
    ImplausibleSketchError
        It does.
    """
    if header.slots is None:
        return
    first, last = header.slots
    if below is not None and below.last_slot is not None:
        _require_order(below.last_slot, first, is_full=below.n_records == most_records)
    if above is not None and above.first_slot is not None:
        _require_order(last, above.first_slot, is_full=header.n_records == most_records)


def _require_order(last: int, next_first: int, *, is_full: bool) -> None:
    _require(
        next_first > last or (next_first == last and is_full),
        "slots",
        "make this a second sketch for the same window",
        "number the sketches of a stream in the order of their windows, one for each",
    )


def _require(holds: bool, field: str, rule: str, fix: str | None = None) -> None:
    if not holds:
        raise ImplausibleSketchError(
            rule, field=field, fix=fix or "check that the device runs this plan, unaltered"
        )
