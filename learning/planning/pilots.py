"""Pilots: histograms that calibrate another plan, with noise and bins by their strength."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.learning.calibration.strength import (
    LEAST_REPORTED,
    LEAST_STRENGTH,
    Refusal,
    choose_bins_log2,
    choose_share,
    judge_reports,
    judge_strength,
)
from sfumato.learning.estimate.reports import measure_reports
from sfumato.learning.planning.outline import HEADROOM, SECRET_HEADROOM
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import (
    Dimension,
    Label,
    LateRule,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
)
from sfumato.shared.plan.spec import MOST_SKETCHES
from sfumato.shared.privacy.circle import LARGEST_EPSILON, LEAST_EPSILON

_LEAST_CARRIERS = 16
"""Sketches that must carry each dimension before a sketch carries only some."""
_SURE = 1000.0
"""Strength from which all dimensions in every sketch are best: each is then of all devices."""
_SHARE_STEPS = 100
_LEAST_VARIANCE = 1e-300


@dataclass(frozen=True, kw_only=True)
class PilotOutline:
    """The facts of a pilot that are known before it starts.

    Parameters
    ----------
    dimensions
        The columns, without scales; numbers of unknown size on a logarithmic scale.
    n_records, n_sketches
        Records of all sketches together, and the sketches: devices times windows.
    epsilon, delta
        Budget of one record: of the pilot, or of pilot and main study together.
    shares_records
        Whether the main study reads the same records, and so the rest of epsilon.
    window, neighbouring
        As in a plan. Only with an end is it certain that no record of the pilot is in a main study
        that begins there.
    n_windows
        The sketches of one device.
    labels, unit, max_records_per_person
        As in a plan. For a device's window as a whole only its first record counts.
    """

    dimensions: tuple[Dimension, ...]
    n_records: int
    n_sketches: int
    epsilon: Fraction
    delta: Fraction
    shares_records: bool
    window: WindowRule
    neighbouring: str = "replace-one"
    n_windows: int = 1
    labels: tuple[Label, ...] = ()
    unit: str = "record"
    max_records_per_person: int | None = None

    @property
    def n_counted(self) -> int:
        """Records that counts are of: all, or the first of each window of a device."""
        return self.n_sketches if self.unit == "device" else self.n_records

    @property
    def allows_reports(self) -> bool:
        """True if devices may report bins: numbers alone, whose values alone are hidden."""
        return (
            self.window.kind == "time"
            and self.neighbouring == "replace-one"
            and not any(dimension.is_categorical for dimension in self.dimensions)
        )

    def __post_init__(self) -> None:
        if self.n_records < self.n_sketches and self.neighbouring == "replace-one":
            raise ConfigError(
                f"must be at least the number of sketches, {self.n_sketches}",
                field="--records",
                fix="count the records of all devices and windows together",
            )


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """A planned pilot.

    Parameters
    ----------
    outline, spec
        Its facts, and its specification.
    strength
        Its x, of one dimension.
    """

    outline: PilotOutline
    spec: PlanSpec
    strength: float

    @property
    def plan(self) -> SketchPlan:
        """The plan."""
        return create_plan(self.spec)

    @property
    def are_reports(self) -> bool:
        """True if each device reports the bin of its first record."""
        return self.spec.release == "phase.v1"

    @property
    def least_strength(self) -> float:
        """The least x to calibrate from."""
        return LEAST_REPORTED if self.are_reports else LEAST_STRENGTH

    @property
    def refusal(self) -> Refusal | None:
        """Why it is too weak to calibrate from; None if it suffices."""
        if self.are_reports:
            return judge_reports(self.strength, epsilon=float(self.spec.epsilon))
        return judge_strength(self.strength)


def plan_pilot(outline: PilotOutline) -> Pilot:
    """Plan a pilot: bins, dimensions in a sketch, and noise by its strength.

    On the same records it takes the share of epsilon of :func:`divide_epsilon`. It is not refused
    here: see :attr:`Pilot.refusal`.

    Raises
    ------
    PlanError, PrivacyError
        The columns, the budget or the window break a rule of plans.
    """
    best = _choose(outline, outline.epsilon)
    if not outline.shares_records:
        return best
    return _choose(outline, outline.epsilon * divide_epsilon(best.strength))


def divide_epsilon(strength: float) -> Fraction:
    """Return the pilot's share of epsilon, in hundredths, by the strength that all of it gives."""
    return Fraction(math.ceil(choose_share(strength) * _SHARE_STEPS), _SHARE_STEPS)


