"""The parts of a plan, their rules, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shared.core import (
    AMPLITUDE,
    FrequencyMatrix,
    MaskSchedule,
    Quantiser,
    RadiusLaw,
    SketchOperator,
    draw_frequencies,
)
from shared.core.seeds import SEED_BYTES
from shared.errors import PlanError, PlanMismatchError
from shared.privacy import Mechanism, PrivacyTarget, calibrate_mechanism

FORMAT_VERSION = 1
RING_BITS = 64
PAYLOAD_WIDTHS = (2, 3, 4, 5, 6, 7, 8)
MAX_LABEL_SETS = 64
MAX_FREQUENCIES = 1 << 20

MechanismName = Literal["discrete-knorm", "discrete-laplace", "discrete-gaussian"]


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One column of the records.

    Parameters
    ----------
    name, unit
        What it is called and measured in; ``unit`` is ``"1"`` for a pure number.
    lower, upper
        Public bounds, in ``unit``: values outside are clipped. Never read them off the data.
    scale
        A public guess of the spread inside one cluster (a standard deviation), in ``unit``.
    """

    name: str
    unit: str
    lower: float
    upper: float
    scale: float


@dataclass(frozen=True, kw_only=True)
class Label:
    """A declared attribute of devices, by which sketches can be selected later."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WindowRule:
    """How a stream is cut: each record falls in exactly one window.

    Parameters
    ----------
    kind
        ``time``: slots ``[origin + i length_s, origin + (i + 1) length_s)``, seconds since
        1970-01-01 UTC; ``count``: every ``length`` records.
    origin, length_s
        For ``time``; zero otherwise.
    length
        For ``count``, records; zero otherwise.
    """

    kind: Literal["time", "count"]
    origin: int = 0
    length_s: int = 0
    length: int = 0

    def slot_of(self, timestamp: float) -> int:
        """Return the slot number of a time, in seconds since 1970-01-01 UTC."""
        return math.floor((timestamp - self.origin) / self.length_s)

    def slot_bounds(self, slot: int) -> tuple[int, int]:
        """Return the first second of a slot and the first after it."""
        start = self.origin + slot * self.length_s
        return start, start + self.length_s


@dataclass(frozen=True, kw_only=True)
class Release:
    """How a sum becomes a sketch: who adds which noise, and what that guarantees.

    Parameters
    ----------
    kind, noise_by
        ``local.v1`` and ``device``: every device's sketch is private by itself.
    mechanism
        ``discrete-knorm`` (pure epsilon, the least variance of the pure ones), ``discrete-laplace``
        (the seed paper's, the one that masks go with), or ``discrete-gaussian`` (needs a delta).
    neighbouring
        ``replace-one``.
    epsilon, delta
        What is promised for one record, exact.
    sensitivity_l1, sensitivity_l2_squared, sensitivity_modulus_squared, sensitivity_norm
        Integers in units of the sum, enumerated from the feature table; the last in the norm of the
        K-norm mechanism.
    scale
        Exact scale of the noise, at least what epsilon needs.
    """

    kind: Literal["local.v1"] = "local.v1"
    noise_by: Literal["device"] = "device"
    mechanism: MechanismName
    neighbouring: Literal["replace-one"] = "replace-one"
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    sensitivity_l1: int = 0
    sensitivity_l2_squared: int = 0
    sensitivity_modulus_squared: int = 0
    sensitivity_norm: int = 0
    scale: Fraction = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class SketchPlan:
    """What a study computes and promises; immutable, known by the digest of its encoding.

    Make one with :func:`create_plan`, which derives the dependent fields; a plan that arrives from
    elsewhere is checked against them by :meth:`verify`.

    Parameters
    ----------
    format_version
        1.
    dimensions
        The columns of a record, in order.
    n_frequencies, seed, radius_law, frequencies_digest
        m; 32 published bytes; the law of radii; SHA-256 of the frequency matrix they give.
    measurements_per_record
        r, a divisor of m: features that one record adds to.
    amplitude
        A, the largest modulus of an integer feature.
    release
        The noise and its guarantee.
    window
        How streams are cut.
    least_records, most_records
        Records in one sketch. Fewer are carried over into the next window; at the most the window
        closes early.
    max_records_per_person
        Records that one person can have in a window; None if unknown.
    coordinate_bound
        Largest magnitude of a released coordinate; beyond it values saturate.
    payload_width
        Bytes of one released coordinate.
    ring_bits
        Width of the sums, 64.
    most_sketches
        Sketches that the study accepts, so that its sums cannot overflow.
    labels
        Declared labels of devices.
    late_rule
        ``open-window``: late records join the window that is open.
    """

    format_version: int = FORMAT_VERSION
    dimensions: tuple[Dimension, ...]
    n_frequencies: int
    seed: bytes
    radius_law: RadiusLaw
    frequencies_digest: bytes = b""
    measurements_per_record: int
    amplitude: int = AMPLITUDE
    release: Release
    window: WindowRule
    least_records: int
    most_records: int
    max_records_per_person: int | None = None
    coordinate_bound: int = 0
    payload_width: int = 0
    ring_bits: int = RING_BITS
    most_sketches: int
    labels: tuple[Label, ...] = ()
    late_rule: Literal["open-window"] = "open-window"

    # What follows from the fields.

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return len(self.dimensions)

    @property
    def alpha(self) -> float:
        """The share of features that a record adds to, r / m."""
        return self.measurements_per_record / self.n_frequencies

    @property
    def payload_bytes(self) -> int:
        """Length of a sketch's payload."""
        return 2 * self.n_frequencies * self.payload_width

    @cached_property
    def quantiser(self) -> Quantiser:
        """The quantiser of the public box."""
        return Quantiser.from_bounds(
            [dimension.lower for dimension in self.dimensions],
            [dimension.upper for dimension in self.dimensions],
        )

    @cached_property
    def scale(self) -> NDArray[np.float64]:
        """The public spread guess of each dimension: shape ``(d,)``, data units."""
        return np.array([dimension.scale for dimension in self.dimensions], dtype=np.float64)

    @cached_property
    def frequencies(self) -> FrequencyMatrix:
        """The integer frequencies, regenerated from the seed."""
        return draw_frequencies(
            self.seed,
            n_frequencies=self.n_frequencies,
            law=self.radius_law,
            quantiser=self.quantiser,
            scale=self.scale,
        )

    @property
    def privacy_target(self) -> PrivacyTarget:
        """What a release has to guarantee."""
        return PrivacyTarget(
            mechanism=self.release.mechanism,
            n_frequencies=self.n_frequencies,
            measurements_per_record=self.measurements_per_record,
            epsilon=self.release.epsilon,
            delta=self.release.delta,
            neighbouring=self.release.neighbouring,
        )

    @cached_property
    def mechanism(self) -> Mechanism:
        """The noise that a device adds to its sum."""
        return calibrate_mechanism(self.privacy_target)

    def operator(self, stream_id: bytes) -> SketchOperator:
        """Return the sketch operator of one stream; ``stream_id`` names device and stream."""
        masks = None
        if self.measurements_per_record < self.n_frequencies:
            masks = MaskSchedule.from_seed(
                self.seed,
                stream_id,
                n_frequencies=self.n_frequencies,
                measurements_per_record=self.measurements_per_record,
            )
        return SketchOperator(quantiser=self.quantiser, frequencies=self.frequencies, masks=masks)

    def largest_coordinate(self, n_records: int) -> int:
        """Return the largest magnitude that a sketch of ``n_records`` may hold."""
        return min(self.coordinate_bound, n_records * self.amplitude + self.mechanism.noise_bound)

    def verify(self) -> None:
        """Recompute every derived field and compare, with integers.

        Raises
        ------
        PlanError
            A field breaks its rule.
        PlanMismatchError
            A derived field is not what this machine derives, for instance noise that is too small.
        """
        require_valid(self)
        derived = derive(self)
        for name in ("frequencies_digest", "coordinate_bound", "payload_width"):
            _require_same(name, getattr(self, name), getattr(derived, name))
        for name in (
            "sensitivity_l1",
            "sensitivity_l2_squared",
            "sensitivity_modulus_squared",
            "sensitivity_norm",
            "scale",
        ):
            _require_same(
                f"release.{name}", getattr(self.release, name), getattr(derived.release, name)
            )


def _require_same(name: str, stated: object, derived: object) -> None:
    if stated != derived:
        raise PlanMismatchError(
            "is not what this machine derives from the other fields",
            field=name,
            fix="make the plan anew with `sfumato plan new`; if that does not help, report the "
            "versions of both machines, and do not release anything",
        )


def derive(plan: SketchPlan) -> SketchPlan:
    """Return the plan with its dependent fields computed from the others."""
    mechanism, target = plan.mechanism, plan.privacy_target
    sensitivity = target.sensitivity
    bound = plan.most_records * plan.amplitude + mechanism.noise_bound
    width = next((w for w in PAYLOAD_WIDTHS if bound < 1 << (8 * w - 1)), None)
    if width is None or plan.most_sketches * bound >= 1 << (plan.ring_bits - 1):
        raise PlanError(
            f"the largest sum of the study could overflow {plan.ring_bits} bits",
            field="most_sketches",
            fix="lower most_sketches or most_records, or raise epsilon",
        )
    return replace(
        plan,
        frequencies_digest=plan.frequencies.digest,
        coordinate_bound=bound,
        payload_width=width,
        release=replace(
            plan.release,
            sensitivity_l1=sensitivity.l1,
            sensitivity_l2_squared=sensitivity.l2_squared,
            sensitivity_modulus_squared=sensitivity.modulus_squared,
            sensitivity_norm=target.norm_sensitivity,
            scale=mechanism.scale,
        ),
    )


def create_plan(
    *,
    dimensions: tuple[Dimension, ...],
    n_frequencies: int,
    seed: bytes,
    epsilon: Fraction,
    window: WindowRule,
    most_records: int,
    mechanism: MechanismName | None = None,
    delta: Fraction = Fraction(0),
    least_records: int = 1,
    measurements_per_record: int | None = None,
    radius_law: RadiusLaw | None = None,
    max_records_per_person: int | None = None,
    most_sketches: int = 1 << 20,
    labels: tuple[Label, ...] = (),
) -> SketchPlan:
    """Make a plan and derive its dependent fields; parameters as in :class:`SketchPlan`.

    Without a ``mechanism``, the best that the other choices allow: the discrete Gaussian if there
    is a delta, discrete Laplace with masks, K-norm otherwise.

    Raises
    ------
    PlanError, PrivacyError
        A field breaks its rule; the message names it.
    """
    plan = SketchPlan(
        dimensions=dimensions,
        n_frequencies=n_frequencies,
        seed=seed,
        radius_law=radius_law or RadiusLaw(),
        measurements_per_record=(
            n_frequencies if measurements_per_record is None else measurements_per_record
        ),
        release=Release(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism or _choose_mechanism(delta, n_frequencies, measurements_per_record),
        ),
        window=window,
        least_records=least_records,
        most_records=most_records,
        max_records_per_person=max_records_per_person,
        most_sketches=most_sketches,
        labels=labels,
    )
    require_valid(plan)
    return derive(plan)


def _choose_mechanism(delta: Fraction, m: int, r: int | None) -> MechanismName:
    if delta:
        return "discrete-gaussian"
    return "discrete-laplace" if r is not None and r < m else "discrete-knorm"


def require_valid(plan: SketchPlan) -> None:
    """Check the rules of the fields that a person chooses.

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
        1 <= r <= m and m % r == 0,
        "measurements_per_record",
        f"must be a divisor of n_frequencies ({m}) and is {r}",
        "choose a divisor, or leave it out to use every feature",
    )
    _require(plan.release.epsilon > 0, "epsilon", "must be greater than zero", 'use "1" or "1/10"')
    _require(plan.least_records >= 1, "least_records", "must be at least 1")
    _require(
        plan.least_records <= plan.most_records,
        "most_records",
        "must be at least least_records",
        "raise most_records or lower least_records",
    )
    _require(plan.most_sketches >= 1, "most_sketches", "must be at least 1")
    _require(
        plan.max_records_per_person is None or plan.max_records_per_person >= 1,
        "max_records_per_person",
        'must be at least 1, or "unknown"',
    )
    _require_window(plan)
    _require_labels(plan)


def _require(holds: bool, field: str, rule: str, fix: str | None = None) -> None:
    if not holds:
        raise PlanError(rule, field=field, fix=fix)


def _require_dimensions(plan: SketchPlan) -> None:
    _require(plan.n_dimensions >= 1, "dimensions", "must name at least one column")
    names = [dimension.name for dimension in plan.dimensions]
    _require(len(set(names)) == len(names), "dimensions", "names must differ")
    for dimension in plan.dimensions:
        where = f"dimensions.{dimension.name or '?'}"
        _require(bool(dimension.name), where, "must have a name")
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
    n_sets = math.prod(len(label.values) for label in plan.labels)
    _require(
        n_sets <= MAX_LABEL_SETS,
        "labels",
        f"declare {n_sets} label sets; at most {MAX_LABEL_SETS} are allowed",
        "declare fewer labels or values",
    )
