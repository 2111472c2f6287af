"""Rules of the fields that a person chooses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sfumato.shared.plan.campaign import require_phase
from sfumato.shared.plan.dimensions import require, require_plain
from sfumato.shared.plan.parts import MOST_LATE_S, Helper, SumRelease
from sfumato.shared.plan.statistics import HistogramPart
from sfumato.shared.sharing.seals import is_usable_key

if TYPE_CHECKING:
    from sfumato.shared.plan.model import SketchPlan

FORMAT_VERSION = 1
RING_BITS = 64
MAX_LABEL_SETS = 64
MAX_STREAMS = 1000
MAX_HELPER_NAME = 64
MOST_REPORTS = 1 << 32
MOST_PARTS = 64
_YEAR_10000 = 253_402_300_800


def require_valid(plan: SketchPlan) -> None:
    """Check the fields that a person chooses.

    Raises
    ------
    PlanError, PrivacyError
        A field breaks its rule.
    """
    require(plan.format_version == FORMAT_VERSION, "format_version", "must be 1")
    require(plan.ring_bits == RING_BITS, "ring_bits", f"must be {RING_BITS} in version 1")
    plan.statistic.require_valid(plan.space)
    _require_combination(plan)
    _require_all_carried(plan)
    require(plan.release.epsilon > 0, "epsilon", "must be greater than zero", 'use "1" or "1/10"')
    if plan.protects_devices:
        _require_devices_protected(plan)
    if plan.sum_release is not None:
        _require_summable(plan, plan.sum_release)
    if plan.releases_count:
        _require_presence_hidden(plan)
    else:
        require(plan.least_records >= 1, "least_records", "must be at least 1")
    require(
        plan.least_records <= plan.most_records,
        "most_records",
        "must be at least least_records",
        "raise most_records or lower least_records",
    )
    require(plan.most_sketches >= 1, "most_sketches", "must be at least 1")
    require(
        1 <= plan.most_sketches_per_device <= plan.most_sketches,
        "most_sketches_per_device",
        f"must be between 1 and most_sketches = {plan.most_sketches}",
        "leave it out for an eighth of most_sketches",
    )
    require(
        1 <= plan.most_streams_per_device <= MAX_STREAMS,
        "most_streams_per_device",
        f"must be between 1 and {MAX_STREAMS}",
        "leave it out for 16",
    )
    for name in ("max_records_per_person", "most_clusters"):
        number = getattr(plan, name)
        require(number is None or number >= 1, name, 'must be at least 1, or "unknown"')
    _require_window(plan)
    _require_labels(plan)
    if plan.campaign is not None:
        require_phase(plan, plan.campaign)


def _require_combination(plan: SketchPlan) -> None:
    """Refuse releases that a statistic does not go with."""
    if plan.kind == "fourier":
        return
    require(
        not plan.reports_phases or plan.kind == "histogram",
        "release",
        f'must be "local.v1" with a {plan.kind}: reports are of Fourier features or of bins',
        'leave it out, or use statistic = "fourier" or "histogram"',
    )
    if plan.reports_phases and isinstance(plan.statistic, HistogramPart):
        plan.statistic.require_reportable(plan.space)
    require(
        not plan.protects_devices or plan.most_records == 1,
        "most_records",
        f'must be 1 with a {plan.kind} and unit = "device": a mean of counts would be 0',
        "use 1, so that a slot counts its first record alone",
    )


def _require_all_carried(plan: SketchPlan) -> None:
    n_blocks = plan.blocks.n_blocks
    require(
        plan.most_sketches >= n_blocks,
        "most_sketches",
        f"must be at least {n_blocks}: each sketch carries one of {n_blocks} parts of what is "
        "summed, and fewer sketches leave some that no sketch carries",
        "raise it, or let a sketch carry more",
    )


def _require_presence_hidden(plan: SketchPlan) -> None:
    """Check the rules of add-remove-one: only noised sums may depend on who is present."""
    where = "under add-remove-one"
    require(
        plan.window.kind == "time",
        "window.kind",
        f'must be "time" {where}: a window by count closes at a time that reveals how many records '
        "there are",
        'use windows by time, or neighbouring = "replace-one"',
    )
    require(
        0 < plan.window.origin < _YEAR_10000,
        "window.origin",
        f"must be the start of the study {where}: a sketch is released for every slot since then, "
        "empty ones too",
        "give it in seconds since 1970-01-01 UTC, chosen before any data are looked at",
    )
    require(
        plan.least_records == 0,
        "least_records",
        f"must be 0 {where}: carrying few records over would reveal that there are few",
        "leave it out",
    )
    require(
        not plan.has_masks,
        "measurements_per_record",
        f"must equal n_frequencies {where}: an absent record shifts the counter, and with it the "
        "masks, of all records that follow",
        "leave it out",
    )


def _require_devices_protected(plan: SketchPlan) -> None:
    """Check the rules of ``unit = "device"``: one sketch a slot holds all that a device says."""
    where = 'where the unit is a "device"'
    require(
        plan.release.neighbouring == "replace-one",
        "neighbouring",
        f'must be "replace-one" {where}: that a device has records in a slot is public',
        'leave it out, or use unit = "record"',
    )
    require(
        plan.window.kind == "time",
        "window.kind",
        f'must be "time" {where}: windows by count come as often as there are records',
        'use windows by time, or unit = "record"',
    )
    require(
        plan.least_records == 1,
        "least_records",
        f"must be 1 {where}: a sketch with few records does not wait for more",
        "leave it out",
    )
    require(
        not plan.has_masks,
        "measurements_per_record",
        f"must equal n_frequencies {where}: the records of a window would have different masks",
        "leave it out",
    )
    require(
        plan.most_streams_per_device == 1,
        "most_streams_per_device",
        f"must be 1 {where}: every stream would release a sketch of the same slot",
        "leave it out",
    )
    require(
        plan.max_records_per_person is None,
        "max_records_per_person",
        f"must be left out {where}: all records of a window are protected together",
        "leave it out",
    )
    if plan.reports_phases:
        require(
            plan.most_records == 1,
            "most_records",
            "must be 1 with phase reports: a slot reports its first record alone",
            "leave it out",
        )


def _require_summable(plan: SketchPlan, release: SumRelease) -> None:
    """Check the rules of a secure sum: every report is of one slot, and carries all features."""
    where = "with a secure sum"
    require(
        not plan.is_split,
        "release",
        f"must be another where a sketch carries only some features: {where} noise is no reason to",
        'leave out frequencies_per_sketch or dimensions_per_sketch, or use release = "local.v1"',
    )
    require(
        plan.window.kind == "time",
        "window.kind",
        f'must be "time" {where}: a batch holds the reports of one slot',
        'use windows by time, or release = "local.v1"',
    )
    require(
        plan.least_records <= 1,
        "least_records",
        f"must be 1 {where}, or 0 under add-remove-one: no report waits for more records",
        "leave it out",
    )
    require(
        2 <= release.least_reports <= release.most_reports,
        "least_reports",
        f"must be between 2 and most_reports = {release.most_reports}",
        "leave it out for 100, or raise most_reports",
    )
    require(
        release.most_reports <= MOST_REPORTS,
        "most_reports",
        f"must be at most 2^{MOST_REPORTS.bit_length() - 1}",
        "leave it out",
    )
    require(
        1 <= release.parts <= MOST_PARTS,
        "parts",
        f"must be between 1 and {MOST_PARTS}",
        "use 1 for devices of your own, or 16 for phones",
    )
    require(
        0 <= release.grace_s <= release.late_s,
        "grace_s",
        f"must be between 0 and late_s = {release.late_s}",
        "leave it out for an hour",
    )
    require(
        release.late_s <= MOST_LATE_S,
        "late_s",
        f"must be at most {MOST_LATE_S} seconds: agents keep what they have sent for so long",
        "leave it out",
    )
    if release.helper is not None:
        _require_helper(release.helper)


def _require_helper(helper: Helper) -> None:
    name = helper.name
    require(
        1 <= len(name) <= MAX_HELPER_NAME,
        "release.helper.name",
        f"must have 1 to {MAX_HELPER_NAME} characters",
        "name the organisation that runs the helper",
    )
    require_plain("release.helper.name", name)
    for part, size in (("identity", 32), ("key", 32), ("endorsement", 64)):
        require(
            len(getattr(helper, part)) == size,
            f"release.helper.{part}",
            f"must be {size} bytes",
            "let the helper's operator accept the draft again",
        )
    require(
        is_usable_key(helper.key),
        "release.helper.key",
        "must be an X25519 key that is not of small order",
        "let the helper's operator accept the draft again",
    )


def _require_window(plan: SketchPlan) -> None:
    window = plan.window
    if window.kind == "time":
        require(window.length_s >= 1, "window.length_s", "must be at least 1 second")
        require(window.length == 0, "window.length", "must be 0 for windows by time")
        _require_bounds(plan)
        return
    require(
        not plan.is_bounded,
        "late_rule",
        'must be "open-window" for windows by count, which know no times',
        "leave it out, or use windows by time",
    )
    require(window.length >= 1, "window.length", "must be at least 1 record")
    require(
        window.length_s == 0 and window.origin == 0 and window.end is None,
        "window.length_s",
        "and origin must be 0 for windows by count, and end must be left out",
    )
    require(
        plan.least_records <= window.length <= plan.most_records,
        "window.length",
        "must lie between least_records and most_records",
    )


def _require_bounds(plan: SketchPlan) -> None:
    """Check the times outside of which records are left out."""
    window = plan.window
    if not plan.is_bounded:
        require(
            window.end is None,
            "window.end",
            'must be left out with late_rule = "open-window"',
            'leave it out, or write late_rule = "leave-out-outside"',
        )
        return
    require(
        0 < window.origin < _YEAR_10000,
        "window.origin",
        'must be the start of the study with late_rule = "leave-out-outside"',
        "give it in seconds since 1970-01-01 UTC",
    )
    require(
        window.end is None
        or (
            window.origin < window.end < _YEAR_10000
            and (window.end - window.origin) % window.length_s == 0
        ),
        "window.end",
        "must be a whole number of slots after origin",
        "add a multiple of length_s to origin",
    )


def _require_labels(plan: SketchPlan) -> None:
    names = [label.name for label in plan.labels]
    require(len(set(names)) == len(names), "labels", "names must differ")
    for label in plan.labels:
        require(
            bool(label.name) and bool(label.values) and len(set(label.values)) == len(label.values),
            f"labels.{label.name or '?'}",
            "must have a name and values that differ",
        )
        require_plain(f"labels.{label.name}", label.name, *label.values)
    n_sets = math.prod(len(label.values) for label in plan.labels)
    require(
        n_sets <= MAX_LABEL_SETS,
        "labels",
        f"declare {n_sets} label sets; at most {MAX_LABEL_SETS} are allowed",
        "declare fewer labels or values",
    )