def measure_counts(spec: PlanSpec, *, n_records: float, n_sketches: float = 1) -> float:
    """Return the strength of counts: x of a dimension in so many records and sketches."""
    variance = create_plan(spec).mechanism.variance * n_sketches
    # The variance underflows at an epsilon of thousands.
    return n_records * math.sqrt(8.0 / max(variance, _LEAST_VARIANCE))


def _choose(outline: PilotOutline, epsilon: Fraction) -> Pilot:
    """Choose between counts and reports: these for devices with a record, else the stronger ones.

    At equal strength, reports have the smaller error (``python -m benchmarks.local``).
    """
    counts = _choose_counts(outline, epsilon)
    if not (outline.allows_reports and LEAST_EPSILON <= epsilon <= LARGEST_EPSILON):
        return counts
    reports = _make_reports(outline, epsilon)
    has_one = outline.n_counted == outline.n_sketches

    def rank(pilot: Pilot) -> tuple[bool, bool, float]:
        return pilot.refusal is None, has_one and pilot.are_reports, pilot.strength

    return max(counts, reports, key=rank)


def _make_reports(outline: PilotOutline, epsilon: Fraction) -> Pilot:
    d = len(outline.dimensions)
    spec = PlanSpec(
        dimensions=outline.dimensions,
        statistic="histogram",
        bins_log2=8,
        release="phase.v1",
        epsilon=epsilon,
        window=outline.window,
        late_rule=_choose_late_rule(outline),
        most_sketches=max(MOST_SKETCHES, 2 * outline.n_sketches),
        most_sketches_per_device=outline.n_windows,
        labels=outline.labels,
    )
    strength = measure_reports(create_plan(spec).mechanism.gain, outline.n_sketches / d)
    return Pilot(outline=outline, spec=spec, strength=strength)


def _choose_counts(outline: PilotOutline, epsilon: Fraction) -> Pilot:
    """Choose among noises and numbers of dimensions in a sketch."""
    d = len(outline.dimensions)
    whole = max(
        (_make(outline, epsilon, delta, d) for delta in {Fraction(0), outline.delta}),
        key=lambda pilot: (pilot.strength, not pilot.spec.delta),
    )
    is_mixed = any(dimension.is_categorical for dimension in outline.dimensions)
    if whole.strength >= _SURE or is_mixed:
        return whole
    # All values of a dimension are then of some sketches only, so each needs enough of them.
    allowed = [
        q for q in range(1, d) if d % q == 0 and outline.n_sketches * q >= _LEAST_CARRIERS * d
    ]
    parts = [_make(outline, epsilon, Fraction(0), q) for q in allowed]
    return max([whole, *parts], key=lambda pilot: pilot.strength)


def _make(outline: PilotOutline, epsilon: Fraction, delta: Fraction, carried: int) -> Pilot:
    d, n, n_sketches = len(outline.dimensions), outline.n_counted, outline.n_sketches
    hides_presence = outline.neighbouring == "add-remove-one"
    protects_devices = outline.unit == "device"
    sizes: dict[str, Any] = {"most_records": 1}
    if not protects_devices:
        headroom = SECRET_HEADROOM if hides_presence else HEADROOM
        sizes = {
            "most_records": max(headroom * -(-n // n_sketches), outline.window.length),
            "least_records": None if hides_presence else 1,
        }
    spec = PlanSpec(
        dimensions=outline.dimensions,
        statistic="histogram",
        bins_log2=8,
        dimensions_per_sketch=None if carried == d else carried,
        mechanism="discrete-gaussian" if delta else "discrete-laplace",
        epsilon=epsilon,
        delta=delta,
        neighbouring="add-remove-one" if hides_presence else "replace-one",
        unit="device" if protects_devices else None,
        window=outline.window,
        late_rule=_choose_late_rule(outline),
        most_sketches=max(MOST_SKETCHES, 2 * n_sketches),
        labels=outline.labels,
        max_records_per_person=outline.max_records_per_person,
        **sizes,
    )
    # A dimension is in the share q / d of the sketches, with their records.
    share = carried / d
    strength = measure_counts(spec, n_records=n * share, n_sketches=n_sketches * share)
    bins = choose_bins_log2(strength)
    return Pilot(outline=outline, spec=replace(spec, bins_log2=bins), strength=strength)


def _choose_late_rule(outline: PilotOutline) -> LateRule:
    return "open-window" if outline.window.end is None else "leave-out-outside"


def describe_overlap(window: WindowRule) -> str:
    """Describe why a pilot with such windows may read records of its main study."""
    if window.kind == "count":
        return "windows by count know no times, and each study reads a source from its beginning"
    return "it has no end, and records that come late or are dated wrongly join its open window"
