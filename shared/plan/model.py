"""The plan, and the values derived from its fields."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shared.core import (
    FourierStatistic,
    FrequencyBlocks,
    FrequencyMatrix,
    MaskSchedule,
    Quantiser,
    RadiusLaw,
    draw_frequencies,
)
from shared.errors import PlanError, PlanMismatchError
from shared.plan.parts import (
    Dimension,
    FourierPart,
    Label,
    PhaseRelease,
    Release,
    StatedSensitivity,
    WindowRule,
)
from shared.plan.rules import FORMAT_VERSION, RING_BITS, require_valid
from shared.privacy import (
    Mechanism,
    PrivacyTarget,
    calibrate_mechanism,
    choose_law,
    compute_count_scale,
    compute_count_variance,
    get_mechanism,
)
from shared.privacy.mechanisms.phase import PhaseReports
from shared.privacy.plausibility import bound_squared_norm, compute_influence

_MOMENT_BITS = 126
"""Bits of the sums of cubes of sizes and of squares of features: two limbs of 63."""
PAYLOAD_WIDTHS = (2, 3, 4, 5, 6, 7, 8)


@dataclass(frozen=True, kw_only=True)
class SketchPlan:
    """A study's computation and promise; immutable, identified by the digest of its encoding.

    Create one with :func:`create_plan`, which derives the dependent fields; :meth:`verify` checks
    those of a plan from elsewhere.

    Parameters
    ----------
    format_version
        1.
    dimensions
        The columns of a record, in order.
    statistic
        The integers that a record adds.
    release
        The noise and its guarantee; its kind decides how a payload is read.
    window
        How streams are cut.
    least_records, most_records
        Records in one sketch. Fewer are carried over into the next window; a full window closes
        early, or, where the unit is a device, leaves out the records that follow in its slot. Under
        ``add-remove-one`` the least is 0, and the most only sizes the payload: no device ever
        compares its records with it.
    max_records_per_person
        Records that one person can have in a window; None if unknown.
    most_clusters
        The largest number of clusters that the frequencies were chosen for; None if unknown. A
        decode may ask for more, at lower quality.
    coordinate_bound
        Largest magnitude of a released coordinate; larger values saturate.
    payload_width
        Bytes of one released coordinate, or of one reported phase.
    ring_bits
        Width of the sums, 64.
    most_sketches
        Sketches that the study accepts, so that its sums cannot overflow.
    most_sketches_per_device, most_streams_per_device
        The share of one device, so that no lying device can lock out the others.
    labels
        Declared labels of devices.
    late_rule
        ``open-window``: late records join the window that is open.
    """

    format_version: int = FORMAT_VERSION
    dimensions: tuple[Dimension, ...]
    statistic: FourierPart
    release: Release
    window: WindowRule
    least_records: int
    most_records: int
    max_records_per_person: int | None = None
    most_clusters: int | None = None
    coordinate_bound: int = 0
    payload_width: int = 0
    ring_bits: int = RING_BITS
    most_sketches: int
    most_sketches_per_device: int
    most_streams_per_device: int
    labels: tuple[Label, ...] = ()
    late_rule: Literal["open-window"] = "open-window"

    # Derived values.

    @property
    def n_dimensions(self) -> int:
        """The number of dimensions d."""
        return len(self.dimensions)

    @property
    def n_frequencies(self) -> int:
        """The number of frequencies m."""
        return self.statistic.n_frequencies

    @property
    def seed(self) -> bytes:
        """The published seed of the frequency matrix."""
        return self.statistic.seed

    @property
    def radius_law(self) -> RadiusLaw:
        """The law of the frequencies' radii."""
        return self.statistic.radius_law

    @property
    def measurements_per_record(self) -> int:
        """The number r of features that a record adds to."""
        return self.statistic.measurements_per_record

    @property
    def frequencies_per_sketch(self) -> int:
        """The number of features that a sketch carries: m, or fewer."""
        return self.statistic.frequencies_per_sketch

    @cached_property
    def blocks(self) -> FrequencyBlocks:
        """The blocks of features, of which a sketch carries one; by default one block has all."""
        return FrequencyBlocks(
            seed=self.seed,
            n_frequencies=self.n_frequencies,
            frequencies_per_sketch=self.frequencies_per_sketch,
        )

    @property
    def is_split(self) -> bool:
        """True if a sketch carries only some of the features."""
        return self.frequencies_per_sketch < self.n_frequencies

    @property
    def amplitude(self) -> int:
        """The largest modulus A of an integer feature."""
        return self.statistic.amplitude

    @property
    def alpha(self) -> float:
        """The share of features that a record adds to, r / m."""
        return self.measurements_per_record / self.n_frequencies

    @property
    def releases_count(self) -> bool:
        """True if the number of records is secret, and released with noise after the features."""
        return self.release.neighbouring == "add-remove-one"

    @property
    def reports_phases(self) -> bool:
        """True if a payload holds phases, each of which stands for a row of the feature table."""
        return self.release.kind == "phase.v1"

    @property
    def protects_devices(self) -> bool:
        """True if all records of a device's window are protected together: a sketch counts as 1."""
        return self.release.unit == "device"

    @property
    def hides_counts(self) -> bool:
        """True if nobody is to learn how many records a sketch holds."""
        return self.releases_count or self.protects_devices

    @property
    def size_limits(self) -> tuple[int, int]:
        """The least and the largest number of records that a sketch may state."""
        return (1, 1) if self.protects_devices else (self.least_records, self.most_records)

    @property
    def n_coordinates(self) -> int:
        """Released coordinates of a sketch: 2 r, and one for a secret number of records."""
        return 2 * self.frequencies_per_sketch + int(self.releases_count)

    @property
    def payload_bytes(self) -> int:
        """Length of a sketch's payload."""
        n = self.frequencies_per_sketch if self.reports_phases else self.n_coordinates
        return n * self.payload_width

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

    @cached_property
    def privacy_target(self) -> PrivacyTarget:
        """The guarantee that a release must have."""
        return PrivacyTarget(
            mechanism=self.release.mechanism,
            n_frequencies=self.frequencies_per_sketch,
            # Masks and blocks exclude each other.
            measurements_per_record=min(self.measurements_per_record, self.frequencies_per_sketch),
            epsilon=self.release.epsilon,
            delta=self.release.delta,
            neighbouring=self.release.neighbouring,
        )

    @cached_property
    def mechanism(self) -> Mechanism:
        """The mechanism by which a device releases its sum."""
        if isinstance(self.release, PhaseRelease):
            return PhaseReports(
                law=self.release.law,
                n_reports=self.frequencies_per_sketch,
                epsilon=self.release.epsilon,
            )
        return calibrate_mechanism(self.privacy_target)

    @property
    def mean_amplitude(self) -> float:
        """The modulus that one record's feature has in the mean of a release: A times the gain."""
        return self.amplitude * self.mechanism.gain

    def statistic_of(self, stream_id: bytes, *, block: int = 0) -> FourierStatistic:
        """Return the statistic of one window.

        Parameters
        ----------
        stream_id
            Names device and stream; it decides masks.
        block
            The block of features that the sketch carries.
        """
        masks = None
        if self.measurements_per_record < self.n_frequencies:
            masks = MaskSchedule.from_seed(
                self.seed,
                stream_id,
                n_frequencies=self.n_frequencies,
                measurements_per_record=self.measurements_per_record,
            )
        frequencies = self.frequencies
        if self.is_split:
            frequencies = frequencies.select(self.blocks.members[block])
        return FourierStatistic(quantiser=self.quantiser, frequencies=frequencies, masks=masks)

    @property
    def count_variance(self) -> float:
        """Noise variance of one sketch's released number of records; 0 where it is public."""
        if not self.releases_count:
            return 0.0
        return compute_count_variance(self.privacy_target, self.mechanism)

    def finish_sum(self, sums: NDArray[np.int64], n_records: int) -> NDArray[np.int64]:
        """Return the vector that is released with noise.

        The sum, and the scaled number of records where that is secret. Where the unit is a device,
        its mean, rounded towards 0: it lies within the hull of the features of single records, so
        two of them differ no more than two records do.

        Parameters
        ----------
        sums
            Shape ``(2 r,)``.
        n_records
            The records in it.

        Returns
        -------
        NDArray
            Shape ``(n_coordinates,)``, int64.
        """
        if self.protects_devices:
            mean: NDArray[np.int64] = np.sign(sums) * (np.abs(sums) // max(1, n_records))
            return mean
        if not self.releases_count:
            return sums
        return np.append(sums, np.int64(n_records * self.count_scale))

    @property
    def sensitivity(self) -> StatedSensitivity:
        """The enumerated sensitivity of a sum; without norm and 0 for phase reports."""
        if isinstance(self.release, PhaseRelease):
            return StatedSensitivity()
        return self.release.sensitivity

    @property
    def count_scale(self) -> int:
        """The factor of a released number of records; 0 where it is public."""
        return 0 if isinstance(self.release, PhaseRelease) else self.release.count_scale

    def bound_squared_norm(self, n_records: int) -> float:
        """Bound ``|S + Y|_2^2`` of the features of an honest release of at most so many records.

        In squared units of the sum; an honest release exceeds it with probability below 2^-40.
        """
        if self.reports_phases:
            return float(self.frequencies_per_sketch * self.amplitude**2)
        return bound_squared_norm(self.privacy_target, self.mechanism, n_records=n_records)

    def compute_influence(self, n_records: int) -> float:
        """Compute how many equal records move a sum as far as one sketch that claims so many.

        This limits what a lying device can do. One phase report moves the sum as far as 1 / gain
        records that are reported truly do in the mean.
        """
        if self.reports_phases:
            return 1.0 / self.mechanism.gain
        return compute_influence(self.privacy_target, self.mechanism, n_records=n_records)

    def largest_coordinate(self, n_records: int | None) -> int:
        """Return the largest magnitude that a sketch of ``n_records`` may hold.

        Guarantees
        ----------
        Where the number of records is secret (``n_records`` None) it follows from the plan alone.

        Raises
        ------
        PlanError
            A number is given where it is secret, or missing where it is public.
        """
        if (n_records is None) != self.releases_count:
            raise PlanError(
                "must be given where the number of records is public, and only there",
                field="n_records",
                fix="report this: a secret number of records was about to be used",
            )
        if n_records is None:
            return self.coordinate_bound
        return min(self.coordinate_bound, n_records * self.amplitude + self.mechanism.noise_bound)

    def coordinate_limits(
        self, n_records: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and the largest value of each released coordinate: shapes ``(D,)``.

        Clipping to them is post-processing of the noised sum. Raises as
        :meth:`largest_coordinate`.
        """
        largest = self.largest_coordinate(n_records)
        high = np.full(self.n_coordinates, largest, dtype=np.int64)
        low = -high
        if self.releases_count:
            noise = self.mechanism.noise_bound
            low[-1], high[-1] = -noise, self.most_records * self.count_scale + noise
        return low, high

    def verify(self) -> None:
        """Recompute every derived field and compare, with integers.

        Raises
        ------
        PlanError
            A field breaks its rule.
        PlanMismatchError
            A derived field differs from this machine's value, for instance too small a noise.
        """
        require_valid(self)
        derived = derive(self)
        for path in (
            "statistic.frequencies_digest",
            "coordinate_bound",
            "payload_width",
            "release",
        ):
            read = attrgetter(path)
            _require_same(path, read(self), read(derived))


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
    plan = replace(plan, release=_derive_release(plan))
    most = plan.size_limits[1]
    bound = most * plan.amplitude + plan.mechanism.noise_bound
    width = next((w for w in PAYLOAD_WIDTHS if bound < 1 << (8 * w - 1)), None)
    cubes = plan.most_sketches * most**3
    overflows = plan.most_sketches * bound >= 1 << (plan.ring_bits - 1)
    if plan.is_split:
        energy = 2 * plan.frequencies_per_sketch * plan.most_sketches * bound**2
        overflows |= energy >= 1 << _MOMENT_BITS
    if width is None or overflows or cubes >= 1 << _MOMENT_BITS:
        raise PlanError(
            f"the largest sum of the study could overflow {plan.ring_bits} bits",
            field="most_sketches",
            fix="lower most_sketches or most_records, or raise epsilon",
        )
    return replace(
        plan,
        statistic=replace(plan.statistic, frequencies_digest=plan.frequencies.digest),
        coordinate_bound=bound,
        payload_width=width,
    )


def _derive_release(plan: SketchPlan) -> Release:
    release = plan.release
    if isinstance(release, PhaseRelease):
        law = choose_law(release.epsilon, plan.frequencies_per_sketch)
        return replace(release, arc=law.arc, odds=law.odds)
    target = plan.privacy_target
    kind = get_mechanism(target.mechanism)
    return replace(
        release,
        sensitivity=StatedSensitivity(norm=kind.norm, value=kind.measure(target)),
        count_scale=compute_count_scale(target),
        scale=calibrate_mechanism(target).scale,
    )
