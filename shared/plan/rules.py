"""Rules of the fields that a person chooses."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shared.core import AMPLITUDE
from shared.core.seeds import SEED_BYTES
from shared.core.text import PLAIN_TEXT_FIX, PLAIN_TEXT_RULE, is_plain
from shared.errors import PlanError

if TYPE_CHECKING:
    from shared.plan.model import SketchPlan

FORMAT_VERSION = 1
RING_BITS = 64
MAX_LABEL_SETS = 64
MAX_STREAMS = 1000
MAX_FREQUENCIES = 1 << 20
MAX_MATRIX = 1 << 24
"""Entries of the frequency matrix, which every device draws."""
_YEAR_10000 = 253_402_300_800


def require_valid(plan: SketchPlan) -> None:
    """Check the fields that a person chooses.

    Raises
    ------
    PlanError, PrivacyError
        A field breaks its rule.
    """
    _require(plan.format_version == FORMAT_VERSION, "format_version", "must be 1")
    _require(plan.amplitude == AMPLITUDE, "amplitude", f"must be {AMPLITUDE} in version 1")
    _require(plan.ring_bits == RING_BITS, "ring_bits", f"must be {RING_BITS} in version 1")
    _require(len(plan.seed) == SEED_BYTES, "seed", f"must be {SEED_BYTES} bytes")
    _require_dimensions(plan)
    m, r = plan.n_frequencies, plan.measurements_per_record
    _require(
        1 <= m <= MAX_FREQUENCIES,
        "n_frequencies",
        f"must be between 1 and {MAX_FREQUENCIES}",
        "use 2 to 5 times the number of clusters times the number of dimensions",
    )
    _require(
        m * plan.n_dimensions <= MAX_MATRIX,
        "n_frequencies",
        f"times the number of dimensions must be at most {MAX_MATRIX}",
        "use fewer of either: every device computes the whole matrix",
    )
    _require(
        1 <= r <= m and m % r == 0,
        "measurements_per_record",
        f"must be a divisor of n_frequencies ({m}) and is {r}",
        "choose a divisor, or leave it out to use every feature",
    )
    _require_whole_blocks(plan)
    _require(plan.release.epsilon > 0, "epsilon", "must be greater than zero", 'use "1" or "1/10"')
    if plan.protects_devices:
        _require_devices_protected(plan)
    if plan.releases_count:
        _require_presence_hidden(plan)
    else:
        _require(plan.least_records >= 1, "least_records", "must be at least 1")
    _require(
        plan.least_records <= plan.most_records,
        "most_records",
        "must be at least least_records",
        "raise most_records or lower least_records",
    )
    _require(plan.most_sketches >= 1, "most_sketches", "must be at least 1")
    _require(
        1 <= plan.most_sketches_per_device <= plan.most_sketches,
        "most_sketches_per_device",
        f"must be between 1 and most_sketches = {plan.most_sketches}",
        "leave it out for an eighth of most_sketches",
    )
    _require(
        1 <= plan.most_streams_per_device <= MAX_STREAMS,
        "most_streams_per_device",
        f"must be between 1 and {MAX_STREAMS}",
        "leave it out for 16",
    )
    for name in ("max_records_per_person", "most_clusters"):
        number = getattr(plan, name)
        _require(number is None or number >= 1, name, 'must be at least 1, or "unknown"')
    _require_window(plan)
    _require_labels(plan)


def _require(holds: bool, field: str, rule: str, fix: str | None = None) -> None:
    if not holds:
        raise PlanError(rule, field=field, fix=fix)


def _require_plain(field: str, *texts: str) -> None:
    _require(
        all(map(is_plain, texts)),
        field,
        f"{PLAIN_TEXT_RULE}, in every name, unit and value",
        PLAIN_TEXT_FIX,
    )


def _require_dimensions(plan: SketchPlan) -> None:
    _require(plan.n_dimensions >= 1, "dimensions", "must name at least one column")
    names = [dimension.name for dimension in plan.dimensions]
    _require(len(set(names)) == len(names), "dimensions", "names must differ")
    for dimension in plan.dimensions:
        where = f"dimensions.{dimension.name or '?'}"
        _require(bool(dimension.name), where, "must have a name")
        _require_plain(where, dimension.name, dimension.unit)
        _require(
            math.isfinite(dimension.lower)
            and math.isfinite(dimension.upper)
            and dimension.lower < dimension.upper,
            where,
            "the lower bound must be finite and below the upper bound",
            "swap or widen the bounds; they are public and must not be read off the data",
        )
        _require(
            math.isfinite(dimension.scale) and dimension.scale > 0,
            where,
            "the scale must be finite and positive",
            "give the spread you expect inside one cluster",
        )


def _require_whole_blocks(plan: SketchPlan) -> None:
    m, r = plan.n_frequencies, plan.frequencies_per_sketch
    _require(
        1 <= r <= m and m % r == 0,
        "frequencies_per_sketch",
        f"must be a divisor of n_frequencies ({m}) and is {r}",
        "choose a divisor, or leave it out to carry every feature",
    )
    _require(
        m in (r, plan.measurements_per_record),
        "frequencies_per_sketch",
        f"must equal n_frequencies ({m}) with masks for each record (measurements_per_record = "
        f"{plan.measurements_per_record})",
        "leave measurements_per_record out: a sketch that carries fewer features needs no masks",
    )
    n_blocks = m // r
    _require(
        plan.most_sketches >= n_blocks,
        "most_sketches",
        f"must be at least {n_blocks}: each sketch carries {r} of {m} frequencies, and fewer "
        "sketches leave some that no sketch carries",
        "raise it, or raise frequencies_per_sketch",
    )


def _require_presence_hidden(plan: SketchPlan) -> None:
    """Check the rules of add-remove-one: only noised sums may depend on who is present."""
    where = "under add-remove-one"
    _require(
        plan.window.kind == "time",
        "window.kind",
        f'must be "time" {where}: a window by count closes at a time that reveals how many records '
        "there are",
        'use windows by time, or neighbouring = "replace-one"',
    )
    _require(
        0 < plan.window.origin < _YEAR_10000,
        "window.origin",
        f"must be the start of the study {where}: a sketch is released for every slot since then, "
        "empty ones too",
        "give it in seconds since 1970-01-01 UTC, chosen before any data are looked at",
    )
    _require(
        plan.least_records == 0,
        "least_records",
        f"must be 0 {where}: carrying few records over would reveal that there are few",
        "leave it out",
    )
    _require(
        plan.measurements_per_record == plan.n_frequencies,
        "measurements_per_record",
        f"must equal n_frequencies {where}: an absent record shifts the counter, and with it the "
        "masks, of all records that follow",
        "leave it out",
    )


def _require_devices_protected(plan: SketchPlan) -> None:
    """Check the rules of ``unit = "device"``: one sketch a slot holds all that a device says."""
    where = 'where the unit is a "device"'
    _require(
        plan.release.neighbouring == "replace-one",
        "neighbouring",
        f'must be "replace-one" {where}: that a device has records in a slot is public',
        'leave it out, or use unit = "record"',
    )
    _require(
        plan.window.kind == "time",
        "window.kind",
        f'must be "time" {where}: windows by count come as often as there are records',
        'use windows by time, or unit = "record"',
    )
    _require(
        plan.least_records == 1,
        "least_records",
        f"must be 1 {where}: a sketch with few records does not wait for more",
        "leave it out",
    )
    _require(
        plan.measurements_per_record == plan.n_frequencies,
        "measurements_per_record",
        f"must equal n_frequencies {where}: the records of a window would have different masks",
        "leave it out",
    )
    _require(
        plan.most_streams_per_device == 1,
        "most_streams_per_device",
        f"must be 1 {where}: every stream would release a sketch of the same slot",
        "leave it out",
    )
    _require(
        plan.max_records_per_person is None,
        "max_records_per_person",
        f"must be left out {where}: all records of a window are protected together",
        "leave it out",
    )
    if plan.reports_phases:
        _require(
            plan.most_records == 1,
            "most_records",
            "must be 1 with phase reports: a slot reports its first record alone",
            "leave it out",
        )


def _require_window(plan: SketchPlan) -> None:
    window = plan.window
    if window.kind == "time":
        _require(window.length_s >= 1, "window.length_s", "must be at least 1 second")
        _require(window.length == 0, "window.length", "must be 0 for windows by time")
        return
    _require(window.length >= 1, "window.length", "must be at least 1 record")
    _require(
        window.length_s == 0 and window.origin == 0,
        "window.length_s",
        "and origin must be 0 for windows by count",
    )
    _require(
        plan.least_records <= window.length <= plan.most_records,
        "window.length",
        "must lie between least_records and most_records",
    )


def _require_labels(plan: SketchPlan) -> None:
    names = [label.name for label in plan.labels]
    _require(len(set(names)) == len(names), "labels", "names must differ")
    for label in plan.labels:
        _require(
            bool(label.name) and bool(label.values) and len(set(label.values)) == len(label.values),
            f"labels.{label.name or '?'}",
            "must have a name and values that differ",
        )
        _require_plain(f"labels.{label.name}", label.name, *label.values)
    n_sets = math.prod(len(label.values) for label in plan.labels)
    _require(
        n_sets <= MAX_LABEL_SETS,
        "labels",
        f"declare {n_sets} label sets; at most {MAX_LABEL_SETS} are allowed",
        "declare fewer labels or values",
    )
