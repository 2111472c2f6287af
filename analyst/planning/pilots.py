"""Pilots: histograms planned from the names of columns alone, to calibrate another plan from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.analyst.planning.files import show_exact
from sfumato.analyst.planning.phases import round_up
from sfumato.analyst.planning.pilot_columns import OCTAVES
from sfumato.analyst.planning.spec import format_dimension, format_window, quote
from sfumato.learning.calibration.strength import (
    CLEAR_STRENGTH,
    LEAST_REPORTED,
    LEAST_STRENGTH,
    Refusal,
    choose_bins_log2,
    choose_share,
    judge_reports,
    judge_strength,
    round_up_level,
)
from sfumato.learning.estimate.reports import measure_reports
from sfumato.learning.planning.outline import HEADROOM, SECRET_HEADROOM
from sfumato.shared.errors import ConfigError, PlanError
from sfumato.shared.plan import (
    Dimension,
    LateRule,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
    describe_times,
)
from sfumato.shared.plan.catalogue import find_narrow_range
from sfumato.shared.plan.spec import MOST_SKETCHES
from sfumato.shared.privacy.circle import LARGEST_EPSILON, LEAST_EPSILON

_LEAST_CARRIERS = 16
"""Sketches that must carry each dimension before a sketch carries only some."""
_SURE = 1000.0
"""Strength from which all dimensions in every sketch are best: each is then of all devices."""
_SHARE_STEPS = 100


@dataclass(frozen=True, kw_only=True)
class PilotOutline:
    """The facts of a pilot that are known before it starts.

    Parameters
    ----------
    dimensions
        See :func:`sfumato.analyst.planning.pilot_columns.parse_columns`.
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

    def require_strength(self, *, anyway: bool) -> None:
        """Refuse a pilot that is too weak to calibrate from, before it spends anything.

        Raises
        ------
        PlanError
            It is too weak.
        """
        refusal, outline = self.refusal, self.outline
        if refusal is None or anyway:
            return
        counted, number = "records", outline.n_records
        if self.are_reports:
            counted, number = "devices", outline.n_sketches // outline.n_windows
        needed = f"{round_up(math.ceil(number * refusal.factor)):,} {counted}"
        ways = f"This would do: {needed}"
        if math.isfinite(refusal.epsilon_factor):
            epsilon = round_up_level(float(outline.epsilon) * refusal.epsilon_factor)
            ways = f"Either of these would do: {needed}, or epsilon {epsilon:g}"
        raise PlanError(
            "Do not run this: the noise would hide the records of a dimension (strength "
            f"{self.strength:.3g}, below {self.least_strength:g}). {ways}",
            fix=f"plan with more {counted}, or add --anyway to go on all the same",
        )

    def describe(self) -> Iterator[str]:
        """Yield what it costs and shows, a sentence each."""
        spec, outline = self.spec, self.outline
        if self.are_reports:
            yield from self._describe_reports()
            return
        carried = _or(spec.dimensions_per_sketch, len(spec.dimensions))
        yield (
            f"strength {self.strength:,.0f} (at least {self.least_strength:g} is needed): "
            f"{self.plan.payload_bytes:,} bytes a sketch, {spec.mechanism} noise"
        )
        if carried < len(spec.dimensions):
            yield (
                f"a sketch carries {carried} of {len(spec.dimensions)} dimensions, because "
                f"{outline.n_sketches:,} sketches would otherwise add as much noise each"
            )
        has_log = any(each.transform is not None for each in spec.dimensions)
        if has_log and self.least_strength <= self.strength < CLEAR_STRENGTH:
            needed = round_up(math.ceil(outline.n_records * CLEAR_STRENGTH / self.strength))
            yield (
                f"values far from the others may hide in its noise: from strength "
                f"{CLEAR_STRENGTH:,.0f} on they show, for which {needed:,} records would do"
            )
        yield from self._describe_reach()
        if outline.delta and not spec.delta:
            yield f"{spec.mechanism} noise is better here without the delta: it is left out"
        yield from self._describe_cost(f"each record costs epsilon {show_exact(spec.epsilon)}")

    def _describe_reports(self) -> Iterator[str]:
        spec, outline = self.spec, self.outline
        d = len(spec.dimensions)
        share = "its only dimension" if d == 1 else f"one of {d} dimensions"
        yield (
            f"strength {self.strength:,.0f} (at least {self.least_strength:g} is needed): each "
            f"device reports a noisy bin of {share} of its first record in a window, in "
            f"{self.plan.payload_bytes} bytes, because counts that it noises itself would say less"
        )
        if outline.n_records > outline.n_sketches:
            yield f"so {outline.n_sketches:,} of the {outline.n_records:,} records count"
        yield from self._describe_reach()
        if outline.delta:
            yield "reports need no delta: it is left out"
        yield from self._describe_cost(
            f"all records of a device in a window together cost epsilon {show_exact(spec.epsilon)}"
        )

    def _describe_reach(self) -> Iterator[str]:
        """Yield how far it sees: what lies beyond is lost, and an offset such as a date too."""
        reach: dict[float, list[str]] = {}
        for each in self.spec.dimensions:
            if each.transform is not None and each.upper is not None:
                reach.setdefault(each.upper, []).append(each.name)
        for upper, names in reach.items():
            yield f"sees values up to {upper:.3g} on both sides of zero: {', '.join(names)}"
        for each in self.spec.dimensions:
            usual = None if each.is_categorical else find_narrow_range(each.name, each.unit)
            if usual is not None and each.transform is None and each.bounds == usual:
                yield (
                    f"sees {each.name} from {usual[0]:g} to {usual[1]:g}, around the usual range "
                    f"of such a sensor: for another, write {each.name}:{each.unit}:LOWER..UPPER"
                )
        if reach:
            yield (
                f"where whole numbers are larger, write NAME:UNIT:count, which sees up to "
                f"{2.0**OCTAVES:.2g}; where numbers are large and close together such as times, "
                "give bounds: NAME:UNIT:LOWER..UPPER"
            )

    def _describe_cost(self, cost: str) -> Iterator[str]:
        outline = self.outline
        if outline.shares_records:
            rest = show_exact(outline.epsilon - self.spec.epsilon)
            yield f"{cost} in the pilot, which leaves {rest} to the main study of the same records"
        elif times := describe_times(self.plan):
            yield f"{cost} in the pilot; a main study that begins at its end may have as much"
            yield times
        else:
            yield (
                f"{cost} in the pilot, and one that the main study reads too costs the sum of "
                "both; devices cannot tell the two apart, because "
                f"{describe_doubt(self.spec.window)}, so the owner's ledger counts the sum for all"
            )


