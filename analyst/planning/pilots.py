"""Pilots: histograms planned from the names of columns alone, to calibrate another plan from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from analyst.planning.files import show_exact
from analyst.planning.phases import round_up
from analyst.planning.spec import format_window, quote
from learning.calibration.strength import (
    LEAST_STRENGTH,
    choose_bins_log2,
    choose_share,
    judge_strength,
)
from learning.planning.outline import HEADROOM, SECRET_HEADROOM
from shared.errors import ConfigError, PlanError
from shared.plan import (
    Dimension,
    LogTransform,
    PlanSpec,
    SketchPlan,
    WindowRule,
    create_plan,
    describe_times,
)
from shared.plan.spec import MOST_SKETCHES

OCTAVES = 40
"""Bounds of a number: its resolution times 2^40 on both sides of zero."""
_RESOLUTION, _COUNT_RESOLUTION = 1e-6, 1.0
_LEAST_CARRIERS = 16
"""Sketches that must carry each dimension before a sketch carries only some."""
_SURE = 1000.0
"""Strength from which all dimensions in every sketch are best: each is then of all devices."""
_SHARE_STEPS = 100
_HOW = 'write NAME:UNIT, NAME:UNIT:count or NAME:levels=A|B|C, such as "load:kW,steps:1:count"'


@dataclass(frozen=True, kw_only=True)
class PilotOutline:
    """The facts of a pilot that are known before it starts.

    Parameters
    ----------
    dimensions
        See :func:`parse_columns`.
    n_records, n_sketches
        Records of all sketches together, and the sketches: devices times windows.
    epsilon, delta
        Budget of one record: of the pilot, or of pilot and main study together.
    shares_records
        Whether the main study reads the same records, and so the rest of epsilon.
    window, neighbouring
        As in a plan. Only with an end is it certain that no record of the pilot is in a main study
        that begins there.
    """

    dimensions: tuple[Dimension, ...]
    n_records: int
    n_sketches: int
    epsilon: Fraction
    delta: Fraction
    shares_records: bool
    window: WindowRule
    neighbouring: str = "replace-one"

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
    mechanism_epsilon
        The epsilon that it spends of each record.
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

    def require_strength(self, *, anyway: bool) -> None:
        """Refuse a pilot that is too weak to calibrate from, before it spends anything.

        Raises
        ------
        PlanError
            It is too weak.
        """
        refusal = judge_strength(self.strength)
        if refusal is None or anyway:
            return
        factor, outline = refusal.factor, self.outline
        raise PlanError(
            "Do not run this: the noise would hide the records of a dimension (strength "
            f"{self.strength:.3g}, below {LEAST_STRENGTH:g}). Either of these would do: "
            f"{round_up(math.ceil(outline.n_records * factor)):,} records, or epsilon "
            f"{_round_up(float(outline.epsilon) * factor):g}",
            fix="plan with more records, or add --anyway to go on all the same",
        )

    def describe(self) -> Iterator[str]:
        """Yield what it costs and shows, a sentence each."""
        spec, outline = self.spec, self.outline
        carried = _or(spec.dimensions_per_sketch, len(spec.dimensions))
        yield (
            f"strength {self.strength:,.0f} (at least {LEAST_STRENGTH:g} is needed): "
            f"{self.plan.payload_bytes:,} bytes a sketch, {spec.mechanism} noise"
        )
        if carried < len(spec.dimensions):
            yield (
                f"a sketch carries {carried} of {len(spec.dimensions)} dimensions, because "
                f"{outline.n_sketches:,} sketches would otherwise add as much noise each"
            )
        if outline.delta and not spec.delta:
            yield f"{spec.mechanism} noise is better here without the delta: it is left out"
        cost = f"each record costs epsilon {show_exact(spec.epsilon)}"
        if outline.shares_records:
            rest = show_exact(outline.epsilon - spec.epsilon)
            yield f"{cost} in the pilot, which leaves {rest} to the main study of the same records"
        elif times := describe_times(self.plan):
            yield f"{cost} in the pilot; a main study that begins at its end may have as much"
            yield times
        else:
            yield (
                f"{cost} in the pilot, and one that the main study reads too costs the sum of "
                "both; devices cannot tell the two apart, because "
                f"{describe_doubt(spec.window)}, so the owner's ledger counts the sum for all"
            )


def describe_doubt(window: WindowRule) -> str:
    """Describe why a pilot with such windows may read records of its main study."""
    if window.kind == "count":
        return "windows by count know no times, and each study reads a source from its beginning"
    return "it has no end, and records that come late or are dated wrongly join its open window"


def parse_columns(texts: Sequence[str]) -> tuple[Dimension, ...]:
    """Read columns: ``NAME:UNIT``, ``NAME:UNIT:count`` or ``NAME:levels=A|B``, between commas.

    Raises
    ------
    ConfigError
        A column has another form, or a name occurs twice.
    """
    found = [_parse_column(text.strip()) for part in texts for text in part.split(",")]
    names = [dimension.name for dimension in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"names {name!r} twice", field="--dimensions", fix=_HOW)
    return tuple(found)


def _parse_column(text: str) -> Dimension:
    name, *parts = (part.strip() for part in text.split(":"))
    if not name or len(parts) > 2 or parts[1:] not in ([], ["count"]):
        raise ConfigError(f"cannot be read: {text!r}", field="--dimensions", fix=_HOW)
    if parts and parts[0].startswith("levels="):
        levels = tuple(level.strip() for level in parts[0].removeprefix("levels=").split("|"))
        return Dimension(name=name, unit="1", levels=levels)
    resolution = _COUNT_RESOLUTION if parts[1:] else _RESOLUTION
    reach = resolution * 2.0**OCTAVES
    return Dimension(
        name=name,
        unit=(parts and parts[0]) or "1",
        lower=-reach,
        upper=reach,
        transform=LogTransform(resolution=resolution),
    )


def plan_pilot(outline: PilotOutline) -> Pilot:
    """Plan a pilot: bins, dimensions in a sketch, and noise by its strength.

    On the same records it takes the share of epsilon that brings its strength to 500, from 10 to
    25 %. It is not refused here: see :meth:`Pilot.require_strength`.

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
        late_rule="open-window" if outline.window.end is None else "leave-out-outside",
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
    if spec.dimensions_per_sketch is not None:
        lines.append(f"dimensions_per_sketch = {spec.dimensions_per_sketch}")
    beside = "for each record"
    if outline.shares_records:
        beside += f"; {show_exact(outline.epsilon - spec.epsilon)} is left for the main study"
    lines += [
        f"mechanism = {quote(str(spec.mechanism))}",
        f"epsilon = {quote(str(spec.epsilon))}  # {beside}",
        f"delta = {quote(str(spec.delta))}",
        f"neighbouring = {quote(spec.neighbouring)}",
        f"late_rule = {quote(spec.late_rule)}",
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


def format_dimension(dimension: Dimension) -> list[str]:
    """Write a dimension as lines of TOML."""
    lines = [f"name = {quote(dimension.name)}", f"unit = {quote(dimension.unit)}"]
    if dimension.is_categorical:
        return [*lines, f"levels = [{', '.join(map(quote, dimension.levels))}]"]
    lines += [f"lower = {dimension.lower!r}", f"upper = {dimension.upper!r}"]
    if dimension.scale is not None:
        lines.append(f"scale = {dimension.scale!r}")
    if dimension.transform is not None:
        resolution = dimension.transform.resolution
        lines.append(f'transform = {{kind = "log", resolution = {resolution!r}}}')
    return lines


def _or(chosen: int | None, default: int) -> int:
    return default if chosen is None else chosen


def _round_up(value: float) -> float:
    """Round up to two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step) * step:.2g}")
