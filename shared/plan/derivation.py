"""Fields of a plan that follow from the others: derive them, and check those of any plan."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from operator import attrgetter

from sfumato.shared.errors import PlanError, PlanMismatchError
from sfumato.shared.plan.model import SketchPlan
from sfumato.shared.plan.parts import PhaseRelease, Release, StatedSensitivity
from sfumato.shared.plan.rules import require_valid
from sfumato.shared.plan.statistics import AnyStatisticPart, HistogramPart
from sfumato.shared.privacy import (
    CircularLaw,
    calibrate_mechanism,
    choose_law,
    compute_count_scale,
    get_mechanism,
)
from sfumato.shared.privacy.circle import choose_bin_law
from sfumato.shared.sharing.ring import Ring

_MOMENT_BITS = 126
"""Bits of the sums of cubes of sizes and of squares of features: two limbs of 63."""
PAYLOAD_WIDTHS = (2, 3, 4, 5, 6, 7, 8)


def verify(plan: SketchPlan) -> None:
    """Recompute every derived field and compare, with integers.

    Raises
    ------
    PlanError
        A field breaks its rule.
    PlanMismatchError
        A derived field differs from this machine's value, for instance too small a noise.
    """
    require_valid(plan)
    derived = derive(plan)
    for path in ("statistic", "coordinate_bound", "payload_width", "release"):
        read = attrgetter(path)
        _require_same(path, read(plan), read(derived))


def _require_same(name: str, stated: object, derived: object) -> None:
    if is_dataclass(stated):
        for part in fields(stated):
            path = f"{name}.{part.name}"
            _require_same(path, getattr(stated, part.name), getattr(derived, part.name))
    elif stated != derived:
        raise PlanMismatchError(
            "is not what this machine derives from the other fields",
            field=name,
            fix="make the plan anew with `sfumato plan new`; if that does not help, report the "
            "versions of both machines, and do not release anything",
        )


def derive(plan: SketchPlan) -> SketchPlan:
    """Return the plan with its dependent fields computed from the others."""
    plan = replace(plan, statistic=_derive_statistic(plan))
    plan = replace(plan, release=_derive_release(plan))
    low, high = plan.value_range
    largest, noise = max(high, -low), plan.n_noises * plan.mechanism.noise_bound
    bound = plan.most_released * largest + noise
    if plan.sum_release is None:
        width = next((w for w in PAYLOAD_WIDTHS if bound < 1 << (8 * w - 1)), None)
    else:
        width = Ring.find_width(bound)
    most = plan.size_limits[1]
    cubes = plan.most_sketches * most**3
    overflows = plan.most_sketches * (most * largest + noise) >= 1 << (plan.ring_bits - 1)
    if plan.is_split:
        energy = plan.n_features * plan.most_sketches * bound**2
        overflows |= energy >= 1 << _MOMENT_BITS
    if width is None or overflows or cubes >= 1 << _MOMENT_BITS:
        raise PlanError(
            f"the largest sum of the study could overflow {plan.ring_bits} bits",
            field="most_sketches",
            fix="lower most_sketches or most_records, or raise epsilon",
        )
    return replace(plan, coordinate_bound=bound, payload_width=width)


def _choose_law(plan: SketchPlan, epsilon: Fraction) -> CircularLaw:
    if not isinstance(plan.statistic, HistogramPart):
        return choose_law(epsilon, plan.n_reports)
    circle, is_ordered = plan.statistic.arrange_bins(plan.space)
    return choose_bin_law(epsilon, plan.n_reports, circle=circle.n_bins, is_ordered=is_ordered)


def _derive_statistic(plan: SketchPlan) -> AnyStatisticPart:
    norm = ""
    if not isinstance(plan.release, PhaseRelease):
        norm = get_mechanism(plan.release.mechanism).norm
    return plan.statistic.derive(plan.space, norm=norm)


def _derive_release(plan: SketchPlan) -> Release:
    release = plan.release
    if isinstance(release, PhaseRelease):
        law = _choose_law(plan, release.epsilon)
        return replace(release, arc=law.arc, odds=law.odds)
    target = plan.privacy_target
    kind = get_mechanism(target.mechanism)
    return replace(
        release,
        sensitivity=StatedSensitivity(norm=kind.norm, value=kind.measure(target)),
        count_scale=compute_count_scale(target),
        scale=calibrate_mechanism(target).scale,
    )