def describe_doubt(window: WindowRule) -> str:
    """Describe why a pilot with such windows may read records of its main study."""
    if window.kind == "count":
        return "windows by count know no times, and each study reads a source from its beginning"
    return "it has no end, and records that come late or are dated wrongly join its open window"


def plan_pilot(outline: PilotOutline) -> Pilot:
    """Plan a pilot: bins, dimensions in a sketch, and noise by its strength.

    On the same records it takes the share of epsilon of
    :func:`sfumato.learning.calibration.strength.choose_share`. It is not refused here: see
    :meth:`Pilot.require_strength`.

    Raises
    ------
    PlanError, PrivacyError
        The columns, the budget or the window break a rule of plans.
    """
    best = _choose(outline, outline.epsilon)
    if not outline.shares_records:
        return best
    share = Fraction(math.ceil(choose_share(best.strength) * _SHARE_STEPS), _SHARE_STEPS)
    return _choose(outline, outline.epsilon * share)


def _choose(outline: PilotOutline, epsilon: Fraction) -> Pilot:
    """Choose between counts and reports: these for devices with a record, else the stronger ones.

    Of equal strength, reports have the smaller error (``python -m benchmarks.local``).
    """
    counts = _choose_counts(outline, epsilon)
    if not (outline.allows_reports and LEAST_EPSILON <= epsilon <= LARGEST_EPSILON):
        return counts
    reports = _make_reports(outline, epsilon)
    has_one = outline.n_records == outline.n_sketches

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
    d, n, n_sketches = len(outline.dimensions), outline.n_records, outline.n_sketches
    hides_presence = outline.neighbouring == "add-remove-one"
    headroom = SECRET_HEADROOM if hides_presence else HEADROOM
    spec = PlanSpec(
        dimensions=outline.dimensions,
        statistic="histogram",
        bins_log2=8,
        dimensions_per_sketch=None if carried == d else carried,
        mechanism="discrete-gaussian" if delta else "discrete-laplace",
        epsilon=epsilon,
        delta=delta,
        neighbouring="add-remove-one" if hides_presence else "replace-one",
        window=outline.window,
        late_rule=_choose_late_rule(outline),
        most_records=max(headroom * -(-n // n_sketches), outline.window.length),
        least_records=None if hides_presence else 1,
        most_sketches=max(MOST_SKETCHES, 2 * n_sketches),
    )
    # A dimension is in the share q / d of the sketches, with their records.
    share = carried / d
    variance = create_plan(spec).mechanism.variance * n_sketches * share
    strength = n * share * math.sqrt(8.0 / variance)
    bins = choose_bins_log2(strength)
    return Pilot(outline=outline, spec=replace(spec, bins_log2=bins), strength=strength)


def _choose_late_rule(outline: PilotOutline) -> LateRule:
    return "open-window" if outline.window.end is None else "leave-out-outside"


def format_pilot(pilot: Pilot) -> str:
    """Write a pilot's specification as TOML."""
    spec, outline = pilot.spec, pilot.outline
    lines = [
        "# Made by `sfumato plan pilot` from the names of columns alone: a logarithmic scale needs",
        "# no bounds. Its answer calibrates another plan: `sfumato plan refine`.",
        "",
        'statistic = "histogram"',
        f"bins_log2 = {spec.bins_log2}  # by its strength, {pilot.strength:,.0f}",
    ]
    if pilot.are_reports:
        lines.append('release = "phase.v1"  # a noisy bin of the first record of each window')
    if spec.dimensions_per_sketch is not None:
        lines.append(f"dimensions_per_sketch = {spec.dimensions_per_sketch}")
    beside = "for all records of a device in a window" if pilot.are_reports else "for each record"
    if outline.shares_records:
        beside += f"; {show_exact(outline.epsilon - spec.epsilon)} is left for the main study"
    epsilon = f"epsilon = {quote(str(spec.epsilon))}  # {beside}"
    late_rule = f"late_rule = {quote(spec.late_rule)}"
    if pilot.are_reports:
        per_device = f"most_sketches_per_device = {spec.most_sketches_per_device}"
        lines += [epsilon, late_rule, per_device]
    else:
        lines += [
            f"mechanism = {quote(str(spec.mechanism))}",
            epsilon,
            f"delta = {quote(str(spec.delta))}",
            f"neighbouring = {quote(spec.neighbouring)}",
            late_rule,
        ]
        if spec.least_records is not None:
            lines.append(f"least_records = {spec.least_records}")
        lines += ['max_records_per_person = "unknown"', f"most_records = {spec.most_records}"]
    if spec.most_sketches > MOST_SKETCHES:
        lines.append(f"most_sketches = {spec.most_sketches}")
    lines += ["", "[window]", *format_window(spec.window)]
    for dimension in spec.dimensions:
        lines += ["", "[[dimensions]]", *format_dimension(dimension)]
    return "\n".join(lines) + "\n"


def _or(chosen: int | None, default: int) -> int:
    return default if chosen is None else chosen
