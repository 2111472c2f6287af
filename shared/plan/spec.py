"""A plan as a person writes it: the chosen fields, from which the others are derived."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal

from sfumato.shared.core import RadiusLaw
from sfumato.shared.core.seeds import SEED_BYTES
from sfumato.shared.core.statistics.moments import MOMENT_STEPS
from sfumato.shared.errors import PlanError
from sfumato.shared.plan.derivation import derive
from sfumato.shared.plan.dimensions import Dimension
from sfumato.shared.plan.documents import UNKNOWN
from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.plan.parts import (
    AnyRelease,
    Label,
    LateRule,
    LocalRelease,
    NeighbouringName,
    PhaseRelease,
    ReleaseName,
    SumRelease,
    WindowRule,
)
from sfumato.shared.plan.rules import require_valid
from sfumato.shared.plan.statistics import (
    AnyStatisticPart,
    ClustersPart,
    FourierPart,
    GridPart,
    HistogramPart,
    MomentsPart,
)
from sfumato.shared.privacy import MECHANISMS
from sfumato.shared.privacy.mechanisms.phase import PHASE_REPORT
from sfumato.shared.structure import Rule, declared, member, structure

MOST_SKETCHES = 1 << 20
"""Default ``most_sketches``."""
DEVICE_SHARE = 8
"""Default ``most_sketches_per_device``: ``most_sketches`` over this number."""
STREAMS = 16
"""Default ``most_streams_per_device``."""
_WINDOW_FIXES = {
    "length_s": "add the length of a window in seconds, such as 86400",
    "length": "add the number of records of a window, such as 1000",
    "origin": "add the start of the study in seconds since 1970-01-01 UTC, chosen before any data "
    "are looked at",
}


@declared
class PlanSpec:
    """The fields of a plan that a person chooses."""

    dimensions: tuple[Dimension, ...] = member("The columns of a record, in order.")
    statistic: Literal["fourier", "histogram", "grid", "moments", "clusters"] = member(
        "What devices sum: `fourier`, random Fourier features, for centroids in any number of "
        "dimensions; `histogram`, counts of each dimension by itself, for marginals and to "
        "calibrate another plan; `grid`, counts of joint cells in at most four dimensions; "
        "`moments`, for principal components; `clusters`, what records add up to around published "
        "centres, for a second look.",
        default="fourier",
    )
    n_frequencies: int | None = member(
        "m, such as 5 k d for k clusters in d dimensions. Needed with `fourier`, and only there.",
        100,
        default=None,
    )
    seed: (
        Annotated[str, Rule(bool, "must be text and not empty", "use `openssl rand -hex 32`")]
        | None
    ) = member(
        "64 hexadecimal digits, or any other text, which is hashed with SHA-256. Needed with "
        "`fourier`, and only there.",
        "any text",
        default=None,
    )
    bins_log2: tuple[int, ...] | int | None = member(
        "With `histogram`: b of each dimension, 1 to 12, for 2^b bins; one number for all. A "
        "dimension with levels has a bin a level. Default: 8.",
        default=None,
    )
    dimensions_per_sketch: int | None = member(
        "With `histogram`: a divisor of the number of dimensions, those that one sketch carries, "
        "and has noise for. Default: all; with `phase.v1` 1.",
        default=None,
    )
    cells: tuple[int, ...] | None = member(
        "With `grid`: the cells along each dimension, with a product of at most 2^18.",
        default=None,
    )
    norm_steps: int | None = member(
        "With `moments`: the radius of the ball that records are clipped to, in 1/2047 of half the "
        "width of the bounds. Default: 2047 sqrt(1.5 d) / 3, for bounds of three standard "
        "deviations on both sides.",
        default=None,
    )
    clusters: ClustersPart | None = member(
        "With `clusters`: the centres and what is summed around them, as `sfumato plan look` "
        "writes them.",
        default=None,
    )
    epsilon: Fraction = member("The epsilon of each sketch for each record; exact and in quotes.")
    window: WindowRule = member("The division of a stream into windows; see below.")
    most_records: int | None = member(
        "The window closes early at this number of records. Under `add-remove-one` it only sizes "
        'the payload: no device checks whether it is reached. With `unit = "device"` the records '
        "that follow in the slot are left out. Needed, but for `phase.v1`, where it is 1.",
        100000,
        default=None,
    )
    release: ReleaseName = member(
        "What a device sends: `local.v1`, a sum with noise; `phase.v1`, a noisy phase of the first "
        "record of each slot, or with `histogram` a noisy bin of it, for devices with a record "
        "each, such as phones; `sum.v1`, a masked sum, which only two servers together can add up, "
        "each with noise.",
        default="local.v1",
    )
    least_reports: int | None = member(
        "With `sum.v1`: a batch with fewer reports is never opened. No promise of privacy rests on "
        "it. Default: 100.",
        default=None,
    )
    most_reports: int | None = member(
        "With `sum.v1`: a batch with so many reports takes no more. Default: 2^20.", default=None
    )
    parts: int | None = member(
        "With `sum.v1`: batches of a slot and label set, 1 to 64, among which reports are divided, "
        "so that a broken one spoils only its part. Each has noise of its own. Default: 1.",
        default=None,
    )
    grace_s: int | None = member(
        "With `sum.v1`: seconds after a slot's end for which its batch waits. Default: 3600.",
        default=None,
    )
    late_s: int | None = member(
        "With `sum.v1`: seconds after a slot's end from which its reports are refused. Default: 30 "
        "days.",
        default=None,
    )
    unit: Literal["record", "device"] | None = member(
        "What is protected: each `record`, or all records of a `device` in a window together. "
        "Default: `record`; with `phase.v1` it is `device`.",
        default=None,
    )
    mechanism: str | None = member(
        "The noise of `local.v1`. Default: Gaussian if there is a delta; Laplace with masks and "
        "where the statistic is not `fourier`; K-norm otherwise.",
        default=None,
    )
    delta: Fraction = member(
        "0, or the delta of Gaussian noise; exact and in quotes.", default=Fraction(0)
    )
    neighbouring: NeighbouringName = member(
        "The relation: hide the values of a record, or also that it exists.", default="replace-one"
    )
    least_records: int | None = member(
        "Fewer records than this are carried over into the next window. Default: 1, and 0 under "
        "`add-remove-one`.",
        default=None,
    )
    measurements_per_record: int | None = member(
        "r, a divisor of m: the number of features that one record adds to. Default: m.",
        default=None,
    )
    frequencies_per_sketch: int | None = member(
        "A divisor of m: the number of features that one sketch carries, and has noise for. Many "
        "small sketches then cost little more noise than one large one. Default: m; with "
        "`phase.v1` 1.",
        default=None,
    )
    radius_law: RadiusLaw = member("The law of frequencies; see below.", default_factory=RadiusLaw)
    max_records_per_person: int | None = member(
        "Records that one person can have in a window; None if unknown.", default=None
    )
    most_clusters: int | None = member(
        "The largest number of clusters that the frequencies were chosen for; None if unknown. A "
        "decode may ask for more, at lower quality.",
        default=None,
    )
    most_sketches: int = member(
        "Sketches that the study accepts, so that its sums cannot overflow.", default=MOST_SKETCHES
    )
    most_sketches_per_device: int | None = member(
        "The share of one device, so that a lying device cannot lock the others out. Default: an "
        "eighth of `most_sketches`; with `phase.v1` 1.",
        default=None,
    )
    most_streams_per_device: int | None = member(
        "Streams of one device, so that a lying device cannot lock the others out. Default: 16; "
        'with `unit = "device"` it is 1.',
        default=None,
    )
    labels: tuple[Label, ...] = member(
        "A list of `name` and `values`: declared attributes of devices.", default=()
    )
    late_rule: LateRule = member(
        "Which records join a window that is not of their own time. `open-window`: all that are "
        "late, early or without a readable time. `leave-out-outside`: a record whose time lies "
        "before the study's `origin`, or at its `end` or later, or cannot be read, joins none; so "
        "no record is in two such studies whose times do not overlap, such as a pilot and its main "
        "study.",
        default="open-window",
    )


def create_plan(spec: PlanSpec) -> SketchPlan:
    """Create a plan and derive its dependent fields.

    The default mechanism is the best that the other choices allow: the discrete Gaussian if there
    is a delta, discrete Laplace with masks and for other statistics than Fourier features, K-norm
    otherwise.

    Raises
    ------
    PlanError, PrivacyError
        A field breaks its rule; the message names it.
    """
    is_phase = spec.release == "phase.v1"
    if spec.most_records is None and not is_phase:
        raise PlanError(
            "is missing",
            field="most_records",
            fix="add the number of records that a sketch has room for, such as 100000",
        )
    release = _choose_release(spec)
    plan = SketchPlan(
        dimensions=spec.dimensions,
        statistic=_choose_statistic(spec),
        release=release,
        window=spec.window,
        least_records=_or(spec.least_records, int(spec.neighbouring == "replace-one")),
        most_records=_or(spec.most_records, 1),
        max_records_per_person=spec.max_records_per_person,
        most_clusters=spec.most_clusters,
        most_sketches=spec.most_sketches,
        most_sketches_per_device=_or(
            spec.most_sketches_per_device,
            1 if is_phase else max(1, spec.most_sketches // DEVICE_SHARE),
        ),
        most_streams_per_device=_or(
            spec.most_streams_per_device, 1 if release.unit == "device" else STREAMS
        ),
        labels=spec.labels,
        late_rule=spec.late_rule,
    )
    require_valid(plan)
    return derive(plan)


_OF_STATISTIC = {
    "n_frequencies": "fourier",
    "seed": "fourier",
    "measurements_per_record": "fourier",
    "frequencies_per_sketch": "fourier",
    "bins_log2": "histogram",
    "dimensions_per_sketch": "histogram",
    "cells": "grid",
    "norm_steps": "moments",
    "clusters": "clusters",
}
_NEEDED = {
    "n_frequencies": "add the number of frequencies, such as 5 k d for k clusters",
    "seed": "use `openssl rand -hex 32`",
    "clusters": "make the plan with `sfumato plan look RESULT`",
    "cells": "add the cells along each dimension, such as [32, 32]",
}


def _choose_statistic(spec: PlanSpec) -> AnyStatisticPart:
    kind = spec.statistic
    for name, owner in _OF_STATISTIC.items():
        if owner != kind and getattr(spec, name) is not None:
            raise PlanError(
                f'must be left out with statistic = "{kind}": it belongs to {owner}',
                field=name,
                fix="leave it out",
            )
        if owner == kind and name in _NEEDED and getattr(spec, name) is None:
            raise PlanError("is missing", field=name, fix=_NEEDED[name])
    d = len(spec.dimensions)
    if kind == "histogram":
        bins = 8 if spec.bins_log2 is None else spec.bins_log2
        if isinstance(bins, int):
            bins = tuple(0 if each.is_categorical else bins for each in spec.dimensions)
        return HistogramPart(
            bins_log2=bins,
            dimensions_per_sketch=_or(
                spec.dimensions_per_sketch, 1 if spec.release == "phase.v1" else d
            ),
        )
    if kind == "grid":
        return GridPart(cells=spec.cells or ())
    if kind == "moments":
        n_axes = sum(len(each.levels) or 1 for each in spec.dimensions)
        radius = math.isqrt(MOMENT_STEPS**2 * n_axes // 6)
        return MomentsPart(norm_steps=_or(spec.norm_steps, max(1, radius)))
    if spec.clusters is not None:
        return spec.clusters
    m = spec.n_frequencies or 0
    return FourierPart(
        n_frequencies=m,
        seed=_read_seed(spec.seed or ""),
        radius_law=spec.radius_law,
        measurements_per_record=_or(spec.measurements_per_record, m),
        frequencies_per_sketch=_or(
            spec.frequencies_per_sketch, 1 if spec.release == "phase.v1" else m
        ),
    )


def _or(chosen: int | None, default: int) -> int:
    return default if chosen is None else chosen


_OF_SUM = ("least_reports", "most_reports", "parts", "grace_s", "late_s")


def _choose_release(spec: PlanSpec) -> AnyRelease:
    stated = {name: getattr(spec, name) for name in _OF_SUM if getattr(spec, name) is not None}
    if stated and spec.release != "sum.v1":
        raise PlanError(
            f'must be left out with release = "{spec.release}": it belongs to sum.v1',
            field=next(iter(stated)),
            fix="leave it out",
        )
    if spec.release == "phase.v1":
        for name, allowed in (
            ("mechanism", (None, PHASE_REPORT)),
            ("delta", (0,)),
            ("neighbouring", ("replace-one",)),
            ("unit", (None, "device")),
        ):
            if getattr(spec, name) not in allowed:
                raise PlanError(
                    'must be left out with release = "phase.v1"',
                    field=name,
                    fix='leave it out, or use release = "local.v1"',
                )
        return PhaseRelease(epsilon=spec.epsilon)
    noise: dict[str, Any] = {
        "epsilon": spec.epsilon,
        "delta": spec.delta,
        "neighbouring": spec.neighbouring,
        "unit": spec.unit or "record",
        "mechanism": spec.mechanism or _choose_mechanism(spec),
    }
    if spec.release == "sum.v1":
        return SumRelease(**noise, **{"most_reports": MOST_SKETCHES, **stated})
    return LocalRelease(**noise)


def plan_from_spec(document: Any) -> SketchPlan:
    """Create a plan from a person's choices, as read from TOML or JSON.

    Raises
    ------
    PlanError, PrivacyError
        A field is missing, unknown or breaks its rule.
    """
    spec = structure(PlanSpec, document, unknown=UNKNOWN, error=PlanError)
    _require_window_stated(spec, document["window"])
    return create_plan(spec)


def _require_window_stated(spec: PlanSpec, stated: Mapping[str, Any]) -> None:
    """Refuse a window without the fields of its kind; their default, 0, would be used instead."""
    needed = ["length_s"] if spec.window.kind == "time" else ["length"]
    has_start = spec.neighbouring == "add-remove-one" or spec.late_rule == "leave-out-outside"
    if has_start and spec.window.kind == "time":
        needed.append("origin")
    for name in needed:
        if name not in stated:
            raise PlanError("is missing", field=f"window.{name}", fix=_WINDOW_FIXES[name])


def _read_seed(text: str) -> bytes:
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    return seed if len(seed) == SEED_BYTES else hashlib.sha256(text.encode()).digest()


def _choose_mechanism(spec: PlanSpec) -> str:
    m, r = spec.n_frequencies, spec.measurements_per_record
    is_masked = m is not None and r is not None and r < m
    is_fourier = spec.statistic == "fourier"
    fitting = (
        kind.name
        for kind in MECHANISMS.values()
        if kind.needs_delta == bool(spec.delta)
        and (kind.allows_masks or not is_masked)
        and (is_fourier or not kind.needs_pairs)
    )
    # None fits a delta with masks; the mechanism with a delta then reports why it refuses masks.
    return next(fitting, next(kind.name for kind in MECHANISMS.values() if kind.needs_delta))
